package compare

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const goldenRuns = "../testdata/golden/specdec_bench"

// The AL of each folder that specdec_bench wrote, whole and by category, is the one
// in the file; and no folder differs from itself.
func TestFoldersOfSpecdecBench(t *testing.T) {
	entries, err := os.ReadDir(goldenRuns)
	if err != nil || len(entries) < 20 {
		t.Fatalf("got %d cases, %v", len(entries), err)
	}
	for _, e := range entries {
		dir := filepath.Join(goldenRuns, e.Name())
		var files []struct {
			Average    float64            `json:"Average_AL"`
			Categories map[string]float64 `json:"Category_AL"`
		}
		body, err := os.ReadFile(filepath.Join(dir, "acceptance_rate.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(body, &files); err != nil {
			t.Fatal(err)
		}
		r := compared(t, Options{}, dir, dir)
		f := figure(t, r, e.Name(), "AL")
		near(t, e.Name(), f.A, files[0].Average, 1e-9)
		if *f.Difference.Value != 0 || f.N > 1 && (!f.Difference.Known || f.Verdict != NotShown) {
			t.Errorf("%s: got %+v, want no difference from itself", e.Name(), f.Difference)
		}
		if e.Name() == "specbench_repeated_id" { // specdec_bench counts a repeated id twice in its category
			continue
		}
		for category, al := range files[0].Categories {
			near(t, e.Name()+" "+category, figure(t, r, e.Name(), "AL["+category+"]").A, al, 1e-9)
		}
	}
}

// One question on both sides is no pair, and is not said to be on one side alone.
func TestOneQuestion(t *testing.T) {
	dir := filepath.Join(goldenRuns, "single_request")
	r := compared(t, Options{}, dir, dir)
	if slices.ContainsFunc(r.Comparisons[0].Differences, func(d Difference) bool { return d.What == "questions" }) || r.Comparisons[0].Points[0].Pairing.Reason == "" {
		t.Errorf("got %+v, want no difference of questions, and why there is no pair", r.Comparisons[0].Differences)
	}
}

// Two runs that were appended to one folder's files are two runs.
func TestAppendedRuns(t *testing.T) {
	dir := filepath.Join(goldenRuns, "appended_run")
	in := open(t, dir)
	if len(in.Points) != 1 || len(in.Points[0].runs) != 2 {
		t.Fatalf("got %+v, want one point with two runs", in.Points)
	}
	f := figure(t, compared(t, Options{}, dir, dir), "appended_run", "tps")
	near(t, "Output TPS", f.A, 63.71175921348932, 1e-9)
	if f.RunsA != 2 {
		t.Errorf("got %d runs, want 2", f.RunsA)
	}
}

// MT-Bench whole and cut short: the questions are of the same places but other
// texts here, so they are no pairs.
func TestFoldersOfOtherQuestions(t *testing.T) {
	a, b := filepath.Join(goldenRuns, "mtbench_80x2"), filepath.Join(goldenRuns, "mtbench_23")
	r := compared(t, Options{}, a, b)
	c := r.Comparisons[0]
	f := figure(t, r, "mtbench_80x2", "AL")
	if f.Paired || c.Points[0].Pairing.By != byNone || c.Points[0].PointB != "mtbench_23" {
		t.Errorf("got %+v of %+v, want two samples", f, c.Points[0].Pairing)
	}
	if !f.Difference.Known || f.Difference.Low > *f.Difference.Value || f.Difference.High < *f.Difference.Value {
		t.Errorf("got %+v, want an interval around the difference", f.Difference)
	}
}

// The metrics average differently: their numbers are not compared.
func TestOtherMetricsAreRefused(t *testing.T) {
	_, err := Compare([]Input{open(t, filepath.Join(goldenRuns, "generic")), open(t, filepath.Join(goldenRuns, "specbench_mixed"))}, Options{})
	if err == nil || !strings.Contains(err.Error(), "metric (AcceptanceRate and SpecBench)") {
		t.Errorf("got %v, want a refusal that names both metrics", err)
	}
}

// The share of chunks of at least a length is told without an interval: the file
// does not say whose they are. Between two lengths that occur it is the next one's.
func TestJointRates(t *testing.T) {
	dir := filepath.Join(goldenRuns, "mtbench_10")
	copied := filepath.Join(t.TempDir(), "mtbench_10")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	f := figure(t, compared(t, Options{}, dir, copied), "mtbench_10", "joint[2]")
	near(t, "chunks of at least 2", f.A, 0.5818505338078291, 1e-12) // Joint_Acceptance_Rate
	if f.Difference.Known || f.Verdict != CannotBeTold {
		t.Errorf("got %+v, want no interval", f.Difference)
	}
	j := jointShares{1: 1, 2: 0.5, 4: 0.25}
	for n, want := range map[int]float64{1: 1, 2: 0.5, 3: 0.25, 4: 0.25, 5: 0} {
		if got := j.atLeast(n); got != want {
			t.Errorf("at least %d: got %v, want %v", n, got, want)
		}
	}
}
