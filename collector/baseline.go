package collector

import (
	"fmt"
	"slices"
)

// A baseline is a point of a server that does not speculate. Its times are
// measured as those of other points; it has no acceptance: neither
// acceptance_rate.json nor an acceptance length, which could only be invented.

// reasonNoTokens says that a baseline's turn cannot be timed per token.
const reasonNoTokens = "no_token_count"

// baselineTokens is the mean number of tokens of an event from which a server is
// suspected to speculate, or to merge events.
const baselineTokens = 1.05

// baselineFailure says why a turn of a baseline cannot be measured; nil where it can.
func baselineFailure(t measuredTurn) *Failure {
	if several(t.rec) {
		return &Failure{Reason: MissingSeveralChoices, Detail: errSeveralChoices.Error()}
	}
	if t.completion() < 1 {
		return &Failure{Reason: reasonNoTokens, Detail: "the server said neither the reply's tokens nor those of its events"}
	}
	return nil
}

// baseline computes what speculation.json holds of a baseline: its members about
// speculation are the zero ones, which MarshalJSON leaves out.
func (p Point) baseline(s selection) Speculation {
	out := Speculation{
		Schema: SchemaSpeculation, Point: p.Run.Point, Metric: p.Run.Metric, Baseline: true, LeftOut: s.leftOut(),
		ByTurn: s.byTurn(), Turns: TurnCounts{Total: s.turnCounts().Total}, Attribution: p.Run.Attribution,
	}
	out.Audit, _ = p.audit(newBlockSums(p.counted()), 0)
	out.Warnings = append(p.warnings(s, out), p.baselineWarnings()...)
	return out
}

// baselineWarnings say why the server is believed to speculate after all.
func (p Point) baselineWarnings() []string {
	var list []string
	blocks, events, tokens := 0, 0, 0
	for _, r := range p.counted() {
		blocks += count(r.Spec != nil)
		counts := eventCounts(r)
		events += len(counts)
		for _, n := range counts {
			tokens += n
		}
	}
	if blocks > 0 {
		list = append(list, fmt.Sprintf("no baseline: %d of %d requests came with statistics of speculative decoding", blocks, len(p.counted())))
	}
	if p.Run.Before != nil && p.Run.After != nil {
		if diff, err := p.Run.After.Sub(*p.Run.Before); err == nil && diff.Drafts > 0 {
			list = append(list, fmt.Sprintf("no baseline: the server made %g drafts", diff.Drafts))
		}
	}
	if events > 0 && float64(tokens) > baselineTokens*float64(events) && len(list) == 0 {
		list = append(list, fmt.Sprintf("events brought %.2f tokens on the average: the server speculates, which is no baseline, or merges events (vLLM's --stream-interval), and then step times are those of several steps",
			float64(tokens)/float64(events)))
	}
	return list
}

// auditBaseline holds the number of requests against the server's counters:
// without speculation there is nothing else of ours that it counts alike.
func (a *Audit) auditBaseline(finished int, diff Counters) {
	a.Sums = []AuditEntry{{"requests", float64(finished), diff.RequestsFinished}}
	switch e := a.Sums[0]; {
	case e.Server > e.Ours:
		a.Verdict, a.Reason = AuditForeign, fmt.Sprintf("the server finished %g requests, %g of them ours", e.Server, e.Ours)
	case e.Server < e.Ours:
		a.Verdict, a.Reason = AuditDiffers, fmt.Sprintf("the server finished %g requests, we saw %g", e.Server, e.Ours)
	default:
		a.Verdict, a.Reason = AuditExact, "the numbers of requests agree; a baseline has no other sums"
	}
}

// speculationMembers are the members of speculation.json, and of its turns, that a
// baseline does not have.
var speculationMembers = struct{ point, turn, turns []string }{
	point: []string{"acceptance_rate_view", "client_view", "server_view", "server_minus_client_average_al", "steps",
		"statistics_blocks", "accepted_histogram", "acceptance_by_draft_position", "intervals"},
	turn:  []string{"client_pooled_al", "server_pooled_al"},
	turns: []string{"ended_at_eos", "cut_at_the_end", "tokens_cut", "with_draftless_steps", "with_merged_events"},
}

// MarshalJSON leaves out of a baseline what it does not have.
func (s Speculation) MarshalJSON() ([]byte, error) {
	type plain Speculation // without this method
	text, err := marshalPlain(plain(s))
	if err != nil || !s.Baseline {
		return text, err
	}
	v, err := DecodeOrdered(text)
	if err != nil {
		return nil, err
	}
	o := without(v, speculationMembers.point)
	for i, m := range o {
		switch m.Key {
		case "by_turn":
			list, _ := m.Value.([]any)
			for j := range list {
				list[j] = without(list[j], speculationMembers.turn)
			}
		case "turns":
			o[i].Value = without(m.Value, speculationMembers.turns)
		}
	}
	return AppendIndented(nil, o), nil
}

// without returns an object less some members.
func without(v any, names []string) Object {
	o, _ := v.(Object)
	return slices.DeleteFunc(o, func(m Member) bool { return slices.Contains(names, m.Key) })
}
