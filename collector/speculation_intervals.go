package collector

import "spectap/collector/estimate"

// oneRun is what the intervals of one point cover.
const oneRun = "this run only"

// IntervalMethod says what the intervals of a file are made with, so that they can
// be made again.
type IntervalMethod struct {
	Level     float64 `json:"level"`
	Method    string  `json:"method"`
	Resamples int     `json:"resamples"`
	Seed      int64   `json:"seed"`
	Covers    string  `json:"covers"` // "this run only": other conversations, not another run of the server
}

func (p Point) intervalMethod() IntervalMethod {
	return IntervalMethod{Level: estimate.Level, Method: estimate.Method, Resamples: estimate.Resamples, Seed: p.Run.Seed, Covers: oneRun}
}

// noConversation is why a rate has no interval around it.
const noConversation = "the rate counts steps of requests that are in no measured conversation"

// withIntervals adds the intervals of both rates: each conversation gives its
// steps that accepted at a position, and those that are divided by.
func (r PositionRates) withIntervals(convs []measuredConversation, seed int64) PositionRates {
	perPosition, conditional := r.parts(convs)
	intervals := estimate.Ratios(append(perPosition, conditional...), seed)
	around := func(rates []float64, intervals []Interval) []Interval {
		for i, in := range intervals {
			in = in.Within(0, 1)
			if in.Known && (rates[i] < in.Low || rates[i] > in.High) {
				in = Interval{Reason: noConversation}
			}
			intervals[i] = in
		}
		return intervals
	}
	n := len(r.PerPosition)
	r.PerPositionIntervals = around(r.PerPosition, intervals[:n:n])
	if r.Conditional != nil {
		r.ConditionalIntervals = around(r.Conditional, intervals[n:])
	}
	return r
}

// parts are what each conversation gives to both rates, by position.
func (r PositionRates) parts(convs []measuredConversation) (perPosition, conditional [][]estimate.Part) {
	perPosition, conditional = make([][]estimate.Part, len(r.PerPosition)), make([][]estimate.Part, len(r.Conditional))
	for _, c := range convs {
		steps, above, reachedAt, acceptedAt := c.positions(r.Source)
		for i := range perPosition {
			perPosition[i] = append(perPosition[i], estimate.Part{Num: at(above, i), Den: float64(steps)})
		}
		for i := range conditional {
			conditional[i] = append(conditional[i], estimate.Part{Num: at(acceptedAt, i), Den: at(reachedAt, i)})
		}
	}
	return perPosition, conditional
}

// at is the number at a position; 0 beyond the last.
func at(counts []int, i int) float64 {
	if i < len(counts) {
		return float64(counts[i])
	}
	return 0
}

// positions counts a conversation's verify steps: all, those that accepted more
// than i drafts, and those that reached draft i and accepted it, by the source of
// the conditional rates.
func (c measuredConversation) positions(source string) (steps int, above, reachedAt, acceptedAt []int) {
	var lists blockSums
	var hist []int
	for _, t := range c.turns {
		hist = addCounts(hist, t.accepted())
		if t.rec.Spec != nil {
			lists.addLists(t.rec.Spec)
		}
	}
	steps, _ = histogramSums(hist)
	above = tails(hist)
	if source == sourceLists {
		return steps, above, lists.reachedAt, lists.acceptedAt
	}
	return steps, above, append([]int{steps}, above...), above
}

// accepted is a turn's histogram of verify steps by accepted drafts: the block's,
// or that of the server view's lengths, the first of which is the prefill's.
func (t measuredTurn) accepted() []int {
	if hist := block(t.rec); hist != nil {
		return hist
	}
	var hist []int
	for i, length := range t.server.Lengths {
		if i == 0 || length < 1 {
			continue
		}
		for len(hist) < length {
			hist = append(hist, 0)
		}
		hist[length-1]++
	}
	return hist
}
