package compare

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

const (
	configA = `{"model_dir": "/models/m", "mtbench": "q.jsonl", "temperature": 0, "concurrency": 8, "output_length": 256, "draft_length": 3}`
	configB = `{"model_dir": "/models/m", "mtbench": "q.jsonl", "temperature": 0, "concurrency": 8, "output_length": 512, "draft_length": 5}`
)

// Twelve questions of two categories; B is 0.3 better on average.
var (
	alsA = []float64{2, 3, 4, 3, 2.5, 3.5, 2.2, 2.8, 3.1, 2.9, 1.5, 1.7}
	alsB = []float64{2.5, 3.2, 4.3, 3.1, 3.0, 3.6, 2.8, 2.9, 3.5, 3.2, 1.6, 2.1}
)

func TestPairedByHand(t *testing.T) {
	dir := t.TempDir()
	a := benchRun{als: alsA, tps: 1000, ttft: 0.1, config: configA}.write(t, filepath.Join(dir, "a"))
	b := benchRun{als: alsB, tps: 1200, ttft: 0.08, config: configB}.write(t, filepath.Join(dir, "b"))
	r := compared(t, Options{}, a, b)
	f := figure(t, r, "t0_c8", "AL")
	// The mean of the differences, exactly.
	near(t, "difference", f.Difference.Value, 0.3, 1e-12)
	near(t, "A", f.A, 2.6833333333333336, 1e-12)
	if f.N != 12 || !f.Paired || f.Verdict != Higher {
		t.Errorf("got n %d, paired %v, verdict %q, want 12, true, higher", f.N, f.Paired, f.Verdict)
	}
	// numpy 2.4.6, 1,000,000 resamples of estimate.Ratio's method; scipy 1.17.1's Student's t,
	// scipy.stats.ttest_rel(b, a).confidence_interval(), is narrower: 0.1851 to 0.4149.
	near(t, "low", f.Difference.low(), 0.17148, 0.01)
	near(t, "high", f.Difference.high(), 0.44241, 0.01)
	near(t, "smallest", f.Smallest, 0.160665763129222, 1e-9) // (t.ppf(0.975, 11) + t.ppf(0.8, 11)) * d.std(ddof=1) / 12**0.5
	near(t, "writing", figure(t, r, "t0_c8", "AL[writing]").Difference.Value, 0.31, 1e-12)
	near(t, "roleplay", figure(t, r, "t0_c8", "AL[roleplay]").Difference.Value, 0.25, 1e-12)
	if tps := figure(t, r, "t0_c8", "tps"); *tps.Ratio.Value != 1.2 || tps.Ratio.Known || tps.Ratio.Reason != "no interval: one run each" {
		t.Errorf("got throughput %+v, want 1.2 without an interval: one run each", tps.Ratio)
	}
	want := map[string]Level{"output limit": warn, "draft length": note}
	for _, d := range r.Comparisons[0].Differences {
		if want[d.What] != d.Level {
			t.Errorf("got difference %+v", d)
		}
		delete(want, d.What)
	}
	if len(want) > 0 {
		t.Errorf("differences that were not named: %v", want)
	}
}

func TestRefusesModels(t *testing.T) {
	dir := t.TempDir()
	a := benchRun{als: alsA, config: configA}.write(t, filepath.Join(dir, "a"))
	b := benchRun{als: alsB, config: strings.Replace(configB, "/models/m", "/models/other", 1)}.write(t, filepath.Join(dir, "b"))
	_, err := Compare([]Input{open(t, a), open(t, b)}, Options{})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "model (/models/m and /models/other)") {
		t.Errorf("got %v, want a refusal that names both models", err)
	}
	if r := compared(t, Options{Force: true}, a, b); !r.Comparisons[0].Forced {
		t.Error("a forced comparison does not say so")
	}
}

// Questions that are not the same make two samples: Welch's interval, which is wider.
func TestUnpaired(t *testing.T) {
	dir := t.TempDir()
	a := benchRun{als: alsA, config: configA}.write(t, filepath.Join(dir, "a"))
	b := benchRun{als: alsB, config: configA}.write(t, filepath.Join(dir, "b"))
	for side, dir := range map[string]string{"x": a, "y": b} {
		var lines strings.Builder
		for i := range alsA {
			fmt.Fprintf(&lines, "{\"question_id\": %d, \"turns\": [\"%s %d\", \"and then?\"]}\n", 81+i, side, i)
		}
		put(t, filepath.Join(dir, "mtbench_responses.jsonl"), lines.String())
	}
	r := compared(t, Options{}, a, b)
	f := figure(t, r, "t0_c8", "AL")
	if p := r.Comparisons[0].Points[0].Pairing; f.Paired || p.By != "none" || p.Reason == "" || p.OnlyA != 12 || p.OnlyB != 12 {
		t.Errorf("got paired %v, %+v, want no pairs, and why", f.Paired, p)
	}
	// scipy 1.17.1: scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval()
	near(t, "difference", f.Difference.Value, 0.3, 1e-12)
	near(t, "low", f.Difference.low(), -0.30934787770313144, 1e-9)
	near(t, "high", f.Difference.high(), 0.909347877703132, 1e-9)
	if f.Verdict != NotShown {
		t.Errorf("got verdict %q, want no difference shown", f.Verdict)
	}
}

// With a part of the questions in common, those are the comparison.
func TestPartlyPaired(t *testing.T) {
	dir := t.TempDir()
	a := benchRun{als: alsA, config: configA}.write(t, filepath.Join(dir, "a"))
	b := benchRun{als: alsB[:5], config: configA}.write(t, filepath.Join(dir, "b"))
	r := compared(t, Options{}, a, b)
	f := figure(t, r, "t0_c8", "AL")
	near(t, "A over the common questions", f.A, (2+3+4+3+2.5)/5, 1e-12)
	near(t, "difference", f.Difference.Value, (0.5+0.2+0.3+0.1+0.5)/5, 1e-12)
	p := r.Comparisons[0].Points[0].Pairing
	if f.N != 5 || p.Pairs != 5 || p.OnlyA != 7 || p.OnlyB != 0 || !strings.Contains(r.Text(), "7 of A and 0 of B have no partner") {
		t.Errorf("got n %d, %+v, want 5 pairs and 7 questions of A told", f.N, p)
	}
}

// Runs of one point are one point; throughput has an interval from two runs a side on.
func TestRepeats(t *testing.T) {
	dir := t.TempDir()
	for side, runs := range map[string][]float64{"a": {1000, 1020, 990}, "b": {1200, 1180, 1250, 1210}} {
		for i, tps := range runs {
			als := alsA
			if side == "b" {
				als = alsB
			}
			benchRun{als: als, tps: tps, ttft: 0.1, config: configA}.write(t, filepath.Join(dir, side, fmt.Sprintf("run%d", i)))
		}
	}
	r := compared(t, Options{}, filepath.Join(dir, "a"), filepath.Join(dir, "b"))
	f := figure(t, r, "t0_c8", "tps")
	if f.RunsA != 3 || f.RunsB != 4 {
		t.Errorf("got %d and %d runs, want 3 and 4", f.RunsA, f.RunsB)
	}
	// numpy: mean([1200, 1180, 1250, 1210]) / mean([1000, 1020, 990])
	near(t, "ratio", f.Ratio.Value, 1.2059800664451827, 1e-12)
	// scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval(), and of the logarithms, which the delta method comes near to
	near(t, "low", f.Difference.low(), 161.51709022383682, 1e-6)
	near(t, "high", f.Difference.high(), 251.81624310949644, 1e-6)
	near(t, "low of the ratio", f.Ratio.low(), 1.1601936, 0.001)
	near(t, "high of the ratio", f.Ratio.high(), 1.25321411, 0.001)
	if al := figure(t, r, "t0_c8", "AL"); al.Difference.Scope != otherRuns || al.RunsB != 4 {
		t.Errorf("got %+v, want an interval that holds for other runs", al)
	}
}

func TestMatching(t *testing.T) {
	dir := t.TempDir()
	at := func(concurrency string) string {
		return strings.Replace(configA, `"concurrency": 8`, `"concurrency": `+concurrency, 1)
	}
	benchRun{als: alsA, config: at("8")}.write(t, filepath.Join(dir, "a", "1"))
	benchRun{als: alsA, config: at("32")}.write(t, filepath.Join(dir, "a", "2"))
	benchRun{als: alsB, config: at("16")}.write(t, filepath.Join(dir, "b", "1"))
	benchRun{als: alsB, config: at("64")}.write(t, filepath.Join(dir, "b", "2"))
	a, b := open(t, filepath.Join(dir, "a")), open(t, filepath.Join(dir, "b"))
	_, err := Compare([]Input{a, b}, Options{})
	for _, want := range []string{"t0_c8, t0_c32", "t0_c16, t0_c64", "--match"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q", err, want)
		}
	}
	r, err := Compare([]Input{a, b}, Options{Match: []Match{{"t0_c32", "t0_c64"}}})
	if err != nil {
		t.Fatal(err)
	}
	c := r.Comparisons[0]
	if len(c.Points) != 1 || c.Points[0].Point != "t0_c32" || c.Points[0].PointB != "t0_c64" || len(c.Unmatched) != 2 {
		t.Errorf("got points %+v, unmatched %+v, want one pair and two points without a partner", c.Points, c.Unmatched)
	}
	if len(c.Differences) != 1 || c.Differences[0].What != "load" || c.Differences[0].Level != warn {
		t.Errorf("got differences %+v, want the load", c.Differences)
	}
	for _, name := range []string{"t0_c8 of A has no partner", "t0_c16 of B has no partner", "t0_c32 of A is compared with t0_c64 of B"} {
		if !strings.Contains(r.Text(), name) {
			t.Errorf("the text does not say %q", name)
		}
	}
	if _, err = Compare([]Input{a, b}, Options{Match: []Match{{"t0_c1", "t0_c64"}}}); err == nil || !strings.Contains(err.Error(), `no point "t0_c1"`) {
		t.Errorf("got %v, want an error that names the point", err)
	}
	if _, err = Compare([]Input{a, b}, Options{Match: []Match{{"t0_c8", "t0_c1"}}}); err == nil || !strings.Contains(err.Error(), `no point "t0_c1"`) {
		t.Errorf("got %v, want an error that names the point", err)
	}
	// Folders of one point each are meant to be compared, whatever their names.
	one := compared(t, Options{}, filepath.Join(dir, "a", "1"), filepath.Join(dir, "b", "1"))
	if p := one.Comparisons[0].Points; len(p) != 1 || p[0].PointB != "t0_c16" {
		t.Errorf("got %+v, want t0_c8 with t0_c16", p)
	}
}

// Nothing differs between a run and itself: every interval is 0 or 1, and says so.
func TestIdentical(t *testing.T) {
	dir := t.TempDir()
	a := benchRun{als: alsA, tps: 1000, ttft: 0.1, config: configA}.write(t, filepath.Join(dir, "a"))
	b := benchRun{als: alsA, tps: 1000, ttft: 0.1, config: configA}.write(t, filepath.Join(dir, "b"))
	r := compared(t, Options{}, a, b)
	f := figure(t, r, "t0_c8", "AL")
	if *f.Difference.Value != 0 || !f.Difference.Known || f.Difference.Low != 0 || f.Difference.High != 0 || f.Verdict != NotShown || f.Smallest != nil {
		t.Errorf("got %+v, want no difference in any of 12 questions", f)
	}
	if len(r.Comparisons[0].Differences) != 0 {
		t.Errorf("got differences %+v, want none", r.Comparisons[0].Differences)
	}
}

// A folder with itself, or with a copy of its records, has the ratio 1 and the
// difference 0 in every figure, of one run and of several; two that merely have the
// same throughput do not.
func TestSameRecords(t *testing.T) {
	f := func(a, b Input, known bool) {
		t.Helper()
		r, err := Compare([]Input{a, b}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, f := range r.Comparisons[0].Points[0].Figures {
			seen[f.Quantity] = true
			whole := f.Quantity == QuantityTPS
			if !known {
				if whole && f.Ratio.Known {
					t.Errorf("%s: got %+v of other records", f.Quantity, f.Ratio)
				}
				continue
			}
			if f.A == nil || *f.Difference.Value != 0 || !f.Difference.Known || f.Difference.Low != 0 || f.Difference.High != 0 || f.Verdict != NotShown ||
				f.Smallest != nil || *f.A != 0 && (*f.Ratio.Value != 1 || !f.Ratio.Known || f.Ratio.Low != 1 || f.Ratio.High != 1) || f.Ratio.Method != methodSame {
				t.Errorf("%s %s: got %+v, want no difference from itself", f.Quantity, f.Key, f)
			}
		}
		for _, q := range []string{QuantityAL, QuantityTTFT, QuantityTPOT, QuantityUserTPS, QuantityTPS} {
			if known && !seen[q] {
				t.Errorf("got no figure of %s in %v", q, seen)
			}
		}
	}
	one := input(t, small("a"))
	two := input(t, small("a"), small("a"))
	other := small("a")
	other.seed = 77
	f(one, one, true)
	f(two, two, true)
	copied := input(t, small("a"))
	copied.Points[0].runs[0].folder = "elsewhere"
	f(one, copied, true)
	f(one, input(t, small("b")), false)
	changed := inputOf(t, other.point())
	f(one, changed, false)
	dir := t.TempDir()
	files := open(t, benchRun{als: alsA, tps: 1000, ttft: 0.1, config: configA}.write(t, filepath.Join(dir, "a")))
	f(files, open(t, benchRun{als: alsA, tps: 1000, ttft: 0.1, config: configA}.write(t, filepath.Join(dir, "b"))), false)
}

// More than two inputs are all held against the first one, and judged together.
func TestThreeInputs(t *testing.T) {
	dir := t.TempDir()
	a := benchRun{als: alsA, config: configA}.write(t, filepath.Join(dir, "a"))
	b := benchRun{als: alsB, config: configA}.write(t, filepath.Join(dir, "b"))
	r := compared(t, Options{}, a, b, a)
	if len(r.Comparisons) != 2 || r.Comparisons[1].B != "C" || r.Comparisons[1].A != "A" {
		t.Fatalf("got %d comparisons, want B and C with A", len(r.Comparisons))
	}
	if f := r.Families[0]; f.Quantity != QuantityAL || f.Intervals != 2 || f.Excluding != 1 || f.ByChance != 0.1 && math.Abs(f.ByChance-0.1) > 1e-12 {
		t.Errorf("got family %+v, want two intervals of AL", f)
	}
	if d := r.Comparisons[1].Differences; len(d) != 1 || d[0].What != "folder" {
		t.Errorf("got differences %+v, want a warning that it is the same folder", d)
	}
}
