package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// file is one entry of an archive or a layer; a name that ends in / is a folder.
type file struct {
	name    string
	mode    fs.FileMode // permissions, and the sticky bit
	content []byte
}

// archive writes a platform's archive: .tar.gz, for Windows .zip.
func (r *release) archive(b binary, scripts []file) error {
	readme, err := os.ReadFile(filepath.Join(r.source, "README.md"))
	if err != nil {
		return err
	}
	name, program, write := r.name(b.platform), "spectap", writeTarGzip
	ending := ".tar.gz"
	if b.os == "windows" {
		program, write, ending = "spectap.exe", writeZip, ".zip"
	}
	files := []file{{program, 0o755, b.content}, {"README.md", 0o644, readme}, {"spectap.cdx.json", 0o644, b.sbom}}
	files = append(files, scripts...)
	for i := range files {
		files[i].name = name + "/" + files[i].name
	}
	out, err := write(files, r.time)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name+ending), out, 0o644)
}

// writeTar returns a tar file of root's files, all of one time.
func writeTar(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode.Perm()), Size: int64(len(f.content)), ModTime: at, Format: tar.FormatUSTAR}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if f.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	return closed(&out, w.Close())
}

func writeTarGzip(files []file, at time.Time) ([]byte, error) {
	content, err := writeTar(files, at)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	return closed(&out, w.Close())
}

func writeZip(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		entry, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.content); err != nil {
			return nil, err
		}
	}
	return closed(&out, w.Close())
}

// closed returns what was written, once the writer's Close has flushed it.
func closed(out *bytes.Buffer, err error) ([]byte, error) { return out.Bytes(), err }

// sums writes SHA256SUMS, to be read by sha256sum -c.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), out.Bytes(), 0o644)
}
