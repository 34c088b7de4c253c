package compare

import (
	"fmt"

	"spectap/collector/estimate"
)

// wholeRuns are the figures that a run has one number of: throughput, and what
// specdec_bench's files hold as an average alone. have are the quantities that the
// conversations already gave.
func wholeRuns(a, b Point, have map[string]bool) []Figure {
	var list []Figure
	for _, q := range []string{QuantityTPS, QuantityTPSPerGPU, QuantityTTFT, QuantityRequestTPS} {
		x, y := a.wholes(q), b.wholes(q)
		if have[q] || q == QuantityRequestTPS && have[QuantityUserTPS] || len(x) == 0 && len(y) == 0 {
			continue
		}
		list = append(list, runFigure(q, x, y))
	}
	if f, ok := steadyFigure(a, b); ok {
		list = append(list, f)
	}
	return list
}

// steadyFigure compares the steady windows: by the runs where both sides have
// several, else by the time blocks of these runs.
func steadyFigure(a, b Point) (Figure, bool) {
	x, y := a.wholes(QuantitySteadyTPS), b.wholes(QuantitySteadyTPS)
	if len(x) == 0 || len(y) == 0 {
		return Figure{}, false
	}
	f := runFigure(QuantitySteadyTPS, x, y)
	if f.Difference.Known {
		return f, true
	}
	v, okV := a.steady()
	w, okW := b.steady()
	if !okV || !okW {
		f.none("no interval: a steady window is too short for time blocks")
		return f, true
	}
	f.Difference.Interval, f.Ratio.Interval, f.Smallest = welch(w, v)
	f.made(methodBlocks, theseRuns)
	f.student = f.chanceOf(w, v)
	return f, true
}

// steady is the throughput of the steady window: by the runs where they are enough,
// else the mean of the runs by their time blocks, whose t intervals give the
// variances back.
func (p Point) steady() (normal, bool) {
	if x := p.wholes(QuantitySteadyTPS); len(x) >= estimate.FewestRuns {
		return meanOf(x), true
	}
	var sum normal
	runs := 0
	for _, r := range p.runs {
		w := r.steady
		if w == nil {
			continue
		}
		if !w.Interval.Known || w.Blocks < 2 {
			return normal{}, false
		}
		half := (w.Interval.High - w.Interval.Low) / 2
		se := half / estimate.StudentQuantile((1+estimate.Level)/2, float64(w.Blocks-1))
		sum = normal{sum.mean + w.OutputTPS, sum.variance + se*se, sum.n + w.Blocks - 1}
		runs++
	}
	n := float64(runs)
	return normal{sum.mean / n, sum.variance / (n * n), sum.n + 1}, runs > 0
}

// wholes are the numbers of a quantity, one for each run that has it.
func (p Point) wholes(quantity string) []float64 {
	var list []float64
	for _, r := range p.runs {
		v := r.whole(quantity)
		if v > 0 {
			list = append(list, v)
		}
	}
	return list
}

// whole is a run's own number of a quantity; 0 where it has none.
func (r run) whole(quantity string) float64 {
	switch quantity {
	case QuantityTPS:
		return r.tps
	case QuantityTPSPerGPU:
		return r.tpsPerGPU
	case QuantitySteadyTPS:
		if r.steady == nil {
			return 0
		}
		return r.steady.OutputTPS
	}
	if v, ok := r.means[quantity]; ok {
		return v
	}
	of := func(t turn) sample { return t.ttft }
	if quantity == QuantityRequestTPS {
		of = func(t turn) sample { return t.rate }
	}
	if mean := value(measure{part: samplePart(of)}.parts([][]conversation{r.convs})); mean != nil {
		return *mean
	}
	return 0
}

// runFigure compares numbers of whole runs. Only repeats show how far runs differ,
// and two of them hardly do.
func runFigure(quantity string, a, b []float64) Figure {
	f := Figure{Quantity: quantity, Scope: ScopeOverall, Unit: units[quantity], RunsA: len(a), RunsB: len(b)}
	if quantity == QuantityTTFT {
		f.Since = SinceWritten // files without records have no other
	}
	if len(a) == 0 || len(b) == 0 {
		if len(a) > 0 {
			f.A = pointer(meanOf(a).mean)
		}
		if len(b) > 0 {
			f.B = pointer(meanOf(b).mean)
		}
		f.none("one side does not have it")
		return f
	}
	f.A, f.B = pointer(meanOf(a).mean), pointer(meanOf(b).mean)
	f.points()
	f.made(methodRuns, otherRuns)
	if reason := tooFewRuns(len(a), len(b)); reason != "" {
		f.none(reason)
		f.made("", "")
		return f
	}
	x, y := meanOf(b), meanOf(a)
	f.Difference.Interval, f.Ratio.Interval, f.Smallest = welch(x, y)
	f.student = f.chanceOf(x, y)
	return f
}

func tooFewRuns(a, b int) string {
	switch {
	case a == 1 && b == 1:
		return "no interval: one run each"
	case a == b && a < estimate.FewestRuns:
		return "no interval: " + estimate.TooFewRuns(a)
	case min(a, b) < estimate.FewestRuns:
		return fmt.Sprintf("no interval: %d and %d runs are too few for an interval between runs; --repeats %d or more on both sides", a, b, estimate.FewestRuns)
	}
	return ""
}

func pointer(v float64) *float64 { return &v }

// jointFigures compare Joint_Acceptance_Rate where a side has nothing else about
// positions. It counts the chunks of all requests together, so it has no interval.
func jointFigures(a, b Point) []Figure {
	x, y := a.runs[0].joint, b.runs[0].joint
	if len(x) == 0 || len(y) == 0 || len(a.runs)+len(b.runs) > 2 {
		return nil
	}
	var list []Figure
	for n := 2; n <= max(longest(x), longest(y)); n++ {
		f := Figure{Quantity: QuantityJoint, Scope: ScopePosition, Key: fmt.Sprint(n), Unit: units[QuantityJoint], RunsA: 1, RunsB: 1}
		f.A, f.B = pointer(x.atLeast(n)), pointer(y.atLeast(n))
		f.points()
		f.none("acceptance_rate.json does not tell requests apart here")
		list = append(list, f)
	}
	return list
}

// jointShares are the shares of chunks of at least a length, by length.
type jointShares map[int]float64

// atLeast is the share of chunks of at least n tokens: that of the next length
// which occurs, as between them there is no chunk; 0 beyond the longest.
func (j jointShares) atLeast(n int) float64 {
	for last := longest(j); n <= last; n++ {
		if v, ok := j[n]; ok {
			return v
		}
	}
	return 0
}

func longest(j jointShares) int {
	n := 0
	for length := range j {
		n = max(n, length)
	}
	return n
}
