package collector

import (
	"math"
	"slices"
	"testing"

	"spectap/collector/estimate"
)

// Three runs of six conversations, by hand (Python's statistics):
//
//	pooled   mean of all 18 values
//	between  stdev of the three means
//	within   sqrt(mean(variance(run)))
//	same     sqrt(mean(variance(conversation's three values)))
func TestPoolRunsByHand(t *testing.T) {
	values := [][]float64{{1, 2, 3, 4, 5, 6}, {2, 2, 4, 4, 6, 6}, {1, 3, 3, 5, 5, 7}}
	var runs []RunFigures
	for i, run := range values {
		f := RunFigures{run: Run{Point: "t0_c8" + Repeat(i).Suffix(), Repeat: Repeat(i), Concurrency: 8, Seed: 1}}
		parts := []estimate.Part{{}} // a question that no run was asked
		for _, v := range run {
			parts = append(parts, estimate.Part{Num: v, Den: 1})
		}
		f.add(FigureAL, asLength, parts)
		f.figures = append(f.figures, runFigure{name: FigureOutputTPS, value: 100 + 10*float64(i)})
		runs = append(runs, f)
	}
	runs[2].figures = append(runs[2].figures, runFigure{name: FigureSteadyTPS, value: 1})
	runs[0].figures = append(runs[0].figures, runFigure{name: FigureSteadyTPS, value: 1})
	r := PoolRuns(runs)
	if r.Point != "t0_c8" || !slices.Equal(r.Runs, []string{"t0_c8", "t0_c8_r2", "t0_c8_r3"}) || r.Concurrency != 8 {
		t.Errorf("got %+v", r)
	}
	al, ok := r.Figure(FigureAL)
	third := 1. / 3
	if !ok || !slices.Equal(al.Values, []float64{3.5, 4, 4}) || !near(al.Pooled, 69/18.) || !near(*al.Between, math.Sqrt(third/4)) ||
		!near(*al.Within, math.Sqrt((3.5+3.2+4.4)/3)) || !near(*al.SameConversation, math.Sqrt(third)) || !near(*al.Expected, math.Sqrt(third/6)) {
		t.Errorf("got %+v: between %v, within %v, same %v, expected %v", al, *al.Between, *al.Within, *al.SameConversation, *al.Expected)
	}
	if !al.Interval.Known || al.Interval.Low >= al.Pooled || al.Interval.High <= al.Pooled || al.Method != "runs and conversations" {
		t.Errorf("got interval %+v", al.Interval)
	}
	// t(0.975, 2) = 4.302652729911275 by scipy.stats.t.ppf; the standard error is 10/sqrt(3)
	tps, _ := r.Figure(FigureOutputTPS)
	if half := 4.302652729911275 * 10 / math.Sqrt(3); !near(tps.Pooled, 110) || math.Abs(tps.Interval.Low-(110-half)) > 1e-6 || math.Abs(tps.Interval.High-(110+half)) > 1e-6 || tps.Method != "runs" || tps.Within != nil {
		t.Errorf("got %+v, want 110 and t's interval of three runs", tps)
	}
	if _, ok := r.Figure(FigureSteadyTPS); ok || len(r.Warnings) != 1 {
		t.Errorf("got %+v, want the figure that one run lacks left out, and said", r.Warnings)
	}
}

// Two runs have no interval between runs, and runs that are so far apart that it
// would hold 0 have none either: what is said is the least and the greatest.
func TestTooFewRuns(t *testing.T) {
	f := func(reason string, values ...float64) {
		t.Helper()
		var runs []RunFigures
		for i, v := range values {
			runs = append(runs, RunFigures{run: Run{Point: "t0_c8" + Repeat(i).Suffix(), Repeat: Repeat(i)}, figures: []runFigure{{name: FigureOutputTPS, value: v}}})
		}
		tps, ok := PoolRuns(runs).Figure(FigureOutputTPS)
		if !ok || tps.Interval.Known != (reason == "") || tps.Interval.Reason != reason {
			t.Errorf("%v: got %+v, want %q", values, tps.Interval, reason)
		}
		if low, high := tps.Range(); low != slices.Min(values) || high != slices.Max(values) || !near(tps.Pooled, Mean(values)) {
			t.Errorf("%v: got %v, from %v to %v", values, tps.Pooled, low, high)
		}
	}
	f("2 runs are too few for an interval between runs; --repeats 3 or more", 1600, 3074)
	f("2 runs are too few for an interval between runs; --repeats 3 or more", 2337, 2338)
	f("", 2337, 2338, 2339)
	f("the runs differ too much for an interval", 100, 200, 300) // 200 ± 248
	f("all runs have the same value", 5, 5, 5)
	if in := asPositive(estimate.Interval{Low: -1, High: 3, Known: true}); in.Known || in.Reason != "the runs differ too much for an interval" {
		t.Errorf("got %+v of a time", in)
	}
}

// What a run gives is what its own summary says.
func TestRunFiguresAreTheSummarys(t *testing.T) {
	p := capturedPoint(t)
	_, summary := speculationOf(t, p)
	f, err := p.RunFigures()
	if err != nil {
		t.Fatal(err)
	}
	r := PoolRuns([]RunFigures{f, f})
	for name, want := range map[string]float64{
		FigureAL: summary.AverageAL, FigureClientAL: summary.ClientAL, FigureServerAL: summary.ServerAL, FigureTTFT: summary.TTFTMean, FigureOutputTPS: summary.OutputTPS,
	} {
		if got, ok := r.Figure(name); !ok || !near(got.Pooled, want) || !near(got.Values[1], want) || *got.Between != 0 {
			t.Errorf("%s: got %+v, want %v twice", name, got, want)
		}
	}
	if al, _ := r.Figure(FigureAL); *al.SameConversation != 0 || *al.Within == 0 {
		t.Errorf("got %+v, want runs that are equal", al)
	}
	if _, err := (Point{Run: Run{Point: "t0_c1"}}).RunFigures(); err == nil {
		t.Error("got no error of a point without a Record")
	}
}

// Values that differ by rounding alone are equal.
func TestStdOfEqualValues(t *testing.T) {
	if std := sampleStd([]float64{3.1, 3.1 + 4e-16, 3.1 - 4e-16}); *std != 0 {
		t.Errorf("got %v, want 0", *std)
	}
	if std := sampleStd([]float64{3.1, 3.1 + 1e-9}); *std == 0 {
		t.Error("got 0 of values that differ")
	}
}
