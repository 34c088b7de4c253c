package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"spectap/collector/report"
)

func (p program) reportCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "report DIR",
		Short: "make one HTML page of a sweep's folder: figures, charts, warnings, provenance",
		Long: `report makes DIR/report.html of the records in a sweep's folder, of exec's or
collect's, of shards, or of one point. The page is one file: it asks nobody for
anything and holds no prompt and no reply.

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
			if err := report.Write(args[0], out); err != nil {
				return exitError{reportCode(err), err}
			}
			fmt.Fprintf(p.stdout, "report: %s\n", out)
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "file of the report; default: report.html in the folder")
	return c
}

// reportCode tells a folder that cannot be used from a page that cannot be written.
func reportCode(err error) int {
	if errors.Is(err, report.ErrWrite) {
		return exitFailed
	}
	return exitUsage
}
