package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"spectap/proxy"
)

// settings reads the proxy's settings from an environment and flags.
func settings(t *testing.T, environ map[string]string, args ...string) (proxy.Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("proxy", pflag.ContinueOnError)
	addSettings(flags, proxy.Config{})
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	var cfg proxy.Config
	err := parseSettings(environ, flags, &cfg)
	return cfg, err
}

// Values that no field takes are named as people set them, beside those that are out of range.
func TestAllSettingErrorsAtOnce(t *testing.T) {
	t.Parallel()
	code, _, stderr := spectap(t, "proxy", "--hold", "x", "--stall_timeout", "5", "--max_body_bytes", "1.5", "--override=maybe", "--measure", "all", "--temperature", "hot")
	if code != exitUsage {
		t.Errorf("got exit code %d, want %d", code, exitUsage)
	}
	for _, want := range []string{
		`SPECTAP_HOLD (--hold) "x": want a duration`, `SPECTAP_STALL_TIMEOUT (--stall_timeout) "5": want a duration`,
		`SPECTAP_MAX_BODY_BYTES (--max_body_bytes) "1.5": want a whole number`, `SPECTAP_OVERRIDE (--override) "maybe": want true or false`,
		`SPECTAP_MEASURE (--measure) "all"`, `SPECTAP_TEMPERATURE (--temperature) "hot"`,
	} {
		if strings.Count(stderr, want) != 1 {
			t.Errorf("want %s once in:\n%s", want, stderr)
		}
	}
	if n := strings.Count(stderr, "cannot use"); n != 6 {
		t.Errorf("got %d problems, want 6:\n%s", n, stderr)
	}
}

// An empty flag empties a text; an empty variable is as none.
func TestEmptySettings(t *testing.T) {
	t.Parallel()
	f := func(want string, environ map[string]string, args ...string) {
		t.Helper()
		cfg, err := settings(t, environ, args...)
		if err != nil || cfg.Admin != want {
			t.Errorf("%v %q: got admin %q, %v; want %q", environ, args, cfg.Admin, err, want)
		}
	}
	f(":9464", nil)
	f(":9464", map[string]string{"SPECTAP_ADMIN": ""})
	f("", nil, "--admin=")
	f("", map[string]string{"SPECTAP_ADMIN": ":1"}, "--admin", "")
	f("off", map[string]string{"SPECTAP_ADMIN": "off"})
	f(":2", map[string]string{"SPECTAP_ADMIN": ":1"}, "--admin", ":2")
	for _, text := range []string{"", "off"} {
		if l, err := listenAdmin(text); l != nil || err != nil {
			t.Errorf("%q: got %v, %v; want no listener", text, l, err)
		}
	}
}
