package proxy

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
)

// Every setting can be shown: variable, unit, meaning, and a default unless it is unset.
func TestConfigTags(t *testing.T) {
	for i := range reflect.TypeFor[Config]().NumField() {
		f := reflect.TypeFor[Config]().Field(i)
		if f.Name == "KeepTexts" { // of the code, not of people
			continue
		}
		if !strings.HasPrefix(f.Tag.Get("env"), "SPECTAP_") || f.Tag.Get("help") == "" || f.Tag.Get("unit") == "" {
			t.Errorf("%s lacks a tag: %s", f.Name, f.Tag)
		}
	}
	cfg := testConfig(t, "http://127.0.0.1:8001")
	if err := cfg.Validate(); err != nil {
		t.Errorf("defaults are not valid: %v", err)
	}
	if len(cfg.Warnings()) != 0 {
		t.Errorf("defaults warn: %q", cfg.Warnings())
	}
}

// All problems come at once, each with value, variable and flag.
func TestValidate(t *testing.T) {
	cfg := testConfig(t, "ftp://x")
	cfg.Listen, cfg.Admin, cfg.Measure, cfg.Engine = "8000", "unix:", "all", "tgi"
	cfg.Temperature, cfg.TopP, cfg.TopK, cfg.Seed, cfg.MaxTokens = "warm", "1.5", "2.5", "0x1", "-1"
	cfg.SkipSpecialTokens, cfg.Set = "yes", "[1]"
	cfg.UpstreamIdle, cfg.MaxBodyBytes, cfg.LogLevel, cfg.LogFormat = 0, 0, "loud", "xml"
	err := cfg.Validate()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, name := range []string{"LISTEN", "ADMIN", "UPSTREAM", "MEASURE", "ENGINE", "TEMPERATURE", "TOP_P", "TOP_K", "SEED",
		"MAX_TOKENS", "SKIP_SPECIAL_TOKENS", "SET", "UPSTREAM_IDLE", "MAX_BODY_BYTES", "LOG_LEVEL", "LOG_FORMAT"} {
		contains(t, err.Error(), "cannot use SPECTAP_"+name+" (--"+strings.ToLower(name)+") ")
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 16 {
		t.Errorf("got %d problems, want 16:\n%v", n, err)
	}
	cfg.Upstream = "http://user:canary@host:8001"
	if err := cfg.Validate(); strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), `"http://host:8001"`) {
		t.Errorf("got %v, want the URL without its password", err)
	}
	if _, err := New(cfg, nil, zerolog.Nop()); err == nil {
		t.Error("New took an invalid Config")
	}
	for _, text := range []string{"http://u:secret@h:1", "http://h:1?key=secret"} {
		if err := testConfig(t, text).Validate(); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want an error without the secret", text, err)
		}
	}
	late := testConfig(t, "http://h:1")
	late.UpstreamIdle = 4 * time.Second
	if w := late.Warnings(); len(w) != 1 {
		t.Errorf("got warnings %q, want one about the idle limit", w)
	}
}

// What SPECTAP_SET may not hold, and limits of a file that nobody asked for.
func TestSettingsThatMeanNothing(t *testing.T) {
	f := func(set, want string) {
		t.Helper()
		cfg := testConfig(t, "http://h:1")
		cfg.Set = set
		if err := cfg.Validate(); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", set, err, want)
		}
	}
	f(`{"stop": ["###"], "n": 2}`, "")
	f(`{"stream": true}`, "want no stream in it")
	f(`{"messages": []}`, "want no messages in it")
	f(`{"prompt": "x"}`, "want no prompt in it")
	cfg := testConfig(t, "http://h:1")
	cfg.RecordsKeep = 3
	if w := cfg.Warnings(); len(w) != 1 || !strings.Contains(w[0], "SPECTAP_RECORDS_KEEP") {
		t.Errorf("got warnings %q, want one of a file that is not there", w)
	}
	cfg.Records = "r.jsonl"
	if w := cfg.Warnings(); len(w) != 0 {
		t.Errorf("got warnings %q, want none", w)
	}
}

func TestParseUpstream(t *testing.T) {
	f := func(s string, want endpoint) {
		t.Helper()
		got, err := parseUpstream(s)
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", s, got, err, want)
		}
	}
	f("http://h:8001", endpoint{network: "tcp", address: "h:8001", host: "h:8001"})
	f("http://h/a%2Fb/", endpoint{network: "tcp", address: "h:80", host: "h", base: "/a%2Fb"})
	f("https://[::1]", endpoint{network: "tcp", address: "[::1]:443", host: "[::1]", tls: true})
	f("unix:/a b", endpoint{network: "unix", address: "/a b", host: "localhost"})
	for _, s := range []string{"", "h:1", "http://", "http://h?q", "http://u:p@h", "unix:", "ws://h"} {
		if got, err := parseUpstream(s); err == nil {
			t.Errorf("%q: got %+v, want an error", s, got)
		}
	}
}

func TestNewPolicy(t *testing.T) {
	cfg := testConfig(t, "http://h:1")
	cfg.Temperature, cfg.MaxTokens, cfg.Set, cfg.Override = "1.0", "7", `{"stop":["x"],"temperature":0}`, true
	p, err := newPolicy(cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]json.RawMessage{"temperature": json.RawMessage("1.0"), "stop": json.RawMessage(`["x"]`)}
	if d := cmp.Diff(want, p.Fill); d != "" || p.MaxTokens != 7 || !p.Override {
		t.Errorf("got %+v, differs:\n%s", p, d)
	}
}

func TestOriginForm(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := string(originForm([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	f("/a//b?c", "/a//b?c")
	f("http://h:1/a?b", "/a?b")
	f("http://h", "/")
	f("http://h?q", "/?q")
	f("*", "*")
	f("/x?u=http://y/z", "/x?u=http://y/z")
}

// A proxy that forwards to itself would take every file descriptor.
func TestValidateRefusesItself(t *testing.T) {
	f := func(listen, upstream string, own bool) {
		t.Helper()
		cfg := testConfig(t, upstream)
		cfg.Listen = listen
		err := cfg.Validate()
		if got := err != nil && strings.Contains(err.Error(), "itself"); got != own {
			t.Errorf("--listen %s --upstream %s: got %v, want refused %v", listen, upstream, err, own)
		}
	}
	f("127.0.0.1:8001", "http://127.0.0.1:8001", true)
	f(":8001", "http://127.0.0.1:8001/base", true)
	f("0.0.0.0:8001", "http://localhost:8001", true)
	f("localhost:8001", "http://127.0.0.1:8001", true)
	f("unix:/s", "unix:/s", true)
	f(":8000", "http://127.0.0.1:8001", false)
	f("127.0.0.1:8001", "http://127.0.0.2:8001", false) // two addresses of one machine
	f(":8001", "http://engine:8001", false)             // another machine
	f("unix:/s", "http://127.0.0.1:8000", false)
}
