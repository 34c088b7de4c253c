package estimate

import (
	"fmt"
	"math"
	"slices"
)

// stream separates the resamples from other uses of a run's seed.
const stream = 0x53504543

// Ratio gives the bootstrap-t interval of sum(Num) / sum(Den) over conversations,
// each of which is drawn as a whole. With theta the ratio, s its standard error by
// the jackknife, and theta*, s* those of one of B resamples of n conversations:
//
//	T* = (theta* - theta) / s*
//	theta - s T*(1 - alpha), theta - s T*(alpha)    are the bounds
//
// where T*(alpha) is the alpha quantile of the T*. alpha is not 0.025 but
// Phi(-t), with t the 0.975 quantile of Student's t distribution for the degrees of
// freedom of s, see freedom: resamples vary less than samples do, by about as much,
// and by more where few conversations make up s. s* is that of the linear part of
// theta*. The figures that decided for it are in coverage_test.go: BCa holds less
// than 93 % on long tails, and so do some of these with t of n - 1.
// Source: Efron and Tibshirani, An Introduction to the Bootstrap, 12.5; Hesterberg,
// What Teachers Should Know About the Bootstrap, 2015 (the alpha).
func Ratio(parts []Part, seed int64) Interval { return Ratios([][]Part{parts}, seed)[0] }

// Ratios gives Ratio of several figures over the same conversations. They share
// their draws, which is faster; each interval is the one that Ratio gives.
func Ratios(figures [][]Part, seed int64) []Interval {
	return ratios(figures, seed, Resamples)
}

func ratios(figures [][]Part, seed int64, resamples int) []Interval {
	intervals := make([]Interval, len(figures))
	byLength := map[int][]int{}
	for i, parts := range figures {
		byLength[len(parts)] = append(byLength[len(parts)], i)
	}
	for _, list := range byLength {
		var known []figure
		var places []int
		for _, i := range list {
			f, reason := newFigure(ratio, figures[i])
			if reason != "" {
				intervals[i] = unknown(reason)
				continue
			}
			known, places = append(known, f), append(places, i)
		}
		for j, spread := range resample(known, seed, resamples) {
			f := known[j]
			intervals[places[j]] = spread.interval(f.value(), 0)
		}
	}
	return intervals
}

// spread is how a figure moves with the choice of conversations.
type spread struct {
	error     float64 // standard error, by the jackknife
	low, high float64 // how far the bounds are from the figure
	reason    string  // why they are not known
}

// interval is that of a figure, with more added to the square of each bound's
// distance from it.
func (s spread) interval(value, more float64) Interval {
	if s.reason != "" {
		return unknown(s.reason)
	}
	far := func(distance float64) float64 {
		if more == 0 {
			return distance
		}
		return math.Sqrt(float64(distance*distance) + more)
	}
	return Interval{Low: value - far(s.low), High: value + far(s.high), Known: true}
}

// resample makes the spread of several figures over the same conversations.
func resample(figures []figure, seed int64, resamples int) []spread {
	if len(figures) == 0 {
		return nil
	}
	ts := draw(figures, seed, resamples)
	spreads := make([]spread, len(figures))
	for i, f := range figures {
		s := &spreads[i]
		if s.error = math.Sqrt(f.ofConversations()); s.error == 0 {
			s.reason = allEqual
			continue
		}
		if f.known < fewest {
			s.reason = fmt.Sprintf("n = %d conversations are too few for an interval", f.known)
			continue
		}
		slices.Sort(ts[i])
		alpha := normalCDF(-StudentQuantile((1+Level)/2, f.freedom()))
		s.low, s.high = float64(s.error*quantile(ts[i], 1-alpha)), float64(-s.error*quantile(ts[i], alpha))
		if !finite(s.low) || !finite(s.high) {
			s.reason = fewOther
			continue
		}
		if far := farthest * StudentQuantile((1+Level)/2, float64(f.known-1)) * s.error; f.n < enough && max(s.low, s.high) > far {
			s.reason = fmt.Sprintf("n = %d conversations are too few for an interval: a bound would be more than %d times as far as Student's t has it", f.known, farthest)
		}
	}
	return spreads
}

// studentized is T* of a resample's sums. With g the slopes of the figure with
// respect to each e and Den, its linear part has the variance n/(n-1) g' M g,
// where M holds the sums of products. It is infinite where the variance is 0 and
// the figure moved, and NaN where there is no figure.
func (f figure) studentized(sums []float64) float64 {
	k := 2 * len(f.sides)
	var r [2]float64
	for s := range f.sides {
		r[s] = sums[2*s] / sums[2*s+1]
	}
	distance, slope := f.moved(r)
	var g [4]float64
	for s := range f.sides {
		g[2*s] = slope[s] / sums[2*s+1]
		g[2*s+1] = -g[2*s] * r[s]
	}
	v, size, at := 0.0, 0.0, k
	for a := range k {
		for b := a; b < k; b++ {
			term := float64(g[a] * g[b] * sums[at])
			if a != b {
				term *= 2
			}
			v += term
			size += math.Abs(term)
			at++
		}
	}
	if v <= size*roundOff {
		v = 0
	}
	n := float64(f.n)
	if distance == 0 {
		return distance
	}
	return distance / math.Sqrt(v*n/(n-1))
}
