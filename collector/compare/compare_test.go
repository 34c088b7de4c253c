package compare

import (
	"errors"
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
	// scipy 1.17.1, scipy.stats.bootstrap((b - a,), numpy.mean, n_resamples=200000, method="BCa", random_state=1).
	near(t, "low", f.Difference.low(), 0.2083333, 0.01)
	near(t, "high", f.Difference.high(), 0.4, 0.01)
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
