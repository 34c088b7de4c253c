package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"spectap/collector"
)

// writePoint makes the files of a point in dir, which it makes too, and says
// whether the responses file is among them. They have a folder of their own until
// all are complete, and the names that mark a run come last: a full disk or a kill
// leaves no half run, which an upload would take for a whole one.
//
//	dir/.spectap-PID.partial/* ──▶ dir/*
func writePoint(point collector.Point, dir string, withRecords bool) (summary collector.Summary, responses bool, err error) {
	_, statErr := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return summary, false, exitError{exitUsage, fmt.Errorf("cannot make the folder for the files: %w; choose another --save_dir", err)}
	}
	partial := filepath.Join(dir, fmt.Sprintf(".spectap-%d.partial", os.Getpid()))
	defer func() {
		err = errors.Join(err, os.RemoveAll(partial))
		if err != nil && errors.Is(statErr, os.ErrNotExist) {
			_ = os.Remove(dir) // it is empty, or it stays
		}
	}()
	if err := os.Mkdir(partial, 0o777); err != nil {
		return summary, false, exitError{exitUsage, fmt.Errorf("cannot write into the folder for the files: %w; choose another --save_dir", err)}
	}
	if summary, err = point.Write(partial); err != nil {
		return summary, false, err
	}
	if withRecords {
		if err := point.WriteRecords(filepath.Join(partial, collector.FileRecords), collector.KeepTexts); err != nil { // those that are there
			return summary, false, err
		}
	}
	_, missing := os.Stat(filepath.Join(partial, collector.ResponsesFile(point.Run.Metric)))
	return summary, missing == nil, moveFiles(partial, dir)
}

// moveFiles gives the files of a folder their place in another one, or none of them.
func moveFiles(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	marks := collector.RunMarks()
	var names []string
	for _, e := range entries {
		if !slices.Contains(marks, e.Name()) {
			names = append(names, e.Name())
		}
	}
	names = append(names, marks...)
	for i, name := range names {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil && !(slices.Contains(marks, name) && errors.Is(err, os.ErrNotExist)) {
			for _, moved := range names[:i] {
				_ = os.Remove(filepath.Join(to, moved)) // the first error counts
			}
			return fmt.Errorf("cannot complete %s: %w", to, err)
		}
	}
	return nil
}
