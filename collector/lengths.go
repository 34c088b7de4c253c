package collector

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Where the chunk lengths of a turn come from (TurnLengths.Source).
const (
	SourceExact  = "exact"        // block and events agree: one event is one engine step
	SourceEvents = "events"       // no block; the events' token counts alone
	SourceSplit  = "events_split" // the same, with the last event split into the two steps that it merges
	SourceSums   = "block_sums"   // the block and the reply's tokens: the events carry no counts, or some were merged
	SourceBlock  = "block"        // the block alone: the server's view, or a reply whose tokens nobody said
)

// TurnLengths are the chunk lengths of a turn and how they were found.
type TurnLengths struct {
	Lengths        []int
	Source         string // one of the Source constants
	DraftlessSteps int    // decode steps without drafts; known where Source is SourceExact, a lower bound elsewhere
	CutTokens      int    // tokens that the last step promised and the reply does not have; as above
	Merged         bool   // events merged several engine steps or left some out
	EOSEnded       bool   // the reply ended at the tokenizer's EOS
}

// LengthRules are what a turn's lengths depend on besides its own Record.
type LengthRules struct {
	DraftLength    int  // k, the configured drafts a step; 0 where nobody said
	Baseline       bool // the server does not speculate: no turn has lengths
	BlocksReported bool // the server reports statistics blocks, so a whole answer without one lost it
	IgnoreEOS      bool
	DraftlessOnes  float64 // share of the steps of one token that had no drafts, from turns that have block and events
}

var (
	errBaseline       = errors.New("a baseline has no acceptance")
	errSeveralChoices = errors.New("the answer has several choices")
	errNoStatistics   = errors.New("the answer has neither a statistics block nor token counts on its events; measure with continuous usage (--measure tokens)")
)

// ServerLengths are the lengths of the server's view: HistogramLengths of the
// block. Where there is none they are those of the events, EOS included, less the
// steps without drafts, which no histogram has: as many of the chunks of 1 as the
// point's other turns say.
func (rules LengthRules) ServerLengths(r *Record) (TurnLengths, error) {
	if rules.Baseline {
		return TurnLengths{}, errBaseline
	}
	if several(r) {
		return TurnLengths{}, errSeveralChoices
	}
	if hist := block(r); hist != nil {
		return rules.fromBlock(r, hist), nil
	}
	rules.IgnoreEOS = true
	t, err := rules.ClientLengths(r)
	if err != nil {
		return t, err
	}
	slices.Sort(t.Lengths)
	ones, _ := slices.BinarySearch(t.Lengths, 2)
	if decode := ones - 1; decode > 0 { // the first is the prefill's
		t.DraftlessSteps = int(math.Round(rules.DraftlessOnes * float64(decode)))
		t.Lengths = t.Lengths[t.DraftlessSteps:]
	}
	return t, nil
}

// ClientLengths are the lengths that specdec_bench would have counted. With n
// verify steps, S = 1 + sum (j+1)h[j] their tokens and the prefill's, c the
// tokens of the reply, M the events with tokens, m those of the last event:
//
//	P = M - 1 - n      decode steps without drafts, P >= 0
//	O = S + P - c      tokens cut from the last step, 0 <= O, m + O <= k + 1
//
// If that holds, and the lengths made of the block (1, P ones, j+1 for each step,
// one m+O replaced by m) are the events' counts, every event is one engine step
// and the lengths are exact. Source: metric-parity 4.4.
func (rules LengthRules) ClientLengths(r *Record) (TurnLengths, error) {
	if rules.Baseline {
		return TurnLengths{}, errBaseline
	}
	if several(r) {
		return TurnLengths{}, errSeveralChoices
	}
	counts, hist := eventCounts(r), block(r)
	switch {
	case counts == nil && hist == nil:
		return TurnLengths{}, errNoStatistics
	case counts == nil:
		return rules.fromSums(r, hist, counts), nil
	case hist == nil:
		return rules.fromEvents(r, counts), nil
	}
	draftless, cut, ok := reconcile(hist, counts)
	if !ok || incomplete(r, counts) {
		t := rules.fromSums(r, hist, counts)
		t.Merged = true
		return t, nil
	}
	eos := rules.eosEnded(r)
	return TurnLengths{Lengths: cutEOS(counts, eos), Source: SourceExact, DraftlessSteps: draftless, CutTokens: cut, EOSEnded: eos}, nil
}

// reconcile checks the identity above; ok is false where events were merged. That
// no length is above k + 1 follows: the block promises none that is longer than it.
func reconcile(hist, counts []int) (draftless, cut int, ok bool) {
	n, tokens := histogramSums(hist)
	total := 0
	for _, m := range counts {
		total += m
	}
	last := counts[len(counts)-1]
	draftless = len(counts) - 1 - n
	cut = 1 + tokens + draftless - total
	longest := max(len(hist), 1)
	if draftless < 0 || cut < 0 || last+cut > longest || slices.Max(counts) > longest {
		return 0, 0, false
	}
	want := make([]int, longest+1) // lengths that the block promises, by length
	want[1] = 1 + draftless
	for j, steps := range hist {
		want[j+1] += steps
	}
	want[last+cut]--
	want[last]++
	for _, m := range counts {
		want[m]--
	}
	for _, left := range want {
		if left != 0 {
			return 0, 0, false
		}
	}
	return draftless, cut, true
}

// histogramSums returns the verify steps of a histogram and their tokens, bonus tokens included.
func histogramSums(hist []int) (steps, tokens int) {
	for j, n := range hist {
		steps += n
		tokens += n * (j + 1)
	}
	return steps, tokens
}

// cutEOS takes the tokenizer's EOS off the last length, as vllm.py does. It may change counts.
func cutEOS(counts []int, eos bool) []int {
	if !eos {
		return counts
	}
	last := len(counts) - 1
	if counts[last] == 1 {
		return counts[:last]
	}
	counts[last]--
	return counts
}

// maxReply is the most tokens that a reply is believed to have; a figure above it
// (from a damaged records file, or a server gone wrong) counts as not said.
const maxReply = 1 << 22

// replyTokens returns the tokens of the reply, EOS included; ok is false where nobody said.
func replyTokens(r *Record) (n int, ok bool) {
	if r.Usage == nil || r.Usage.CompletionTokens < 0 || r.Usage.CompletionTokens > maxReply {
		return 0, false
	}
	return r.Usage.CompletionTokens, true
}

// Histogram returns verify steps by accepted drafts where the Record has them and
// they can be; nil otherwise.
func (r *Record) Histogram() []int { return block(r) }

// block returns the histogram of a Record's statistics block. One that cannot be
// (negative, or more steps than the reply has tokens) counts as none.
func block(r *Record) []int {
	if r.Spec == nil || r.Spec.Accepted == nil || len(r.Spec.Accepted) > maxPositions+1 {
		return nil
	}
	limit := maxReply
	if n, ok := replyTokens(r); ok {
		limit = max(n, 1)
	}
	steps := 0
	for _, n := range r.Spec.Accepted {
		if n < 0 || n > limit-steps {
			return nil
		}
		steps += n
	}
	return r.Spec.Accepted
}

// eventCounts returns the tokens of each event that brought some, or nil where
// the server did not say them. A body that did not stream has one event and no steps.
func eventCounts(r *Record) []int {
	if !r.Stream {
		return nil
	}
	counts := make([]int, 0, len(r.Chunks)+1)
	for _, c := range r.Chunks {
		if c.Tokens > maxReply {
			return nil
		}
		if c.Tokens > 0 {
			counts = append(counts, c.Tokens)
		}
	}
	if len(counts) == 0 {
		return nil
	}
	return counts
}

// incomplete says that the events' counts do not add up to the reply's tokens.
func incomplete(r *Record, counts []int) bool {
	reply, ok := replyTokens(r)
	total := 0
	for _, m := range counts {
		total += m
	}
	return ok && total != reply
}

func several(r *Record) bool {
	return r.SpecMissing == MissingSeveralChoices || slices.ContainsFunc(r.Chunks, func(c Chunk) bool { return c.Choice != 0 })
}

// eosEnded says that the reply ended at the tokenizer's EOS, which is the last
// token of the counts: finish_reason "stop" without a stop reason. A stop token
// other than EOS has its id there, and a stop string its text.
func (rules LengthRules) eosEnded(r *Record) bool {
	if rules.IgnoreEOS || bytes.Equal(r.SamplingSent["ignore_eos"], []byte("true")) {
		return false
	}
	return (r.Finish == "stop" || r.Finish == "tool_calls") && r.StopReason == ""
}

// reason names the cause of an error of ClientLengths, for counting.
func reason(err error) string {
	switch {
	case errors.Is(err, errSeveralChoices):
		return MissingSeveralChoices
	case errors.Is(err, errNoStatistics):
		return "no_statistics"
	}
	return fmt.Sprint(err)
}
