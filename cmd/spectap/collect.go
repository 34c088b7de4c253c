package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"spectap/collector"
	"spectap/collector/report"
	"spectap/sweep"
)

func (p program) collectCommand() *cobra.Command {
	var saveDir, acceptance string
	var noReport bool
	var table parquetFlags
	var slo list
	var sloShare float64
	c := &cobra.Command{
		Use:   "collect records.jsonl",
		Short: "make a point's files from its records alone, or Parquet of many",
		Long: `collect makes a point's files from its records. Several records files are the
shards of a point (spectap sweep --shard I/N): their records are merged. Of a folder,
a sweep's or a shard's, all points are made, each in a folder of its own:

  spectap collect D/t0_c8/records.jsonl --save_dir F
  spectap collect shard-*/t0_c32/records.jsonl --save_dir F
  spectap collect shard-0-of-2 shard-1-of-2 --save_dir F

With --format parquet it makes a table instead, a row for each record of any files:

  spectap collect D/*/records.jsonl sidecar/records*.jsonl --format parquet --save_dir F`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exitError{exitUsage, errors.New("no records file is named: want one, or the shards of a sweep, as in spectap collect D/t0_c8/records.jsonl --save_dir F")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if saveDir == "" {
				return exitError{exitUsage, errors.New("no folder for the files: set --save_dir")}
			}
			if err := table.check(acceptance); err != nil {
				return exitError{exitUsage, err}
			}
			if table.wanted() {
				if len(slo) > 0 {
					return exitError{exitUsage, fmt.Errorf("--slo is %q: --format %s judges nothing, leave it out", slo.String(), formatParquet)}
				}
				return p.collectParquet(c.Context(), args, saveDir, table)
			}
			limits, err := collector.ParseSLO(slo, sloShare)
			if err = errors.Join(err, checkSLOShare(c.Flags(), slo, sloShare)); err != nil {
				return exitError{exitUsage, err}
			}
			jobs, err := collectJobs(args, saveDir)
			if err != nil {
				return exitError{exitUsage, err}
			}
			err = p.collectAll(jobs, saveDir, collectOptions{acceptance, limits})
			if _, none := os.Stat(filepath.Join(saveDir, collector.FileBook)); none == nil && !noReport { // there are several points
				p.makeReport(saveDir, reportOf(jobs))
			}
			return err
		},
	}
	c.Flags().StringVar(&saveDir, "save_dir", "", "folder for the files; made if it does not exist")
	c.Flags().StringVar(&acceptance, "acceptance", "", "client or server: what acceptance_rate.json holds; default: as the run was recorded")
	addSLO(c.Flags(), &slo, &sloShare)
	c.Flags().BoolVar(&noReport, "no_report", false, noReportHelp)
	table.add(c.Flags())
	return c
}

// reportOf says where the records are that the points of a folder were made of.
func reportOf(jobs []collectJob) report.Options {
	opts := report.Options{Records: map[string]string{}}
	for _, job := range jobs {
		if !job.merged() && job.unread == nil {
			opts.Records[filepath.Base(job.saveDir)] = job.files[0]
		}
	}
	return opts
}

// collectOptions are what a collection does otherwise than the run was recorded.
type collectOptions struct {
	acceptance string         // ViewClient or ViewServer; "": as recorded
	slo        *collector.SLO // nil: as recorded
}

// collect reads one point's records and writes its files; the point is nil where
// they were not written. Bad lines and conversations that cannot be measured are
// counted and said; the exit code is then 1.
func (p program) collect(job collectJob, options collectOptions) (*sweep.Collected, error) {
	if job.unread != nil {
		return nil, exitError{exitFailed, job.unread}
	}
	point, bad, err := p.readJob(job)
	if err == nil {
		err = chooseView(&point.Run, options.acceptance)
	}
	if err != nil {
		return nil, exitError{exitUsage, err}
	}
	if options.slo != nil {
		point.Run.SLO = options.slo
	}
	point.Lenient = true
	if !job.merged() {
		if point.AIPerf, err = sweep.ReadAIPerf(filepath.Dir(job.files[0])); err != nil {
			return nil, exitError{exitFailed, err}
		}
	}
	if err := refuseOverwrite(job.saveDir); err != nil {
		return nil, exitError{exitUsage, err}
	}
	summary, responses, err := writePoint(point, job.saveDir, job.merged())
	if e := (exitError{}); errors.As(err, &e) {
		return nil, e
	}
	if err != nil {
		return nil, exitError{exitFailed, fmt.Errorf("cannot make the files of %s: %w", strings.Join(job.files, ", "), err)}
	}
	p.tellPoint(point.Run, summary, responses, job.saveDir)
	made := &sweep.Collected{Run: point.Run, Folder: job.saveDir, Summary: summary}
	if figures, err := point.RunFigures(); err == nil {
		made.Figures = &figures
	}
	if summary.Incomplete || bad > 0 {
		made.Summary.Incomplete = true
		return made, exitError{code: exitFailed, err: fmt.Errorf("the measurement is incomplete: %d requests measured, %d failed, %d bad lines", summary.Requests, summary.Failed, bad)}
	}
	return made, nil
}

// chooseView sets what acceptance_rate.json holds; "" is what the run was recorded with.
func chooseView(run *collector.Run, acceptance string) error {
	switch acceptance {
	case "":
	case collector.ViewClient, collector.ViewServer:
		run.Acceptance = acceptance
	default:
		return fmt.Errorf("--acceptance is %q: want client or server", acceptance)
	}
	if run.NoSpecStats && run.Acceptance == collector.ViewServer {
		return errors.New("--acceptance server needs the server's histogram, and this run was swept with --no_spec_stats: leave it at client")
	}
	return nil
}

func (p program) tellPoint(run collector.Run, s collector.Summary, responses bool, dir string) {
	figure := fmt.Sprintf("Average_AL %.4f", s.AverageAL)
	if s.Baseline {
		figure = fmt.Sprintf("%.1f output tokens/s", s.OutputTPS)
	}
	fmt.Fprintf(p.stdout, "%s: %d conversations%s, %s, written to %s\n", s.Point, s.Conversations, mergedFrom(run), figure, dir)
	if !responses {
		fmt.Fprintf(p.stdout, "without %s: the records hold no texts (--keep_texts of the command that made them)\n", collector.ResponsesFile(run.Metric))
	}
	if g := s.Goodput; g != nil {
		fmt.Fprintf(p.stdout, "%s: %s: %s\n", s.Point, g.SLO, g.Reason)
	}
	for _, w := range s.Warnings {
		fmt.Fprintf(p.stdout, "warning: %s\n", w)
	}
}

// refuseOverwrite protects the files of another run: specdec_bench's writers
// append, and two results in one file are seldom what is wanted here.
func refuseOverwrite(dir string) error {
	for _, name := range collector.RunMarks() {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("%s exists already: choose another --save_dir", filepath.Join(dir, name))
		}
	}
	return nil
}

// readPoint reads the records file of one point.
func readPoint(path string) (collector.Point, []collector.LineError, error) {
	f, err := os.Open(path)
	if err != nil {
		return collector.Point{}, nil, fmt.Errorf("cannot open the records file: %w", err)
	}
	defer f.Close()
	points, bad, err := collector.ReadPoints(f)
	if err != nil {
		return collector.Point{}, bad, fmt.Errorf("cannot read %s: %w", path, err)
	}
	if len(points) != 1 || points[0].Run.Metric == "" {
		return collector.Point{}, bad, notOnePoint(path, len(points), bad)
	}
	return points[0], bad, nil
}

// notOnePoint says why a records file is not one that figures are made of. A
// damaged first line is the run line of such a file, as a rule.
func notOnePoint(path string, points int, bad []collector.LineError) error {
	if len(bad) > 0 && bad[0].Line == 1 {
		return fmt.Errorf("cannot read what %s is a measurement of: %w", path, bad[0])
	}
	return fmt.Errorf("%s is not the records file of one point: got %d run lines, want one that names its data set, as a sweep writes it; --format %s takes any records", path, points, formatParquet)
}
