package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"spectap/collector/report"
)

// noReportHelp is the help of the flag of every command that makes a report at its end.
const noReportHelp = "make no report.html in --save_dir at the end"

func (p program) reportCommand() *cobra.Command {
	var out, baseline string
	c := &cobra.Command{
		Use:   "report DIR",
		Short: "make one HTML page of a sweep's folder: figures, charts, warnings, provenance",
		Long: `report makes DIR/report.html of the records in a sweep's folder, of exec's or
collect's, of shards, or of one point. The page is one file: it asks nobody for
anything and holds no prompt and no reply. Exit codes: 0 made, 1 made without points
that could not be read, or not written, 2 usage or a folder without points.

  spectap report D`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exitError{exitUsage, fmt.Errorf("got %d folders, want one, as in spectap report D", len(args))}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				out = filepath.Join(args[0], report.FileReport)
			}
			notes, err := report.Write(args[0], out, report.Options{Baseline: baseline})
			p.tellNotes(notes)
			if err != nil {
				return exitError{reportCode(err), err}
			}
			said := p.stdout
			if info, err := os.Stat(out); err == nil && !info.Mode().IsRegular() {
				said = p.stderr // stdout may be where the page went
			}
			fmt.Fprintf(said, "report: %s\n", out)
			if n := len(notes.Unread); n > 0 {
				return exitError{exitFailed, fmt.Errorf("the report is without what could not be read (%d of the lines above)", n)}
			}
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "file of the report; default: report.html in the folder")
	c.Flags().StringVar(&baseline, "baseline", "", "folder of the same points without speculation; default: the folder baseline in DIR, if there is one")
	return c
}

// makeReport makes the report of a folder at the end of what filled it. A report
// that cannot be made fails nothing: it can be asked for again.
func (p program) makeReport(dir string, opts report.Options) {
	path := filepath.Join(dir, report.FileReport)
	err := func() (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("the report broke off: %v", r)
			}
		}()
		notes, err := report.Write(dir, path, opts)
		p.tellNotes(notes)
		return err
	}()
	if err != nil {
		fmt.Fprintf(p.stderr, "spectap: no report: %v\n", err)
		return
	}
	fmt.Fprintf(p.stderr, "Report: %s\n", path)
}

// tellNotes says on stderr what the page says, too.
func (p program) tellNotes(notes report.Notes) {
	for _, text := range slices.Concat(notes.Warnings, notes.Unread) {
		fmt.Fprintf(p.stderr, "spectap: report: %s\n", text)
	}
}

// reportCode tells a folder that cannot be used from a page that cannot be written.
func reportCode(err error) int {
	if errors.Is(err, report.ErrWrite) {
		return exitFailed
	}
	return exitUsage
}
