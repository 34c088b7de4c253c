package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"spectap/collector"
	"spectap/sweep"
)

func (p program) collectCommand() *cobra.Command {
	var saveDir, acceptance string
	var table parquetFlags
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
				return p.collectParquet(c.Context(), args, saveDir, table)
			}
			jobs, err := collectJobs(args, saveDir)
			if err != nil {
				return exitError{exitUsage, err}
			}
			return p.collectAll(jobs, acceptance)
		},
	}
	c.Flags().StringVar(&saveDir, "save_dir", "", "folder for the files; made if it does not exist")
	c.Flags().StringVar(&acceptance, "acceptance", "", "client or server: what acceptance_rate.json holds; default: as the run was recorded")
	table.add(c.Flags())
	return c
}

// collect reads one point's records and writes its files. Bad lines and
// conversations that cannot be measured are counted and said; the exit code is
// then 1.
func (p program) collect(job collectJob, acceptance string) error {
	point, bad, err := p.readJob(job)
	if err != nil {
		return exitError{exitUsage, err}
	}
	saveDir := job.saveDir
	switch acceptance {
	case "":
	case collector.ViewClient, collector.ViewServer:
		point.Run.Acceptance = acceptance
	default:
		return exitError{exitUsage, fmt.Errorf("--acceptance is %q: want client or server", acceptance)}
	}
	if point.Run.NoSpecStats && point.Run.Acceptance == collector.ViewServer {
		return exitError{exitUsage, errors.New("--acceptance server needs the server's histogram, and this run was swept with --no_spec_stats: leave it at client")}
	}
	point.Lenient = true
	if !job.merged() {
		if point.AIPerf, err = sweep.ReadAIPerf(filepath.Dir(job.files[0])); err != nil {
			return exitError{exitFailed, err}
		}
	}
	if err := refuseOverwrite(saveDir); err != nil {
		return exitError{exitUsage, err}
	}
	if err := os.MkdirAll(saveDir, 0o777); err != nil {
		return exitError{exitUsage, fmt.Errorf("cannot make the folder for the files: %w; choose another --save_dir", err)}
	}
	summary, err := point.Write(saveDir)
	if err == nil && job.merged() {
		err = point.WriteRecords(filepath.Join(saveDir, collector.FileRecords), collector.KeepTexts) // those that are there
	}
	if err != nil {
		return exitError{exitFailed, fmt.Errorf("cannot make the files of %s: %w", strings.Join(job.files, ", "), err)}
	}
	fmt.Fprintf(p.stdout, "%s: %d conversations%s, Average_AL %.4f, written to %s\n", summary.Point, summary.Conversations, mergedFrom(point.Run), summary.AverageAL, saveDir)
	for _, w := range summary.Warnings {
		fmt.Fprintf(p.stdout, "warning: %s\n", w)
	}
	if summary.Incomplete || bad > 0 {
		return exitError{code: exitFailed, err: fmt.Errorf("the measurement is incomplete: %d requests measured, %d failed, %d bad lines", summary.Requests, summary.Failed, bad)}
	}
	return nil
}

// refuseOverwrite protects the files of another run: specdec_bench's writers
// append, and two results in one file are seldom what is wanted here.
func refuseOverwrite(dir string) error {
	for _, name := range []string{"configuration.json", "acceptance_rate.json", "timing.json"} {
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
		return collector.Point{}, bad, fmt.Errorf("%s is not the records file of one point: got %d run lines, want one that names its data set, as a sweep writes it", path, len(points))
	}
	return points[0], bad, nil
}
