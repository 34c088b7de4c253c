package collector

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// LineError is a line of records.jsonl that could not be read.
type LineError struct {
	Line int // from 1
	Err  error
}

// Error implements error.
func (e LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e LineError) Unwrap() error { return e.Err }

// ReadJSONL reads all lines of a records file, of any length. A bad line is
// reported with its number and skipped; err is a failure of r itself.
func ReadJSONL(r io.Reader) (runs []Run, recs []*Record, bad []LineError, err error) {
	points, bad, err := ReadPoints(r)
	for _, p := range points {
		if p.described {
			runs = append(runs, p.Run)
		}
		recs = append(recs, p.Records...)
	}
	return runs, recs, bad, err
}

// ReadPoints reads a records file as Points: a run line begins a Point and the
// Records after it are that Point's. Records before the first run line make a
// Point with the zero Run.
func ReadPoints(r io.Reader) (points []Point, bad []LineError, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return points, bad, fmt.Errorf("cannot read records: %w", err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var lineErr error
			if points, lineErr = addLine(points, line); lineErr != nil {
				bad = append(bad, LineError{Line: n, Err: lineErr})
			}
		}
		if err != nil {
			return points, bad, nil
		}
	}
}

// ReadRun reads the run line that a records file begins with, and nothing after it.
func ReadRun(r io.Reader) (Run, error) {
	line, err := bufio.NewReaderSize(r, 1<<16).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return Run{}, fmt.Errorf("cannot read records: %w", err)
	}
	var run Run
	if err := run.UnmarshalJSON(bytes.TrimSpace(line)); err != nil {
		return Run{}, LineError{Line: 1, Err: err}
	}
	return run, nil
}

// addLine adds a line to the Point that it belongs to.
func addLine(points []Point, line []byte) ([]Point, error) {
	schema, err := schemaOf(line)
	if err != nil {
		return points, err
	}
	switch schema {
	case SchemaRun:
		var run Run
		if err := run.UnmarshalJSON(line); err != nil {
			return points, err
		}
		return append(points, Point{Run: run, described: true}), nil
	case SchemaRecord:
		rec := new(Record)
		if err := rec.UnmarshalJSON(line); err != nil {
			return points, err
		}
		if len(points) == 0 {
			points = append(points, Point{})
		}
		last := &points[len(points)-1]
		last.Records = append(last.Records, rec)
		return points, nil
	}
	return points, fmt.Errorf("cannot read a line of schema %q, want %q or %q: %w", schema, SchemaRecord, SchemaRun, errSchema)
}

// schemaOf finds the schema of a line: at once where it stands first, as we write it.
func schemaOf(line []byte) (string, error) {
	if bytes.HasPrefix(line, []byte(`{"schema":"`+SchemaRecord+`",`)) {
		return SchemaRecord, nil
	}
	var kind struct {
		Schema string `json:"schema"`
	}
	err := json.Unmarshal(line, &kind)
	return kind.Schema, err
}
