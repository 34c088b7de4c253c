package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"spectap/collector"
	"spectap/sweep"
)

// collectJob is one point to make: its records files and the folder of its files.
type collectJob struct {
	point   string
	files   []string
	shards  bool // the files are shards, one of them perhaps alone
	saveDir string
	unread  error // why the one file cannot be read; nil: it can, as far as is known
}

// merged says that the files are made of several sweeps.
func (j collectJob) merged() bool { return j.shards }

// collectJobs finds the points behind the arguments, which are records files or
// folders, and checks that files of one point are its shards. Only run lines are
// read. The files of a point go into saveDir, those of several, or of a folder's,
// into a folder each.
func collectJobs(args []string, saveDir string) ([]collectJob, error) {
	var files []string
	folders := false
	for _, arg := range args {
		found, err := recordsFiles(arg)
		if err != nil {
			return nil, err
		}
		folders = folders || len(found) != 1 || found[0] != arg
		files = append(files, found...)
	}
	if len(files) == 1 && !folders {
		return oneJob(files[0], saveDir)
	}
	jobs, err := groupByPoint(files)
	if err != nil {
		return nil, err
	}
	for i := range jobs {
		if jobs[i].unread != nil {
			continue
		}
		jobs[i].saveDir = saveDir
		if folders || len(jobs) > 1 {
			jobs[i].saveDir = filepath.Join(saveDir, jobs[i].point)
		}
		if err := refuseOverwrite(jobs[i].saveDir); err != nil {
			return nil, err
		}
	}
	return jobs, refuseOverwrite(saveDir)
}

// oneJob is a file by itself. What is wrong with it is told when it is read.
func oneJob(file, saveDir string) ([]collectJob, error) {
	job := collectJob{files: []string{file}, saveDir: saveDir}
	run, err := readRun(file)
	job.shards = err == nil && run.Shard != nil
	return []collectJob{job}, nil
}

// recordsFiles returns the records files that an argument means: itself, or those
// of the points in a folder, its shards' folders included.
func recordsFiles(arg string) ([]string, error) {
	info, err := os.Stat(arg)
	if err != nil {
		return nil, fmt.Errorf("cannot open the records file: %w", err)
	}
	if !info.IsDir() {
		return []string{arg}, nil
	}
	found, err := recordsBelow(arg)
	if err != nil {
		return nil, err
	}
	shards, err := fs.Glob(os.DirFS(arg), "shard-*-of-*")
	for _, name := range shards {
		shard := filepath.Join(arg, name)
		if info, statErr := os.Stat(shard); statErr == nil && info.IsDir() {
			below, belowErr := recordsBelow(shard)
			found, err = append(found, below...), errors.Join(err, belowErr)
		}
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(found)
	found = slices.Compact(found) // that of a shard by itself is below both
	if len(found) == 0 {
		return nil, fmt.Errorf("folder %q has no points: want the folder of a sweep or of a shard, with %s in the folders of its points", arg, collector.FileRecords)
	}
	return found, nil
}

// recordsBelow returns the records files of a folder and of the points in it. A
// folder that cannot be read is an error: its requests would be left out unsaid.
func recordsBelow(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot look into the folder: %w", err)
	}
	var found []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.Name() == collector.FileRecords:
		case strings.HasPrefix(e.Name(), "."): // a point that runs
			continue
		default:
			path = filepath.Join(path, collector.FileRecords)
		}
		_, err := os.Stat(path)
		switch {
		case err == nil:
			found = append(found, path)
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return nil, fmt.Errorf("cannot look into the folder: %w", err)
		}
	}
	return found, nil
}

// groupByPoint reads the run lines and checks the shards of each point. A file that
// cannot be read keeps no other from being made: it is a job that fails. It is an
// error if none can be read.
func groupByPoint(files []string) ([]collectJob, error) {
	var jobs []collectJob
	runs := map[string][]collector.Run{}
	seen := map[string]bool{}
	var unread []error
	for _, file := range files {
		if seen[filepath.Clean(file)] {
			return nil, fmt.Errorf("%s is named twice", file)
		}
		seen[filepath.Clean(file)] = true
		run, err := readRun(file)
		if err != nil {
			unread = append(unread, fmt.Errorf("cannot read %s: %w", file, err))
			continue
		}
		if run.Point == "" {
			return nil, fmt.Errorf("%s has no point: want records of a sweep; --format %s takes those of a proxy too", file, formatParquet)
		}
		if run.Point != filepath.Base(run.Point) || strings.HasPrefix(run.Point, ".") {
			return nil, fmt.Errorf("cannot make the point of %s: its name %q is not that of a folder", file, run.Point)
		}
		at := slices.IndexFunc(jobs, func(j collectJob) bool { return j.point == run.Point })
		if at < 0 {
			jobs, at = append(jobs, collectJob{point: run.Point}), len(jobs)
		}
		jobs[at].files = append(jobs[at].files, file)
		jobs[at].shards = jobs[at].shards || run.Shard != nil || len(jobs[at].files) > 1
		runs[run.Point] = append(runs[run.Point], run)
	}
	if len(jobs) == 0 {
		return nil, errors.Join(unread...)
	}
	var errs []error
	for _, job := range jobs {
		if !job.shards {
			continue
		}
		if err := collector.CheckShards(runs[job.point]); err != nil {
			errs = append(errs, fmt.Errorf("cannot merge %s: %w", strings.Join(job.files, ", "), err))
		}
	}
	for _, err := range unread {
		jobs = append(jobs, collectJob{unread: err})
	}
	return jobs, errors.Join(errs...)
}

func readRun(file string) (collector.Run, error) {
	f, err := os.Open(file)
	if err != nil {
		return collector.Run{}, fmt.Errorf("cannot open the records file: %w", err)
	}
	defer f.Close()
	return collector.ReadRun(f)
}

// collectAll makes all points, and sweep.json and summary.csv above their folders.
// A point that is incomplete, or cannot be made, keeps no other from being made.
func (p program) collectAll(jobs []collectJob, saveDir string, options collectOptions) error {
	if len(jobs) == 1 && jobs[0].saveDir == saveDir {
		_, err := p.collect(jobs[0], options)
		return err
	}
	var made []sweep.Collected
	worst := exitError{}
	for _, job := range jobs {
		point, err := p.collect(job, options)
		if point != nil {
			made = append(made, *point)
		}
		if err == nil {
			continue
		}
		if job.unread != nil {
			fmt.Fprintf(p.stderr, "spectap: %v\n", err)
		} else {
			fmt.Fprintf(p.stderr, "spectap: %s: %v\n", job.point, err)
		}
		code := exitUsage
		if e := (exitError{}); errors.As(err, &e) {
			code = e.code
		}
		worst.code = max(worst.code, code)
	}
	if len(made) > 0 {
		answers, err := sweep.WriteBook(saveDir, version(), p.argv, made)
		if err != nil {
			return exitError{exitFailed, err}
		}
		for _, answer := range answers {
			fmt.Fprintln(p.stdout, answer.Sentence)
		}
	}
	if worst.code != 0 {
		return worst
	}
	return nil
}

// readJob reads the records of a point and merges them where they are shards.
// Bad lines are told and counted.
func (p program) readJob(job collectJob) (collector.Point, int, error) {
	var points []collector.Point
	n := 0
	for _, file := range job.files {
		point, bad, err := readPoint(file)
		if err != nil {
			return collector.Point{}, n, err
		}
		p.tellBadLines(file, bad)
		n += len(bad)
		points = append(points, point)
	}
	if !job.merged() {
		return points[0], n, nil
	}
	merged, err := collector.MergeShards(points)
	return merged, n, err
}

// tellBadLines names the first bad lines of a file, and counts the others.
func (p program) tellBadLines(file string, bad []collector.LineError) {
	for _, line := range bad[:min(len(bad), badLinesSaid)] {
		fmt.Fprintf(p.stderr, "spectap: %s: %s\n", file, line.Error())
	}
	if more := len(bad) - badLinesSaid; more > 0 {
		fmt.Fprintf(p.stderr, "spectap: %s: %d more lines could not be read\n", file, more)
	}
}

// mergedFrom says what a merged point is made of; "" where it is not.
func mergedFrom(run collector.Run) string {
	if len(run.Shards) == 0 {
		return ""
	}
	return fmt.Sprintf(" of %d/%d shards", len(run.Shards), run.Shards[0].Of)
}
