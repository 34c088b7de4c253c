package sweep

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spectap/collector"
)

// plain answers as a server that does not speculate.
func plain(q sent) answer {
	a := echo(q)
	a.noBlock, a.completion = true, 2
	return a
}

// A baseline takes one short request to begin, asks as every sweep does, and has
// times, records and responses, but no acceptance.
func TestBaseline(t *testing.T) {
	s := newScripted(t, plain)
	s.noDrafts = true
	p := plan(t, s, Config{Baseline: true})
	sw := newSweep(p, s)
	sw.write = nil
	result, err := sw.Run(context.Background())
	if err != nil || len(result.Failed) > 0 || len(result.Summaries) != 1 {
		t.Fatalf("got %+v, %v", result, err)
	}
	if n := len(s.sent) - len(s.requests()); n != 1 {
		t.Errorf("got %d requests before the point, want 1", n)
	}
	want := []string{"configuration.json", "mtbench_responses.jsonl", "performance.json", "records.jsonl", "speculation.json", "timing.json"}
	if got := entries(t, filepath.Join(p.Config.SaveDir, "t0_c1")); !slices.Equal(got, want) {
		t.Errorf("got files %v, want %v", got, want)
	}
	row := result.Summaries[0]
	if !row.Baseline || row.AverageAL != 0 || row.Requests != 6 || row.Audit != collector.AuditExact || len(row.Warnings) > 0 {
		t.Errorf("got row %+v", row)
	}
	run := readRecords(t, filepath.Join(p.Config.SaveDir, "t0_c1"))[0].Run
	if !run.Baseline || !run.NoSpecStats || !strings.Contains(string(run.Configuration), `"baseline": true`) {
		t.Errorf("got run %+v", run)
	}
	book, err := os.ReadFile(filepath.Join(p.Config.SaveDir, "sweep.json"))
	if err != nil || strings.Contains(string(book), "average_al") || !strings.Contains(string(book), `"baseline": true`) {
		t.Errorf("got %v\n%s", err, book)
	}
	table, err := os.ReadFile(filepath.Join(p.Config.SaveDir, "summary.csv"))
	if err != nil || !strings.Contains(string(table), ",complete,0,1,3,6,0,,,,,") {
		t.Errorf("got %v\n%s", err, table)
	}
	var b strings.Builder
	Table(&b, result)
	if !strings.Contains(b.String(), "│   baseline │") {
		t.Errorf("got table\n%s", b.String())
	}
}

// A baseline can be repeated, and gone on with; its repeats have times alone.
func TestBaselineRepeatsAndResume(t *testing.T) {
	c := newCampaign(t)
	c.s.noDrafts = true
	c.s.script = plain
	c.cfg.Baseline, c.cfg.Repeats = true, 2
	result := c.must(nil, "t0_c1", "t0_c2", "t0_c2_r2", "t0_c1_r2")
	var table strings.Builder
	if Table(&table, result); strings.Count(table.String(), "│   baseline │") != 2 {
		t.Errorf("got table\n%s", table.String())
	}
	book, err := os.ReadFile(filepath.Join(c.cfg.SaveDir, collector.FileBook))
	if err != nil || strings.Contains(string(book), "average_al") || !strings.Contains(string(book), collector.FigureTTFT) {
		t.Errorf("got %v\n%s", err, book)
	}
	if err := os.RemoveAll(filepath.Join(c.cfg.SaveDir, "t0_c2")); err != nil {
		t.Fatal(err)
	}
	c.must(nil, "t0_c2")
	c.must(nil)
	c.refuses(func(cfg *Config) { cfg.Baseline = false }, "baseline")
	if err := os.Remove(filepath.Join(c.cfg.SaveDir, "t0_c1", "timing.json")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.must(nil, "t0_c1").Warnings, "\n"); !strings.Contains(got, "t0_c1 is not kept, it is set aside and runs again: its files are damaged: timing.json: it is missing") {
		t.Errorf("got warnings %q, want the file that is missing", got)
	}
}

// A baseline needs no count on each event, but the reply's tokens.
func TestBaselineUsageAlone(t *testing.T) {
	s := newScripted(t, func(q sent) answer {
		a := plain(q)
		a.noCounts = true
		return a
	})
	s.noDrafts = true
	p := plan(t, s, Config{Baseline: true, Measure: "usage"})
	sw := newSweep(p, s)
	sw.write = nil
	if result, err := sw.Run(context.Background()); err != nil || len(result.Summaries) != 1 || result.Summaries[0].OutputTPS <= 0 {
		t.Errorf("got %+v, %v", result, err)
	}
}

// A server that speculates is no baseline, whether its answers or its counters
// say so.
func TestBaselineRefused(t *testing.T) {
	f := func(noDrafts bool, script func(sent) answer, want string) {
		t.Helper()
		s := newScripted(t, script)
		s.noDrafts = noDrafts
		_, err := newSweep(plan(t, s, Config{Baseline: true}), s).Run(context.Background())
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "spectap launch --baseline") {
			t.Errorf("got %v, want %q", err, want)
		}
		if n := len(s.requests()); n > 0 {
			t.Errorf("got %d requests, want none", n)
		}
	}
	f(true, echo, "this one reports speculative decoding with each request")
	f(false, plain, "this one counts drafts on /metrics")
	cfg := valid(t)
	cfg.Baseline, cfg.Acceptance, cfg.Driver = true, "server", DriverAIPerf
	refused(t, cfg, "--acceptance server with --baseline", "--baseline with --driver aiperf")
}
