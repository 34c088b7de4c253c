package main

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// vcs is the build information of a build inside a repository.
func vcs(version, modified string) *debug.BuildInfo {
	return &debug.BuildInfo{Main: debug.Module{Path: "spectap", Version: version}, Settings: []debug.BuildSetting{
		{Key: "-trimpath", Value: "true"},
		{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"},
		{Key: "vcs.time", Value: "2026-11-30T12:00:00Z"},
		{Key: "vcs.modified", Value: modified},
	}}
}

// What the toolchain recorded and what the linker was told become one build.
func TestBuildOf(t *testing.T) {
	const commit, other = "0123456789abcdef0123456789abcdef01234567", "fedcba9876543210fedcba9876543210fedcba98"
	f := func(info *debug.BuildInfo, stamp, version string, want build) {
		t.Helper()
		want.Go, want.OS, want.Arch = runtime.Version(), runtime.GOOS, runtime.GOARCH
		got := buildOf(info, stamp)
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if got.version() != version {
			t.Errorf("got version %q, want %q", got.version(), version)
		}
	}
	// a repository without a tag: the version names the commit already
	f(vcs("v0.0.0-20261130120000-0123456789ab", "false"), "", "v0.0.0-20261130120000-0123456789ab",
		build{Version: "v0.0.0-20261130120000-0123456789ab", Commit: commit, Time: "2026-11-30T12:00:00Z"})
	// a tag, and changed files
	f(vcs("v0.1.0+dirty", "true"), "", "v0.1.0+dirty 0123456789ab", build{Version: "v0.1.0+dirty", Commit: commit, Dirty: true, Time: "2026-11-30T12:00:00Z"})
	// an image: no repository
	f(&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "v0.2.0,"+other+",2026-12-01T00:00:00Z", "v0.2.0 fedcba987654", build{Version: "v0.2.0", Commit: other, Time: "2026-12-01T00:00:00Z"})
	// the linker was told of changed files
	f(&debug.BuildInfo{}, "v0.2.0,"+other+"-dirty,", "v0.2.0 fedcba987654", build{Version: "v0.2.0", Commit: other, Dirty: true})
	// an image whose builder said nothing
	f(&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, ",,", "(devel)", build{Version: "(devel)"})
	// the linker wins only where it was told something
	f(vcs("(devel)", "false"), "v0.3.0", "v0.3.0 0123456789ab", build{Version: "v0.3.0", Commit: commit, Time: "2026-11-30T12:00:00Z"})
	// nothing is known
	f(&debug.BuildInfo{}, "", "unknown", build{Version: "unknown"})
}

// What people read: no line for a fact that is not known.
func TestVersionText(t *testing.T) {
	f := func(b build, want string) {
		t.Helper()
		if got := b.text(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	}
	f(build{Version: "v0.1.0", Commit: "0123456789abcdef", Dirty: true, Time: "2026-11-30T12:00:00Z", Go: "go1.27.3", OS: "linux", Arch: "arm64"},
		"spectap v0.1.0 0123456789ab\ncommit  0123456789abcdef, with changes\nof      2026-11-30T12:00:00Z\nbuilt   go1.27.3 linux/arm64\n")
	f(build{Version: "(devel)", Go: "go1.27.3", OS: "linux", Arch: "amd64"}, "spectap (devel)\nbuilt   go1.27.3 linux/amd64\n")
}

// The command prints this program's build; --json, the same in one object.
func TestVersionCommand(t *testing.T) {
	f := func(code int, want string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		p := program{stdout: &out, stderr: &errs, env: map[string]string{}}
		if got := p.run(context.Background(), args); got != code || !strings.Contains(out.String()+errs.String(), want) {
			t.Errorf("%v: got exit code %d, %q%q; want %d and %q", args, got, out.String(), errs.String(), code, want)
		}
		return out.String()
	}
	f(0, "spectap "+version()+"\n", "version")
	f(exitUsage, "0.9", "version", "0.9")
	var got build
	if err := json.Unmarshal([]byte(f(0, `"go": "`, "version", "--json")), &got); err != nil || got != built() {
		t.Errorf("got %+v, %v; want %+v", got, err, built())
	}
}

// --version is what people try first.
func TestVersionFlag(t *testing.T) {
	var flag, command, errs bytes.Buffer
	p := program{stdout: &flag, stderr: &errs, env: map[string]string{}}
	if code := p.run(context.Background(), []string{"--version"}); code != 0 {
		t.Fatalf("got exit code %d: %s", code, errs.String())
	}
	p.stdout = &command
	if code := p.run(context.Background(), []string{"version"}); code != 0 || flag.String() != command.String() || flag.Len() == 0 {
		t.Errorf("got %q, want what spectap version says: %q", flag.String(), command.String())
	}
}
