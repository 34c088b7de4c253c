package collector

import (
	"fmt"
	"math"
	"slices"

	"spectap/collector/estimate"
)

// Repeats sums up several runs of one point.
type Repeats struct {
	Point       string          `json:"point"` // the name that the runs share
	Temperature float64         `json:"temperature"`
	Concurrency int             `json:"concurrency"`
	RequestRate float64         `json:"request_rate,omitempty"`
	Runs        []string        `json:"runs"`                      // their points, in order
	View        string          `json:"average_al_view,omitempty"` // "" of a baseline
	Figures     []RepeatFigures `json:"figures"`
	Goodput     *Goodput        `json:"goodput,omitempty"`         // of the requests of all runs; nil without an SLO, or of several
	OpenLoop    *OpenLoop       `json:"open_loop_worst,omitempty"` // of the run whose server kept up the least
	Warnings    []string        `json:"warnings,omitempty"`
}

// RepeatFigures are one figure of several runs.
type RepeatFigures struct {
	Name     string            `json:"name"`
	Values   []float64         `json:"by_run"`
	Pooled   float64           `json:"pooled"` // all runs together; the mean of those that are over time
	Interval estimate.Interval `json:"interval"`
	Method   string            `json:"interval_over"` // "runs and conversations", or "runs"

	Between          *float64 `json:"std_between_runs"`                   // of the values by run
	Within           *float64 `json:"std_within_runs"`                    // of the conversations of a run, mean of the runs' variances; null of a figure over time
	SameConversation *float64 `json:"std_of_a_conversation_between_runs"` // mean of the conversations' variances; null as above
	Expected         *float64 `json:"std_between_runs_by_conversations"`  // what the line above explains of the first: divided by the root of the number of conversations
}

// Figure returns the figure of a name; ok is false where there is none.
func (r Repeats) Figure(name string) (f RepeatFigures, ok bool) {
	for _, f := range r.Figures {
		if f.Name == name {
			return f, true
		}
	}
	return RepeatFigures{}, false
}

// Range is the least and the greatest run's value.
func (f RepeatFigures) Range() (low, high float64) { return slices.Min(f.Values), slices.Max(f.Values) }

// The names of the figures of Repeats.
const (
	FigureAL        = "average_al"
	FigureServerAL  = "server_average_al"
	FigureClientAL  = "client_average_al"
	FigureTTFT      = "ttft_mean_s"
	FigureTPOT      = "tpot_excl_first_mean_s"
	FigureOutputTPS = "output_tokens_per_second"
	FigureSteadyTPS = "steady_output_tokens_per_second" // only where every run has a window that means something
)

// FigurePosition names the acceptance rate at a draft position, from 1: of all verify
// steps, or conditional, of those that reached it.
func FigurePosition(position int, conditional bool) string {
	if conditional {
		return fmt.Sprintf("conditional_acceptance_at_%d", position)
	}
	return fmt.Sprintf("acceptance_at_%d", position)
}

// FigureShorter names Average_AL as it would have been with drafts of a length that
// is shorter than the measured one.
func FigureShorter(draftLength int) string {
	return fmt.Sprintf("average_al_of_%d_drafts", draftLength)
}

// FigureGain names what the last draft position brings of Average_AL.
func FigureGain(position int) string { return fmt.Sprintf("average_al_gained_at_%d", position) }

// RunFigures is what one run gives to the figures of all.
type RunFigures struct {
	run      Run
	figures  []runFigure
	goodput  *runGoodput
	openLoop *OpenLoop
}

// runFigure is one figure of a run: parts by conversation, of which index i is the
// same one in all runs, or a value over time.
type runFigure struct {
	name     string
	parts    []estimate.Part
	possible bounds // of parts
	value    float64
}

// bounds holds an interval to the values that a figure can have.
type bounds func(estimate.Interval) estimate.Interval

func asShare(in estimate.Interval) estimate.Interval  { return in.Within(0, 1) }
func asLength(in estimate.Interval) estimate.Interval { return in.Possible(1, math.Inf(1)) }

// asGain is nothing at the least, and a token a step at the most.
func asGain(in estimate.Interval) estimate.Interval { return in.Possible(0, 1) }

// asPositive refuses an interval that holds 0.
func asPositive(in estimate.Interval) estimate.Interval {
	if in.Known && in.Low <= 0 {
		return estimate.Interval{Reason: "the runs differ too much for an interval"}
	}
	return in
}

// RunFigures measures a Point for PoolRuns. It holds no Record.
func (p Point) RunFigures() (RunFigures, error) { return p.Measure().RunFigures() }

// RunFigures are those of Point.RunFigures.
func (m Measured) RunFigures() (RunFigures, error) {
	p, s := m.point, m.s
	p.Lenient = true
	if err := p.refuse(s); err != nil {
		return RunFigures{}, err
	}
	f := RunFigures{run: p.Run, openLoop: p.openLoop(s)}
	if p.Run.SLO != nil {
		f.goodput = new(p.runGoodput(s))
	}
	if !p.Run.Baseline {
		client, server := p.alByQuestion(s, ViewClient), p.alByQuestion(s, ViewServer)
		own := client
		if p.view() == ViewServer {
			own = server
		}
		f.add(FigureAL, asLength, own)
		f.add(FigureClientAL, asLength, client)
		f.add(FigureServerAL, asLength, server)
		p.addDrafts(&f, s, own)
	}
	f.add(FigureTTFT, asPositive, p.timesByQuestion(s, func(t requestTimes) (float64, bool) { return t.ttft, true }))
	f.add(FigureTPOT, asPositive, p.timesByQuestion(s, func(t requestTimes) (float64, bool) { return t.tpot, t.tpot > 0 }))
	if whole, ok := s.span(); ok {
		f.figures = append(f.figures, runFigure{name: FigureOutputTPS, value: tokensIn(s.arrivals(), span{math.Inf(-1), whole.to}) / whole.seconds()})
	}
	steady := p.steady(s, m.all)
	if w := steady.Usable(); w != nil {
		f.figures = append(f.figures, runFigure{name: FigureSteadyTPS, value: w.OutputTPS})
	}
	return f, nil
}

// add takes a ratio over conversations; one without any is left out.
func (f *RunFigures) add(name string, possible bounds, parts []estimate.Part) {
	if sum := estimate.Sum(parts); sum.Den != 0 {
		f.figures = append(f.figures, runFigure{name: name, parts: parts, possible: possible, value: sum.Ratio()})
	}
}

// addDrafts adds what is known by draft position and by draft length. own are the
// parts of Average_AL.
func (p Point) addDrafts(f *RunFigures, s selection, own []estimate.Part) {
	sums := newBlockSums(p.counted())
	audit, diff := p.audit(newBlockSums(p.Records), p.expectedBlocks())
	hist := p.histogram(sums, audit, diff)
	addPositions(f, s, len(p.Run.Questions), positionRates(sums, hist, diff))
	p.addShorter(f, s, own, hist.describing())
}

// addShorter adds the figures of WhatIf, where a run has them.
func (p Point) addShorter(f *RunFigures, s selection, own []estimate.Part, hist []int) {
	k := p.ownRules().DraftLength
	if !shortenable(hist, k) {
		return
	}
	shorter := own // of the last turn of the loop: k - 1 drafts
	for n := range k {
		shorter = p.partsByQuestion(shortened(s.conversations(p, p.view()), n))
		if n > 0 {
			f.add(FigureShorter(n), asLength, shorter)
		}
	}
	gain := slices.Clone(own)
	for i := range gain {
		gain[i].Num -= shorter[i].Num
	}
	f.add(FigureGain(k), asGain, gain)
}

// addPositions adds both acceptance rates by draft position.
func addPositions(f *RunFigures, s selection, questions int, rates PositionRates) {
	perPosition, conditional := rates.parts(s.convs)
	for i, parts := range perPosition {
		f.add(FigurePosition(i+1, false), asShare, s.byPlace(parts, questions))
	}
	for i, parts := range conditional {
		f.add(FigurePosition(i+1, true), asShare, s.byPlace(parts, questions))
	}
}

// byPlace puts what the conversations give at their places in the data set.
func (s selection) byPlace(parts []estimate.Part, questions int) []estimate.Part {
	placed := make([]estimate.Part, questions)
	for i, c := range s.convs {
		for c.index >= len(placed) { // without questions
			placed = append(placed, estimate.Part{})
		}
		placed[c.index] = parts[i]
	}
	return placed
}

// alByQuestion are the parts of Average_AL by place in the data set.
func (p Point) alByQuestion(s selection, view string) []estimate.Part {
	return p.partsByQuestion(s.conversations(p, view))
}

func (p Point) partsByQuestion(convs []Conversation) []estimate.Part {
	convs = averaged(p.Run.Metric, convs)
	parts := make([]estimate.Part, len(p.Run.Questions))
	for i, part := range p.alParts(convs) {
		for convs[i].Index >= len(parts) { // without questions
			parts = append(parts, estimate.Part{})
		}
		parts[convs[i].Index] = part
	}
	return parts
}

// timesByQuestion are sums and numbers of a time by place in the data set.
func (p Point) timesByQuestion(s selection, of func(requestTimes) (float64, bool)) []estimate.Part {
	late := p.lateness()
	parts := make([]estimate.Part, len(p.Run.Questions))
	for _, c := range s.convs {
		for c.index >= len(parts) {
			parts = append(parts, estimate.Part{})
		}
		for _, t := range c.turns {
			times, known := t.rec.requestTimes(late[t.rec])
			if v, has := of(times); known && has {
				parts[c.index].Num += v
				parts[c.index].Den++
			}
		}
	}
	return parts
}

// PoolRuns makes one summary of the runs of a point, which are two or more.
func PoolRuns(runs []RunFigures) Repeats {
	first := runs[0].run
	r := Repeats{Point: first.BasePoint(), Temperature: first.Temperature, Concurrency: first.Concurrency, RequestRate: first.requestRate()}
	if !first.Baseline {
		r.View = Point{Run: first}.view()
	}
	for _, each := range runs {
		r.Runs = append(r.Runs, each.run.Point)
	}
	for _, f := range runs[0].figures {
		var same []runFigure
		for _, each := range runs {
			for _, g := range each.figures {
				if g.name == f.name {
					same = append(same, g)
				}
			}
		}
		if len(same) < len(runs) {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s is known of %d of %d runs and left out", f.name, len(same), len(runs)))
			continue
		}
		r.Figures = append(r.Figures, pooledFigure(f.name, same, first.Seed))
	}
	r.pool(runs)
	return r
}

// pool judges all runs by their SLO, and keeps the open loop with the most to say
// against it.
func (r *Repeats) pool(runs []RunFigures) {
	var goodputs []runGoodput
	for _, each := range runs {
		if o := each.openLoop; o != nil && (r.OpenLoop == nil || o.doubt() > r.OpenLoop.doubt()) {
			r.OpenLoop = o
		}
		if each.goodput != nil {
			goodputs = append(goodputs, *each.goodput)
		}
	}
	switch {
	case len(goodputs) == 0:
	case len(goodputs) < len(runs) || slices.ContainsFunc(goodputs, func(g runGoodput) bool { return g.counts.SLO != goodputs[0].counts.SLO }):
		r.Warnings = append(r.Warnings, "the runs have different limits (--slo), so they are judged one by one")
	default:
		r.Goodput = pooledGoodput(goodputs)
		r.Goodput.doubt(r.RequestRate, r.OpenLoop)
	}
}

// pooledFigure pools one figure.
func pooledFigure(name string, runs []runFigure, seed int64) RepeatFigures {
	f := RepeatFigures{Name: name, Method: "runs"}
	var parts [][]estimate.Part
	for _, r := range runs {
		f.Values = append(f.Values, r.value)
		parts = append(parts, r.parts)
	}
	f.Between = sampleStd(f.Values)
	if runs[0].parts == nil {
		f.Pooled, f.Interval = Mean(f.Values), estimate.MeanOfRuns(f.Values)
		return f
	}
	f.Method = "runs and conversations"
	parts = present(parts)
	f.Pooled, f.Interval = estimate.Sum(slices.Concat(parts...)).Ratio(), runs[0].possible(estimate.RatioOfRuns(parts, seed))
	f.spread(parts)
	return f
}

// present are the parts without the conversations that no run has, all of one length.
func present(runs [][]estimate.Part) [][]estimate.Part {
	n := 0
	for _, run := range runs {
		n = max(n, len(run))
	}
	kept := make([][]estimate.Part, len(runs))
	for i := range n {
		any := false
		for _, run := range runs {
			any = any || i < len(run) && run[i].Den > 0
		}
		for r, run := range runs {
			if any && i < len(run) {
				kept[r] = append(kept[r], run[i])
			} else if any {
				kept[r] = append(kept[r], estimate.Part{})
			}
		}
	}
	return kept
}

// spread says how far conversations are apart in a run, and how far one is from
// itself in another run.
func (f *RepeatFigures) spread(runs [][]estimate.Part) {
	var within, same []float64 // variances
	for _, run := range runs {
		if v := sampleStd(valuesOf(run)); v != nil {
			within = append(within, *v**v)
		}
	}
	for i := range runs[0] {
		var one []estimate.Part
		for _, run := range runs {
			one = append(one, run[i])
		}
		if v := sampleStd(valuesOf(one)); v != nil {
			same = append(same, *v**v)
		}
	}
	root := func(variances []float64) *float64 {
		if len(variances) == 0 {
			return nil
		}
		return new(math.Sqrt(Mean(variances)))
	}
	f.Within, f.SameConversation = root(within), root(same)
	if f.SameConversation != nil {
		f.Expected = new(*f.SameConversation / math.Sqrt(float64(len(runs[0]))))
	}
}

// valuesOf are the ratios of the parts that there are.
func valuesOf(parts []estimate.Part) []float64 {
	var values []float64
	for _, part := range parts {
		if part.Den > 0 {
			values = append(values, part.Ratio())
		}
	}
	return values
}

// sampleStd is the standard deviation with n - 1; nil of fewer than two values.
func sampleStd(values []float64) *float64 {
	n := float64(len(values))
	if n < 2 {
		return nil
	}
	std := Std(values) * math.Sqrt(n/(n-1))
	if std <= 1e-12*math.Abs(Mean(values)) {
		std = 0 // equal numbers, summed up in another order
	}
	return &std
}
