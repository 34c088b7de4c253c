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

// TestMeanOfRuns: two are too few, and an interval that would hold 0 is none.
func TestMeanOfRuns(t *testing.T) {
	if got := MeanOfRuns([]float64{100, 110, 120}); got != MeanOfBlocks([]float64{100, 110, 120}) || !got.Known {
		t.Errorf("got %+v", got)
	}
	for reason, values := range map[string][]float64{
		"1 run is too few for an interval between runs; --repeats 3 or more":   {3},
		"2 runs are too few for an interval between runs; --repeats 3 or more": {3, 4},
		"all runs have the same value":                                         {3, 3, 3},
		"the runs differ too much for an interval":                             {1, 2, 3},
	} {
		if got := MeanOfRuns(values); got.Known || got.Reason != reason {
			t.Errorf("%v: got %+v, want %q", values, got, reason)
		}
	}
	if got := MeanOfBlocks([]float64{1, 2, 3}); got.Known || got.Reason != "the values differ too much for an interval" {
		t.Errorf("got %+v", got)
	}
}

// TestShareOfRuns: the definition in Python with scipy 1.17.1's beta and t quantiles;
// ten conversations of two requests, three runs of which the last is the worst.
func TestShareOfRuns(t *testing.T) {
	hits := func(values ...float64) (parts []Part) {
		for _, v := range values {
			parts = append(parts, Part{v, 2})
		}
		return parts
	}
	three := [][]Part{hits(2, 2, 2, 1, 2, 2, 0, 2, 2, 2), hits(2, 1, 2, 2, 2, 2, 1, 2, 2, 2), hits(1, 2, 0, 1, 2, 1, 0, 2, 1, 2)}
	got, least := ShareOfRuns(three), ShareOfRunsAtLeast(three)
	near(t, "low", got.Low, 0.42973642586837846, 1e-6)
	near(t, "high", got.High, 0.9683331376539733, 1e-6)
	near(t, "at least", least.Low, 0.4828816758463393, 1e-6)
	all := hits(2, 2, 2, 2, 2, 2, 2, 2, 2, 2)
	if same, alone := ShareOfRuns([][]Part{all, all, all}), ShareOfRuns([][]Part{all}); !same.Known || same.High != 1 || same.Low > alone.Low+0.02 || same.Low < alone.Low-1e-9 {
		t.Errorf("got %+v: the same conversations again show no more than %+v", same, alone)
	}
	if got := ShareOfRuns([][]Part{all, all[1:]}); got.Known || got.Reason != "runs of 10 and 9 conversations cannot be taken together" {
		t.Errorf("got %+v", got)
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

// The least n is the one from which on there are bounds; of the usual quantiles it is
// R's ceiling(log(0.025) / log(pmax(q, 1 - q))).
func TestFewestValues(t *testing.T) {
	for q, want := range map[float64]int{0.5: 6, 0.25: 13, 0.75: 13, 0.9: 36, 0.05: 72, 0.95: 72, 0.01: 368, 0.99: 368} {
		values := make([]float64, want)
		if got := FewestValues(q); got != want || !QuantileBounds(values, q).Known || QuantileBounds(values[1:], q).Known {
			t.Errorf("got %d of p%v, want %d, with bounds, and with none of one less", got, 100*q, want)
		}
		if got, few := TooFew(want, q), TooFew(want-1, q); got != "" || few != QuantileBounds(values[1:], q).Reason {
			t.Errorf("got %q and %q of p%v", got, few, 100*q)
		}
	}
	for i := 1; i < 100; i++ {
		q := float64(i) / 100
		for n := range 40 {
			if got := QuantileBounds(make([]float64, n), q).Reason; TooFew(n, q) != got {
				t.Errorf("got %q of n = %d, want %q", TooFew(n, q), n, got)
			}
		}
	}
}

func TestShare(t *testing.T) {
	hits := make([]Part, 80)
	for i := range hits {
		hits[i] = Part{2, 2}
	}
	all := ShareOfRuns([][]Part{hits})
	if !all.Known || all.High != 1 || all.Low < 0.94 || all.Low > 0.96 {
		t.Errorf("got %+v of 160 of 160 in 80 conversations", all)
	}
	last := all.Low
	for i := range 10 {
		hits[i].Num--
		got := ShareOfRuns([][]Part{hits})
		if got.Low >= last || got.High <= got.Low {
			t.Errorf("got %+v with %d misses, %v with one less", got, i+1, last)
		}
		last = got.Low
	}
	if one := ShareOfRunsAtLeast([][]Part{hits}); one.High != 1 || one.Low <= last {
		t.Errorf("got %+v, the interval begins at %v", one, last)
	}
	if got := ShareOfRuns([][]Part{hits[:1]}); got.Known || got.Reason == "" {
		t.Errorf("got %+v", got)
	}
}
