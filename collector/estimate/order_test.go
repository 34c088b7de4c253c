package estimate

import "testing"

// TestMeanOfBlocks: scipy 1.17.1, stats.t.interval(.95, 2, 110, stats.sem([100, 110, 120])).
func TestMeanOfBlocks(t *testing.T) {
	got := MeanOfBlocks([]float64{100, 110, 120})
	near(t, "low", got.Low, 85.1586228824967, 1e-9)
	near(t, "high", got.High, 134.8413771175033, 1e-9)
	for _, values := range [][]float64{nil, {3}, {3, 3}} {
		if got := MeanOfBlocks(values); got.Known || got.Reason == "" {
			t.Errorf("%v: got %+v", values, got)
		}
	}
}

// TestQuantileBounds: the ranks are those of the binomial distribution. scipy
// 1.17.1: binom.cdf(67, 160, .5) = 0.0239 and binom.cdf(68, 160, .5) = 0.0343, so the
// lower bound is the 68th value, and by symmetry the upper one the 93rd.
func TestQuantileBounds(t *testing.T) {
	values := make([]float64, 160)
	for i := range values {
		values[i] = float64(i + 1)
	}
	if got := QuantileBounds(values, 0.5); got != (Interval{Low: 68, High: 93, Known: true}) {
		t.Errorf("got %+v", got)
	}
	if got := QuantileBounds(values, 0.99); got.Known || got.Reason != "n = 160 is too few for p99" {
		t.Errorf("got %+v", got)
	}
	if got := QuantileBounds(values[:2], 0.999); got.Reason != "n = 2 is too few for p99.9" {
		t.Errorf("got %+v", got)
	}
}

func TestShare(t *testing.T) {
	hits := make([]Part, 80)
	for i := range hits {
		hits[i] = Part{2, 2}
	}
	all := Share(hits)
	if !all.Known || all.High != 1 || all.Low < 0.94 || all.Low > 0.96 {
		t.Errorf("got %+v of 160 of 160 in 80 conversations", all)
	}
	last := all.Low
	for i := range 10 {
		hits[i].Num--
		got := Share(hits)
		if got.Low >= last || got.High <= got.Low {
			t.Errorf("got %+v with %d misses, %v with one less", got, i+1, last)
		}
		last = got.Low
	}
	if one := ShareAtLeast(hits); one.High != 1 || one.Low <= last {
		t.Errorf("got %+v, the interval begins at %v", one, last)
	}
	if got := Share(hits[:1]); got.Known || got.Reason == "" {
		t.Errorf("got %+v", got)
	}
}
