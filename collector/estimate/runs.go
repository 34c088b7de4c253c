package estimate

import (
	"fmt"
	"math"
)

// RatioOfRuns gives the interval of sum(Num) / sum(Den) over all runs and
// conversations, where every run was asked the same conversations (index i is the
// same one in each). It says where the ratio would be with other conversations and
// other runs. Conversations are drawn as in Ratio, each with all its runs; the
// bounds are then moved away from the ratio by
//
//	k = t sqrt(Vc + Vr) / (t' sqrt(Vc))
//
// with Vc and Vr the variance of the ratio from conversations and from runs (an
// analysis of variance of what each conversation of each run adds to the ratio),
// t the quantile of Student's distribution for their sum's degrees of freedom by
// Satterthwaite, and t' for conversations alone. Two or three runs are too few to
// be drawn from: their number is in the degrees of freedom.
func RatioOfRuns(runs [][]Part, seed int64) Interval {
	f := func(sums []Part) float64 { return sums[0].Num / sums[0].Den }
	return newComparison(f, runs).interval(seed)
}

// Difference gives the interval of a's ratio less b's. Index i is the same
// conversation in all runs of a and b, and is drawn once for both. A side with one
// run has no part of its runs in the interval.
func Difference(a, b [][]Part, seed int64) Interval {
	return newDifference(a, b).interval(seed)
}

// Quotient gives the interval of a's ratio over b's, as Difference.
func Quotient(a, b [][]Part, seed int64) Interval {
	f := func(sums []Part) float64 { return math.Log(sums[0].Num / sums[0].Den / (sums[1].Num / sums[1].Den)) }
	in := newComparison(f, a, b).interval(seed)
	if in.Known {
		in.Low, in.High = math.Exp(in.Low), math.Exp(in.High)
	}
	return in
}

// Smallest returns the smallest true difference of the ratios that would have been
// told from none with a chance of 80 % at these numbers of conversations and runs:
// (t(0.975) + t(0.8)) times the standard error. It is false where that is not known.
func Smallest(a, b [][]Part, seed int64) (float64, bool) {
	const power = 0.8
	c := newDifference(a, b)
	if c.reason != "" {
		return 0, false
	}
	_, v, df := c.variances()
	if v == 0 {
		return 0, false
	}
	return (studentQuantile((1+Level)/2, df) + studentQuantile(power, df)) * math.Sqrt(v), true
}

func newDifference(a, b [][]Part) comparison {
	return newComparison(func(sums []Part) float64 { return sums[0].Num/sums[0].Den - sums[1].Num/sums[1].Den }, a, b)
}

// comparison is a figure of one or two sides, each with one or more runs.
type comparison struct {
	f      statistic
	sides  [][][]Part
	table  table
	reason string // why there is no interval
}

func newComparison(f statistic, sides ...[][]Part) comparison {
	c := comparison{f: f, sides: sides}
	n := -1
	for _, runs := range sides {
		for _, run := range runs {
			if n < 0 {
				n = len(run)
			}
			if len(run) != n {
				c.reason = fmt.Sprintf("runs of %d and %d conversations cannot be paired", n, len(run))
				return c
			}
		}
	}
	if n < 2 {
		c.reason = tooFew
		return c
	}
	c.table = newTable(n, len(sides))
	for s, runs := range sides {
		for _, run := range runs {
			for i, p := range run {
				add(c.table.row(i)[s:s+1], []Part{p})
			}
		}
	}
	return c
}

// interval draws conversations and widens by what the runs add.
func (c comparison) interval(seed int64) Interval {
	if c.reason != "" {
		return unknown(c.reason)
	}
	columns := make([]int, len(c.sides))
	for s := range columns {
		columns[s] = s
	}
	in := c.table.bca(c.f, columns, c.table.resample([]statistic{c.f}, seed)[0])
	if !in.Known {
		return in
	}
	theta := c.f(c.table.sums())
	vc, v, df := c.variances()
	k := studentQuantile((1+Level)/2, df) * math.Sqrt(v) / (studentQuantile((1+Level)/2, float64(c.table.rows-1)) * math.Sqrt(vc))
	in.Low, in.High = theta-k*(theta-in.Low), theta+k*(in.High-theta)
	return in
}

// variances are the variance of the figure from conversations, from conversations
// and runs, and the latter's degrees of freedom.
func (c comparison) variances() (vc, v, df float64) {
	n := float64(c.table.rows)
	sums := c.table.sums()
	without := c.table.jackknife(c.f, sums)
	vc = (n - 1) * (n - 1) / n * variance(without)
	v = vc
	squares := vc * vc / (n - 1)
	for s, runs := range c.sides {
		if len(runs) < 2 {
			continue
		}
		vr := c.ofRuns(s, sums)
		v += vr
		squares += vr * vr / float64(len(runs)-1)
	}
	return vc, v, v * v / squares
}

// ofRuns is the variance of the figure from the runs of a side, less the part that
// is in the variance from conversations already.
func (c comparison) ofRuns(side int, sums []Part) float64 {
	runs := c.sides[side]
	r, n := float64(len(runs)), float64(c.table.rows)
	slope := c.slope(side, sums)
	means := make([]float64, len(runs))
	values := make([][]float64, len(runs))
	ratio := sums[side].Num / sums[side].Den
	byConversation := make([]float64, c.table.rows)
	for j, run := range runs {
		values[j] = make([]float64, len(run))
		for i, p := range run {
			values[j][i] = slope * (p.Num - ratio*p.Den) * r * n / sums[side].Den
			byConversation[i] += values[j][i] / r
		}
		means[j] = mean(values[j])
	}
	m, rest := mean(means), 0.0
	for j := range values {
		for i, v := range values[j] {
			d := v - means[j] - byConversation[i] + m
			rest += d * d
		}
	}
	rest /= (r - 1) * (n - 1)
	return max(0, variance(means)/r-rest/(n*r))
}

// slope is how fast the figure grows with the ratio of a side.
func (c comparison) slope(side int, sums []Part) float64 {
	const h = 1e-6
	moved := append([]Part{}, sums...)
	moved[side].Num *= 1 + h
	return (c.f(moved) - c.f(sums)) / (h * sums[side].Num / sums[side].Den)
}
