package sweep

import (
	"context"
	"errors"

	"spectap/collector"
)

// The failures that end a sweep with an exit code of their own.
var (
	ErrUsage        = errors.New("cannot run this sweep")
	ErrNotReachable = errors.New("server not reachable")
	ErrNoStatistics = errors.New("server reports no speculative-decoding statistics")
)

// Result is what a sweep did.
type Result struct {
	Dir       string
	Summaries []collector.Summary // of the complete points, in their order
	Repeats   []collector.Repeats // of the points that ran more than once
	Failed    []FailedPoint
	NotRun    []string // names of the points that were not run, or not to their end
	Warnings  []string
}

// FailedPoint is a point that was set aside.
type FailedPoint struct {
	Point          PlannedPoint
	Dir            string // its folder, "t1_c8.failed"; "" where it could not be written
	Reason         string
	Requests       int // that were answered or failed
	FailedRequests int
}

// ExitCode maps the end of Run, or the error of NewPlan, to the exit code of
// the command: 0 all points complete, 1 a point failed or a disk did, 2 usage,
// 3 not reachable, 4 no statistics, 130 interrupted.
func ExitCode(result Result, err error) int {
	switch {
	case errors.Is(err, ErrUsage):
		return 2
	case errors.Is(err, ErrNotReachable):
		return 3
	case errors.Is(err, ErrNoStatistics):
		return 4
	case errors.Is(err, context.Canceled):
		return 130
	case err != nil, len(result.Failed) > 0:
		return 1
	}
	return 0
}
