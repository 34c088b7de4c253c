package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"spectap/collector"
	"spectap/collector/columns"
)

// The values of collect's --format.
const (
	formatFiles   = "files"
	formatParquet = "parquet"
)

// parquetFlags are the flags of collect that choose Parquet.
type parquetFlags struct {
	format string
	rows   int64
}

func (f *parquetFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.format, "format", formatFiles, "files: those of one point; parquet: a row for each record of any number of files")
	flags.Int64Var(&f.rows, "rows_per_file", 0, "with --format parquet: most rows of a file; 0: all in one file")
}

func (f *parquetFlags) wanted() bool { return f.format == formatParquet }

// check refuses flags that do not go together.
func (f *parquetFlags) check(acceptance string) error {
	switch {
	case f.format != formatFiles && f.format != formatParquet:
		return fmt.Errorf("--format is %q: want %s or %s", f.format, formatFiles, formatParquet)
	case f.rows < 0:
		return fmt.Errorf("--rows_per_file is %d: want 1 or more, or 0 for one file", f.rows)
	case f.rows > 0 && !f.wanted():
		return fmt.Errorf("--rows_per_file needs --format %s", formatParquet)
	case f.wanted() && acceptance != "":
		return fmt.Errorf("--acceptance is %q: --format %s has both views in columns, leave it out", acceptance, formatParquet)
	}
	return nil
}

// collectParquet writes a row for each Record of the files. It reads them twice,
// a few lines at a time: how a request's chunks are counted depends on the other
// requests of its run. Bad lines are counted and said; the exit code is then 1.
func (p program) collectParquet(ctx context.Context, paths []string, saveDir string, flags parquetFlags) error {
	files := &tableInput{rules: map[pointKey]*pointRules{}}
	for _, path := range paths {
		found, err := recordsFiles(path)
		if err != nil {
			return exitError{exitUsage, err}
		}
		for _, file := range found {
			if err := files.add(file); err != nil {
				return exitError{exitUsage, err}
			}
		}
	}
	out := &parquetParts{dir: saveDir, limit: flags.rows}
	if err := out.prepare(); err != nil {
		return exitError{exitUsage, err}
	}
	bad, err := p.convert(ctx, files, out)
	switch {
	case ctx.Err() != nil:
		return exitError{exitInterrupted, errors.Join(errors.New("interrupted: no Parquet is written"), out.discard())}
	case err != nil:
		return exitError{exitFailed, errors.Join(err, out.discard())}
	}
	fmt.Fprintf(p.stdout, "%d records of %d files, written to %s\n", out.rows, len(files.list), out.names())
	if bad > 0 {
		return exitError{exitFailed, fmt.Errorf("the rows are incomplete: %d lines could not be read", bad)}
	}
	return nil
}

// convert makes the rows of all files and gives the Parquet its name.
func (p program) convert(ctx context.Context, files *tableInput, out *parquetParts) (bad int, err error) {
	for i := range files.list {
		err := files.list[i].each(ctx, func(l collector.Line, at *pointRules) error {
			if l.Record != nil {
				at.sums.Add(l.Record)
			}
			return nil
		}, files.begin)
		if err != nil {
			return 0, err
		}
	}
	for i := range files.list {
		n, err := p.convertFile(ctx, &files.list[i], out)
		if bad += n; err != nil {
			return bad, err
		}
	}
	return bad, out.finish()
}

// badLinesSaid bounds how many bad lines of a file are said one by one.
const badLinesSaid = 10

func (p program) convertFile(ctx context.Context, f *tableFile, out *parquetParts) (bad int, err error) {
	at := 0
	next := func(*tableFile, *collector.Run) *pointRules { at++; return f.sections[at-1] }
	err = f.each(ctx, func(l collector.Line, point *pointRules) error {
		switch {
		case l.Err != nil:
			if bad++; bad <= badLinesSaid {
				fmt.Fprintf(p.stderr, "spectap: %s: %s\n", f.path, collector.LineError{Line: l.Number, Err: l.Err})
			}
			return nil
		case l.Run != nil:
			return nil
		}
		row, err := columns.Of(columns.Origin{File: f.path, Line: l.Number, Run: &point.run, Rules: point.rules()}, l.Record)
		if err != nil {
			return fmt.Errorf("cannot make a row of line %d of %s: %w", l.Number, f.path, err)
		}
		return out.write(row, l.Bytes)
	}, next)
	if bad > badLinesSaid {
		fmt.Fprintf(p.stderr, "spectap: %s: %d more lines could not be read\n", f.path, bad-badLinesSaid)
	}
	return bad, err
}

// pointKey names the point of a run; a run line without an id stands for itself.
type pointKey struct{ run, point string }

// pointRules are how the requests of a point are counted. One point can be in
// several files: rotated ones.
type pointRules struct {
	run   collector.Run
	sums  collector.RuleSums
	found *collector.LengthRules
}

// rules are those of all Records of the point; sums gets no more of them then.
func (p *pointRules) rules() collector.LengthRules {
	if p.found == nil {
		rules := p.sums.Rules(p.run)
		p.found = &rules
	}
	return *p.found
}

// tableInput are the files of a command line.
type tableInput struct {
	list  []tableFile
	rules map[pointKey]*pointRules
}

// tableFile is one of them as it is when the command begins: what is appended
// later is not read.
type tableFile struct {
	path     string
	info     os.FileInfo
	sections []*pointRules // before the first run line, and of each run line
}

func (f *tableInput) add(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cannot read the records file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file: want records files, as in D/*/records.jsonl", path)
	}
	for _, other := range f.list {
		if os.SameFile(info, other.info) {
			return fmt.Errorf("%s is the same file as %s: its records would count twice", path, other.path)
		}
	}
	f.list = append(f.list, tableFile{path: path, info: info})
	return nil
}

// begin begins a section of a file.
func (f *tableInput) begin(file *tableFile, run *collector.Run) *pointRules {
	section := &pointRules{}
	if run != nil {
		section.run = *run
		section.run.Questions, section.run.Configuration, section.run.Attribution = nil, nil, nil
		if key := (pointKey{run.ID, run.Point}); run.ID != "" {
			if known := f.rules[key]; known != nil {
				section = known
			}
			f.rules[key] = section
		}
	}
	file.sections = append(file.sections, section)
	return section
}

// each shows visit the lines of the file, each with its section. begin is asked for
// the section of the head of the file, then for that of each run line.
func (f *tableFile) each(ctx context.Context, visit func(collector.Line, *pointRules) error, begin func(*tableFile, *collector.Run) *pointRules) error {
	in, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("cannot open the records file: %w", err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return fmt.Errorf("cannot read the records file: %w", err)
	}
	if !os.SameFile(info, f.info) || info.Size() < f.info.Size() {
		return fmt.Errorf("%s was replaced while it was read: run the command again", f.path)
	}
	section := begin(f, nil)
	err = collector.EachLine(io.LimitReader(in, f.info.Size()), func(l collector.Line) error {
		if l.Run != nil {
			section = begin(f, l.Run)
		}
		return errors.Join(ctx.Err(), visit(l, section))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return nil
}
