package collector

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// The limits above which a warning is given.
const (
	draftlessLimit  = 0.01 // share of draft-less decode steps (metric-parity 4.5)
	differenceLimit = 0.01 // distance of the views' Average_AL (design 9.8)
)

// speculation computes all figures of speculation.json.
func (p Point) speculation(s selection) (Speculation, error) {
	if p.Run.Baseline {
		return p.baseline(s), nil
	}
	out := Speculation{
		Schema: SchemaSpeculation, Point: p.Run.Point, Metric: p.Run.Metric, View: p.view(), LeftOut: s.leftOut(),
		ByTurn: s.byTurn(), Turns: s.turnCounts(), Blocks: p.blockCounts(s),
	}
	out.Attribution = p.Run.Attribution
	var err error
	if out.Client, err = p.viewAL(s.conversations(p, ViewClient)); err != nil {
		return out, err
	}
	if out.Server, err = p.viewAL(s.conversations(p, ViewServer)); err != nil {
		return out, err
	}
	out.Difference = out.Server.AverageAL - out.Client.AverageAL
	sums := newBlockSums(p.counted())
	audit, diff := p.audit(newBlockSums(p.Records), p.expectedBlocks())
	out.Audit = audit
	out.Accepted = p.histogram(sums, audit, diff)
	out.Position = positionRates(sums, out.Accepted, diff)
	if !p.quick {
		out.Position = out.Position.withIntervals(s.convs, p.Run.Seed)
	}
	out.Intervals = p.intervalMethod()
	out.Steps = s.stepCounts(sums, p.ownRules())
	out.Client.keepPossible(out.Steps.DraftLength)
	out.Server.keepPossible(out.Steps.DraftLength)
	if out.WhatIf, err = p.whatIf(s, out); err != nil {
		return out, err
	}
	out.Warnings = p.warnings(s, out)
	return out, nil
}

// view is the view of acceptance_rate.json; the client's where the run does not say.
func (p Point) view() string {
	if p.Run.Acceptance == ViewServer {
		return ViewServer
	}
	return ViewClient
}

// leftOut counts what is in no figure, by reason.
func (s selection) leftOut() map[string]int {
	counts := maps.Clone(s.apart)
	if s.foreign > 0 {
		counts[ReasonForeign] += s.foreign
	}
	for _, f := range s.failures {
		counts[f.Reason]++
	}
	return counts
}

// byTurn gives the figures of all first turns, all second turns, and so on.
func (s selection) byTurn() []TurnFigures {
	figures := []TurnFigures{}
	for t := 0; ; t++ {
		var client, server []Turn
		var ttft, decode []float64
		f := TurnFigures{Turn: t}
		for _, c := range s.convs {
			if t >= len(c.turns) {
				continue
			}
			turn := c.turns[t]
			f.Requests++
			f.OutputTokens += turn.completion()
			client = append(client, Turn{Lengths: turn.client.Lengths})
			server = append(server, Turn{Lengths: turn.server.Lengths})
			if n := len(turn.times); n >= 2 {
				ttft = append(ttft, turn.times[1]-turn.times[0])
				if decoding := turn.times[n-1] - turn.times[1]; decoding > 0 {
					decode = append(decode, float64(turn.completion()-1)/decoding)
				}
			}
		}
		if f.Requests == 0 {
			return figures
		}
		f.ClientAL, f.ServerAL = pooledAL(client), pooledAL(server)
		f.TTFTMean, f.TTFTP50 = meanAndMedian(ttft)
		f.DecodeTPSMean, f.DecodeTPSP50 = meanAndMedian(decode)
		figures = append(figures, f)
	}
}

// pooledAL is tokens over chunks of all turns together; 0 where there is no chunk.
func pooledAL(turns []Turn) float64 {
	sum, n := pool(turns)
	if n == 0 {
		return 0
	}
	return float64(sum) / float64(n)
}

func meanAndMedian(xs []float64) (mean, median *float64) {
	if len(xs) == 0 {
		return nil, nil
	}
	m, sorted := Mean(xs), slices.Sorted(slices.Values(xs))
	q := Quantile(sorted, 0.5)
	return &m, &q
}

// turnCounts counts how the turns ended. What a block says about draft-less and
// cut steps is in the client's lengths, whatever their source.
func (s selection) turnCounts() TurnCounts {
	var n TurnCounts
	for _, c := range s.convs {
		for _, t := range c.turns {
			n.Total++
			n.TokensCut += t.client.CutTokens
			n.EndedAtEOS += count(t.client.EOSEnded)
			n.Cut += count(t.client.CutTokens > 0)
			n.WithDraftless += count(t.client.DraftlessSteps > 0)
			n.Merged += count(t.client.Merged)
		}
	}
	return n
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// stepCounts counts decode steps of the measured turns that have a block.
func (s selection) stepCounts(sums blockSums, rules LengthRules) StepCounts {
	n := StepCounts{DraftLength: rules.DraftLength}
	for _, c := range s.convs {
		for _, t := range c.turns {
			if t.rec.Spec != nil {
				n.Verify += t.rec.Spec.Steps
				n.Draftless += t.client.DraftlessSteps
			}
		}
	}
	n.DraftlessPart = share(n.Draftless, n.Verify+n.Draftless)
	if sums.drafts > 0 {
		n.TokensPerStep = 1 + share(sums.accepted, sums.drafts)
	}
	n.DraftRate = share(sums.accepted, sums.draftTokens)
	return n
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// blockCounts counts the blocks of all requests and what was done without them.
func (p Point) blockCounts(s selection) BlockCounts {
	n := BlockCounts{Missing: map[string]int{}, LengthsOf: map[string]int{}}
	split := map[*Record]bool{}
	for _, c := range s.convs {
		for _, t := range c.turns {
			n.LengthsOf[t.client.Source]++
			split[t.rec] = t.client.Source == SourceSplit
		}
	}
	for _, r := range p.counted() {
		switch {
		case r.SpecMissing == MissingNotMeasured:
		case r.Spec != nil:
			n.Came, n.Expected = n.Came+1, n.Expected+1
		case p.Run.NoSpecStats:
		default:
			n.Expected++
			why := r.SpecMissing
			if split[r] {
				why = "lost_with_merged_last_event"
			}
			n.Missing[why]++
		}
	}
	if n.LengthsOf[SourceSplit] > 0 {
		n.SplitNotes = "the last event holds two steps whose sizes are not known: k+1 and the rest if it has more than k+1 tokens, else all but one and one; AL does not depend on it, but for a reply that ended at EOS: whether EOS was a step of its own is drawn from the turn's own figures, with the chance that it has"
	}
	return n
}

// expectedBlocks is the number of all requests that should have brought a block,
// those that were set apart too: the server counted them.
func (p Point) expectedBlocks() int {
	n := 0
	for _, r := range p.Records {
		n += count(r.SpecMissing != MissingNotMeasured && (r.Spec != nil || !p.Run.NoSpecStats))
	}
	return n
}

// histogram chooses what describes the whole point: the blocks where all came,
// else the counters where all they counted is ours.
func (p Point) histogram(sums blockSums, a Audit, diff *Counters) PointHistogram {
	h := PointHistogram{Blocks: sums.hist, Source: "blocks"}
	if diff == nil {
		return h
	}
	h.Counters = diff.Histogram()
	allOurs := len(p.counted()) == len(p.Records)
	if a.Verdict == AuditExact && allOurs && h.Counters != nil && !slices.Equal(h.Counters, h.Blocks) {
		h.Source = "counters"
	}
	return h
}

// sourceLists names conditional rates that are counted in the per-step lists.
const sourceLists = "per_step_lists"

// positionRates computes both rates of the histogram that describes the point:
// with T(i) the steps that accepted more than i drafts and N all steps, per
// position = T(i) / N and conditional = T(i) / T(i-1), where T(-1) = N. The
// conditional one needs to know which steps proposed a draft at i at all.
func positionRates(sums blockSums, h PointHistogram, diff *Counters) PositionRates {
	rates := PositionRates{Source: h.Source}
	hist, uniform := h.Blocks, sums.uniform && sums.k > 0
	if h.Source == "counters" {
		hist = h.Counters
		uniform = diff.DraftTokens == diff.Drafts*float64(len(diff.AcceptedPerPos))
	}
	steps, _ := histogramSums(hist)
	above := tails(hist)
	for _, n := range above {
		rates.PerPosition = append(rates.PerPosition, share(n, steps))
	}
	switch {
	case steps == 0:
		rates.NoConditional = "no verify step"
	case uniform:
		reached := steps
		for _, n := range above {
			rates.Conditional = append(rates.Conditional, share(n, reached))
			reached = n
		}
	case sums.lists == sums.blocks && sums.blocks > 0:
		rates.Source = sourceLists
		for i, reached := range sums.reachedAt {
			rates.Conditional = append(rates.Conditional, share(sums.acceptedAt[i], reached))
		}
	default:
		rates.NoConditional = "steps drafted different numbers of tokens and the server lists no steps (--per-request-spec-decode-metrics detailed)"
	}
	return rates
}

// warnings says what a reader of the figures must know.
func (p Point) warnings(s selection, out Speculation) []string {
	list := append([]string{}, p.shardWarnings()...)
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if out.Steps.DraftlessPart > draftlessLimit {
		add("%.1f %% of the decode steps had no drafts: the server view of AL is not comparable with specdec_bench's", 100*out.Steps.DraftlessPart)
	}
	if w := viewsWarning(out.Server.AverageAL, out.Client.AverageAL); w != "" {
		list = append(list, w)
	}
	if n := out.Turns.Merged; n > 0 {
		add("%d of %d turns have events that merge several steps or do not add up to the reply's tokens", n, out.Turns.Total)
	}
	if n := out.Blocks.LengthsOf[SourceSums]; n > 0 && p.view() == ViewClient {
		add("%d of %d turns have no usable token counts on their events: their client lengths are made of the statistics block and the reply's tokens", n, out.Turns.Total)
	}
	if n := out.Blocks.LengthsOf[SourceBlock]; n > 0 && p.view() == ViewClient {
		add("%d of %d turns have no usable token counts on their events: their client lengths are the statistics block's", n, out.Turns.Total)
	}
	if b := out.Blocks; b.Came < b.Expected {
		add("statistics blocks came from %d of %d requests, the rest is measured from events", b.Came, b.Expected)
	}
	if out.Audit.Verdict == AuditDiffers || out.Audit.Verdict == AuditForeign {
		add("self-audit: %s: %s", out.Audit.Verdict, out.Audit.Reason)
	}
	if out.Audit.Verdict == AuditNone && p.Run.Before != nil && p.Run.After != nil {
		add("no self-audit: %s", out.Audit.Reason)
	}
	if n := out.Audit.Preemptions; n != nil && *n > 0 {
		add("the server preempted %g requests", *n)
	}
	for _, why := range slices.Sorted(maps.Keys(out.LeftOut)) {
		if why == ApartPreflight { // belongs to no point
			continue
		}
		add("left out: %d %s", out.LeftOut[why], why)
	}
	return append(list, p.recordWarnings()...)
}

// viewsWarning says that the two views of AL are apart; "" where they are not.
func viewsWarning(server, client float64) string {
	if math.Abs(server-client) <= differenceLimit {
		return ""
	}
	return fmt.Sprintf("the views differ: server %.3f, client %.3f", server, client)
}
