package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"spectap/collector/compare"
)

// The exit codes of a gate (--fail-if).
const (
	exitGateFailed   = 5
	exitInconclusive = 6
)

// compareFlags are the flags of compare as typed.
type compareFlags struct {
	match, points, failIf []string // no lists as people type them: those would take the inputs too
	format                string
	force                 bool
	seed                  int64
}

func (p program) compareCommand() *cobra.Command {
	var f compareFlags
	c := &cobra.Command{
		Use:   "compare A B [C ...]",
		Short: "say what differs between sweeps, with intervals",
		Long: `compare holds sweeps against the first one, A: it matches points by their names and
questions by their text, and shows paired differences with 95 % intervals. An input is
the folder of a sweep, of one point, a records file, or a folder of specdec_bench's
runs. Several runs of a point (--repeats) are taken together.

  spectap compare last-week this-week
  spectap compare main branch --fail-if 'AL < -0.05' --fail-if 'ttft > 10%'

--fail-if QUANTITY < BOUND (or >) is a gate on B - A, with % on B / A - 1. QUANTITY is
AL, AL[CATEGORY], AL.turn[N], acceptance[POSITION], conditional[POSITION], ttft, tpot,
tps, tps_gpu, tps_steady, tps_user or tps_request; bounds of ttft and tpot have a unit
(s, ms, us or %). It fails only where the whole interval is beyond the bound, and passes
only where none of it is.

Exit codes: 0 compared, or the gate passes; 1 compared without a folder or file of an input
that could not be read; 2 usage, an input that is missing or has no point that can be
compared, or numbers that mean different things; 5 the gate fails; 6 the gate cannot tell.
With --fail-if the answer is the gate's (0, 5 or 6) wherever the gate could be asked: runs
that failed or could not be read, even all of B's, keep it from passing, so it is 6 unless
the gate fails anyway.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return exitError{exitUsage, fmt.Errorf("got %d inputs: want two or more, as in spectap compare A B", len(args))}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return p.compare(args, f) },
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.match, "match", nil, "points of different names that belong together, POINT_OF_A=POINT_OF_B; repeatable")
	flags.StringSliceVar(&f.points, "points", nil, "points of A to compare, such as t0_c8,t0_c32; default: all")
	flags.StringArrayVar(&f.failIf, "fail_if", nil, "condition under which the exit code is 5, such as 'AL < -0.05'; repeatable")
	flags.StringVar(&f.format, "format", "text", "text, markdown, csv or json")
	flags.BoolVar(&f.force, "force", false, "compare what is refused because the numbers mean different things")
	flags.Int64Var(&f.seed, "bootstrap_seed", 0, "seed of the resamples behind the intervals")
	return c
}

// options reads the flags; all that is wrong with them is in one error.
func (f compareFlags) options() (compare.Options, error) {
	opts := compare.Options{Points: f.points, Force: f.force, Seed: f.seed}
	var errs []error
	for _, text := range f.match {
		a, b, ok := strings.Cut(text, "=")
		if !ok || a == "" || b == "" {
			errs = append(errs, fmt.Errorf("cannot use --match %q: want POINT_OF_A=POINT_OF_B", text))
			continue
		}
		opts.Match = append(opts.Match, compare.Match{A: a, B: b})
	}
	for _, text := range f.failIf {
		condition, err := compare.ParseCondition(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		opts.FailIf = append(opts.FailIf, condition)
	}
	if formats := []string{"text", "markdown", "csv", "json"}; !slices.Contains(formats, f.format) {
		errs = append(errs, fmt.Errorf("cannot use --format %q: want one of %s", f.format, strings.Join(formats, ", ")))
	}
	return opts, errors.Join(errs...)
}

// compare reads the inputs, prints the comparison, and answers with the exit code.
func (p program) compare(paths []string, f compareFlags) error {
	opts, err := f.options()
	errs := []error{err}
	var inputs []compare.Input
	for i, path := range paths {
		in, err := compare.Open(path)
		if i > 0 && len(opts.FailIf) > 0 && errors.Is(err, compare.ErrNoPoint) {
			err = nil // a gate cannot tell where all points failed, which is no wrong use
		}
		errs = append(errs, err)
		inputs = append(inputs, in)
	}
	if err := errors.Join(errs...); err != nil {
		return exitError{exitUsage, err}
	}
	result, err := compare.Compare(inputs, opts)
	if err != nil && !errors.Is(err, compare.ErrRefused) {
		return exitError{exitUsage, err}
	}
	if err := p.printComparison(result, f.format); err != nil {
		return err
	}
	if err != nil {
		return exitError{exitUsage, err}
	}
	return compareExit(result)
}

func (p program) printComparison(r compare.Result, format string) error {
	var text []byte
	var err error
	switch format {
	case "json":
		text, err = r.JSON()
	case "csv":
		text = r.CSV()
	case "markdown":
		text = []byte(r.Markdown())
	default:
		text = []byte(r.Text())
	}
	if err == nil {
		_, err = p.stdout.Write(text)
	}
	if err != nil {
		return exitError{exitFailed, fmt.Errorf("cannot print the comparison: %w", err)}
	}
	return nil
}

// compareExit is the exit code of a comparison that was made. A gate has the last
// word: what could not be read is in its answer.
func compareExit(r compare.Result) error {
	if r.Gate != nil {
		switch r.Gate.Answer {
		case compare.Fail:
			return exitError{exitGateFailed, errors.New("the gate fails: an interval lies beyond the bound of --fail-if")}
		case compare.Inconclusive:
			return exitError{exitInconclusive, errors.New("the gate cannot tell: a bound of --fail-if is inside its interval, there is none, or runs are missing")}
		}
		return nil
	}
	broken := 0
	for _, in := range r.Inputs {
		broken += len(in.Broken)
	}
	if broken > 0 {
		return exitError{exitFailed, fmt.Errorf("the comparison is incomplete: %d folders or files could not be read", broken)}
	}
	return nil
}
