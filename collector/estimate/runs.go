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

// power is the chance of Smallest.
const power = 0.8

// Smallest returns the smallest true difference of the ratios that would have been
// told from none with a chance of 80 % at these numbers of conversations and runs:
// (t(0.975) + t(0.8)) times the standard error. It is false where that is not known.
func Smallest(a, b [][]Part, seed int64) (float64, bool) {
	f, reason := pooled(difference, a, b)
	if reason != "" {
		return 0, false
	}
	_, v, df := variances(f, a, b)
	if v == 0 {
		return 0, false
	}
	return (studentQuantile((1+Level)/2, df) + studentQuantile(power, df)) * math.Sqrt(v), true
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
	vc, v, df := variances(f, sides...)
	n := float64(f.n)
	return s.interval(f.value(), studentQuantile((1+Level)/2, df)*math.Sqrt(v)/(studentQuantile((1+Level)/2, n-1)*math.Sqrt(vc)))
}

// pooled is the figure of all runs of each side together.
func pooled(k kind, sides ...[][]Part) (figure, string) {
	parts := make([][]Part, len(sides))
	n := -1
	for s, runs := range sides {
		for _, run := range runs {
			if n < 0 {
				n = len(run)
			}
			if len(run) != n {
				return figure{}, fmt.Sprintf("runs of %d and %d conversations cannot be paired", n, len(run))
			}
			if parts[s] == nil {
				parts[s] = make([]Part, n)
			}
			for i, p := range run {
				parts[s][i].Num += p.Num
				parts[s][i].Den += p.Den
			}
		}
	}
	return newFigure(k, parts...)
}

// variances are the variance of the figure from conversations, that from
// conversations and runs, and the latter's degrees of freedom.
func variances(f figure, sides ...[][]Part) (vc, v, df float64) {
	n := float64(f.n)
	vc = f.ofConversations()
	v = vc
	squares := vc * vc / (n - 1)
	_, slope := f.moved([2]float64{})
	for s, runs := range sides {
		if len(runs) < 2 {
			continue
		}
		vr := slope[s] * slope[s] * f.sides[s].ofRuns(runs)
		v += vr
		squares += vr * vr / float64(len(runs)-1)
	}
	return vc, v, v * v / squares
}

// ofRuns is the variance of a side's ratio from its runs, less the part that is in
// the variance from conversations already.
func (s side) ofRuns(runs [][]Part) float64 {
	r, n := float64(len(runs)), float64(len(s.parts))
	scale := r * n / s.all.Den
	means := make([]float64, len(runs))
	values := make([][]float64, len(runs))
	for j, run := range runs {
		values[j] = make([]float64, len(run))
		for i, p := range run {
			values[j][i] = scale * (p.Num - float64(s.all.ratio()*p.Den))
		}
		means[j] = mean(values[j])
	}
	m, rest := mean(means), 0.0
	for j := range values {
		for i, v := range values[j] {
			d := v - means[j] - scale*s.e[i]/r + m
			rest += float64(d * d)
		}
	}
	rest /= (r - 1) * (n - 1)
	return max(0, variance(means)/r-rest/(n*r))
}
