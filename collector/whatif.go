package collector

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"spectap/collector/estimate"
)

// WhatIf says what shorter drafts would have brought, from the steps that were
// measured. With j the accepted drafts of a verify step, a draft of k' accepts
//
//	min(j, k')
//
// In both views a chunk of n tokens becomes one of min(n, k' + 1). All else stays as
// it was: the prefill's token, steps without drafts, and what the reply's end cut
// off the last step.
type WhatIf struct {
	View       string         `json:"average_al_view"` // of average_al, that of acceptance_rate.json
	Method     string         `json:"method"`          // how the server drafts; "unknown" where it did not say
	Drafter    string         `json:"drafter"`         // one of the Drafter constants
	Assumes    []string       `json:"assumes"`         // in words
	Lengths    []ShorterDraft `json:"by_num_speculative_tokens"`
	Last       LastPosition   `json:"last_position"`
	TryNext    string         `json:"to_try_next"`              // what was measured, no promise: the cost of drafting is not known here
	FewerSteps *int           `json:"blocks_with_fewer_drafts"` // requests some of whose verify steps drafted fewer than num_speculative_tokens
}

// ShorterDraft are the figures of one draft length.
type ShorterDraft struct {
	DraftLength   int             `json:"num_speculative_tokens"`
	AverageAL     float64         `json:"average_al"`
	Interval      *IntervalFigure `json:"average_al_interval"` // null: NoInterval says why
	NoInterval    string          `json:"no_interval_because,omitempty"`
	OtherAL       float64         `json:"other_view_average_al"`
	TokensPerStep float64         `json:"tokens_per_verify_step"` // 1 + accepted / verify steps of the histogram that describes the point
	Kept          float64         `json:"share_of_average_al"`    // of that with the drafts as they were
}

// LastPosition is what the last of the drafts brings.
type LastPosition struct {
	Position      int               `json:"position"`               // from 1
	Accepted      float64           `json:"accepted_of_all_steps"`  // share of verify steps
	AfterPrevious *float64          `json:"accepted_where_reached"` // share of the steps that accepted all before it; null where none did
	Gain          float64           `json:"average_al_gained"`
	GainInterval  estimate.Interval `json:"average_al_gained_interval"` // paired over conversations
}

// whatIf makes the figures; nil where no step verified a draft.
func (p Point) whatIf(s selection, spec Speculation) (*WhatIf, error) {
	k, hist := spec.Steps.DraftLength, spec.Accepted.describing()
	if !shortenable(hist, k) {
		return nil, nil
	}
	w := &WhatIf{View: p.view()}
	w.Method, w.Drafter = p.Run.drafter()
	w.Assumes = w.assumptions()
	w.Method = cmp.Or(w.Method, DrafterUnknown)
	w.FewerSteps = fewerDrafts(s, k)
	own, other := s.conversations(p, w.View), s.conversations(p, otherView(w.View))
	full := spec.AL()
	for shorter := 1; shorter <= k; shorter++ {
		view, err := full, error(nil)
		if shorter < k {
			view, err = p.viewAL(shortened(own, shorter))
			view.keepPossible(shorter)
		}
		if err != nil {
			return nil, err
		}
		otherAL, err := AverageAL(p.Run.Metric, shortened(other, shorter))
		if err != nil {
			return nil, err
		}
		w.Lengths = append(w.Lengths, ShorterDraft{
			DraftLength: shorter, AverageAL: view.AverageAL, Interval: view.Interval, NoInterval: view.NoInterval,
			OtherAL: otherAL, TokensPerStep: tokensPerStep(hist, shorter), Kept: view.AverageAL / full.AverageAL,
		})
	}
	w.Last = p.lastPosition(own, hist, k)
	w.TryNext = w.toTryNext()
	return w, nil
}

// shortenable says that steps of at most k drafts were verified.
func shortenable(hist []int, k int) bool {
	steps, _ := histogramSums(hist)
	return steps > 0 && k >= 1 && len(hist) <= k+1
}

// OfRuns are the figures of all runs of a point together, where w are those of one;
// ok is false where the runs do not have them. The other view's AL is not among them.
func (w WhatIf) OfRuns(r Repeats) (all WhatIf, ok bool) {
	k := w.Last.Position
	full, known := r.Figure(FigureAL)
	gain, gained := r.Figure(FigureGain(k))
	if !known || !gained || len(w.Lengths) != k {
		return w, false
	}
	all = w
	all.Lengths, all.FewerSteps, all.Last = nil, nil, LastPosition{Position: k, Gain: gain.Pooled, GainInterval: gain.Interval}
	tokens, before := 1.0, 0.0
	all.Last.Accepted = 1 // as if at position 0
	for n := 1; n <= k; n++ {
		f := full
		if n < k {
			f, known = r.Figure(FigureShorter(n))
		}
		if !known {
			return w, false
		}
		rate, _ := r.Figure(FigurePosition(n, false)) // none where no step came so far
		before, all.Last.Accepted = all.Last.Accepted, rate.Pooled
		tokens += rate.Pooled
		in := possibleAL(f.Interval, n)
		d := ShorterDraft{DraftLength: n, AverageAL: f.Pooled, NoInterval: in.Reason, OtherAL: math.NaN(), TokensPerStep: tokens, Kept: f.Pooled / full.Pooled}
		if in.Known {
			d.Interval = &IntervalFigure{Low: in.Low, High: in.High}
		}
		all.Lengths = append(all.Lengths, d)
	}
	if before > 0 {
		all.Last.AfterPrevious = new(all.Last.Accepted / before)
	}
	all.TryNext = all.toTryNext()
	return all, true
}

func otherView(view string) string {
	if view == ViewServer {
		return ViewClient
	}
	return ViewServer
}

// shortened are conversations as with drafts of k.
func shortened(convs []Conversation, k int) []Conversation {
	list := slices.Clone(convs)
	for i := range list {
		list[i].Turns = slices.Clone(list[i].Turns)
		for t := range list[i].Turns {
			lengths := slices.Clone(list[i].Turns[t].Lengths)
			for j := range lengths {
				lengths[j] = min(lengths[j], k+1)
			}
			list[i].Turns[t].Lengths = lengths
		}
	}
	return list
}

// tokensPerStep is 1 + sum min(j, k) h[j] / sum h[j].
func tokensPerStep(hist []int, k int) float64 {
	steps, accepted := 0, 0
	for j, n := range hist {
		steps += n
		accepted += n * min(j, k)
	}
	return 1 + share(accepted, steps)
}

// lastPosition says what draft k brings.
func (p Point) lastPosition(convs []Conversation, hist []int, k int) LastPosition {
	above := tails(hist) // above[i]: steps that accepted more than i
	for len(above) < k {
		above = append(above, 0)
	}
	steps, _ := histogramSums(hist)
	last := LastPosition{Position: k, Accepted: share(above[k-1], steps)}
	reached := steps
	if k > 1 {
		reached = above[k-2]
	}
	if reached > 0 {
		after := share(above[k-1], reached)
		last.AfterPrevious = &after
	}
	with, without := p.alParts(convs), p.alParts(shortened(convs, k-1))
	gain := make([]estimate.Part, len(with))
	for i := range gain {
		gain[i] = estimate.Part{Num: with[i].Num - without[i].Num, Den: with[i].Den}
	}
	last.Gain, last.GainInterval = estimate.Sum(gain).Ratio(), p.ratio(gain).Possible(0, 1) // a step becomes longer by one token at the most
	return last
}

// fewerDrafts counts the requests some of whose steps drafted fewer than k; nil
// where blocks do not say what was drafted.
func fewerDrafts(s selection, k int) *int {
	n, said := 0, false
	for _, c := range s.convs {
		for _, t := range c.turns {
			if b := t.rec.Spec; b != nil && b.Steps > 0 && b.DraftedTokens > 0 {
				said = true
				n += count(b.DraftedTokens < k*b.Steps)
			}
		}
	}
	if !said {
		return nil
	}
	return &n
}

// assumptions are what the figures stand on.
func (w *WhatIf) assumptions() []string {
	first := map[string]string{
		DrafterChain:   fmt.Sprintf("the first k' drafts do not depend on how many follow: so it is with %s", w.Method),
		DrafterBlock:   fmt.Sprintf("the first k' drafts do not depend on how many follow: not so with %s, which makes all drafts of a step at once; measure each length that matters", cmp.Or(w.Method, "parallel drafting")),
		DrafterUnknown: "the first k' drafts do not depend on how many follow: so it is with drafters that make one draft after another (EAGLE, MTP, draft models, n-gram), not with those that make a block or a tree at once; which one this server has it did not say",
	}
	return []string{
		first[w.Drafter],
		"steps with shorter drafts would be like these; in truth they begin at other tokens, more of them in passages that are easy to draft, so that a shorter draft does somewhat better than it says here where a text has easy and hard passages",
		"a step that drafted fewer than num_speculative_tokens would draft the same, up to k'",
	}
}

// keptLeast is the share of AL from which on a shorter draft is called worth a try.
const keptLeast = 0.98

// toTryNext states what was measured about the neighbours of k.
func (w *WhatIf) toTryNext() string {
	k := w.Last.Position
	gain := fmt.Sprintf("%.3f", w.Last.Gain)
	if in := w.Last.GainInterval; in.Known {
		gain += fmt.Sprintf(" (%.3f to %.3f)", in.Low, in.High)
	}
	text := fmt.Sprintf("position %d of %d was accepted in %.1f %% of the verify steps and brings %s of Average_AL", k, k, 100*w.Last.Accepted, gain)
	shortest := slices.IndexFunc(w.Lengths, func(l ShorterDraft) bool { return l.Kept >= keptLeast })
	if l := w.Lengths[shortest]; l.DraftLength < k {
		text += fmt.Sprintf("; %d drafts keep %.1f %% of it, so %d is worth a measurement if drafting costs time", l.DraftLength, 100*l.Kept, l.DraftLength)
	}
	if after := w.Last.AfterPrevious; after != nil && *after >= 0.5 {
		text += fmt.Sprintf("; where it was reached it was accepted in %.1f %%, so more than %d were not measured and may be worth it", 100**after, k)
	}
	return text + "; what a draft costs is not known here"
}
