package estimate

import (
	"fmt"
	"math"
)

// RatioOfRuns gives the interval of sum(Num) / sum(Den) over all runs and
// conversations, where every run was asked the same conversations (index i is the
// same one in each). It says where the ratio would be with other conversations and
// other runs. Conversations are drawn as in Ratio, each with all its runs; to the
// square of each bound's distance from the ratio is added what runs make of it:
//
//	t^2 (Vc + Vr) - t'^2 Vc
//
// with Vc and Vr the variance of the ratio from conversations and from runs (an
// analysis of variance of what each conversation of each run adds to the ratio),
// t the quantile of Student's distribution for their sum's degrees of freedom by
// Satterthwaite, and t' for conversations alone. Two or three runs are too few to
// be drawn from: their number is in the degrees of freedom.
//
// Of few runs, Vr is so uncertain that this alone holds 87 % (two) or 92 % (three)
// where runs differ much more than conversations do. What is added is therefore at
// least the sum of t”^2 Ve over the sides, with t” for its runs less one and Ve
// the part of its Vr that chance does not explain (above t'^2 times what the rest
// of the analysis expects).
func RatioOfRuns(runs [][]Part, seed int64) Interval {
	return compared(ratio, seed, Resamples, runs)
}

// Difference gives the interval of a's ratio less b's. Index i is the same
// conversation in all runs of a and b, and is drawn once for both. A side with one
// run has no part of its runs in the interval.
func Difference(a, b [][]Part, seed int64) Interval {
	return compared(difference, seed, Resamples, a, b)
}

// Quotient gives the interval of a's ratio over b's, as Difference, by that of its logarithm.
func Quotient(a, b [][]Part, seed int64) Interval {
	in := compared(logOfRatio, seed, Resamples, a, b)
	if in.Known {
		in.Low, in.High = math.Exp(in.Low), math.Exp(in.High)
	}
	return in
}

// Power is the chance of Smallest.
const Power = 0.8

// Smallest returns the smallest true difference of the ratios that would have been
// told from none with a chance of 80 % at these numbers of conversations and runs:
// (t(0.975) + t(0.8)) times the standard error, with t for no more degrees of freedom
// than the interval's. It is false where that is not known.
func Smallest(a, b [][]Part, seed int64) (float64, bool) {
	f, reason := pooled(difference, a, b)
	if reason != "" {
		return 0, false
	}
	v := variances(f, (1-Level)/2, a, b)
	if v.all == 0 {
		return 0, false
	}
	df := min(v.df, f.freedom())
	return (StudentQuantile((1+Level)/2, df) + StudentQuantile(Power, df)) * math.Sqrt(v.all), true
}

// compared draws conversations and widens by what the runs add.
func compared(k kind, seed int64, resamples int, sides ...[][]Part) Interval {
	f, reason := pooled(k, sides...)
	if reason != "" {
		return unknown(reason)
	}
	s := resample([]figure{f}, seed, resamples)[0]
	if s.reason != "" {
		return unknown(s.reason)
	}
	return s.interval(f.value(), ofRuns(f, (1-Level)/2, sides...))
}

// ofRuns is what runs add to the square of the distance from the figure of a bound
// that is passed with the chance tail.
func ofRuns(f figure, tail float64, sides ...[][]Part) float64 {
	v := variances(f, tail, sides...)
	if v.all == 0 {
		return 0
	}
	alone := square(float64(f.n-1), tail)
	added := float64(square(v.df, tail)*v.all) - float64(alone*v.conversations)
	return max(0, added, v.atLeast)
}

// pooled is the figure of all runs of each side together.
func pooled(k kind, sides ...[][]Part) (figure, string) {
	n := len(sides[0][0])
	parts := make([][]Part, len(sides))
	for s, runs := range sides {
		for _, run := range runs {
			if len(run) != n {
				return figure{}, fmt.Sprintf("runs of %d and %d conversations cannot be paired", n, len(run))
			}
		}
		parts[s] = overRuns(runs)
	}
	return newFigure(k, parts...)
}

// overRuns is what each conversation gives in all runs together.
func overRuns(runs [][]Part) []Part {
	parts := make([]Part, len(runs[0]))
	for _, run := range runs {
		for i, p := range run {
			parts[i].Num += p.Num
			parts[i].Den += p.Den
		}
	}
	return parts
}

// square is that of the quantile of Student's t distribution behind a bound that is
// passed with the chance tail.
func square(df, tail float64) float64 {
	t := StudentQuantile(1-tail, df)
	return float64(t * t)
}

// parted is the variance of a figure.
type parted struct {
	conversations float64 // the part from conversations
	all           float64 // from conversations and runs
	df            float64 // degrees of freedom of all
	atLeast       float64 // what runs add to the square of a bound's distance at least
}

func variances(f figure, tail float64, sides ...[][]Part) parted {
	n := float64(f.n)
	vc := f.ofConversations()
	p := parted{conversations: vc, all: vc}
	squares := vc * vc / (n - 1)
	_, slope := f.moved([2]float64{})
	for s, runs := range sides {
		if len(runs) < 2 {
			continue
		}
		ofMeans, rest := f.sides[s].ofRuns(runs)
		weight := float64(slope[s] * slope[s])
		vr := float64(weight * max(0, ofMeans-rest))
		p.all += vr
		squares += vr * vr / float64(len(runs)-1)
		p.atLeast += float64(square(float64(len(runs)-1), tail) * weight * max(0, ofMeans-float64(square(n-1, tail)*rest)))
	}
	p.df = p.all * p.all / squares
	return p
}

// ofRuns is the variance of a side's ratio as the means of its runs say it, and the
// part of that which is in the variance from conversations already.
func (s side) ofRuns(runs [][]Part) (ofMeans, rest float64) {
	r, n := float64(len(runs)), float64(len(s.parts))
	scale := r * n / s.all.Den
	means := make([]float64, len(runs))
	values := make([][]float64, len(runs))
	for j, run := range runs {
		values[j] = make([]float64, len(run))
		for i, p := range run {
			values[j][i] = float64(scale * (p.Num - float64(s.all.Ratio()*p.Den)))
		}
		means[j] = mean(values[j])
	}
	m := mean(means)
	for j := range values {
		for i, v := range values[j] {
			d := v - means[j] - scale*s.e[i]/r + m
			rest += float64(d * d)
		}
	}
	return variance(means) / r, rest / ((r - 1) * (n - 1) * n * r)
}
