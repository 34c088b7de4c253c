package main

import (
	"fmt"
	"strings"
	"testing"

	"spectap/collector/telemetry"
)

// The README's table of metrics is telemetry's catalog.
func TestReadmeMetrics(t *testing.T) {
	var b strings.Builder
	b.WriteString("| metric | kind | unit | labels | meaning |\n|---|---|---|---|---|\n")
	for _, m := range telemetry.Catalog() {
		labels := strings.Join(m.Labels, "`, `")
		if labels != "" {
			labels = "`" + labels + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, m.Unit, labels, strings.TrimSuffix(m.Help, "."))
	}
	generated(t, "metrics", b.String())
}
