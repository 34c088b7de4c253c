package main

import (
	"slices"
	"strings"
)

// otherVariables are those of other commands, which may stand in the same environment.
func otherVariables() []string {
	return []string{"SPECTAP_API_KEY", "SPECTAP_URL", "SPECTAP_SERVER_CMD", "SPECTAP_STARTUP_TIMEOUT", "SPECTAP_STOP_GRACE"}
}

// unknownVariables lists variables with our prefix that are no setting of
// configs: a misspelt one would be ignored without a word. Left out are those that
// Kubernetes sets for a Service of the name spectap.
func unknownVariables(environ map[string]string, configs []any) (unknown []string) {
	known := otherVariables()
	for _, c := range configs {
		for _, s := range settingsOf(c) {
			known = append(known, s.Var)
		}
	}
	for name := range environ {
		if !strings.HasPrefix(name, settingPrefix) || slices.Contains(known, name) || strings.HasPrefix(name, "SPECTAP_TEST_") ||
			strings.HasPrefix(name, "SPECTAP_PORT") || strings.Contains(name, "_SERVICE_") {
			continue
		}
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	return unknown
}
