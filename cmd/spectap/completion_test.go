package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// The shells learn the commands and flags; the words of a list flag are left as typed.
func TestCompletion(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		p := program{stdout: &out, stderr: &bytes.Buffer{}, env: map[string]string{}}
		if code := p.run(context.Background(), args); code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%v: got exit code %d, %q; want %q in it", args, code, out.String(), want)
		}
	}
	f("upload\t", "__complete", "up")
	f("--concurrency\t", "__complete", "sweep", "--conc")
	f("--upstream_idle\t", "__complete", "proxy", "--upstream_")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		f("spectap", "completion", shell)
	}
	g := func(args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		p := program{stdout: &out, stderr: &errs, env: map[string]string{}}
		if code := p.run(context.Background(), args); code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), "want bash, fish, powershell or zsh") {
			t.Errorf("%v: got exit code %d, %q, %q; want 2, no script, and the shells", args, code, out.String(), errs.String())
		}
	}
	g("completion", "tcsh")
	g("completion")
}
