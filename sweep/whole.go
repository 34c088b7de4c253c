package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spectap/collector"
)

// damage says which file of a point's folder is not what the sweep wrote. The point
// is set aside and runs again.
type damage struct {
	file  string
	cause error
}

// Error implements error.
func (d damage) Error() string { return d.file + ": " + d.cause.Error() }

// Unwrap gives the cause to errors.Is.
func (d damage) Unwrap() error { return d.cause }

// damaged is an error of a file as damage, unless it is one of the disk that says
// nothing about the file.
func damaged(file string, err error) error {
	if err == nil || isDiskError(err) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("it is missing")
	}
	return damage{file, err}
}

// examined is a point folder that was read to its end.
type examined struct {
	stamp string // of its files; what has another one is read again
	row   bookRow
	files map[string][]byte // made of its records
	err   error
}

// examine reads a point's folder once.
func (k kept) examine(dir, name string) (bookRow, map[string][]byte, error) {
	stamp := stampOf(filepath.Join(dir, name))
	if known, ok := k.examined[name]; ok && known.stamp == stamp {
		return known.row, known.files, known.err
	}
	e := examined{stamp: stamp}
	e.row, e.files, e.err = readPointFolder(dir, name)
	k.examined[name] = e
	return e.row, e.files, e.err
}

// stampOf changes with each file of a folder.
func stampOf(dir string) string {
	var b strings.Builder
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if info, statErr := os.Lstat(path); err == nil && statErr == nil {
			fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	return b.String()
}

// checkJSON finds files beside the records that are no whole JSON.
func checkJSON(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		lines := strings.HasSuffix(name, ".jsonl")
		if e.IsDir() || name == collector.FileRecords || !lines && !strings.HasSuffix(name, ".json") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return damaged(name, err)
		}
		documents := [][]byte{text}
		if lines {
			documents = bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		}
		for _, document := range documents {
			var v json.RawMessage
			if err := json.Unmarshal(document, &v); err != nil && (len(text) > 0 || !lines) {
				return damage{name, fmt.Errorf("it is no whole JSON: %w", err)}
			}
		}
	}
	return nil
}

// checkFigures compares a point's files of figures with those that its records make.
// They may have been appended to: one of the results has to be the point's.
func checkFigures(dir string, made map[string][]byte) error {
	for name, text := range made {
		path := filepath.Join(dir, name)
		if name != collector.FileAcceptance && name != collector.FileTiming {
			if !exists(path) && strings.HasSuffix(name, ".json") {
				return damage{name, errors.New("it is missing")}
			}
			continue
		}
		was, err := os.ReadFile(path)
		if err != nil {
			return damaged(name, err)
		}
		if bytes.Equal(was, text) {
			continue
		}
		a, errA := collector.DecodeOrdered(was)
		b, errB := collector.DecodeOrdered(text)
		if err := errors.Join(errA, errB); err != nil {
			return damage{name, err}
		}
		old, _ := a.([]any)
		own, _ := b.([]any)
		if len(own) != 1 || !slices.ContainsFunc(old, func(v any) bool { return alike(v, own[0]) }) {
			return damage{name, fmt.Errorf("its figures are not those of %s", collector.FileRecords)}
		}
	}
	return nil
}

// alikeTolerance is how far two numbers of one computation may be apart, as a
// share: processors differ in the last digits.
const alikeTolerance = 1e-9

// alike compares two decoded JSON values, numbers within alikeTolerance.
func alike(a, b any) bool {
	switch a := a.(type) {
	case collector.Object:
		b, ok := b.(collector.Object)
		return ok && slices.EqualFunc(a, b, func(x, y collector.Member) bool { return x.Key == y.Key && alike(x.Value, y.Value) })
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, alike)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || near(a.String(), b.String()))
	}
	return a == b
}

func near(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && math.Abs(x-y) <= alikeTolerance*max(math.Abs(x), math.Abs(y))
}

// rowDifferences say in what a row of sweep.json is not what the point's records
// make, as far as both have it.
func rowDifferences(was, is bookRow) []difference {
	a, b := objectOf(was.Summary), objectOf(is.Summary)
	var list []difference
	for _, m := range b {
		v, ok := a.Get(m.Key)
		if m.Key == "warnings" || !ok || alike(v, m.Value) {
			continue
		}
		list = append(list, difference{m.Key, valueText(a, m.Key), valueText(b, m.Key)})
	}
	return list
}

// rowsWarning tells that a row said otherwise; "" where it did not.
func rowsWarning(was, is bookRow) string {
	list := rowDifferences(was, is)
	if len(list) == 0 {
		return ""
	}
	var texts []string
	for _, d := range list[:min(len(list), 5)] {
		texts = append(texts, d.String())
	}
	if n := len(list) - len(texts); n > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", n))
	}
	return fmt.Sprintf("%s said otherwise of %s than its records, whose figures are taken: %s", collector.FileBook, is.Point, strings.Join(texts, "; "))
}
