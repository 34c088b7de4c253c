package main

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image writes the Linux binaries' images as one file: a tar of an OCI layout whose
// index names the version. Without such a binary there is none.
func (r *release) image(made []binary) error {
	certificates, err := os.ReadFile(r.certificates)
	if err != nil {
		return fmt.Errorf("cannot read the authorities' certificates (-certificates): %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(certificates) {
		return fmt.Errorf("cannot use %s: want certificates in PEM (-certificates)", r.certificates)
	}
	var index v1.ImageIndex = empty.Index
	count := 0
	for _, b := range made {
		if b.os != "linux" {
			continue
		}
		image, err := r.platformImage(b, certificates)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.os, Architecture: b.arch}}})
		count++
	}
	if count == 0 {
		return nil
	}
	return r.writeLayout(index)
}

// platformImage is the image of the Dockerfile, and the SBOM in it.
func (r *release) platformImage(b binary, certificates []byte) (v1.Image, error) {
	image, err := mutate.ConfigFile(empty.Image, r.config(b.platform))
	if err != nil {
		return nil, err
	}
	for _, files := range [][]file{
		{
			{"etc/", 0o755, nil}, {"etc/ssl/", 0o755, nil}, {"etc/ssl/certs/", 0o755, nil},
			{"etc/ssl/certs/ca-certificates.crt", 0o644, certificates},
			{"tmp/", 0o777 | fs.ModeSticky, nil},
		},
		{{"spectap", 0o755, b.content}, {"spectap.cdx.json", 0o644, b.sbom}},
	} {
		content, err := writeTar(files, r.time)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "deploy/release"}}); err != nil {
			return nil, err
		}
	}
	return mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON), nil
}

// config is what the Dockerfile's last stage says; a test compares them.
func (r *release) config(p platform) *v1.ConfigFile {
	return &v1.ConfigFile{
		OS: p.os, Architecture: p.arch, Created: v1.Time{Time: r.time},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:         "65532:65532",
			ExposedPorts: map[string]struct{}{"8000/tcp": {}, "9464/tcp": {}},
			Healthcheck:  &v1.HealthConfig{Test: []string{"CMD", "/spectap", "healthcheck"}, Interval: 10 * time.Second, Timeout: 6 * time.Second, StartPeriod: 5 * time.Second},
			Entrypoint:   []string{"/spectap"},
			Cmd:          []string{"proxy"},
			Env:          []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, // as Docker's builder adds
			WorkingDir:   "/",
			Labels: map[string]string{
				"org.opencontainers.image.title":       "spectap",
				"org.opencontainers.image.description": "measures an LLM server from the wire",
				"org.opencontainers.image.version":     r.version,
				"org.opencontainers.image.revision":    r.commit,
				"org.opencontainers.image.created":     r.time.Format(time.RFC3339),
			},
		},
	}
}

// writeLayout writes the layout's files in order of their names.
func (r *release) writeLayout(index v1.ImageIndex) error {
	folder, err := os.MkdirTemp("", "spectap-layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version})); err != nil {
		return err
	}
	var files []file
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		files = append(files, file{filepath.ToSlash(name), 0o644, content})
		return err
	})
	if err != nil {
		return err
	}
	content, err := writeTar(files, r.time)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "spectap_"+r.version+"_image.tar"), content, 0o644)
}
