package tap

import (
	"slices"
	"strconv"

	"spectap/collector"
)

// The shapes of statistics, in the order in which they are believed where
// several are there (wire-formats.md 7).
const (
	fromVLLM = iota
	fromTRTLLM
	fromSGLang
	fromLlamaCpp
	fromVLLMSparse
)

// statistics is a block as it was reported, for one choice or the whole request.
type statistics struct {
	from   int
	choice int
	spec   collector.Spec
}

// store keeps the last block of a kind and choice.
func (t *Tap) store(from, choice int, spec collector.Spec) {
	for i := range t.stats {
		if t.stats[i].from == from && t.stats[i].choice == choice {
			t.stats[i].spec = spec
			return
		}
	}
	t.stats = append(t.stats, statistics{from, choice, spec})
}

// spec returns the block to believe, summed over the choices, or nil.
func (t *Tap) spec() *collector.Spec {
	if len(t.stats) == 0 {
		return nil
	}
	best := slices.MinFunc(t.stats, func(a, b statistics) int { return a.from - b.from }).from
	var sum *collector.Spec
	for i := range t.stats {
		switch s := t.stats[i].spec; {
		case t.stats[i].from != best:
		case sum == nil:
			sum = &s
		default:
			addSpec(sum, &s)
		}
	}
	return sum
}

// addSpec adds the block of another choice: all counts are then computed.
func addSpec(sum, s *collector.Spec) {
	sum.Accepted = addLists(sum.Accepted, s.Accepted)
	sum.Steps += s.Steps
	sum.AcceptedTokens += s.AcceptedTokens
	sum.DraftedTokens += s.DraftedTokens
	sum.PerStepAccepted = append(slices.Clone(sum.PerStepAccepted), s.PerStepAccepted...)
	sum.PerStepDrafted = append(slices.Clone(sum.PerStepDrafted), s.PerStepDrafted...)
	sum.Derived = []string{fieldAccepted, fieldSteps, fieldAcceptedTokens, fieldDraftedTokens}
	if sum.DraftLength != s.DraftLength {
		sum.DraftLength = 0
	}
}

// addLists adds two histograms; one that is missing makes the sum missing.
func addLists(a, b []int) []int {
	if a == nil || b == nil {
		return nil
	}
	if len(a) < len(b) {
		a, b = b, a
	}
	sum := slices.Clone(a)
	for i, n := range b {
		sum[i] += n
	}
	return sum
}

// The names in collector.Spec.Derived: those of the members of a line of records.jsonl.
const (
	fieldAccepted       = "accepted_histogram"
	fieldSteps          = "num_steps"
	fieldAcceptedTokens = "accepted_tokens"
	fieldDraftedTokens  = "drafted_tokens"
)

// specNames are an engine's names for the members of its block; "" where it has none.
type specNames struct {
	histogram, steps, accepted, drafted, length, perAccepted, perDrafted string
}

// specRead is a block while it is read: has* tell which counts the engine gave.
type specRead struct {
	collector.Spec
	hasSteps, hasAccepted, hasDrafted bool
}

// readSpec reads a block by its engine's names; what is not a count (NaN, a string, a negative
// number) is missing.
func readSpec(engine string, value []byte, names specNames) specRead {
	s := specRead{Spec: collector.Spec{Engine: engine}}
	members(value, 0, func(key []byte, i int) int {
		v, end := raw(value, i)
		if end < 0 || len(key) == 0 {
			return end
		}
		n, ok := natural(v)
		switch string(key) {
		case names.histogram:
			s.Accepted = histogram(v)
		case names.steps:
			s.Steps, s.hasSteps = n, ok
		case names.accepted:
			s.AcceptedTokens, s.hasAccepted = n, ok
		case names.drafted:
			s.DraftedTokens, s.hasDrafted = n, ok
		case names.length:
			s.DraftLength = n
		case names.perAccepted:
			s.PerStepAccepted = naturals(v)
		case names.perDrafted:
			s.PerStepDrafted = naturals(v)
		}
		return end
	})
	return s
}

// histogram reads a list, or the object of counts by accepted drafts that vLLM had before its
// release. A bucket that is no count makes the whole histogram missing.
func histogram(v []byte) []int {
	if len(v) == 0 || v[0] != '{' {
		if list := naturals(v); len(list) > 0 {
			return list
		}
		return nil
	}
	var list []int
	ok := true
	object(v, 0, func(key []byte, i int) int {
		bucket, err := strconv.Atoi(string(key))
		value, end := raw(v, i)
		n, isCount := natural(value)
		if ok = ok && isCount && err == nil && bucket >= 0 && bucket < 1<<12; ok {
			list = append(list, make([]int, max(0, bucket+1-len(list)))...)
			list[bucket] = n
		}
		return end
	})
	if !ok {
		return nil
	}
	return list
}

// finish derives counts that the histogram determines and warns where the block contradicts itself.
func (t *Tap) finish(s specRead) collector.Spec {
	steps, accepted := histogramSums(s.Accepted)
	if s.Accepted != nil {
		if !s.hasSteps {
			s.Steps = steps
			s.Derived = append(s.Derived, fieldSteps)
		}
		if !s.hasAccepted {
			s.AcceptedTokens = accepted
			s.Derived = append(s.Derived, fieldAcceptedTokens)
		}
		t.expect(steps == s.Steps, "statistics: the histogram's sum is not the number of steps")
		t.expect(accepted == s.AcceptedTokens, "statistics: the histogram's accepted tokens are not the number of accepted tokens")
		t.expect(s.DraftLength == 0 || len(s.Accepted) == s.DraftLength+1, "statistics: the histogram's length is not the draft length + 1")
	}
	t.expect(s.hasDrafted, "statistics: no number of drafted tokens")
	t.expect(!s.hasDrafted || s.AcceptedTokens <= s.DraftedTokens, "statistics: more tokens accepted than drafted")
	if s.PerStepAccepted != nil {
		t.expect(len(s.PerStepAccepted) == s.Steps && total(s.PerStepAccepted) == s.AcceptedTokens,
			"statistics: the accepted tokens by step contradict the sums")
	}
	if s.PerStepDrafted != nil {
		t.expect(len(s.PerStepDrafted) == s.Steps && total(s.PerStepDrafted) == s.DraftedTokens,
			"statistics: the drafted tokens by step contradict the sums")
	}
	return s.Spec
}

// histogramSums returns steps and accepted tokens: the sums of h[j] and of j*h[j].
func histogramSums(h []int) (steps, accepted int) {
	for j, n := range h {
		steps += n
		accepted += j * n
	}
	return steps, accepted
}

func total(list []int) (sum int) {
	for _, n := range list {
		sum += n
	}
	return sum
}
