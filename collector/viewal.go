package collector

import (
	"math"

	"spectap/collector/estimate"
)

// viewAL averages one view as its metric does. The generic metric averages turns,
// so there a conversation weighs as many as it has.
func (p Point) viewAL(convs []Conversation) (ViewAL, error) {
	average, err := AverageAL(p.Run.Metric, convs)
	if err != nil {
		return ViewAL{}, err
	}
	v := ViewAL{AverageAL: average, Conversations: len(convs)}
	interval := p.ratio(p.alParts(convs))
	if !interval.Known {
		v.NoInterval = interval.Reason
		return v, nil
	}
	v.Interval = &IntervalFigure{Low: interval.Low, High: interval.High, IntervalMethod: p.intervalMethod()}
	return v, nil
}

// alParts are what conversations give to Average_AL.
func (p Point) alParts(convs []Conversation) []estimate.Part {
	counted := averaged(p.Run.Metric, convs)
	parts := make([]estimate.Part, len(counted))
	for i, value := range ConversationALs(p.Run.Metric, counted) {
		parts[i] = estimate.Part{Num: value, Den: 1}
		if p.Run.Metric != MetricAcceptanceRate {
			continue
		}
		turns := counted[i].Turns
		parts[i] = estimate.Part{Den: float64(len(turns))}
		for t := range turns {
			sum, n := pool(turns[t : t+1])
			parts[i].Num += float64(sum) / float64(n)
		}
	}
	return parts
}

// averaged are the conversations whose AL is in Average_AL: with SpecBench the
// last one of each question id.
func averaged(m Metric, convs []Conversation) []Conversation {
	if m != MetricSpecBench {
		return convs
	}
	last, ids := make(map[string]int, len(convs)), make([]string, len(convs))
	for i, c := range convs {
		ids[i] = idIdentity(c.QuestionID)
		last[ids[i]] = i
	}
	if len(last) == len(convs) {
		return convs
	}
	var list []Conversation
	for i, c := range convs {
		if last[ids[i]] == i {
			list = append(list, c)
		}
	}
	return list
}

// keepPossible keeps the interval within what a step can bring: 1 token to k + 1,
// where k is known. One that is mostly outside is none.
func (v *ViewAL) keepPossible(k int) {
	if v.Interval == nil {
		return
	}
	in := possibleAL(v.interval(), k)
	if !in.Known {
		v.Interval, v.NoInterval = nil, in.Reason
		return
	}
	v.Interval.Low, v.Interval.High = in.Low, in.High
}

// possibleAL keeps the interval of an AL within what drafts of k can bring; k is 0
// where it is not known.
func possibleAL(in estimate.Interval, k int) estimate.Interval {
	high := math.Inf(1)
	if k > 0 {
		high = float64(k + 1)
	}
	return in.Possible(1, high)
}

// interval is the interval as a Summary has it.
func (v ViewAL) interval() Interval {
	if v.Interval == nil {
		return Interval{Reason: v.NoInterval}
	}
	return Interval{Low: v.Interval.Low, High: v.Interval.High, Known: true}
}
