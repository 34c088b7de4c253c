package collector

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Rotation bounds a records file and the files that were set aside before it. The
// zero Rotation never sets one aside.
type Rotation struct {
	MaxBytes int64 // a Record that would make the file longer begins a new one; 0 is no limit
	Keep     int   // files set aside that are kept, the newest ones; 0 keeps all
}

// rotatedStamp is the time in the name of a file that was set aside: sorted by
// name they are in order, and no sign needs quoting.
const rotatedStamp = "20060102T150405.000Z"

// Reopen closes the file and opens its path again, for those who move the file
// away by themselves (logrotate, SIGHUP). What was queued before goes to the old
// file; a new one begins with the line of the Run.
func (j *JSONL) Reopen() error {
	done := make(chan error, 1)
	j.queue <- jsonlItem{reopen: true, done: done}
	return <-done
}

// makeRoom sets the file aside where a line would make it too long. at is the
// time of the Record that does not fit. Where that fails the old file goes on.
func (j *JSONL) makeRoom(line int, at time.Time) error {
	if j.path == "" || j.Rotation.MaxBytes <= 0 || j.size <= int64(len(j.head)) || j.size+int64(line) <= j.Rotation.MaxBytes {
		return nil
	}
	aside := asideName(j.path, at)
	if err := os.Rename(j.path, aside); err != nil {
		return fmt.Errorf("cannot set a full records file aside: %w", err)
	}
	if err := j.reopen(); err != nil {
		return errors.Join(err, os.Rename(aside, j.path))
	}
	return j.removeOld()
}

// reopen opens the path again, then closes the old file: where it cannot be
// opened, the old one goes on.
func (j *JSONL) reopen() error {
	if j.path == "" {
		return nil
	}
	o, err := openRecords(j.path)
	if err != nil {
		return err
	}
	old := j.w.(*os.File)
	j.size, j.torn = o.size, o.torn
	j.mu.Lock()
	j.w = o.f
	j.mu.Unlock()
	err = errors.Join(old.Sync(), old.Close())
	if o.size == 0 && len(j.head) > 0 {
		err = errors.Join(err, j.writeLine(j.head))
	}
	return err
}

// asideName is records-20261130T130501.123Z.jsonl for records.jsonl, or a name
// with a number behind the time where that exists.
func asideName(path string, at time.Time) string {
	ext := filepath.Ext(path)
	stem := strings.TrimSuffix(path, ext) + "-" + at.UTC().Format(rotatedStamp)
	for n := 1; ; n++ {
		name := stem + ext
		if n > 1 {
			name = fmt.Sprintf("%s.%03d%s", stem, n, ext)
		}
		if _, err := os.Lstat(name); err != nil {
			return name
		}
	}
}

// removeOld removes files that were set aside and are not to be kept.
func (j *JSONL) removeOld() error {
	if j.Rotation.Keep <= 0 {
		return nil
	}
	ext := filepath.Ext(j.path)
	stem := filepath.Base(strings.TrimSuffix(j.path, ext)) + "-"
	entries, err := os.ReadDir(filepath.Dir(j.path))
	if err != nil {
		return fmt.Errorf("cannot look for old records files: %w", err)
	}
	var aside []string
	for _, e := range entries {
		stamp, ok := strings.CutPrefix(e.Name(), stem)
		if !ok || !strings.HasSuffix(stamp, ext) || len(stamp) < len(rotatedStamp) {
			continue
		}
		if _, err := time.Parse(rotatedStamp, stamp[:len(rotatedStamp)]); err == nil {
			aside = append(aside, e.Name())
		}
	}
	slices.SortFunc(aside, func(a, b string) int { // a number stands behind a time, and sorts after it
		return strings.Compare(strings.TrimSuffix(a, ext), strings.TrimSuffix(b, ext))
	})
	var errs []error
	for _, name := range aside[:max(0, len(aside)-j.Rotation.Keep)] {
		errs = append(errs, os.Remove(filepath.Join(filepath.Dir(j.path), name)))
	}
	return errors.Join(errs...)
}
