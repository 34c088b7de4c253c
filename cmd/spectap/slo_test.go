package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"spectap/collector"
)

// An SLO is judged by the sweep, again by a collection, and by a collection of
// another mind.
func TestSLO(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	dir := t.TempDir()
	stdout, _ := mustSpectap(t, 0, "sweep", "--url", url, "--mtbench", writeQuestions(t, 4), "--concurrency", "2", "4", "--output_length", "8",
		"--slo", "ttft=1h,tpot=1h", "--slo-share", "0.3", "--save_dir", dir)
	if !strings.Contains(stdout, "concurrency 4 is the largest measured that meets it; n = 8 requests of 4 conversations shows that at least") || !strings.Contains(stdout, "within SLO") {
		t.Errorf("got table\n%s", stdout)
	}
	var file struct {
		Points []collector.Summary
		SLO    []collector.SLOAnswer `json:"slo_answers"`
	}
	readJSON(t, filepath.Join(dir, "sweep.json"), &file)
	if len(file.SLO) != 1 || file.SLO[0].Point != "t0_c4" || file.SLO[0].Concurrency != 4 {
		t.Errorf("got answers %+v", file.SLO)
	}
	if g := file.Points[1].Goodput; g == nil || g.Within != 8 || g.Verdict != collector.SLOMet || g.SLO != (collector.SLO{TTFT: 3600, TPOT: 3600, Share: 0.3}) || file.Points[1].Steady == nil {
		t.Errorf("got row %+v", file.Points[1])
	}
	again, other := t.TempDir(), t.TempDir()
	mustSpectap(t, 0, "collect", filepath.Join(dir, "t0_c4", "records.jsonl"), "--save_dir", again)
	sameFiles(t, filepath.Join(dir, "t0_c4"), again, "performance.json")
	stdout, _ = mustSpectap(t, 0, "collect", "--slo", "e2e=1ns", filepath.Join(dir, "t0_c4", "records.jsonl"), "--save_dir", other)
	if !strings.Contains(stdout, "t0_c4: e2e=1ns: n = 8 requests of 4 conversations shows that at most") {
		t.Errorf("got %s", stdout)
	}
}

// What a command of somebody else's asked is judged, too, at a load that was told and
// at one that was seen. A share of 0 is refused.
func TestSLOOfACommand(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	questions := writeQuestions(t, 4)
	run := func(code int, flags ...string) (dir, stderr string) {
		dir = t.TempDir()
		args := append([]string{"exec", "--url", url, "--save_dir", dir, "--mtbench", questions, "--no_report"}, flags...)
		_, stderr = execSpectap(t, code, nil, append(append(args, "--"), testProcess("--questions", questions, "-n", "4", "-c", "2")...)...)
		return dir, stderr
	}
	dir, stderr := run(0, "--temperature", "0", "--concurrency", "2", "--slo", "ttft=1h,tpot=1h", "--slo_share", "0.3")
	if !strings.Contains(stderr, "concurrency 2 is the largest measured that meets it; n = 8 requests of 4 conversations shows that at least") {
		t.Errorf("got\n%s", stderr)
	}
	var file struct{ Goodput *collector.Goodput }
	readJSON(t, filepath.Join(dir, "t0_c2", "performance.json"), &file)
	if g := file.Goodput; g == nil || g.Within != 8 || g.SLO != (collector.SLO{TTFT: 3600, TPOT: 3600, Share: 0.3}) {
		t.Errorf("got %+v", g)
	}
	again := t.TempDir() // of the records alone
	mustSpectap(t, 0, "collect", filepath.Join(dir, "t0_c2", "records.jsonl"), "--save_dir", again)
	sameFiles(t, filepath.Join(dir, "t0_c2"), again, "performance.json")

	if _, stderr := run(0, "--slo", "e2e=1ns"); !strings.Contains(stderr, ": met at no load that was measured; concurrency 2: n = 8 requests of 4 conversations shows that at most") {
		t.Errorf("got\n%s", stderr)
	}
	if _, stderr := run(2, "--slo", "ttft=fast", "--slo_share", "0"); !strings.Contains(stderr, "--slo_share 0") || !strings.Contains(stderr, "fast") {
		t.Errorf("got\n%s", stderr)
	}
}

// Several runs of a point are judged together, by the sweep, by a collection of its
// folder, and in the report.
func TestSLOOfRuns(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	dir, again := t.TempDir(), t.TempDir()
	const want = "concurrency 4 is the largest measured that meets it; n = 24 requests of 4 conversations in 3 runs shows that at least"
	stdout, _ := mustSpectap(t, 0, "sweep", "--url", url, "--mtbench", writeQuestions(t, 4), "--concurrency", "2", "4", "--output_length", "8",
		"--repeats", "3", "--slo", "ttft=1h,tpot=1h", "--slo-share", "0.3", "--save_dir", dir)
	if !strings.Contains(stdout, want) || !strings.Contains(stdout, "100.0 % (") {
		t.Errorf("got table\n%s", stdout)
	}
	type book struct {
		Repeats []collector.Repeats
		SLO     []collector.SLOAnswer `json:"slo_answers"`
	}
	var first, second book
	readJSON(t, filepath.Join(dir, "sweep.json"), &first)
	stdout, _ = mustSpectap(t, 0, "collect", dir, "--save_dir", again)
	readJSON(t, filepath.Join(again, "sweep.json"), &second)
	if !strings.Contains(stdout, want) || len(first.SLO) != 1 || first.SLO[0].Point != "t0_c4" || !reflect.DeepEqual(first, second) {
		t.Errorf("got %+v, and collected %+v\n%s", first, second, stdout)
	}
	if g := first.Repeats[1].Goodput; g == nil || g.Runs != 3 || g.Within != 24 || g.Verdict != collector.SLOMet {
		t.Errorf("got %+v", g)
	}
	page, err := os.ReadFile(filepath.Join(again, "report.html"))
	if err != nil || !strings.Contains(string(page), "t0_c4, 3 runs together") || !strings.Contains(string(page), want[:60]) || !strings.Contains(string(page), "24 of 24") {
		t.Errorf("got %d bytes of a report without the runs together (%v)", len(page), err)
	}
}

func TestSLOErrors(t *testing.T) {
	_, stderr := mustSpectap(t, exitUsage, "sweep", "--slo", "ttft=200,latency=1s", "--slo_share", "0", "--concurrency", "0")
	for _, want := range []string{`--slo "ttft=200"`, `--slo "latency=1s": known are ttft, tpot, e2e, gap`, "--slo_share 0", "--concurrency", "--url is not set"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("got %s, want %q in it", stderr, want)
		}
	}
	for _, args := range [][]string{{"--slo", "ttft=1"}, {"--slo", "ttft=1s", "--format", "parquet"}, {"--slo", "ttft=1s", "--slo_share", "1.5"}} {
		if _, stderr := mustSpectap(t, exitUsage, append([]string{"collect", "no.jsonl", "--save_dir", t.TempDir()}, args...)...); !strings.Contains(stderr, "--slo") {
			t.Errorf("%v: got %s", args, stderr)
		}
	}
}
