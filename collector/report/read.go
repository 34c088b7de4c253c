package report

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"spectap/collector"
)

// Source is what a report is made of.
type Source struct {
	book     *book    // sweep.json; nil where there is none
	folder   string   // the folder's own name
	points   []*point // complete ones first to last, failed ones among them
	notRun   []string // planned points without a folder
	warnings []string // of the folder as a whole
	speedUp  speedUps
}

// pointFiles are the records files of one point: one, or its shards'.
type pointFiles struct {
	name   string
	folder string // below the report's folder; "." for itself
	dir    string
	failed bool
	files  []string // none where only what was made of them is there
}

// Read reads the folder of a sweep, of an exec or collect, of shards, or of one
// point. A point that cannot be read is told of, not an error.
func Read(dir string, opts Options) (*Source, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the folder of the report: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("cannot make a report of %q: want the folder of a sweep, or of one of its points", dir)
	}
	found, err := findPoints(dir)
	if err != nil {
		return nil, err
	}
	for i, f := range found {
		if path := opts.Records[f.folder]; len(f.files) == 0 && path != "" {
			found[i].files = []string{path}
		}
	}
	s := &Source{folder: folderName(dir)}
	var note string
	if s.book, note = readBook(dir); note != "" {
		s.warnings = append(s.warnings, note)
	}
	if len(found) == 0 && s.book == nil {
		return nil, fmt.Errorf("folder %q has no points: want the folder of a sweep, with %s in the folders of its points", dir, collector.FileRecords)
	}
	s.points = readAll(found, s.book)
	slices.SortStableFunc(s.points, comparePoints)
	s.notRun = s.missing()
	s.warnings = append(s.warnings, s.differing()...)
	s.speedUp = findSpeedUps(dir, opts)
	return s, nil
}

// unread says what could not be read.
func (s *Source) unread() []string {
	var list []string
	for _, p := range s.points {
		for _, text := range p.unread {
			list = append(list, p.title()+": "+short(text, 300))
		}
	}
	return list
}

// folderName is the last part of the folder's full path.
func folderName(dir string) string {
	if full, err := filepath.Abs(dir); err == nil {
		dir = full
	}
	return filepath.Base(dir)
}

// findPoints finds the points of a folder: itself, or the folders in it, and the
// shards' points.
func findPoints(dir string) ([]pointFiles, error) {
	if f, ok := pointIn(dir, "."); ok {
		return []pointFiles{f}, nil
	}
	found, err := pointsBelow(dir, "")
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the folder of the report: %w", err)
	}
	for _, e := range entries {
		if ok, _ := filepath.Match("shard-*-of-*", e.Name()); !ok || !e.IsDir() {
			continue
		}
		parts, err := pointsBelow(dir, e.Name())
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			found = addShard(found, part)
		}
	}
	return found, nil
}

// addShard adds a shard's point to the point that it is a part of.
func addShard(found []pointFiles, part pointFiles) []pointFiles {
	if part.failed { // what of its shard went wrong stands beside the others
		part.name += " (" + filepath.Dir(part.folder) + ")"
		return append(found, part)
	}
	for i := range found {
		if found[i].name == part.name && !found[i].failed {
			found[i].files = append(found[i].files, part.files...)
			return found
		}
	}
	return append(found, part)
}

// pointsBelow lists the point folders in dir/sub. A folder that is being written
// has a name that begins with a dot.
func pointsBelow(dir, sub string) ([]pointFiles, error) {
	entries, err := os.ReadDir(filepath.Join(dir, sub))
	if err != nil {
		return nil, fmt.Errorf("cannot read the folder of the report: %w", err)
	}
	var found []pointFiles
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		folder := filepath.Join(sub, e.Name())
		if f, ok := pointIn(filepath.Join(dir, folder), filepath.ToSlash(folder)); ok {
			found = append(found, f)
		}
	}
	return found, nil
}

// pointIn says that a folder is that of a point: it holds records, or at least the
// files that are made of them.
func pointIn(dir, folder string) (f pointFiles, ok bool) {
	name := folderName(dir)
	f = pointFiles{name: strings.TrimSuffix(name, collector.FailedSuffix), folder: folder, dir: dir, failed: strings.HasSuffix(name, collector.FailedSuffix)}
	if path := filepath.Join(dir, collector.FileRecords); isFile(path) {
		f.files = []string{path}
		return f, true
	}
	return f, f.failed || isFile(filepath.Join(dir, collector.FileAcceptance)) || isFile(filepath.Join(dir, collector.FileTiming))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// readAll reads the points, a few at a time: the Records of one may fill hundreds
// of megabytes.
func readAll(found []pointFiles, b *book) []*point {
	points := make([]*point, len(found))
	var reading sync.WaitGroup
	turns := make(chan struct{}, max(1, min(4, runtime.GOMAXPROCS(0))))
	several := map[string]int{}
	for _, f := range found {
		several[basePoint(f.name)]++
	}
	for i, f := range found {
		turns <- struct{}{}
		reading.Go(func() {
			defer func() { <-turns }()
			points[i] = readPoint(f, b.row(f.folder), several[basePoint(f.name)] > 1)
		})
	}
	reading.Wait()
	return points
}

// basePoint is the name of a point without the number of its run.
func basePoint(name string) string {
	i := strings.LastIndex(name, "_r")
	if i < 0 {
		return name
	}
	if n, err := strconv.Atoi(name[i+2:]); err != nil || n < 2 {
		return name
	}
	return name[:i]
}

// readPoint reads and measures one point.
func readPoint(f pointFiles, row *bookRow, several bool) *point {
	pt := &point{name: f.name, folder: f.folder, failed: f.failed, row: row, several: several}
	if len(f.files) == 0 {
		pt.readFiles(f.dir)
		if isFile(filepath.Join(f.dir, collector.FileSpeculation)) { // a folder of ours
			pt.unread = append(pt.unread, collector.FileRecords+" is not there: the page has what the other files say")
			pt.warnings = append(pt.warnings, pt.unread...)
		}
		return pt
	}
	p, bad, err := loadRecords(f)
	if bad > 0 {
		pt.unread = append(pt.unread, counted(bad, "line")+" of its records could not be read")
		pt.warnings = append(pt.warnings, pt.unread...)
	}
	if f.failed {
		pt.reason = reasonOf(f.dir)
	}
	if err != nil {
		pt.failed, pt.unread = true, append(pt.unread, err.Error())
		pt.reason = cmp.Or(pt.reason, err.Error())
		return pt
	}
	pt.run = p.Run
	if pt.failed {
		pt.countFailed(p)
		return pt
	}
	if err := pt.measure(p, f.dir); err != nil {
		pt.failed, pt.reason = true, err.Error()
		pt.countFailed(p)
	}
	return pt
}

// loadRecords reads the records of a point and merges those of shards.
func loadRecords(f pointFiles) (p collector.Point, bad int, err error) {
	var parts []collector.Point
	for _, path := range f.files {
		part, n, err := loadFile(path)
		bad += n
		if err != nil {
			return p, bad, err
		}
		parts = append(parts, part)
	}
	if len(parts) == 1 {
		p = parts[0]
	} else if p, err = collector.MergeShards(parts); err != nil {
		return p, bad, err
	}
	p.Lenient = true
	return p, bad, nil
}

// loadFile reads the records file of one point.
func loadFile(path string) (p collector.Point, bad int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return p, 0, fmt.Errorf("cannot open its records: %w", withoutPath(err))
	}
	defer f.Close()
	points, lines, err := collector.ReadPoints(f)
	if err != nil {
		return p, len(lines), fmt.Errorf("cannot read its records: %w", withoutPath(err))
	}
	if len(points) != 1 || points[0].Run.Metric == "" {
		return p, len(lines), fmt.Errorf("its %s has %d run lines, want one that names the data set", collector.FileRecords, len(points))
	}
	return points[0], len(lines), nil
}

// withoutPath is an error of the file system without the machine's path.
func withoutPath(err error) error {
	if e := (*os.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// reasonOf is why a point was set aside.
func reasonOf(dir string) string {
	return cmp.Or(collector.FailureReason(dir), "no reason was recorded")
}

// comparePoints puts points in the order of a reader: temperature, load, repeat.
func comparePoints(a, b *point) int {
	return cmp.Or(
		cmp.Compare(a.run.Temperature, b.run.Temperature),
		cmp.Compare(a.load().kind, b.load().kind),
		cmp.Compare(a.load().value, b.load().value),
		cmp.Compare(a.run.Repeat, b.run.Repeat),
		strings.Compare(a.name, b.name),
	)
}

// missing names the planned points that have no folder.
func (s *Source) missing() []string {
	if s.book == nil {
		return nil
	}
	var list []string
	for _, name := range s.book.Plan.Points {
		if !slices.ContainsFunc(s.points, func(p *point) bool { return p.name == name }) {
			list = append(list, name)
		}
	}
	return list
}
