package estimate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MeanOfBlocks gives Student's t interval of the mean of values of 0 and above that
// are independent of each other, each of about the same size: one for each block of
// time that is longer than a request. An interval that would hold 0 is none: values
// so far apart are not what Student's t is made for.
func MeanOfBlocks(values []float64) Interval {
	n := float64(len(values))
	if n < 2 {
		return unknown("fewer than two blocks")
	}
	m, v := mean(values), variance(values)
	if v <= float64(m*m)*roundOff*roundOff {
		return unknown("all blocks have the same value")
	}
	half := float64(StudentQuantile((1+Level)/2, n-1) * math.Sqrt(v/n))
	if half >= m {
		return unknown("the values differ too much for an interval")
	}
	return Interval{Low: m - half, High: m + half, Known: true}
}

// FewestRuns is the least number of runs that has an interval between runs: the
// quantile of Student's t is 12.7 for two, 4.3 for three.
const FewestRuns = 3

// MeanOfRuns is MeanOfBlocks of values that a run has one of each.
func MeanOfRuns(values []float64) Interval {
	if len(values) < FewestRuns {
		return unknown(TooFewRuns(len(values)))
	}
	in := MeanOfBlocks(values)
	if !in.Known {
		in.Reason = strings.NewReplacer("values", "runs", "blocks", "runs").Replace(in.Reason)
	}
	return in
}

// TooFewRuns is why n runs have no interval between runs.
func TooFewRuns(n int) string {
	verb := "are"
	runs := "runs"
	if n == 1 {
		verb, runs = "is", "run"
	}
	return fmt.Sprintf("%d %s %s too few for an interval between runs; --repeats %d or more", n, runs, verb, FewestRuns)
}

// QuantileBounds gives the interval of the q quantile from the values themselves,
// in ascending order: with X the number of n values below the quantile, which is
// binomial whatever the distribution, the bounds are the l-th and the u-th
// smallest value where
//
//	P(X < l) <= 0.025, l as large as can be, and P(X >= u) <= 0.025, u as small as can be
//
// Where l would be 0 or u above n, n is too small. Values are taken as independent
// of each other. Source: David and Nagaraja, Order Statistics, 7.1.
func QuantileBounds(sorted []float64, q float64) Interval {
	n, tail := len(sorted), (1-Level)/2
	low := 0
	for low < n && binomialCDF(low, n, q) <= tail {
		low++
	}
	high := low
	for high <= n && 1-binomialCDF(high-1, n, q) > tail {
		high++
	}
	if low < 1 || high > n {
		return unknown(tooFewValues(n, q))
	}
	return Interval{Low: sorted[low-1], High: sorted[high-1], Known: true}
}

// TooFew says why n values have no QuantileBounds at q, so that the quantile is not
// shown; "" where they have. It takes no look at the values.
func TooFew(n int, q float64) string {
	if n >= FewestValues(q) {
		return ""
	}
	return tooFewValues(n, q)
}

// FewestValues is the least n that has QuantileBounds at q, which is within 0 and 1:
// all values may be above the quantile, or all below, with a chance of 0.025 each.
func FewestValues(q float64) int {
	return int(math.Ceil(math.Log((1-Level)/2) / math.Log(max(q, 1-q))))
}

func tooFewValues(n int, q float64) string {
	return fmt.Sprintf("n = %d is too few for p%s", n, strconv.FormatFloat(100*q, 'g', 6, 64))
}

// ShareOfRuns gives the interval of a share of requests, sum(Num) / sum(Den), where
// Num counts a conversation's hits and Den its requests. It is Clopper and Pearson's
// for the number of independent requests that are worth as much as these: with p
// the share, N requests and V the variance of p over conversations,
//
//	N' = p (1 - p) / V, at most N;  the bounds are beta quantiles of N' p and N' (1 - p)
//
// V and p are those with one more conversation, all of whose requests went the
// rarer way: so a share of 0 or 1 has an interval too, and is worth no more than
// its conversations. Source: Korn and Graubard, Confidence Intervals for
// Proportions With Small Expected Number of Positive Counts, 1998.
//
// Several runs were asked the same conversations (index i is the same one in each).
// A conversation with all its runs is one cluster. To V is added what runs add to the square of a bound's
// distance in RatioOfRuns, divided by t'^2: N' is the less the farther runs are
// apart, and the fewer they are. Runs that are all at 0 or 1 add nothing.
func ShareOfRuns(runs [][]Part) Interval {
	low, high, reason := shareBounds(runs, (1-Level)/2)
	if reason != "" {
		return unknown(reason)
	}
	return Interval{Low: low, High: high, Known: true}
}

// ShareOfRunsAtLeast gives the bound above which the share is with 95 % confidence.
// Its Interval ends at 1.
func ShareOfRunsAtLeast(runs [][]Part) Interval {
	low, _, reason := shareBounds(runs, 1-Level)
	if reason != "" {
		return unknown(reason)
	}
	return Interval{Low: low, High: 1, Known: true}
}

// shareBounds are the bounds that the share passes with the chance tail each.
func shareBounds(runs [][]Part, tail float64) (low, high float64, reason string) {
	for _, run := range runs {
		if len(run) != len(runs[0]) {
			return 0, 0, fmt.Sprintf("runs of %d and %d conversations cannot be taken together", len(runs[0]), len(run))
		}
	}
	hits := overRuns(runs)
	all, clusters := Sum(hits), 0
	for _, h := range hits {
		if h.Den > 0 {
			clusters++
		}
	}
	if clusters < 2 {
		return 0, 0, tooFew
	}
	n := worth(hits, all, float64(clusters), betweenRuns(runs, tail))
	yes := n * all.Num / all.Den
	no := n - yes
	low, high = 0, 1
	if yes > 0 {
		low = betaQuantile(tail, yes, no+1)
	}
	if no > 0 {
		high = betaQuantile(1-tail, yes+1, no)
	}
	return low, high, ""
}

// betweenRuns is the variance that runs add to that of a share.
func betweenRuns(runs [][]Part, tail float64) float64 {
	f, reason := pooled(ratio, runs)
	if len(runs) < 2 || reason != "" {
		return 0
	}
	return ofRuns(f, tail, runs) / square(float64(f.n-1), tail)
}

// worth is N' of ShareOfRuns. more is added to V.
func worth(hits []Part, all Part, clusters, more float64) float64 {
	other := Part{Den: all.Den / clusters}
	if all.Num < all.Den/2 {
		other.Num = other.Den
	}
	total := Part{all.Num + other.Num, all.Den + other.Den}
	p, squares := total.Num/total.Den, 0.0
	for _, h := range append([]Part{other}, hits...) {
		d := h.Num - float64(p*h.Den)
		squares += float64(d * d)
	}
	v := squares * (clusters + 1) / clusters / (total.Den * total.Den)
	least := float64(p * (1 - p) / total.Den) // of requests that are independent of each other
	return float64(p*(1-p)/(max(v, least)+more)) * all.Den / total.Den
}
