package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"spectap/collector"
)

// pointFiles is the folder of a point. It is written as .NAME.partial and
// renamed when it is complete, so that NAME is complete or absent.
type pointFiles struct {
	dir, name, partial string
	records            *collector.JSONL
	closed             bool
}

// newPointFiles makes the folder and opens its records.
func newPointFiles(dir, name string, keepTexts bool) (*pointFiles, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("cannot make --save_dir: %w", err)
	}
	f := &pointFiles{dir: dir, name: name, partial: filepath.Join(dir, "."+name+".partial")}
	if err := checkPointFolder(dir, name); err != nil {
		return nil, err
	}
	if err := os.Mkdir(f.partial, 0o777); err != nil {
		return nil, fmt.Errorf("cannot make the folder of point %s: %w", name, err)
	}
	var err error
	if f.records, err = collector.OpenJSONL(filepath.Join(f.partial, collector.FileRecords)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(f.partial))
	}
	f.records.KeepTexts = keepTexts
	return f, nil
}

// start writes the line that describes the records.
func (f *pointFiles) start(run collector.Run) error { return f.records.WriteRun(run) }

func (f *pointFiles) emit(r *collector.Record) { f.records.Emit(r) }

// finish closes the records and writes their first line again, with what is
// known at the end: the counters after the point.
func (f *pointFiles) finish(run collector.Run) error {
	f.closed = true
	if err := f.records.Close(); err != nil {
		return err
	}
	if n := f.records.Dropped(); n > 0 {
		return fmt.Errorf("cannot keep up writing %s of point %s: %d Records are missing; choose a faster disk for --save_dir", collector.FileRecords, f.name, n)
	}
	if err := replaceFirstLine(filepath.Join(f.partial, collector.FileRecords), run, f.records.KeepTexts); err != nil {
		return fmt.Errorf("cannot complete %s of point %s: %w", collector.FileRecords, f.name, err)
	}
	return nil
}

// replaceFirstLine writes a records file again with another Run in front.
func replaceFirstLine(path string, run collector.Run, keepTexts bool) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, rest, _ := bytes.Cut(old, []byte("\n"))
	next := path + ".next"
	head, err := collector.OpenJSONL(next)
	if err != nil {
		return err
	}
	head.KeepTexts = keepTexts
	if err := errors.Join(head.WriteRun(run), head.Close()); err != nil {
		return err
	}
	out, err := os.OpenFile(next, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, bytes.NewReader(rest))
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// complete gives the folder its name.
func (f *pointFiles) complete() error { return f.rename(f.name) }

func (f *pointFiles) rename(name string) error {
	if err := os.Rename(f.partial, filepath.Join(f.dir, name)); err != nil {
		return fmt.Errorf("cannot complete point folder %q: %w", name, err)
	}
	syncFolder(f.dir)
	return nil
}

// syncFolder makes the names in a folder durable, where the system can.
func syncFolder(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	_ = d.Sync() // Windows cannot
	_ = d.Close()
}

// fail sets the point aside: NAME.failed holds its records, what another driver
// wrote, and error.json, and none of the three names that mark a run.
func (f *pointFiles) fail(reason string, failed []failedRequest) (dir string, err error) {
	if err := f.describeFailure(reason, failed); err != nil {
		return "", err
	}
	return filepath.Join(f.dir, f.name+collector.FailedSuffix), f.rename(f.name + collector.FailedSuffix)
}

// describeFailure leaves the records, what another driver wrote, and error.json.
func (f *pointFiles) describeFailure(reason string, failed []failedRequest) error {
	if err := f.strip(); err != nil {
		return errors.Join(err, f.writeError(reason, failed))
	}
	return f.writeError(reason, failed)
}

// writeError writes error.json.
func (f *pointFiles) writeError(reason string, failed []failedRequest) error {
	text, err := json.MarshalIndent(struct {
		Schema string          `json:"schema"`
		Point  string          `json:"point"`
		Reason string          `json:"reason"`
		Failed []failedRequest `json:"failed_requests"`
	}{"spectap.error/1", f.name, reason, append([]failedRequest{}, failed...)}, "", "  ")
	err = errors.Join(err, os.WriteFile(filepath.Join(f.partial, collector.FileError), append(text, '\n'), 0o666))
	if err != nil {
		return fmt.Errorf("cannot set point %s aside: %w", f.name, err)
	}
	return nil
}

// strip removes all but the records and what another driver wrote.
func (f *pointFiles) strip() error {
	entries, err := os.ReadDir(f.partial)
	for _, e := range entries {
		if e.Name() != collector.FileRecords && e.Name() != aiperfFolder {
			err = errors.Join(err, os.RemoveAll(filepath.Join(f.partial, e.Name())))
		}
	}
	return err
}

// rescue keeps the records of a point whose files the disk does not take, as
// NAME.failed: the requests are not asked again for a full disk. It returns the
// reason, with the place. A folder without a record is discarded.
func (f *pointFiles) rescue(reason error) error {
	if !f.closed {
		f.closed = true
		reason = errors.Join(reason, f.records.Close())
	}
	if info, err := os.Stat(filepath.Join(f.partial, collector.FileRecords)); err != nil || info.Size() == 0 {
		return f.discard(reason)
	}
	if dir, err := f.fail(reason.Error(), nil); err == nil {
		return fmt.Errorf("%w; its records are kept in %s", reason, dir)
	}
	_ = f.strip() // no room for error.json
	if err := f.rename(f.name + collector.FailedSuffix); err != nil {
		return errors.Join(reason, err, fmt.Errorf("its records are kept in %s", f.partial))
	}
	return fmt.Errorf("%w; its records are kept in %s", reason, filepath.Join(f.dir, f.name+collector.FailedSuffix))
}

// interrupt sets the records of a point aside whose sweep was told to end, as a
// sweep that is resumed does with those of a killed one, and returns the reason with
// the place. A folder without a record is discarded.
func (f *pointFiles) interrupt(reason error) error {
	f.closed = true
	if err := f.records.Close(); err != nil {
		reason = errors.Join(reason, err)
	}
	if !f.hasRecords() {
		return f.discard(reason)
	}
	if err := f.describeFailure("the sweep was interrupted while the point ran", nil); err != nil {
		return errors.Join(reason, err, fmt.Errorf("the records of point %s are kept in %s", f.name, f.partial))
	}
	to, err := moveAside(f.dir, f.name, f.partial)
	if err != nil {
		return errors.Join(reason, err, fmt.Errorf("the records of point %s are kept in %s", f.name, f.partial))
	}
	return keptAside{reason, f.name, to}
}

// keptAside says where the records of an interrupted point are.
type keptAside struct {
	cause      error
	point, dir string
}

// Error implements error.
func (e keptAside) Error() string {
	return fmt.Sprintf("%v; what point %s, which was running, had measured is kept in %s", e.cause, e.point, e.dir)
}

// Unwrap gives the cause to errors.Is.
func (e keptAside) Unwrap() error { return e.cause }

// discard removes what there is of a point and returns the reason, joined with
// what went wrong on the way.
func (f *pointFiles) discard(reason error) error {
	var err error
	if !f.closed {
		f.closed = true
		if err = f.records.Close(); err != nil && isDiskError(reason) {
			err = nil // the same disk, told once
		}
	}
	if removed := os.RemoveAll(f.partial); removed != nil {
		err = errors.Join(err, fmt.Errorf("cannot remove %q: %w", f.partial, removed))
	}
	return errors.Join(reason, err)
}

// isDiskError tells an error of the file system from one of the figures.
func isDiskError(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	return errors.As(err, &path) || errors.As(err, &link)
}

// writeWhole replaces a file of a folder that this process has for itself.
func writeWhole(path string, text []byte) error {
	f, err := os.Create(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".next"))
	if err == nil {
		err = collector.Replace(path, f, text)
	}
	if err != nil {
		return fmt.Errorf("cannot write %q: %w", path, err)
	}
	return nil
}
