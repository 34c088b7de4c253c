package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spectap/collector"
)

// kept is what earlier sweeps left in --save_dir.
type kept struct {
	book savedBook
	rows map[string]bookRow // of the plan's points that are complete, by name, as their records have it; nil without Resume

	damaged  map[string]string // points that have a folder that is not whole, and why
	warnings map[string]string // where sweep.json says otherwise of a point than its records
	examined map[string]examined
}

// findKept looks for the complete points of a plan that is resumed, and refuses
// those that were measured otherwise. The server is compared later (sameServer).
func (p *Plan) findKept() (kept, error) {
	dir := p.Config.SaveDir
	book, _, err := readBook(dir)
	if err != nil {
		return kept{}, fmt.Errorf("cannot resume: %w; it says what the complete points were measured with: put it in order, or choose another --save_dir", err)
	}
	k := kept{book: book, rows: map[string]bookRow{}, damaged: map[string]string{}, warnings: map[string]string{}, examined: p.kept.examined}
	if k.examined == nil {
		k.examined = map[string]examined{}
	}
	err = k.each(p, k.identify)
	// Which engine is asked and which version drives it is not known yet.
	err = errors.Join(err, k.differs(p, func(run bookRun) []difference {
		return planDifferences(run.Plan, p.bookPlan(), "driver", "cache_salt")
	}))
	if err != nil { // told before the records are read, which takes longer
		return k, err
	}
	return k, k.each(p, k.find)
}

// each makes the rows of the points that have a folder. What is damaged has none.
func (k kept) each(p *Plan, rowOf func(Config, PlannedPoint) (bookRow, error)) error {
	var errs []error
	for _, point := range p.Points {
		dir := filepath.Join(p.Config.SaveDir, point.Name)
		if !exists(dir) || k.damaged[point.Name] != "" {
			continue
		}
		row, err := rowOf(p.Config, point)
		delete(k.rows, point.Name)
		var d damage
		switch {
		case errors.As(err, &d):
			k.damaged[point.Name] = d.Error()
		case err != nil:
			errs = append(errs, fmt.Errorf("cannot resume with point folder %q: %w; move the folder away to run the point again", dir, err))
		default:
			k.rows[point.Name] = row
		}
	}
	return errors.Join(errs...)
}

// identify makes the row of a complete point as far as it says which run measured it.
func (k kept) identify(cfg Config, point PlannedPoint) (bookRow, error) {
	run, err := runOfFolder(cfg.SaveDir, point.Name)
	if _, ok := k.book.described(run.ID); err == nil && !ok {
		err = fmt.Errorf("%s does not say what its run %q was measured with; leave the point out or choose another --save_dir", collector.FileBook, run.ID)
	}
	return bookRow{Run: run.ID}, err
}

// find makes the row of a complete point of its records. The book adds the warnings
// of the time when it ran, and is told where it says otherwise.
func (k kept) find(cfg Config, point PlannedPoint) (bookRow, error) {
	row, files, err := k.examine(cfg.SaveDir, point.Name)
	if err != nil {
		return row, err
	}
	if described, _ := k.book.described(row.Run); described.Version == cfg.Version { // another one may compute otherwise
		if err := checkFigures(filepath.Join(cfg.SaveDir, point.Name), files); err != nil {
			return row, err
		}
	}
	if was, ok := k.book.row(point.Name, row.Run); ok {
		k.warnings[point.Name] = rowsWarning(was, row)
		row.Warnings = slices.Clone(row.Warnings)
		for _, w := range was.Warnings {
			if !slices.Contains(row.Warnings, w) {
				row.Warnings = append(row.Warnings, w)
			}
		}
	}
	return row, nil
}

// differs says in what the complete points were measured otherwise, by run.
func (k kept) differs(p *Plan, compare func(bookRun) []difference) error {
	points := map[string][]string{}
	var runs []string
	for _, point := range p.Points {
		if row, ok := k.rows[point.Name]; ok {
			if points[row.Run] == nil {
				runs = append(runs, row.Run)
			}
			points[row.Run] = append(points[row.Run], point.Name)
		}
	}
	var errs []error
	for _, id := range runs {
		run, _ := k.book.described(id)
		list := compare(run)
		if len(list) == 0 {
			continue
		}
		lines := []string{fmt.Sprintf("cannot resume: complete points in --save_dir %q were measured otherwise (%s, run %s)", p.Config.SaveDir, strings.Join(points[id], ", "), id)}
		for _, d := range list {
			lines = append(lines, "  "+d.String())
		}
		lines = append(lines, "  ask as it was (its command line is \"argv\" in "+collector.FileBook+"), leave these points out, or choose another --save_dir")
		errs = append(errs, errors.New(strings.Join(lines, "\n")))
	}
	return errors.Join(errs...)
}

// sameServer compares what the server says with what it said when the points that
// are kept were measured. The warnings name what cannot be compared.
func (k kept) sameServer(p *Plan, plan bookPlan, srv bookServer) (warnings []string, err error) {
	unseen := map[string]bool{}
	err = k.differs(p, func(run bookRun) []difference {
		list := planDifferences(run.Plan, plan)
		more, missing := serverDifferences(run.Server, srv)
		for _, name := range missing {
			unseen[name] = true
		}
		return append(list, more...)
	})
	if err != nil {
		return nil, fmt.Errorf("%w:\n%w", ErrUsage, err)
	}
	if len(unseen) > 0 {
		names := slices.Sorted(func(yield func(string) bool) {
			for name := range unseen {
				if !yield(name) {
					return
				}
			}
		})
		warnings = append(warnings, fmt.Sprintf("cannot tell whether the server is as it was in %s, which was seen only once", strings.Join(names, ", ")))
	}
	return warnings, nil
}

// Complete says that there was nothing left to run when the plan was made: it is
// resumed, and all its points are complete.
func (p *Plan) Complete() bool { return len(p.kept.missing(p.Points)) == 0 }

// missing are the points that are still to be run, in their order.
func (k kept) missing(points []PlannedPoint) []PlannedPoint {
	return slices.DeleteFunc(slices.Clone(points), func(p PlannedPoint) bool {
		_, ok := k.rows[p.Name]
		return ok
	})
}

// asideFolder holds what earlier sweeps left of points that run again: t0_c32.1,
// t0_c32.2, and so on. It is one level below the point folders, so that nothing
// that looks for points finds it.
const asideFolder = "set_aside"

// setAside moves what is left of a point that failed, was killed or is damaged out
// of its way. Nothing is lost but a folder without a Record. damage is why the
// point's folder is not whole, "" where there is none.
func setAside(dir, name, damage string) error {
	if damage != "" {
		from := &pointFiles{name: name, partial: filepath.Join(dir, name)}
		if err := from.writeError("the point was complete, and its files are damaged: "+damage, nil); err != nil {
			return err
		}
		if _, err := moveAside(dir, name, from.partial); err != nil {
			return err
		}
	}
	partial := &pointFiles{dir: dir, name: name, partial: filepath.Join(dir, "."+name+".partial"), closed: true}
	if exists(partial.partial) {
		if !partial.hasRecords() {
			return os.RemoveAll(partial.partial)
		}
		if err := partial.describeFailure("the sweep was killed while the point ran", nil); err != nil {
			return err
		}
		if _, err := moveAside(dir, name, partial.partial); err != nil {
			return err
		}
	}
	if failed := filepath.Join(dir, name+collector.FailedSuffix); exists(failed) {
		_, err := moveAside(dir, name, failed)
		return err
	}
	return nil
}

// hasRecords says that there is more than the line that describes the run.
func (f *pointFiles) hasRecords() bool {
	text, err := os.ReadFile(filepath.Join(f.partial, collector.FileRecords))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	_, records, _ := bytes.Cut(text, []byte("\n"))
	return len(records) > 0
}

// moveAside gives a folder the first name in asideFolder that is free, and returns it.
func moveAside(dir, name, from string) (string, error) {
	if err := os.MkdirAll(filepath.Join(dir, asideFolder), 0o777); err != nil {
		return "", fmt.Errorf("cannot set %q aside: %w", from, err)
	}
	for i := 1; ; i++ {
		to := filepath.Join(dir, asideFolder, fmt.Sprintf("%s.%d", name, i))
		if exists(to) {
			continue
		}
		if err := os.Rename(from, to); err != nil {
			return "", fmt.Errorf("cannot set %q aside: %w", from, err)
		}
		return to, nil
	}
}

// complete writes both files of the sweep again where nothing is left to run: a
// sweep that was killed after its last point may not have written its row.
func (k kept) complete(s *Sweep) error {
	b := &book{dir: s.Plan.Config.SaveDir, rows: s.earlierRows(k)}
	text, err := os.ReadFile(filepath.Join(b.dir, collector.FileBook))
	if err == nil {
		err = json.Unmarshal(text, &b.head)
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", collector.FileBook, err)
	}
	return b.write()
}
