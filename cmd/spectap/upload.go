package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"spectap/collector/upload"
)

// uploadOptions are the flags of upload.
type uploadOptions struct {
	dryRun, skipExisting, allowIncomplete bool
	region                                string
}

func (p program) uploadCommand() *cobra.Command {
	var o uploadOptions
	c := &cobra.Command{
		Use:   "upload DIR s3://bucket/prefix",
		Short: "copy run folders to an S3 bucket, as specdec_bench's uploader lays them out",
		Long: `upload copies the runs of DIR (a run's folder, a sweep's --save_dir, or a folder of
such) to s3://bucket/prefix/DIR's name/… The server and the credentials come from
` + upload.EnvEndpoint + `, ` + upload.EnvKeyID + ` and ` + upload.EnvSecret + `.
Runs that exist in the bucket with other bytes are refused; an upload that was
interrupted goes on where it was.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return exitError{exitUsage, fmt.Errorf("got %d arguments: want a folder and a target, as in spectap upload results s3://bucket/prefix", len(args))}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return p.upload(c.Context(), args[0], args[1], o) },
	}
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "list what would be copied, and ask the server nothing")
	c.Flags().BoolVar(&o.skipExisting, "skip-existing", false, "leave runs alone that exist in the bucket with other bytes")
	c.Flags().BoolVar(&o.allowIncomplete, "allow-incomplete-provenance", false, "upload runs whose configuration.json has no container_image")
	c.Flags().StringVar(&o.region, "region", "us-east-1", "region of the bucket")
	return c
}

func (p program) upload(ctx context.Context, dir, target string, o uploadOptions) error {
	to, err := upload.ParseTarget(target)
	if err != nil {
		return exitError{exitUsage, err}
	}
	plan, err := upload.Scan(dir, to)
	if err != nil {
		return exitError{exitUsage, err}
	}
	for _, name := range plan.Skipped {
		fmt.Fprintf(p.stderr, "spectap: %s is left out: its point runs, or was killed\n", name)
	}
	if err := plan.Check(); err != nil && !o.allowIncomplete {
		return exitError{exitUsage, err}
	}
	if o.dryRun {
		plan.Print(p.stdout)
		return nil
	}
	bucket, err := p.bucket(o.region)
	if err != nil {
		return exitError{exitUsage, err}
	}
	result, err := plan.Upload(ctx, bucket, o.skipExisting, p.stdout)
	for _, name := range result.SkippedRuns {
		fmt.Fprintf(p.stderr, "spectap: run %s is left alone: it exists in the bucket with other bytes\n", name)
	}
	if result.Uploaded+result.Kept > 0 {
		fmt.Fprintf(p.stderr, "spectap: %d files copied (%d bytes), %d were there with the same bytes\n", result.Uploaded, result.Bytes, result.Kept)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return exitError{exitInterrupted, errors.New("interrupted: the same command goes on where it was")}
	}
	return exitError{exitFailed, err}
}

// bucket reads the variables of specdec_bench's uploader; all that lack are told at once.
func (p program) bucket(region string) (upload.Bucket, error) {
	var errs []error
	for _, name := range []string{upload.EnvEndpoint, upload.EnvKeyID, upload.EnvSecret} {
		if p.env[name] == "" {
			errs = append(errs, fmt.Errorf("%s is not set", name))
		}
	}
	b := upload.Bucket{
		Endpoint: p.env[upload.EnvEndpoint], KeyID: p.env[upload.EnvKeyID], Secret: p.env[upload.EnvSecret], Region: cmp.Or(region, "us-east-1"),
	}
	if b.Endpoint != "" {
		errs = append(errs, b.Check())
	}
	return b, errors.Join(errs...)
}
