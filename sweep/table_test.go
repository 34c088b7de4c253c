package sweep

import (
	"strings"
	"testing"
	"time"

	"spectap/collector"
)

// The table's text, with both views where they differ.
func TestTable(t *testing.T) {
	var b strings.Builder
	Table(&b, Result{
		Summaries: []collector.Summary{
			{Point: "t0_c1", Concurrency: 1, View: "client", AverageAL: 1.5666, ClientAL: 1.5666, ServerAL: 2.72, OutputTPS: 1234.56, OutputTPSPerGPU: 308.64,
				DecodeTPSPerUser: 98.76, TTFTMean: 0.0123, BlocksCame: 4, BlocksExpected: 12, Audit: collector.AuditExact, Warnings: []string{"steps without drafts", "the views differ: server 2.720, client 1.567"}},
			{Point: "t0.6_c32", Temperature: 0.6, Concurrency: 32, View: "server", AverageAL: 3, ClientAL: 2.995, ServerAL: 3, BlocksCame: 6, BlocksExpected: 6, Audit: collector.AuditNone},
			{Point: "t1_c1", Temperature: 1, Concurrency: 1, View: "server", AverageAL: 3, ClientAL: 2.5, ServerAL: 3, BlocksCame: 6, BlocksExpected: 6, Audit: collector.AuditForeign},
			{Point: "t1_c2", Temperature: 1, Concurrency: 2, View: "client", AverageAL: 2.5, ClientAL: 2.5, Audit: collector.AuditDiffers},
		},
		Failed: []FailedPoint{{Point: PlannedPoint{Name: "t1_c8", Temperature: 1, Concurrency: 8, Own: 8}, Dir: "out/t1_c8.failed", Reason: "2 of 6 requests failed", FailedRequests: 2}},
		NotRun: []string{"t1_c16", "t1_c32"},
	})
	want := `
┌─────────────┬─────────────┬──────────────────────┬──────────────┬─────────┬──────────────┬─────────┬────────┬─────────────┬──────────────┐
│ temperature │ concurrency │           Average_AL │ output tok/s │ per GPU │ decode tok/s │ TTFT ms │ failed │ blocks came │ audit        │
│             │             │                      │              │         │     per user │         │        │             │              │
├─────────────┼─────────────┼──────────────────────┼──────────────┼─────────┼──────────────┼─────────┼────────┼─────────────┼──────────────┤
│           0 │           1 │ 1.567 (server 2.720) │       1234.6 │   308.6 │         98.8 │    12.3 │      0 │     4 of 12 │ exact        │
│         0.6 │          32 │                3.000 │          0.0 │     0.0 │            - │     0.0 │      0 │      6 of 6 │ no metrics   │
│           1 │           1 │ 3.000 (client 2.500) │          0.0 │     0.0 │            - │     0.0 │      0 │      6 of 6 │ foreign load │
│           1 │           2 │                2.500 │          0.0 │     0.0 │            - │     0.0 │      0 │           - │ differs      │
│           1 │           8 │               failed │            - │       - │            - │       - │      2 │           - │ -            │
└─────────────┴─────────────┴──────────────────────┴──────────────┴─────────┴──────────────┴─────────┴────────┴─────────────┴──────────────┘
t0_c1: steps without drafts
t1_c8 failed: 2 of 6 requests failed
t1_c8: records and error.json are in out/t1_c8.failed
not run: t1_c16, t1_c32
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("got:%s\nwant:%s", got, want)
	}
}

// Columns and notes that only some sweeps have: a steady window that means
// something, and an SLO.
func TestTableOfLoad(t *testing.T) {
	window := func(rate float64, short string) *collector.Steady {
		return &collector.Steady{Window: &collector.SteadyWindow{OutputTPS: rate, TooShort: short, Interval: collector.Interval{Low: rate - 20, High: rate + 20, Known: true}}}
	}
	unsure := window(80, "")
	unsure.Window.Interval = collector.Interval{Reason: "too few blocks"}
	slo := collector.SLO{TTFT: 0.2, Share: 0.95}
	var b strings.Builder
	Table(&b, Result{
		Summaries: []collector.Summary{
			{Point: "t0_c1", Concurrency: 1, OutputTPS: 90, OutputTPSPerGPU: 90, Steady: unsure, Audit: collector.AuditExact,
				Goodput: &collector.Goodput{SLO: slo, Verdict: collector.SLOMet, Reason: "n shows it", Share: 1, Interval: collector.Interval{Low: 0.96, High: 1, Known: true}}},
			{Point: "t0_c8", Concurrency: 8, OutputTPS: 500, OutputTPSPerGPU: 500, Steady: window(600, ""), Audit: collector.AuditExact,
				Goodput: &collector.Goodput{SLO: slo, Verdict: collector.SLOMissed, Reason: "n shows less", Share: 0.5}},
			{Point: "t0_c32", Concurrency: 32, OutputTPS: 700, OutputTPSPerGPU: 700, Steady: window(900, "31 requests ended"), Audit: collector.AuditExact},
			{Point: "t0_c99", Concurrency: 99, OutputTPS: 700, OutputTPSPerGPU: 700, Steady: &collector.Steady{NoWindow: "never"}, Audit: collector.AuditExact},
		},
		Failed: []FailedPoint{{Point: PlannedPoint{Name: "t1_c8", Temperature: 1, Concurrency: 8, Own: 8}, Reason: "why", FailedRequests: 2}},
	})
	want := `
┌─────────────┬─────────────┬────────────┬──────────────┬──────────────┬──────────────┬─────────┬─────────────────────────┬────────┬─────────────┬───────┐
│ temperature │ concurrency │ Average_AL │ output tok/s │ steady tok/s │ decode tok/s │ TTFT ms │              within SLO │ failed │ blocks came │ audit │
│             │             │            │              │              │     per user │         │                         │        │             │       │
├─────────────┼─────────────┼────────────┼──────────────┼──────────────┼──────────────┼─────────┼─────────────────────────┼────────┼─────────────┼───────┤
│           0 │           1 │      0.000 │         90.0 │         80.0 │            - │     0.0 │ 100.0 % (96.0 to 100.0) │      0 │           - │ exact │
│           0 │           8 │      0.000 │        500.0 │ 600.0 ± 20.0 │            - │     0.0 │                  50.0 % │      0 │           - │ exact │
│           0 │          32 │      0.000 │        700.0 │            - │            - │     0.0 │                       - │      0 │           - │ exact │
│           0 │          99 │      0.000 │        700.0 │            - │            - │     0.0 │                       - │      0 │           - │ exact │
│           1 │           8 │     failed │            - │            - │            - │       - │                       - │      2 │           - │ -     │
└─────────────┴─────────────┴────────────┴──────────────┴──────────────┴──────────────┴─────────┴─────────────────────────┴────────┴─────────────┴───────┘
temperature 0, ttft=200ms for 95.0 % of the requests: concurrency 1 is the largest measured that meets it; n shows it; concurrency 8: n shows less
no steady state that means something in t0_c32, t0_c99: performance.json says why
steady tok/s without ± in t0_c1: too few blocks
t1_c8 failed: why
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("got:%s\nwant:%s", got, want)
	}
}

// What began and ended is said with the time in which it was counted, or why not.
func TestOpenLoopText(t *testing.T) {
	begun, finished := 20.0, 14.5
	o := &collector.OpenLoop{Rate: 20, Window: 4, Begun: &begun, Finished: &finished}
	if got := openLoopText(o); !strings.Contains(got, "; of 20 conversations/s 20.0 began and 14.5 ended in the second half of the 4 s of arrivals; ") {
		t.Errorf("got %s", got)
	}
	o = &collector.OpenLoop{Rate: 20, Window: 4, NoRates: "1 of 1 began"}
	if got := openLoopText(o); !strings.Contains(got, "; how many of 20 conversations/s began and ended cannot be said: 1 of 1 began; ") {
		t.Errorf("got %s", got)
	}
}

// The line of a running point, on a terminal and without one.
func TestProgress(t *testing.T) {
	clock := time.Unix(1000, 0)
	f := func(terminal bool, want string) {
		t.Helper()
		var b strings.Builder
		p := newProgress(&b, terminal, func() time.Time { return clock })
		p.points = 2
		p.point()
		p.stage("t0_c8", 160)
		p.show()
		p.aside(func() { b.WriteString("request failed\n") })
		for i := range 40 {
			p.began()
			p.ended(i > 0)
		}
		for range 8 {
			p.began()
		}
		clock = clock.Add(10 * time.Second)
		p.show()
		p.pointDone(pointResult{point: PlannedPoint{Name: "t0_c8"}, summary: collector.Summary{AverageAL: 2.5, OutputTPS: 100}})
		p.show() // no point runs
		if got := b.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	first, second, done := "t0_c8 (point 1 of 2)  0 of 160 requests, 0 in flight, 0 failed", "t0_c8 (point 1 of 2)  40 of 160 requests, 4.0/s, 30s left, 8 in flight, 1 failed", "t0_c8  done in 10s: Average_AL 2.500, 100.0 tok/s\n"
	failed := "request failed\n" // the log's line, for which a terminal is cleared
	f(false, first+"\n"+failed+second+"\n"+done)
	f(true, first+"\r\x1b[K"+failed+second+"\r\x1b[K"+done)
}

// Waiting is said at once, and then every 30 s.
func TestWaitProgress(t *testing.T) {
	clock := time.Unix(1000, 0)
	var b strings.Builder
	p := newProgress(&b, false, func() time.Time { return clock })
	for i := range 61 {
		p.wait("no connection", time.Duration(i)*time.Second, time.Hour)
		clock = clock.Add(time.Second)
	}
	if got := strings.Count(b.String(), "waiting"); got != 3 {
		t.Errorf("got %d lines in 61 s, want 3:\n%s", got, b.String())
	}
}
