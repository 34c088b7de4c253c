package collector

import (
	"math"
	"math/big"
	"slices"
	"strconv"
)

// NeumaierSum is the compensated sum that CPython 3.12 and later makes of floats:
// the built-in sum(). With s the sum so far and c the part that was rounded off,
// each x adds t = s + x and c grows by (s - t) + x, or (x - t) + s where x is the
// larger one; the result is s + c. Source: CPython Python/bltinmodule.c (cs_add).
func NeumaierSum(xs []float64) float64 {
	var s, c float64
	for _, x := range xs {
		t := s + x
		if math.Abs(s) >= math.Abs(x) {
			c += (s - t) + x
		} else {
			c += (x - t) + s
		}
		s = t
	}
	if c != 0 && !math.IsInf(c, 0) && !math.IsNaN(c) {
		s += c
	}
	return s
}

// pairwiseBlock is the length up to which numpy adds with eight accumulators.
const pairwiseBlock = 128

// PairwiseSum is numpy's sum of a contiguous array of doubles. Source: numpy
// numpy/core/src/umath/loops_utils.h.src (pairwise_sum).
func PairwiseSum(xs []float64) float64 {
	n := len(xs)
	if n < 8 {
		var sum float64
		for _, x := range xs {
			sum += x
		}
		return sum
	}
	if n <= pairwiseBlock {
		return blockSum(xs)
	}
	half := n / 2
	half -= half % 8
	return PairwiseSum(xs[:half]) + PairwiseSum(xs[half:])
}

func blockSum(xs []float64) float64 {
	r := [8]float64(xs)
	i := 8
	for ; i+8 <= len(xs); i += 8 {
		for j := range r {
			r[j] += xs[i+j]
		}
	}
	sum := ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
	for _, x := range xs[i:] {
		sum += x
	}
	return sum
}

// Mean is numpy.mean: the pairwise sum over the count. It is NaN for no numbers.
func Mean(xs []float64) float64 { return PairwiseSum(xs) / float64(len(xs)) }

// Std is numpy.std, the population's standard deviation in two passes:
// sqrt(sum((x - mean)^2) / n). It is NaN for no numbers.
func Std(xs []float64) float64 {
	mean := Mean(xs)
	squares := make([]float64, len(xs))
	for i, x := range xs {
		d := x - mean
		squares[i] = float64(d * d)
	}
	return math.Sqrt(Mean(squares))
}

// Quantile is numpy.quantile with its default method "linear", of numbers in
// ascending order, for q from 0 to 1. With v = q(n-1), lo = floor(v), g = v - lo
// and a, b the numbers at lo and lo+1 it is a + (b-a)g, from g = 0.5 on
// b - (b-a)(1-g). It is NaN for no numbers. Source: numpy
// numpy/lib/function_base.py (_lerp).
func Quantile(sorted []float64, q float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	v := float64(q * float64(n-1))
	lo := int(math.Floor(v))
	g := v - float64(lo)
	a, b := sorted[lo], sorted[min(lo+1, n-1)]
	d := b - a
	if g >= 0.5 {
		return b - float64(d*(1-g))
	}
	return a + float64(d*g)
}

// StatsBlock is the statistics object of timing.json: all values as text with 4
// decimals, exact halves to even. xs must not be empty. Source: specdec_bench
// metrics/base.py.
func StatsBlock(xs []float64) Object {
	sorted := slices.Sorted(slices.Values(xs))
	return Object{
		{"min", fixed4(sorted[0])},
		{"max", fixed4(sorted[len(sorted)-1])},
		{"mean", fixed4(Mean(xs))},
		{"std", fixed4(Std(xs))},
		{"quantiles", Object{
			{"0.25", fixed4(Quantile(sorted, 0.25))},
			{"0.5", fixed4(Quantile(sorted, 0.5))},
			{"0.75", fixed4(Quantile(sorted, 0.75))},
		}},
	}
}

// fixed4 is Python's f"{x:.4f}".
func fixed4(x float64) string { return strconv.FormatFloat(x, 'f', 4, 64) }

// ExactMean is statistics.mean: exact rational arithmetic, rounded once. whole
// says that the exact mean is an integer, which Python prints as one if all
// inputs were integers. No numbers, or one that is not finite, give NaN. Source:
// CPython Lib/statistics.py (_sum, _convert).
func ExactMean(xs []float64) (mean float64, whole bool) {
	sum, x := new(big.Rat), new(big.Rat)
	for _, f := range xs {
		if x.SetFloat64(f) == nil {
			return math.NaN(), false
		}
		sum.Add(sum, x)
	}
	if len(xs) == 0 {
		return math.NaN(), false
	}
	sum.Quo(sum, x.SetInt64(int64(len(xs))))
	mean, _ = sum.Float64()
	return mean, sum.IsInt()
}
