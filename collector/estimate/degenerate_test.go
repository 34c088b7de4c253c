package estimate

import (
	"math"
	"testing"
)

// Sides of which one conversation holds all there is to divide by have no
// interval, and are no reason to fail.
func TestQuotientOfOneDenominator(t *testing.T) {
	for _, odd := range []Part{{Num: 3, Den: 0}, {Num: math.Inf(1), Den: 1}, {Num: math.NaN(), Den: 1}} {
		a := [][]Part{{{Num: 4, Den: 2}, odd, odd, {Num: 0, Den: 0}}}
		b := [][]Part{{{Num: 4, Den: 0}, {Num: 1, Den: 1}, {Num: 2, Den: 1}, {Num: 2, Den: 0}}}
		for _, in := range []Interval{Quotient(a, b, 1), Quotient(b, a, 1), Difference(a, b, 1), Ratio(a[0], 1), RatioOfRuns(a, 1)} {
			if in.Known && (math.IsNaN(in.Low) || math.IsNaN(in.High)) {
				t.Errorf("%v: got %+v", odd, in)
			}
		}
	}
	one := [][]Part{{{Num: 5, Den: 1}, {Den: 1}, {Den: 1}, {Den: 1}}} // all but one are 0
	all := [][]Part{{{Num: 1, Den: 1}, {Num: 1, Den: 1}, {Num: 2, Den: 1}, {Num: 1, Den: 1}}}
	if in := Quotient(all, one, 1); in.Known || in.Reason == "" {
		t.Errorf("got %+v, want a reason", in)
	}
}

// Runs in which no conversation has a value have no interval, and are no reason to fail.
func TestNoValueAtAll(t *testing.T) {
	run := make([]Part, 12)
	for i := range run {
		run[i] = Part{Num: math.NaN(), Den: 2}
	}
	for _, in := range []Interval{Ratio(run, 1), RatioOfRuns([][]Part{run, run}, 1), Quotient([][]Part{run}, [][]Part{run}, 1)} {
		if in.Known || in.Reason == "" {
			t.Errorf("got %+v, want a reason", in)
		}
	}
}
