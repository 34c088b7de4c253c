package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// stamp is "version,commit,time" where the linker was told it: images and release
// archives are built without the repository's .git, which the Go toolchain would
// read them from. The linker can only set a variable of a package.
//
//	go build -ldflags "-X main.stamp=v0.1.0,$(git rev-parse HEAD),2026-11-30T12:00:00Z" ./cmd/spectap
var stamp string

// build is what a binary knows of its making; empty is not known.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Dirty   bool   `json:"dirty"` // built from files that differ from the commit's
	Time    string `json:"commit_time,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// built returns the build of the running program.
func built() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info, stamp)
}

// buildOf joins what the toolchain recorded and what the linker was told, which
// wins field by field.
func buildOf(info *debug.BuildInfo, stamp string) build {
	b := build{Version: info.Main.Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Dirty = s.Value == "true"
		}
	}
	parts := strings.SplitN(stamp, ",", 3)
	for i, field := range []*string{&b.Version, &b.Commit, &b.Time} {
		if i < len(parts) && parts[i] != "" {
			*field = parts[i]
		}
	}
	if b.Version == "" {
		b.Version = "unknown"
	}
	if commit, ok := strings.CutSuffix(b.Commit, "-dirty"); ok {
		b.Commit, b.Dirty = commit, true
	}
	return b
}

// version is the text that files and metrics carry: the version, and the first 12
// digits of a commit that it does not name.
func (b build) version() string {
	if len(b.Commit) < 12 || strings.Contains(b.Version, b.Commit[:12]) {
		return b.Version
	}
	return b.Version + " " + b.Commit[:12]
}

// version returns the version of the running program and the commit that it was
// built from, as far as they are known.
func version() string { return built().version() }

// text is for people: a line for each fact that is known.
func (b build) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "spectap %s\n", b.version())
	if b.Commit != "" {
		changed := ""
		if b.Dirty {
			changed = ", with changes"
		}
		fmt.Fprintf(&out, "commit  %s%s\n", b.Commit, changed)
	}
	if b.Time != "" {
		fmt.Fprintf(&out, "of      %s\n", b.Time)
	}
	fmt.Fprintf(&out, "built   %s %s/%s\n", b.Go, b.OS, b.Arch)
	return out.String()
}

func (p program) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "print the version, and what it was built from",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				enc := json.NewEncoder(p.stdout)
				enc.SetIndent("", "  ")
				return enc.Encode(built())
			}
			_, err := io.WriteString(p.stdout, built().text())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as one JSON object")
	return c
}
