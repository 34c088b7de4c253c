// Package report makes one HTML file of a sweep's folder: figures, charts and all
// that a reader must know to believe them. It reads files and writes one; it asks
// no server and reads no clock, so that the same folder gives the same bytes.
//
//	folder ──▶ Read ──▶ Source ──▶ page (texts, tables, drawings) ──▶ page.html
//
// Start with Write, then page.go. No prompt, no reply and no header is in a page:
// nothing here reads them.
package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"spectap/collector"
)

// FileReport is the report's name in the folder of a sweep.
const FileReport = "report.html"

// ErrWrite is behind an error that no other folder would help against: the page
// could not be written.
var ErrWrite = errors.New("the page could not be written")

// Options are what a report is made of besides its folder. The zero Options are the
// folder alone.
type Options struct {
	// Records are records files by the name of a point's folder, for points whose
	// folder has none of its own.
	Records map[string]string
	// Baseline is a folder of points of a server that does not speculate; "": the
	// folder "baseline" in the report's own, if there is one.
	Baseline string
}

// Notes are what a page says of its folder that who asked for it should know.
type Notes struct {
	Warnings []string // as settings that differ between the points
	Unread   []string // what of the points could not be read, by point
}

// Write makes the report of the folder dir at path.
func Write(dir, path string, opts Options) (Notes, error) {
	if opts.Baseline != "" {
		if info, err := os.Stat(opts.Baseline); err != nil || !info.IsDir() {
			return Notes{}, fmt.Errorf("cannot use --baseline %q: want the folder of a sweep without speculation", opts.Baseline)
		}
	}
	if err := replaceable(path); err != nil {
		return Notes{}, err
	}
	src, err := Read(dir, opts)
	if err != nil {
		return Notes{}, err
	}
	var b bytes.Buffer
	if err := src.HTML(&b); err != nil {
		return Notes{}, err
	}
	return Notes{src.warnings, src.unread()}, writeWhole(path, b.Bytes())
}

// HTML writes the page.
func (s *Source) HTML(w io.Writer) error {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, s.page()); err != nil {
		return fmt.Errorf("cannot make the report: %w", err)
	}
	_, err := w.Write(append(bytes.TrimSpace(bytes.Map(visible, b.Bytes())), '\n'))
	return err
}

// What a report begins with, and what stands in its head, of all versions.
const (
	pageStart = "<!doctype html>"
	pageMark  = " · spectap report</title>"
	headBytes = 4096 // the title of the longest name ends within them
)

// replaceable says no of a file that holds something and is no report: a slip of
// -o must not cost the records.
func replaceable(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil // what is wrong with the path is said where it is written
	}
	refused := fmt.Errorf("cannot write the report over %q: it exists and is not a report of spectap; want another --output, or remove the file", path)
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w (%w)", refused, withoutPath(err))
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, headBytes))
	if err != nil || !bytes.HasPrefix(head, []byte(pageStart)) || !bytes.Contains(head, []byte(pageMark)) {
		return refused
	}
	return nil
}

// writeWhole writes a file so that a reader sees the old page or the new one. What
// is no plain file, as /dev/stdout, is written to and not replaced.
func writeWhole(path string, text []byte) error {
	write := writeNext
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		write = writeThrough
	}
	if err := write(path, text); err != nil {
		return fmt.Errorf("%w: %q: %w", ErrWrite, path, err)
	}
	return nil
}

// writeNext replaces a file.
func writeNext(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), collector.UnfinishedReports)
	if err != nil {
		return err
	}
	return collector.Replace(path, f, text)
}

// writeThrough writes to a pipe or a device.
func writeThrough(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
