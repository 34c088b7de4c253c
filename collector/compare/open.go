package compare

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"spectap/collector"
)

// ErrNoPoint is behind the error of an input that is there, and of which nothing can
// be compared.
var ErrNoPoint = errors.New("has no point that can be compared")

// Open reads one input: the folder of a sweep of ours, or of several runs of
// specdec_bench's; the folder of one point or run; or a records file. What
// cannot be read is in Input.Broken; an error says that there is no such input, or
// nothing in it. With ErrNoPoint the Input still says what failed.
func Open(path string) (Input, error) {
	in := Input{Path: path}
	info, err := os.Stat(path)
	if err != nil {
		return in, fmt.Errorf("cannot open %q: %w; want the folder of a sweep or of a point, or a records file", path, err)
	}
	var r reader
	switch {
	case !info.IsDir():
		r.records(path, folderName(filepath.Dir(path)))
	case marked(path):
		r.folder(path)
	default:
		if err := r.below(path, true); err != nil {
			return in, err
		}
	}
	r.merge()
	in.Points, in.Failed, in.Broken = group(r.runs), r.failed, r.broken
	if len(in.Points)+len(in.Failed)+len(in.Broken) == 0 {
		return in, fmt.Errorf("folder %q has no points: want the folder of a sweep, with a folder for each point that holds %s or %s", path, collector.FileRecords, collector.FileAcceptance)
	}
	if len(in.Points) == 0 {
		var reasons []string
		for _, p := range slices.Concat(in.Failed, in.Broken) {
			reasons = append(reasons, p.Point+": "+p.Reason)
		}
		return in, fmt.Errorf("%q %w: %s", path, ErrNoPoint, strings.Join(reasons, "; "))
	}
	return in, nil
}

// reader collects the runs of an input.
type reader struct {
	runs   []run
	shards []shardPoint
	failed []Problem
	broken []Problem
}

// shardPoint is a shard of a point, with its folder.
type shardPoint struct {
	point  collector.Point
	folder string
}

// marked says that a folder holds a point or a run itself.
func marked(dir string) bool {
	for _, name := range []string{collector.FileRecords, collector.FileAcceptance, collector.FileTiming, collector.FileConfiguration} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return collector.MadeOfRecords(dir)
}

var shardFolder = regexp.MustCompile(`^shard-[0-9]+-of-[0-9]+$`)

// below reads the folders of points in a folder, those of its shards included.
func (r *reader) below(dir string, shards bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot look into folder %q: %w", dir, err)
	}
	for _, e := range entries {
		name, path := e.Name(), filepath.Join(dir, e.Name())
		info, err := os.Stat(path) // a link to a folder is one
		if err != nil || !info.IsDir() {
			continue
		}
		switch {
		case strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".partial"):
			r.failed = append(r.failed, Problem{strings.TrimSuffix(name[1:], ".partial"), path, "it is running, or was killed"})
		case strings.HasPrefix(name, "."):
		case strings.HasSuffix(name, collector.FailedSuffix):
			r.failed = append(r.failed, Problem{strings.TrimSuffix(name, collector.FailedSuffix), path, cmp.Or(collector.FailureReason(path), "it failed")})
		case shards && shardFolder.MatchString(name) && !marked(path):
			if err := r.below(path, false); err != nil {
				return err
			}
		case marked(path):
			r.folder(path)
		}
	}
	r.gone(dir)
	return nil
}

// gone names the runs that sweep.json has as complete, and whose folders are not
// there or hold nothing of a run: without them the others would pass for all.
func (r *reader) gone(dir string) {
	var book struct {
		Points []struct{ State, Folder string }
	}
	text, err := os.ReadFile(filepath.Join(dir, collector.FileBook))
	if err != nil || json.Unmarshal(text, &book) != nil {
		return // the folders speak for themselves
	}
	for _, p := range book.Points {
		path := filepath.Join(dir, p.Folder)
		if p.State != "complete" || p.Folder != filepath.Base(path) || marked(path) {
			continue
		}
		why := "its folder holds nothing of a run"
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			why = "its folder is not there"
		}
		r.broken = append(r.broken, Problem{p.Folder, path, collector.FileBook + " has it as complete, and " + why})
	}
}

// folder reads one folder: our records where they are, else specdec_bench's files.
// A folder of ours without its records is not read by the others: they do not say
// which conversation is which.
func (r *reader) folder(dir string) {
	records := filepath.Join(dir, collector.FileRecords)
	if _, err := os.Stat(records); err == nil {
		r.records(records, folderName(dir))
		return
	}
	if collector.MadeOfRecords(dir) {
		r.broken = append(r.broken, Problem{folderName(dir), dir, collector.FileRecords + " is not there, of which the other files were made; collect leaves it in the folder that it reads"})
		return
	}
	runs, err := runsOfFiles(dir)
	if err != nil {
		r.broken = append(r.broken, Problem{folderName(dir), dir, err.Error()})
		return
	}
	r.runs = append(r.runs, runs...)
}

// records reads a records file. name is its point's where the file does not say.
func (r *reader) records(path, name string) {
	dir := filepath.Dir(path)
	fail := func(err error) { r.broken = append(r.broken, Problem{name, dir, err.Error()}) }
	point, err := readRecords(path)
	if err != nil {
		fail(err)
		return
	}
	if point.Run.Point == "" {
		point.Run.Point = name
	}
	if s := point.Run.Shard; s != nil && s.Of > 1 {
		r.shards = append(r.shards, shardPoint{point, dir})
		return
	}
	questions, _, err := readResponses(dir)
	if err != nil {
		fail(err)
		return
	}
	one, err := runOf(point, dir, questions)
	if err != nil {
		fail(err)
		return
	}
	r.runs = append(r.runs, one)
}

// merge makes points of their shards.
func (r *reader) merge() {
	byPoint := map[string][]shardPoint{}
	var order []string
	for _, s := range r.shards {
		name := s.point.Run.Point
		if byPoint[name] == nil {
			order = append(order, name)
		}
		byPoint[name] = append(byPoint[name], s)
	}
	for _, name := range order {
		var points []collector.Point
		var folders []string
		for _, s := range byPoint[name] {
			points, folders = append(points, s.point), append(folders, s.folder)
		}
		folder := strings.Join(folders, " + ")
		one, err := mergedRun(points, folder)
		if err != nil {
			r.broken = append(r.broken, Problem{name, folder, err.Error()})
			continue
		}
		r.runs = append(r.runs, one)
	}
}

// mergedRun is a run of all shards of a point.
func mergedRun(points []collector.Point, folder string) (run, error) {
	merged, err := collector.MergeShards(points)
	if err != nil {
		return run{}, err
	}
	if got, want := len(merged.Run.Shards), merged.Run.Shards[0].Of; got < want {
		return run{}, fmt.Errorf("%d of %d shards are there: name the folder that holds them all", got, want)
	}
	return runOf(merged, folder, nil)
}

// group puts the runs of one point together. Folders of specdec_bench's of one
// name are repeats only where they say nothing different of themselves.
func group(runs []run) []Point {
	var points []Point
	for _, r := range runs {
		at := slices.IndexFunc(points, func(p Point) bool { return p.Name == r.name && p.takes(r) })
		if at >= 0 {
			points[at].runs = append(points[at].runs, r)
			continue
		}
		name := r.name
		if slices.ContainsFunc(points, func(p Point) bool { return p.Name == name }) {
			name = r.name + " " + folderName(r.folder)
		}
		points = append(points, Point{Name: name, runs: []run{r}})
	}
	sortPoints(points)
	return points
}

// takes says that a run is one more of the point's.
func (p Point) takes(r run) bool {
	first := p.runs[0]
	if first.metric != r.metric || first.baseline != r.baseline {
		return false
	}
	for _, f := range first.facts {
		if r.facts.get(f.name) != f.value && f.level != note {
			return false
		}
	}
	return first.facts.get("draft model") == r.facts.get("draft model") && first.facts.get("draft length") == r.facts.get("draft length")
}
