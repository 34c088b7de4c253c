package collector

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeSynced replaces the file at path, by a temporary file beside it, so that an
// appended file is never half written.
func writeSynced(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".spectap-*")
	if err == nil {
		err = Replace(path, f, text)
	}
	if err != nil {
		return fmt.Errorf("cannot write %q: %w", path, err)
	}
	return nil
}

// Replace writes text into the new file next, which it closes, and gives it the name
// path in the same folder: whoever reads path sees the old file or the whole new one.
// What fails leaves path as it was, and no next.
func Replace(path string, next *os.File, text []byte) error {
	_, err := next.Write(text)
	if err == nil {
		err = errors.Join(next.Chmod(0o644), next.Sync())
	}
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return nil
}

// syncFolder makes the names in dir durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("cannot sync folder: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
