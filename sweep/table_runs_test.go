package sweep

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"spectap/collector"
)

// twoRuns are two runs of a point with what was made of both.
func twoRuns() ([]collector.Summary, []collector.Repeats) {
	slo := collector.SLO{TTFT: 0.2, Share: 0.95}
	own := func(verdict string, share float64) *collector.Goodput {
		return &collector.Goodput{SLO: slo, Verdict: verdict, Share: share, Reason: "of one run"}
	}
	rows := []collector.Summary{
		{Point: "t0_c8", Concurrency: 8, OutputTPS: 1600, OutputTPSPerGPU: 1600, Audit: collector.AuditExact, Goodput: own(collector.SLOMet, 1)},
		{Point: "t0_c8_r2", Repeat: 1, Concurrency: 8, OutputTPS: 3074, OutputTPSPerGPU: 3074, Audit: collector.AuditExact, Goodput: own(collector.SLOMissed, 0.5)},
	}
	none := collector.Interval{Reason: "2 runs are too few for an interval between runs; --repeats 3 or more"}
	together := own(collector.SLONotShown, 0.75)
	together.Interval, together.Reason, together.Runs = collector.Interval{Low: 0.1, High: 1, Known: true}, "of both runs", 2
	return rows, []collector.Repeats{{Point: "t0_c8", Concurrency: 8, Runs: []string{"t0_c8", "t0_c8_r2"}, Goodput: together, Figures: []collector.RepeatFigures{
		{Name: collector.FigureAL, Pooled: 3.1, Values: []float64{3, 3.2}, Interval: collector.Interval{Low: 2.9, High: 3.3, Known: true}},
		{Name: collector.FigureOutputTPS, Pooled: 2337, Values: []float64{1600, 3074}, Interval: none},
	}}}
}

// Several runs are one line: the share is that of all requests, and two runs have
// their range in the place of an interval, with the reason.
func TestTableOfRuns(t *testing.T) {
	rows, repeats := twoRuns()
	var b strings.Builder
	Table(&b, Result{Summaries: rows, Repeats: repeats})
	want := `
┌─────────────┬─────────────┬──────┬───────────────┬───────────────────────────┬──────────────┬─────────┬────────────────────────┬────────┬─────────────┬───────┐
│ temperature │ concurrency │ runs │    Average_AL │              output tok/s │ decode tok/s │ TTFT ms │             within SLO │ failed │ blocks came │ audit │
│             │             │      │               │                           │     per user │         │                        │        │             │       │
├─────────────┼─────────────┼──────┼───────────────┼───────────────────────────┼──────────────┼─────────┼────────────────────────┼────────┼─────────────┼───────┤
│           0 │           8 │    2 │ 3.100 ± 0.200 │ 2337.0 (1600.0 to 3074.0) │            - │       - │ 75.0 % (10.0 to 100.0) │      0 │           - │ exact │
└─────────────┴─────────────┴──────┴───────────────┴───────────────────────────┴──────────────┴─────────┴────────────────────────┴────────┴─────────────┴───────┘
± is half of the 95 % interval over runs and conversations, of tokens per second over runs; sweep.json has each run's values and the spread within and between runs
(a to b) in place of ± are the least and the greatest run: 2 runs are too few for an interval between runs; --repeats 3 or more
temperature 0, ttft=200ms for 95.0 % of the requests: not shown to be met at any load that was measured; concurrency 8: of both runs
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("got:%s\nwant:%s", got, want)
	}
}

// Each run's row has the verdict of all runs beside its own.
func TestSummaryOfRuns(t *testing.T) {
	rows, repeats := twoRuns()
	b := &book{rows: []bookRow{{State: stateComplete, Summary: rows[0]}, {State: stateComplete, Summary: rows[1]}, {State: stateComplete, Summary: collector.Summary{Point: "t0_c1"}}}}
	table, err := csv.NewReader(strings.NewReader(string(b.csv(repeats)))).ReadAll()
	if err != nil || len(table) != 4 {
		t.Fatalf("got %d lines, %v", len(table), err)
	}
	cells := func(row int) (list []string) {
		for _, name := range []string{"share_within_slo", "slo_verdict", "runs_together", "share_within_slo_of_runs", "share_within_slo_of_runs_low", "share_within_slo_of_runs_high", "slo_verdict_of_runs"} {
			list = append(list, table[row][slices.Index(table[0], name)])
		}
		return list
	}
	for i, want := range [][]string{{"1", "met", "2", "0.75", "0.1", "1", "cannot be shown"}, {"0.5", "missed", "2", "0.75", "0.1", "1", "cannot be shown"}, {"", "", "", "", "", "", ""}} {
		if got := cells(i + 1); !slices.Equal(got, want) {
			t.Errorf("row %d: got %q, want %q", i, got, want)
		}
	}
}
