// Package upload copies run folders to an S3 bucket: the layout, the refusals and
// the variables of specdec_bench's upload_to_s3.py (metric-parity 7.3), with
// checksums, and so that an interrupted upload can be gone on with.
//
//	Scan ─▶ Plan ─▶ Check (provenance) ─▶ Print | Upload
package upload

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spectap/collector"
)

// Target is where runs go: s3://bucket/prefix.
type Target struct {
	Bucket string
	Prefix string // without slashes at its ends; "" is the bucket itself
}

// ParseTarget reads s3://bucket/prefix.
func ParseTarget(text string) (Target, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Target{}, fmt.Errorf("cannot use target %q: want s3://bucket/prefix", collector.StripUserinfo(text))
	}
	prefix := strings.Trim(u.Path, "/")
	if path.Clean("/"+prefix) != "/"+prefix && prefix != "" {
		return Target{}, fmt.Errorf("cannot use target %q: want a prefix of plain names, without //, . or .. in it", text)
	}
	return Target{Bucket: u.Host, Prefix: prefix}, nil
}

// Plan is what goes where.
type Plan struct {
	Target  Target
	Runs    []Run    // by name
	Skipped []string // folders of points that run, or were killed
}

// Run is one run folder.
type Run struct {
	collector.RunFolder
	Missing []string // what its configuration.json lacks
	Files   []File   // the three names that mark a run last: half a run is none
}

// File is one file of a run.
type File struct {
	Path string // on disk
	Key  string // in the bucket
	Size int64  // bytes, when it was scanned
}

// Scan finds the runs in dir and their files.
func Scan(dir string, to Target) (Plan, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Plan{}, fmt.Errorf("cannot find folder %q: %w", dir, err)
	}
	p := Plan{Target: to}
	sizes := map[string]int64{}
	err = filepath.WalkDir(abs, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(abs, name)
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && strings.HasSuffix(d.Name(), ".partial") {
				p.Skipped = append(p.Skipped, rel)
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Stat(name) // a link counts as what it leads to
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			sizes[filepath.ToSlash(rel)] = info.Size()
		}
		return nil
	})
	if err != nil {
		return Plan{}, fmt.Errorf("cannot read folder %q: %w", dir, err)
	}
	p.Runs, err = runsOf(abs, to.Prefix, sizes)
	if err == nil && len(p.Runs) == 0 {
		err = fmt.Errorf("no runs in %q: want a run's folder, a sweep's --save_dir, or a folder of such; a run has configuration.json, timing.json or acceptance_rate.json", dir)
	}
	return p, err
}

// runsOf groups files (paths below dir with slashes, and sizes) by run.
func runsOf(dir, prefix string, sizes map[string]int64) ([]Run, error) {
	var all []string
	for name := range sizes {
		all = append(all, name)
	}
	slices.Sort(all)
	var runs []Run
	for _, folder := range collector.RunFolders(all, prefix, filepath.Base(dir)) {
		run := Run{RunFolder: folder}
		var marks []File
		for _, name := range all {
			below, ok := strings.CutPrefix(name, folder.Path+"/")
			if folder.Path == "." {
				below, ok = name, true
			}
			if !ok {
				continue
			}
			f := File{Path: filepath.Join(dir, filepath.FromSlash(name)), Key: path.Join(folder.Key, below), Size: sizes[name]}
			if slices.Contains(collector.RunMarks(), below) {
				marks = append(marks, f)
			} else {
				run.Files = append(run.Files, f)
			}
		}
		run.Files = append(run.Files, marks...)
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(folder.Path), collector.FileConfiguration))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot read the configuration of run %q: %w", folder.Path, err)
		}
		run.Missing = collector.MissingProvenance(text)
		runs = append(runs, run)
	}
	return runs, nil
}

// ErrProvenance is the refusal of runs that do not say what they were made with.
var ErrProvenance = errors.New("incomplete provenance")

// Check refuses runs whose configuration.json lacks provenance, all at once.
func (p Plan) Check() error {
	var errs []error
	for _, run := range p.Runs {
		if len(run.Missing) > 0 {
			errs = append(errs, fmt.Errorf("run %q: %s has no %s", run.Path, collector.FileConfiguration, strings.Join(run.Missing, ", ")))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	errs = append(errs, errors.New("set CONTAINER_IMAGE when sweeping, write container_image into the file, or give --allow-incomplete-provenance"))
	return fmt.Errorf("%w:\n%w", ErrProvenance, errors.Join(errs...))
}

// Print lists what an upload would copy.
func (p Plan) Print(w io.Writer) {
	for _, run := range p.Runs {
		var size int64
		for _, f := range run.Files {
			size += f.Size
		}
		fmt.Fprintf(w, "%s -> s3://%s/%s (%d files, %d bytes)\n", run.Path, p.Target.Bucket, run.Key, len(run.Files), size)
		for _, f := range run.Files {
			fmt.Fprintf(w, "  s3://%s/%s (%d bytes)\n", p.Target.Bucket, f.Key, f.Size)
		}
	}
}

// sums are the checksums of a file, in hexadecimal digits.
type sums struct {
	sha256  string    // kept with the object
	md5     string    // the ETag of an object that was uploaded in one piece
	changed time.Time // when the file was changed last, before it was read
}

// checksums reads a file whole.
func checksums(name string) (sums, error) {
	f, err := os.Open(name)
	if err != nil {
		return sums{}, fmt.Errorf("cannot read %q: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return sums{}, fmt.Errorf("cannot read %q: %w", name, err)
	}
	strong, etag := sha256.New(), md5.New()
	if _, err := io.Copy(io.MultiWriter(strong, etag), f); err != nil {
		return sums{}, fmt.Errorf("cannot read %q: %w", name, err)
	}
	return sums{hex.EncodeToString(strong.Sum(nil)), hex.EncodeToString(etag.Sum(nil)), info.ModTime()}, nil
}
