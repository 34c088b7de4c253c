package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// binary is spectap for one platform.
type binary struct {
	platform
	content []byte
	sbom    []byte // CycloneDX, JSON
}

// compile builds spectap with the flags of the Dockerfile: the same bytes.
func (r *release) compile(path string, p platform) error {
	stamp := r.version + "," + r.commit + "," + r.time.Format(time.RFC3339)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.stamp="+stamp, "-o", path, "./cmd/spectap")
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build for %s: %w\n%s", p, err, out)
	}
	return nil
}

// binary builds spectap for a platform, and its SBOM, which also becomes a file.
func (r *release) binary(work string, p platform) (binary, error) {
	path := filepath.Join(work, "spectap-"+p.os+"-"+p.arch)
	if err := r.compile(path, p); err != nil {
		return binary{}, err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return binary{}, err
	}
	sbom, err := r.sbom(p, content)
	if err != nil {
		return binary{}, fmt.Errorf("cannot write the SBOM for %s: %w", p, err)
	}
	return binary{p, content, sbom}, os.WriteFile(filepath.Join(r.out, r.name(p)+".cdx.json"), sbom, 0o644)
}

// name is how the files of a platform begin.
func (r *release) name(p platform) string {
	return "spectap_" + r.version + "_" + p.os + "_" + p.arch
}

// completions are the scripts by file name, printed by a binary that runs here.
func (r *release) completions(work string) ([]file, error) {
	path := filepath.Join(work, "native")
	if err := r.compile(path, platform{runtime.GOOS, runtime.GOARCH}); err != nil {
		return nil, err
	}
	var out []file
	for _, s := range []struct{ shell, name string }{{"bash", "spectap.bash"}, {"fish", "spectap.fish"}, {"powershell", "spectap.ps1"}, {"zsh", "_spectap"}} {
		script, err := exec.Command(path, "completion", s.shell).Output()
		if err != nil {
			return nil, fmt.Errorf("cannot make the completions for %s: %w", s.shell, err)
		}
		out = append(out, file{"completions/" + s.name, 0o644, script})
	}
	return out, nil
}
