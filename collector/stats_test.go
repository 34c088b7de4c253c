package collector

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// TestNeumaierSum: the compensation recovers what plain addition loses.
func TestNeumaierSum(t *testing.T) {
	f := func(want float64, xs ...float64) {
		t.Helper()
		if got := NeumaierSum(xs); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%v: got %v, want %v", xs, got, want)
		}
	}
	f(0)
	f(2, 1, 1e100, 1, -1e100)                              // 0 with plain addition
	f(1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1) // 0.9999999999999999
	f(math.Inf(1), 1, math.Inf(1), 2)                      // the compensation is NaN and left out
	f(math.NaN(), math.Inf(1), math.Inf(-1))
}

// TestExactMean compares with the sum in 4,000 bits, rounded once.
func TestExactMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(-1e200, 1e200), 1, 50).Draw(t, "xs")
		sum := new(big.Float).SetPrec(4000)
		for _, x := range xs {
			sum.Add(sum, big.NewFloat(x))
		}
		want, _ := sum.Quo(sum, big.NewFloat(float64(len(xs)))).Float64()
		if got, _ := ExactMean(xs); got != want {
			t.Fatalf("%v: got %v, want %v", xs, got, want)
		}
	})
	if mean, whole := ExactMean([]float64{1, 3}); mean != 2 || !whole {
		t.Errorf("got %v whole %v, want 2 whole", mean, whole)
	}
	if mean, whole := ExactMean([]float64{1, 2}); mean != 1.5 || whole {
		t.Errorf("got %v whole %v, want 1.5 not whole", mean, whole)
	}
	for _, xs := range [][]float64{nil, {1, math.Inf(1)}} {
		if mean, whole := ExactMean(xs); !math.IsNaN(mean) || whole {
			t.Errorf("%v: got %v whole %v, want NaN", xs, mean, whole)
		}
	}
}

// TestPairwiseSum: integers add up exactly in any order, whatever the length.
func TestPairwiseSum(t *testing.T) {
	for n := range 1000 {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = float64(i)
		}
		if got, want := PairwiseSum(xs), float64(n*(n-1)/2); got != want {
			t.Fatalf("%d numbers: got %v, want %v", n, got, want)
		}
	}
}

// TestQuantileUpperHalf: from g = 0.5 on numpy counts from the upper neighbour,
// which shows in the last digit: 0.1 + 0.3 * 0.75 would be 0.32500000000000007.
func TestQuantileUpperHalf(t *testing.T) {
	if got := Quantile([]float64{0.1, 0.4}, 0.75); got != 0.325 {
		t.Errorf("got %v, want 0.325", got)
	}
	if got := Quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("no numbers: got %v, want NaN", got)
	}
}
