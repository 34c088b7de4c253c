package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"spectap/collector"
)

// bookSchema is the schema name of sweep.json.
const bookSchema = "spectap.sweep/1"

// bookRun is what sweep.json keeps of a sweep whose points are in the folder, when
// another one has written there since.
type bookRun struct {
	Run     string          `json:"run"`
	Started string          `json:"started"` // UTC
	Version string          `json:"spectap_version"`
	Argv    json.RawMessage `json:"argv,omitempty"`
	Plan    json.RawMessage `json:"plan"`
	Server  json.RawMessage `json:"server"`
}

// savedBook is a sweep.json that was read.
type savedBook struct {
	Schema string `json:"schema"`
	bookRun
	Earlier []bookRun `json:"earlier_runs"`
	Points  []bookRow `json:"points"`
}

// readBook reads the sweep.json of a folder; found is false where there is none.
func readBook(dir string) (b savedBook, found bool, err error) {
	path := filepath.Join(dir, collector.FileBook)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err == nil && b.Schema != bookSchema {
		err = fmt.Errorf("its schema is %q, want %q", b.Schema, bookSchema)
	}
	if err == nil && b.Run == "" {
		err = errors.New("it names no run")
	}
	if err != nil {
		return savedBook{}, true, fmt.Errorf("cannot read %q: %w", path, err)
	}
	return b, true, nil
}

// described returns what the book says of a run.
func (b savedBook) described(run string) (bookRun, bool) {
	all := append([]bookRun{b.bookRun}, b.Earlier...)
	i := slices.IndexFunc(all, func(r bookRun) bool { return r.Run == run })
	if run == "" || i < 0 {
		return bookRun{}, false
	}
	return all[i], true
}

// row returns the row of a complete point of a run.
func (b savedBook) row(point, run string) (bookRow, bool) {
	i := slices.IndexFunc(b.Points, func(r bookRow) bool {
		return r.Point == point && r.Folder == point && r.Run == run && r.State == stateComplete
	})
	if i < 0 {
		return bookRow{}, false
	}
	return b.Points[i], true
}

// readPointFolder makes the row of a complete point from its folder: a sweep that
// was killed between the point's end and its row left none.
//
// A file that is not whole is a damage; files are those that the records make.
func readPointFolder(dir, name string) (row bookRow, files map[string][]byte, err error) {
	f, err := os.Open(filepath.Join(dir, name, collector.FileRecords))
	if err != nil {
		return row, nil, damaged(collector.FileRecords, err)
	}
	defer f.Close()
	points, bad, err := collector.ReadPoints(f)
	switch {
	case err != nil:
	case len(bad) > 0:
		err = bad[0]
	case len(points) != 1:
		err = fmt.Errorf("it describes %d points, want 1", len(points))
	}
	if err != nil {
		return row, nil, damaged(collector.FileRecords, err)
	}
	if err := checkJSON(filepath.Join(dir, name)); err != nil {
		return row, nil, err
	}
	if points[0].AIPerf, err = ReadAIPerf(filepath.Join(dir, name)); err != nil {
		return row, nil, damaged(aiperfFolder, err)
	}
	files, summary, err := points[0].Files()
	return bookRow{Run: points[0].Run.ID, State: stateComplete, Folder: name, Summary: summary}, files, damaged(collector.FileRecords, err)
}

// runOfFolder reads which run measured the point of a folder, and that the folder
// is whole.
func runOfFolder(dir, name string) (collector.Run, error) {
	missing := func(files ...string) error {
		for _, file := range files {
			if !exists(filepath.Join(dir, name, file)) {
				return damage{file, errors.New("it is missing")}
			}
		}
		return nil
	}
	if err := missing(collector.FileConfiguration, collector.FileTiming); err != nil {
		return collector.Run{}, err
	}
	f, err := os.Open(filepath.Join(dir, name, collector.FileRecords))
	if err != nil {
		return collector.Run{}, damaged(collector.FileRecords, err)
	}
	defer f.Close()
	run, err := collector.ReadRun(f)
	if err != nil {
		return run, damaged(collector.FileRecords, err)
	}
	if run.Point != name {
		return run, fmt.Errorf("its %s is of point %q", collector.FileRecords, run.Point)
	}
	if !run.Baseline {
		err = missing(collector.FileAcceptance)
	}
	return run, err
}
