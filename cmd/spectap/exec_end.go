package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spectap/collector"
	"spectap/collector/report"
	"spectap/sweep"
)

// settleWithin bounds the wait for the server's counters after the command.
const settleWithin = 15 * time.Second

// conclude makes the point's files of what the command asked. failed is what went
// wrong with the proxy meanwhile.
func (e *execution) conclude(ended outcome, recs []*collector.Record, url string, failed error) error {
	if len(recs) == 0 {
		err := fmt.Errorf("the command asked the model nothing through %s: let it read OPENAI_BASE_URL, or write {url} into its arguments", url)
		return e.exit(ended, errors.Join(failed, err, e.point.Discard()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleWithin)
	defer cancel()
	point, err := e.point.Recognise(ctx, recs)
	if err != nil {
		return e.exit(ended, errors.Join(failed, err))
	}
	e.tell(point.Run.Attribution)
	if ended.interrupted != nil && !allAsked(point, ended) {
		reason := fmt.Sprintf("the command was interrupted (%v)", ended.interrupted)
		dir, err := e.point.Fail(point, reason)
		return e.exit(ended, errors.Join(failed, err, fmt.Errorf("%s: its records and error.json are in %s", reason, dir)))
	}
	summary, setAside, err := e.point.Complete(point)
	if err != nil {
		return e.exit(ended, errors.Join(failed, err))
	}
	if setAside != "" {
		return e.exit(ended, errors.Join(failed, fmt.Errorf("point %s was set aside: %s", e.point.Label, setAside)))
	}
	sweep.Table(e.p.stderr, sweep.Result{Summaries: []collector.Summary{summary}})
	fmt.Fprintf(e.p.stderr, "Files: %s\n", filepath.Join(e.point.Dir(), e.point.Label))
	if !e.noReport {
		e.p.makeReport(e.point.Dir(), report.Options{})
	}
	if summary.Incomplete {
		failed = errors.Join(failed, fmt.Errorf("the measurement is incomplete: %d requests measured; left out: %s", summary.Requests, counts(summary.LeftOut)))
	}
	return e.exit(ended, failed)
}

// exit is the command's own end, else the measurement's.
func (e *execution) exit(ended outcome, err error) error {
	switch {
	case ended.code != 0:
		return exitError{ended.code, err}
	case err != nil:
		return exitError{exitFailed, err}
	}
	return nil
}

// allAsked says that an interrupted command had asked all that it was to ask, as
// far as anybody knows: every question of a file, or else it ended well.
func allAsked(p collector.Point, ended outcome) bool {
	if !p.Whole() {
		return false
	}
	if p.Run.Attribution.Questions == 0 {
		return ended.code == 0
	}
	return !slices.ContainsFunc(p.Run.Questions, func(q collector.Question) bool { return q.NotAsked })
}

// tell says how the requests were recognised.
func (e *execution) tell(a *collector.Attribution) {
	fmt.Fprintf(e.p.stderr, "spectap: %d requests, %d of them in %d conversations (%s)\n", a.Requests, a.Attributed, a.Conversations, counts(a.By))
	if a.Questions > 0 {
		fmt.Fprintf(e.p.stderr, "spectap: %d of %d questions were asked (%s)\n", a.Asked, a.Questions, counts(a.QuestionsBy))
	}
	if len(a.SetApart) > 0 {
		fmt.Fprintf(e.p.stderr, "spectap: set apart, in no figure: %s\n", counts(a.SetApart))
	}
}

// counts lists counts by name.
func counts(m map[string]int) string {
	var parts []string
	for name, n := range m {
		parts = append(parts, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
