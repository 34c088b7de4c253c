// Command release builds what a version publishes, into a folder: an archive for
// each platform with the binary and its shell completions, an image of the Linux
// binaries as an OCI layout, an SBOM for each binary, and SHA256SUMS.
//
//	cd deploy && go run ./release -version v0.1.0
//
// The files have the same bytes wherever and whenever the same commit is built with
// the same Go: no path and no clock is in them. It needs no Docker engine.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// release is one version of spectap and where it goes.
type release struct {
	source       string // the repository's folder
	out          string
	certificates string // of the authorities that the image trusts
	version      string
	commit       string
	time         time.Time // of the commit; all files' time
	platforms    []platform
}

// platform is a GOOS and a GOARCH.
type platform struct{ os, arch string }

// String returns the name as in "linux/amd64".
func (p platform) String() string { return p.os + "/" + p.arch }

// allPlatforms are those that binaries are published for.
const allPlatforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64"

func main() {
	r, err := parse(os.Args[1:])
	if err == nil {
		err = r.build()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// versions are names that may stand in a file name and a linker's argument.
var versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+([-.+][0-9A-Za-z.+-]*)?$`)

func parse(args []string) (release, error) {
	var r release
	var platforms, when string
	flags := flag.NewFlagSet("release", flag.ExitOnError)
	flags.StringVar(&r.source, "source", "..", "folder of the repository")
	flags.StringVar(&r.out, "out", "dist", "folder that gets the files; made, must be empty")
	flags.StringVar(&r.certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt", "PEM file of the authorities that the image trusts")
	flags.StringVar(&r.version, "version", "", "as in v0.1.0")
	flags.StringVar(&r.commit, "commit", "", "built from; default: the repository's HEAD, which must have no changes")
	flags.StringVar(&when, "time", "", "of the commit, RFC 3339; default: HEAD's")
	flags.StringVar(&platforms, "platforms", allPlatforms, "GOOS/GOARCH, separated by commas")
	if err := flags.Parse(args); err != nil {
		return r, err
	}
	if flags.NArg() > 0 {
		return r, fmt.Errorf("cannot use argument %q: want flags only", flags.Arg(0))
	}
	if !versions.MatchString(r.version) {
		return r, fmt.Errorf("cannot release version %q: want one as v0.1.0 (-version)", r.version)
	}
	for name := range strings.SplitSeq(platforms, ",") {
		goos, arch, ok := strings.Cut(name, "/")
		if !ok || !slices.Contains(strings.Split(allPlatforms, ","), name) {
			return r, fmt.Errorf("cannot release for %q: want some of %s (-platforms)", name, allPlatforms)
		}
		r.platforms = append(r.platforms, platform{goos, arch})
	}
	return r, r.locate(when)
}

// locate finds the commit and its time where they were not given.
func (r *release) locate(when string) (err error) {
	if (r.commit == "") != (when == "") {
		return fmt.Errorf("cannot use -commit %q with -time %q: want both, or neither to read them from %s", r.commit, when, r.source)
	}
	if r.commit == "" {
		if when, err = r.head(); err != nil {
			return err
		}
	}
	at, err := time.Parse(time.RFC3339, when)
	if err != nil {
		return fmt.Errorf("cannot read -time %q: want RFC 3339, as 2026-11-30T12:00:00Z", when)
	}
	r.time = at.UTC()
	return nil
}

// head reads the commit from the repository and returns its time.
func (r *release) head() (when string, err error) {
	changes, err := r.git("status", "--porcelain")
	if err != nil {
		return "", err
	}
	if changes != "" {
		return "", fmt.Errorf("cannot release from %s: it has changes; commit them first:\n%s", r.source, changes)
	}
	if r.commit, err = r.git("rev-parse", "HEAD"); err != nil {
		return "", err
	}
	return r.git("log", "-1", "--format=%cI")
}

func (r *release) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = r.source
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot run git %s in %s: %w; give -commit and -time where there is no repository", strings.Join(args, " "), r.source, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// build makes all files of the release.
func (r *release) build() error {
	if names, err := filepath.Glob(filepath.Join(r.out, "*")); err != nil || len(names) > 0 {
		return fmt.Errorf("cannot release into %s: it has %d files (%v); want an empty folder (-out)", r.out, len(names), err)
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "spectap-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	scripts, err := r.completions(work)
	if err != nil {
		return err
	}
	var made []binary
	for _, p := range r.platforms {
		b, err := r.binary(work, p)
		if err != nil {
			return err
		}
		made = append(made, b)
		if err := r.archive(b, scripts); err != nil {
			return fmt.Errorf("cannot write the archive for %s: %w", p, err)
		}
	}
	if err := r.image(made); err != nil {
		return fmt.Errorf("cannot build the image: %w", err)
	}
	return r.sums()
}
