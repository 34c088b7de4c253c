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

// ReadPoints reads a records file as Points: a run line begins a Point and the
// Records after it are that Point's. Records before the first run line make a
// Point with the zero Run. A bad line is reported with its number and skipped; err
// is a failure of r itself.
func ReadPoints(r io.Reader) (points []Point, bad []LineError, err error) {
	err = EachLine(r, func(l Line) error {
		switch {
		case l.Err != nil:
			bad = append(bad, LineError{Line: l.Number, Err: l.Err})
		case l.Run != nil:
			points = append(points, Point{Run: *l.Run, described: true})
		default:
			if len(points) == 0 {
				points = append(points, Point{})
			}
			last := &points[len(points)-1]
			last.Records = append(last.Records, l.Record)
		}
		return nil
	})
	return points, bad, err
}

// ReadRun reads the run line that a records file begins with, and nothing after it.
func ReadRun(r io.Reader) (Run, error) {
	line, err := bufio.NewReaderSize(r, 1<<16).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return Run{}, fmt.Errorf("cannot read records: %w", err)
	}
	if len(line) == 0 {
		return Run{}, errors.New("it is empty")
	}
	var run Run
	if err := run.UnmarshalJSON(bytes.TrimSpace(line)); err != nil {
		return Run{}, LineError{Line: 1, Err: err}
	}
	return run, nil
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
