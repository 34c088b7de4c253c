package estimate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// of makes the parts of a mean.
func of(values ...float64) []Part {
	parts := make([]Part, len(values))
	for i, v := range values {
		parts[i] = Part{v, 1}
	}
	return parts
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

var tailed = []float64{1, 1.1, 1.2, 1.2, 1.3, 1.4, 1.6, 1.9, 2.6, 4}

func TestRatioOfMeans(t *testing.T) {
	got := Ratio(of(tailed...), 7)
	if again := Ratio(of(tailed...), 7); got != again {
		t.Errorf("got %+v and %+v with one seed", got, again)
	}
	if other := Ratio(of(tailed...), 8); got == other {
		t.Errorf("got %+v with two seeds, want different resamples", got)
	}
	if !got.Known || got.Low >= 1.73 || got.High <= 1.73 || got.High-1.73 <= 1.73-got.Low {
		t.Errorf("got %+v, want an interval around 1.73 that leans to the long tail", got)
	}
	// A conversation without a denominator has no influence.
	values := of(tailed...)
	for i := range values {
		values[i] = Part{values[i].Num * float64(i), float64(i)}
	}
	if got := Ratio(values, 3); !got.Known || got.Low > 2.1 {
		t.Errorf("got %+v", got)
	}
}

// TestAgainstNumpy holds the bounds against those of 400,000 resamples, drawn by
// another generator and made of the conversations themselves, not of their sums
// (numpy 2.4.6, scipy 1.17.1):
//
//	i = rng.integers(0, n, (20000, n)); N = [x[i] for x in num]; D = [x[i] for x in den]
//	r = [a.sum(-1) / b.sum(-1) for a, b in zip(N, D)]      # figure and its slopes of r
//	u = sum(s * (a - r * b) / b.sum(-1) for each side)     # T = (figure* - figure) / sqrt(n/(n-1) sum u^2)
//	al = norm.cdf(-t.ppf(.975, n - 1)) (n is 20); se from jackknife figures of np.delete
//	figure - se * np.quantile(T, 1 - al), figure - se * np.quantile(T, al)
//
// A bound of 10,000 resamples is itself uncertain, by about 1 % of the width.
func TestAgainstNumpy(t *testing.T) {
	v := []float64{1.1, 1.15, 1.2, 1.22, 1.3, 1.35, 1.4, 1.45, 1.5, 1.6, 1.7, 1.75, 1.8, 1.9, 2.1, 2.2, 2.4, 2.6, 3.1, 3.6}
	a, weighted, b := of(v...), make([]Part, len(v)), make([]Part, len(v))
	for i, x := range v {
		w := float64(10 + (7*i)%13)
		weighted[i] = Part{x * w, w}
		b[i] = Part{x*0.95 - 0.01*float64((3*i)%5), 1}
	}
	check := func(what string, got Interval, low, high float64) {
		t.Helper()
		near(t, what+": low", got.Low, low, 0.03*(high-low))
		near(t, what+": high", got.High, high, 0.03*(high-low))
	}
	check("mean", Ratio(a, 1), 1.5393788066907477, 2.3028387892438262)
	check("ratio", Ratio(weighted, 1), 1.5462714176095784, 2.3131566698788744)
	check("difference", Difference([][]Part{a}, [][]Part{b}, 1), 0.09446132031166893, 0.13610971592064458)
	check("quotient", Quotient([][]Part{a}, [][]Part{b}, 1), 1.0604769, 1.07020985)
}

// TestFreedom holds the degrees of freedom against numpy and scipy: of 40
// conversations whose values differ alike, and of the same with one that is farther
// and farther away from the others. The interval is made with them.
//
//	x = [(i % 8 + 1) ** 2 / 10 + i * 7 % 11 / 10 for i in range(40)]; x[3] += more
//	2 * 40 / (scipy.stats.kurtosis(jackknife, fisher=False) - 1), with den = 10 + 7 * i % 13
func TestFreedom(t *testing.T) {
	for _, c := range []struct{ more, want float64 }{{0, 39}, {7, 36.40586435582211}, {8, 26.965410823730537}, {9, 20.28088883673974}, {30, 20}} {
		f, reason := newFigure(ratio, longTailed(c.more))
		if reason != "" {
			t.Fatal(reason)
		}
		near(t, "degrees of freedom", f.freedom(), c.want, 1e-9)
	}
	if f, _ := newFigure(ratio, of(tailed...)); f.freedom() != 9 {
		t.Errorf("got %v degrees of freedom of 10 conversations, want 9", f.freedom())
	}
	// As in TestAgainstNumpy, with al = norm.cdf(-t.ppf(.975, 20)); of 39 degrees
	// of freedom they are 2.554 and 7.842.
	in := compared(ratio, 1, 5*Resamples, [][]Part{longTailed(30)})
	near(t, "low", in.Low, 2.518905471334208, 0.015)
	near(t, "high", in.High, 7.940731270352858, 0.045)
}

// longTailed are 40 conversations, one of which is so much above what it would be.
func longTailed(more float64) []Part {
	parts := make([]Part, 40)
	for i := range parts {
		x, den := float64((i%8+1)*(i%8+1))/10+float64(i*7%11)/10, float64(10+7*i%13)
		if i == 3 {
			x += more
		}
		parts[i] = Part{x * den, den}
	}
	return parts
}

// TestRatiosShareDraws: each of several figures has the interval that it has alone.
func TestRatiosShareDraws(t *testing.T) {
	figures := [][]Part{of(tailed...), of(tailed[:6]...), of(tailed[3:9]...), of(2, 2), of(1, 1, 1, 1, 1, 1)}
	for i, got := range Ratios(figures, 5) {
		if want := Ratio(figures[i], 5); got != want {
			t.Errorf("figure %d: got %+v, alone %+v", i, got, want)
		}
	}
}

// TestBootstrapCoverage: of 12 samples of a skewed distribution the interval holds the true mean in most.
func TestBootstrapCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	covered := 0
	for range 12 {
		values := make([]float64, 40)
		for i := range values {
			values[i] = rng.ExpFloat64()
		}
		if in := Ratio(of(values...), 3); in.Low < 1 && 1 < in.High {
			covered++
		}
	}
	if covered < 10 {
		t.Errorf("got the true mean in %d of 12 intervals, want about 11", covered)
	}
}

func TestRatioDegenerate(t *testing.T) {
	for _, parts := range [][]Part{nil, of(2), of(2, 2, 2), of(2, 2, 2, 2, 2, 2), of(1, 2, 3, 4), of(1, 1, 1, 1, 1, 5), {{1, 1}, {}, {}}, {{0.3, 3}, {0.1, 1}, {0.1, 1}, {0.2, 2}, {0.6, 6}}} {
		if got := Ratio(parts, 1); got.Known || got.Reason == "" {
			t.Errorf("%v: got %+v, want no interval and a reason", parts, got)
		}
	}
}

// TestSeveralRuns: what differs between runs widens the interval, and what does not leaves it.
func TestSeveralRuns(t *testing.T) {
	one := Ratio(of(tailed...), 1)
	same := RatioOfRuns([][]Part{of(tailed...), of(tailed...), of(tailed...)}, 1)
	near(t, "low", same.Low, one.Low, 1e-9)
	near(t, "high", same.High, one.High, 1e-9)
	shifted := slices.Clone(tailed)
	for i := range shifted {
		shifted[i] += 0.5
	}
	if got := RatioOfRuns([][]Part{of(tailed...), of(shifted...)}, 1); !(got.High-got.Low > 1.4*(one.High-one.Low)) {
		t.Errorf("got %+v of two runs that differ by 0.5, one alone has %+v", got, one)
	}
}

// TestPaired: a difference that all conversations share is known well though they differ much.
func TestPaired(t *testing.T) {
	better := make([]float64, len(tailed))
	for i, v := range tailed {
		better[i] = v*1.1 + 0.001*float64(i%3)
	}
	a, b := [][]Part{of(better...)}, [][]Part{of(tailed...)}
	if got := Difference(a, b, 1); !got.Known || got.Low < 0.1 || got.High > 0.45 || got.Low > 0.174 || got.High < 0.174 {
		t.Errorf("got difference %+v, want around 0.174", got)
	}
	if got := Quotient(a, b, 1); !got.Known || got.Low < 1.0999 || got.High > 1.102 {
		t.Errorf("got quotient %+v, want around 1.1", got)
	}
	if got := Difference(a, [][]Part{of(tailed[1:]...)}, 1); got.Known || got.Reason != "runs of 10 and 9 conversations cannot be paired" {
		t.Errorf("got %+v", got)
	}
	if got, ok := Smallest(a, b, 1); !ok || got <= 0 || got > 0.2 {
		t.Errorf("got smallest difference %v, %v", got, ok)
	}
}

// BenchmarkPoint is what a point of 160 conversations needs: two acceptance
// lengths, both rates of 8 positions, and a time per output token.
func BenchmarkPoint(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	figures := make([][]Part, 19)
	for f := range figures {
		for range 160 {
			figures[f] = append(figures[f], Part{rng.ExpFloat64(), 1 + rng.ExpFloat64()})
		}
	}
	b.Run("together", func(b *testing.B) {
		for b.Loop() {
			Ratios(figures, 1)
		}
	})
	b.Run("one by one", func(b *testing.B) {
		for b.Loop() {
			for _, f := range figures {
				Ratio(f, 1)
			}
		}
	})
}
