package report

import (
	"spectap/collector/estimate"
)

// maxClusters is how many clusters an interval is drawn from at most. More
// conversations are added up to as many groups: an interval over groups of
// independent conversations is one over conversations, and a page is made in time.
const maxClusters = 2000

// grouped adds the parts up to maxClusters groups, every one of conversations from
// all over the data set.
func grouped(parts []estimate.Part) []estimate.Part {
	if len(parts) <= maxClusters {
		return parts
	}
	groups := make([]estimate.Part, maxClusters)
	for i, p := range parts {
		groups[i%maxClusters].Num += p.Num
		groups[i%maxClusters].Den += p.Den
	}
	return groups
}

// parts are what each conversation gives to the category's mean.
func (c category) parts() []estimate.Part {
	parts := make([]estimate.Part, len(c.al))
	for i, v := range c.al {
		parts[i] = estimate.Part{Num: v, Den: 1}
	}
	return parts
}

// positionIntervals are the intervals of the rates at n draft positions, where the
// rates are made of the blocks, which every conversation has its own of.
func (p *point) positionIntervals(n int, parts func(*point, int) []estimate.Part) []estimate.Interval {
	intervals := make([]estimate.Interval, n)
	if p.spec.Position.Source != "blocks" {
		return intervals
	}
	figures := make([][]estimate.Part, n)
	for i := range figures {
		figures[i] = grouped(parts(p, i))
	}
	if n > 0 && len(p.steps) > 1 {
		copy(intervals, estimate.Ratios(figures, p.run.Seed))
	}
	return intervals
}

// above counts the steps that accepted more than i drafts; above(-1) all steps.
func (s conversationSteps) above(i int) float64 {
	n := 0
	for j := i + 1; j < len(s); j++ {
		n += s[j]
	}
	return float64(n)
}

// perPositionParts are accepted at i over all verify steps.
func perPositionParts(p *point, i int) []estimate.Part {
	parts := make([]estimate.Part, len(p.steps))
	for c, s := range p.steps {
		parts[c] = estimate.Part{Num: s.above(i), Den: s.above(-1)}
	}
	return parts
}

// conditionalParts are accepted at i over the steps that reached it.
func conditionalParts(p *point, i int) []estimate.Part {
	parts := make([]estimate.Part, len(p.steps))
	for c, s := range p.steps {
		parts[c] = estimate.Part{Num: s.above(i), Den: s.above(i - 1)}
	}
	return parts
}
