package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spectap/collector/compare"
)

// Two sweeps of engines that accept differently: the comparison of their folders
// says by how much, whatever it is printed as, and the gate answers with its codes.
func TestCompareSweeps(t *testing.T) {
	old, worse := fastEngine(), fastEngine()
	old.DraftLength, old.Acceptance = 3, []float64{0.8, 0.7, 0.6}
	worse.Seed, worse.DraftLength, worse.Acceptance = 8, 3, []float64{0.6, 0.7, 0.6}
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	questions := writeQuestions(t, 40)
	for dir, engine := range map[string]string{a: urlOf(serveEngine(t, old)), b: urlOf(serveEngine(t, worse))} {
		mustSpectap(t, 0, "sweep", "--url", engine, "--mtbench", questions, "--temperature", "0", "--concurrency", "2", "8", "--output_length", "96", "--save_dir", dir)
	}
	stdout, _ := mustSpectap(t, 0, "compare", a, b, "--format", "json")
	var r compare.Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Comparisons) != 1 || len(r.Comparisons[0].Points) != 2 || len(r.Comparisons[0].Differences) != 0 {
		t.Fatalf("got %d comparisons, %+v, want one of two points whose settings are the same", len(r.Comparisons), r.Comparisons[0].Differences)
	}
	for _, p := range r.Comparisons[0].Points {
		if p.Pairing.By != "question" || p.Pairing.Pairs != 40 {
			t.Errorf("%s: got %+v, want 40 questions paired by their text", p.Point, p.Pairing)
		}
		truths := map[string]float64{"1": 0.6 - 0.8, "2": 0.6*0.7 - 0.8*0.7, "3": 0.6*0.7*0.6 - 0.8*0.7*0.6}
		for _, f := range p.Figures {
			if truth, ok := truths[f.Key]; ok && f.Quantity == compare.QuantityAcceptance && (f.Difference.Low > truth || f.Difference.High < truth || f.Verdict != compare.Lower) {
				t.Errorf("%s: accepted at %s: got %+v, want a difference around %v", p.Point, f.Key, f.Difference, truth)
			}
		}
	}
	mustSpectap(t, exitGateFailed, "compare", a, b, "--fail-if", "AL < -0.05")
	mustSpectap(t, 0, "compare", b, a, "--fail_if", "AL < -0.05", "--fail_if", "acceptance[1] < 0")
	mustSpectap(t, exitInconclusive, "compare", a, b, "--fail-if", "tps < -99%") // one run each
	failed := filepath.Join(t.TempDir(), "failed")
	if err := os.MkdirAll(filepath.Join(failed, "t0_c2.failed"), 0o777); err != nil {
		t.Fatal(err)
	}
	mustSpectap(t, exitInconclusive, "compare", a, failed, "--fail-if", "AL < -0.05")
	mustSpectap(t, exitUsage, "compare", a, failed)
	mustSpectap(t, exitUsage, "compare", failed, a, "--fail-if", "AL < -0.05")
	compareExits(t, a, b)
	for format, want := range map[string]string{"text": "Acceptance length (client view), B - A", "markdown": "| t0_c2 |", "csv": "A,B,t0_c2,t0_c2,AL,overall"} {
		if stdout, _ := mustSpectap(t, 0, "compare", a, b, "--format", format, "--points", "t0_c2"); !strings.Contains(stdout, want) || strings.Contains(stdout, "t0_c8 ") {
			t.Errorf("--format %s does not say %q, or compares what was left out:\n%s", format, want, stdout)
		}
	}
	filesAlone(t, a)
}

// compareExits holds the exit codes against what help and README say of them, where
// b is worse than a.
func compareExits(t *testing.T, a, b string) {
	t.Helper()
	copied := func(of string) string {
		dir := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(dir, os.DirFS(of)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	spoil := func(dir, point string) {
		if err := os.WriteFile(filepath.Join(dir, point, "records.jsonl"), []byte("not JSON\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	better, worse := copied(a), copied(b)
	spoil(better, "t0_c8")
	spoil(worse, "t0_c8")
	mustSpectap(t, exitFailed, "compare", a, better)
	mustSpectap(t, exitInconclusive, "compare", b, better, "--fail-if", "AL < -0.05")
	mustSpectap(t, exitInconclusive, "compare", better, better, "--fail-if", "AL < -0.05")
	mustSpectap(t, 0, "compare", b, better, "--fail-if", "AL < -0.05", "--points", "t0_c2")
	mustSpectap(t, exitGateFailed, "compare", a, worse, "--fail-if", "AL < -0.05")
	spoil(better, "t0_c2")
	mustSpectap(t, exitInconclusive, "compare", b, better, "--fail-if", "AL < -0.05")
	mustSpectap(t, exitUsage, "compare", b, better)
	if _, stderr := mustSpectap(t, exitUsage, "compare", filepath.Join(a, "none"), b, "--fail-if", "AL < -0.05"); !strings.Contains(stderr, "no such file") {
		t.Errorf("got %q, want that there is no such input", stderr)
	}
}

// The exit codes in compare's help are those in the README, and the code's.
func TestReadmeCompareExits(t *testing.T) {
	help, _ := mustSpectap(t, 0, "compare", "--help")
	of := func(text, end string) string {
		_, text, _ = strings.Cut(text, "Exit codes: ")
		text, _, _ = strings.Cut(text, end)
		return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "`", "")
	}
	got, want := of(help, "\n\n"), of(section(t, "Compare"), "\n")
	if got != want || got == "" {
		t.Errorf("help says\n%s\nREADME.md says\n%s", got, want)
	}
	for code, text := range map[int]string{0: "compared, or the gate passes", exitFailed: "compared without a folder or file", exitUsage: "usage, an input that is missing", exitGateFailed: "the gate fails", exitInconclusive: "the gate cannot tell"} {
		if !strings.Contains(got, fmt.Sprintf("%d %s", code, text)) {
			t.Errorf("help does not say that %d is %q: %s", code, text, got)
		}
	}
}

func urlOf(url, _ string) string { return url }

// filesAlone compares a sweep's folder with what specdec_bench has of it: the same
// questions without records have the same AL.
func filesAlone(t *testing.T, dir string) {
	t.Helper()
	bare := filepath.Join(t.TempDir(), "bare")
	for _, point := range []string{"t0_c2", "t0_c8"} {
		if err := os.MkdirAll(filepath.Join(bare, point), 0o777); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"configuration.json", "acceptance_rate.json", "timing.json", "mtbench_responses.jsonl"} {
			text, err := os.ReadFile(filepath.Join(dir, point, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(bare, point, name), text, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	stdout, _ := mustSpectap(t, 0, "compare", dir, bare, "--format", "json")
	var r compare.Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Comparisons[0].Points {
		seen := map[string]bool{}
		for _, f := range p.Figures {
			seen[f.Quantity+" "+f.Scope] = true
			if f.Quantity == compare.QuantityTTFT { // four decimals of a second in timing.json, and the engine answers within fewer
				if v := f.Difference.Value; v == nil || math.Abs(*v) > 0.5e-4+1e-9 {
					t.Errorf("%s: %s %s: got %+v, want what rounding makes", p.Point, f.Quantity, f.Scope, f)
				}
				continue
			}
			if v := f.Ratio.Value; v == nil || math.Abs(*v-1) > 1e-4 {
				t.Errorf("%s: %s %s %s: got %+v, want the ratio 1", p.Point, f.Quantity, f.Scope, f.Key, f)
			}
		}
		for _, want := range []string{"AL overall", "AL category", "tps overall", "ttft overall", "tps_request overall"} {
			if !seen[want] {
				t.Errorf("%s: %s is missing", p.Point, want)
			}
		}
		if p.Pairing.By != "question" || p.Pairing.Pairs != 40 {
			t.Errorf("%s: got %+v, want 40 questions paired by their text", p.Point, p.Pairing)
		}
	}
	for _, d := range r.Comparisons[0].Differences {
		t.Errorf("got difference %+v between a folder and its own files", d)
	}
}

func TestCompareRefuses(t *testing.T) {
	dir := t.TempDir()
	f := func(want string, args ...string) {
		t.Helper()
		if _, stderr := mustSpectap(t, exitUsage, append([]string{"compare"}, args...)...); !strings.Contains(stderr, want) {
			t.Errorf("%q: got %q, want %q", args, stderr, want)
		}
	}
	f("want two or more")
	f("want two or more", dir)
	f("has no points", dir, dir)
	f("no such file", filepath.Join(dir, "none"), dir)
	f(`--format "html"`, dir, dir, "--format", "html")
	f(`--match "t0_c8"`, dir, dir, "--match", "t0_c8")
	// all that is wrong is told at once
	f("no quantity", dir, dir, "--fail-if", "speed < 1", "--format", "xml")
	f(`--format "xml"`, dir, dir, "--fail-if", "speed < 1", "--format", "xml")
}

// A server without speculation is a baseline: what speculation brings is its
// speed-up by load, and AL is not compared.
func TestCompareBaseline(t *testing.T) {
	plain := fastEngine()
	plain.NoSpecStats, plain.Acceptance = true, []float64{0, 0, 0, 0, 0}
	baseline, speculative := filepath.Join(t.TempDir(), "baseline"), filepath.Join(t.TempDir(), "speculative")
	questions := writeQuestions(t, 6)
	mustSpectap(t, 0, "sweep", "--url", urlOf(serveEngine(t, plain)), "--no_spec_stats", "--mtbench", questions, "--concurrency", "1", "4", "--output_length", "48", "--save_dir", baseline)
	mustSpectap(t, 0, "sweep", "--url", urlOf(serveEngine(t, fastEngine())), "--mtbench", questions, "--concurrency", "1", "4", "--output_length", "48", "--save_dir", speculative)
	for side, paths := range map[string][2]string{"A": {baseline, speculative}, "B": {speculative, baseline}} {
		stdout, _ := mustSpectap(t, 0, "compare", paths[0], paths[1], "--format", "json")
		var r compare.Result
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatal(err)
		}
		s := r.Comparisons[0].SpeedUp
		if len(s) != 1 || s[0].Baseline != side || len(s[0].Points) != 2 || s[0].Points[1].Load != 4 || s[0].Points[0].Throughput.Value == nil || s[0].PerUser.Text == "" {
			t.Fatalf("got speed-up %+v, want that of two loads over %s", s, side)
		}
		for _, p := range r.Comparisons[0].Points {
			for _, f := range p.Figures {
				if f.Quantity == compare.QuantityAL || f.Quantity == compare.QuantityAcceptance {
					t.Errorf("%s: got %s of a baseline", p.Point, f.Quantity)
				}
			}
		}
	}
}
