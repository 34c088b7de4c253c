package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"spectap/collector"
)

// pool sums up the runs of each point. It reads their records, once each, so that
// runs that an earlier sweep measured are in it too.
type pool struct {
	dir  string
	read map[string]runOrError        // by folder and the sweep that measured it
	made map[string]collector.Repeats // by those of all runs
}

type runOrError struct {
	figures collector.RunFigures
	err     error
}

// repeats are the summaries of the points that have two runs or more that did not
// fail, in the order of the rows.
func (p *pool) repeats(rows []bookRow) []collector.Repeats {
	byBase := map[string][]bookRow{}
	var order []string
	for _, r := range byPoint(rows, func(r bookRow) (string, collector.Repeat) { return r.Point, r.Repeat }) {
		if r.State == stateFailed {
			continue
		}
		base := strings.TrimSuffix(r.Point, r.Repeat.Suffix())
		if byBase[base] == nil {
			order = append(order, base)
		}
		byBase[base] = append(byBase[base], r)
	}
	var list []collector.Repeats
	for _, base := range order {
		if len(byBase[base]) > 1 {
			list = append(list, p.point(base, byBase[base]))
		}
	}
	return list
}

// point sums up the runs of one point; those that cannot be read are named.
func (p *pool) point(base string, rows []bookRow) collector.Repeats {
	key := ""
	for _, row := range rows {
		key += row.key() + "\n"
	}
	if made, ok := p.made[key]; ok {
		return made
	}
	if p.made == nil {
		p.made = map[string]collector.Repeats{}
	}
	p.made[key] = p.pool(base, rows)
	return p.made[key]
}

func (p *pool) pool(base string, rows []bookRow) collector.Repeats {
	var runs []collector.RunFigures
	var warnings []string
	for _, row := range rows {
		figures, err := p.run(row)
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("run %s is left out: %v", row.Point, err))
			continue
		}
		runs = append(runs, figures)
	}
	r := collector.Repeats{Point: base, Temperature: rows[0].Temperature, Concurrency: rows[0].Concurrency, RequestRate: rows[0].RequestRate}
	if len(runs) > 1 {
		r = collector.PoolRuns(runs)
	}
	r.Warnings = append(r.Warnings, warnings...)
	return r
}

func (p *pool) run(row bookRow) (collector.RunFigures, error) {
	if known, ok := p.read[row.key()]; ok {
		return known.figures, known.err
	}
	figures, err := readRunFigures(filepath.Join(p.dir, row.Folder, collector.FileRecords))
	p.keep(row, runOrError{figures, err})
	return figures, err
}

// key tells runs apart, those of an earlier sweep into the same folder too.
func (r bookRow) key() string { return r.Run + "/" + r.Folder }

func (p *pool) keep(row bookRow, run runOrError) {
	if p.read == nil {
		p.read = map[string]runOrError{}
	}
	p.read[row.key()] = run
}

// know takes a run's figures, whose records are elsewhere; nil where it has none.
func (p *pool) know(row bookRow, figures *collector.RunFigures) {
	if figures != nil {
		p.keep(row, runOrError{figures: *figures})
	}
}

func readRunFigures(path string) (collector.RunFigures, error) {
	f, err := os.Open(path)
	if err != nil {
		return collector.RunFigures{}, fmt.Errorf("cannot open its records: %w", err)
	}
	defer f.Close()
	points, _, err := collector.ReadPoints(f)
	if err != nil {
		return collector.RunFigures{}, fmt.Errorf("cannot read its records: %w", err)
	}
	if len(points) != 1 {
		return collector.RunFigures{}, fmt.Errorf("cannot read its records: got %d run lines, want 1", len(points))
	}
	return points[0].RunFigures()
}
