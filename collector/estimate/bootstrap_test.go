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
	// The values of the same method of the plain method, from an independent program.
	near(t, "low", got.Low, 1.3299999999999998, 1e-12)
	near(t, "high", got.High, 2.5300000000000002, 1e-12)
	if !got.Known || got.Low >= 1.73 || got.High <= 1.73 || got.High-1.73 <= 1.73-got.Low {
		t.Errorf("got %+v, want an interval around 1.73 that leans to the long tail", got)
	}
	// A conversation without a denominator has no influence.
	values := of(tailed...)
	for i := range values {
		values[i] = Part{values[i].Num * float64(i), float64(i)}
	}
	if got := Ratio(values, 3); !got.Known || got.High > 4 {
		t.Errorf("got %+v", got)
	}
}

// TestRatiosShareDraws: each of several figures has the interval that it has alone.
func TestRatiosShareDraws(t *testing.T) {
	figures := [][]Part{of(tailed...), of(tailed[:6]...), of(tailed[3:9]...), of(2, 2)}
	for i, got := range Ratios(figures, 5) {
		if want := Ratio(figures[i], 5); got != want {
			t.Errorf("figure %d: got %+v, alone %+v", i, got, want)
		}
	}
}

// TestBootstrapCoverage: of 60 samples of a skewed distribution the interval holds the true mean in most.
func TestBootstrapCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	covered := 0
	for range 60 {
		values := make([]float64, 40)
		for i := range values {
			values[i] = rng.ExpFloat64()
		}
		if in := Ratio(of(values...), 3); in.Low < 1 && 1 < in.High {
			covered++
		}
	}
	if covered < 50 {
		t.Errorf("got the true mean in %d of 60 intervals, want about 56", covered)
	}
}

func TestRatioDegenerate(t *testing.T) {
	for _, parts := range [][]Part{nil, of(2), of(2, 2, 2), {{1, 1}, {}, {}}, {{0.1 * 3, 3}, {0.1, 1}}} {
		if got := Ratio(parts, 1); got.Known || got.Reason == "" {
			t.Errorf("%v: got %+v, want no interval and a reason", parts, got)
		}
	}
}

// TestAcceleration: for a mean it is the skewness of the data over 6 sqrt(n).
func TestAcceleration(t *testing.T) {
	values := []float64{1, 1, 1, 2, 5, 9}
	m, m2, m3 := mean(values), 0.0, 0.0
	for _, v := range values {
		m2 += (v - m) * (v - m)
		m3 += (v - m) * (v - m) * (v - m)
	}
	tab := newTable(6, 1)
	tab.set(0, of(values...))
	without := tab.jackknife(func(s []Part) float64 { return s[0].Num / s[0].Den }, tab.sums())
	near(t, "acceleration", acceleration(without), m3/(6*math.Pow(m2, 1.5)), 1e-12)
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
	if got := Difference(a, b, 1); !got.Known || got.Low < 0.1 || got.High > 0.3 || got.Low > 0.174 || got.High < 0.174 {
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
