package collector

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// reconcileWithin is reconcile as it is defined, with the bound k + 1 of a length.
func reconcileWithin(k int, hist, counts []int) (draftless int, ok bool) {
	n, tokens := histogramSums(hist)
	draftless, cut := len(counts)-1-n, 1+tokens+len(counts)-1-n
	for _, m := range counts {
		cut -= m
	}
	last := counts[len(counts)-1]
	if draftless < 0 || cut < 0 || max(last+cut, slices.Max(counts)) > max(len(hist), k+1) {
		return 0, false
	}
	promised := slices.Repeat([]int{1}, 1+draftless)
	for j, steps := range hist {
		promised = append(promised, slices.Repeat([]int{j + 1}, steps)...)
	}
	i := slices.Index(promised, last+cut)
	if i < 0 {
		return 0, false
	}
	promised[i] = last
	slices.Sort(promised)
	return draftless, slices.Equal(promised, slices.Sorted(slices.Values(counts)))
}

// The rules are the same in whatever order the Records come, and those that k
// bounds, however late the Record comes that shows it.
func TestRuleSums(t *testing.T) {
	explained := 0
	rapid.Check(t, func(t *rapid.T) {
		recs := rapid.SliceOfN(rapid.Custom(ruleRecord), 1, 8).Draw(t, "records")
		var forth, back RuleSums
		for _, r := range recs {
			forth.Add(r)
		}
		for _, r := range slices.Backward(recs) {
			back.Add(r)
		}
		want := LengthRules{BlocksReported: true}
		for _, r := range recs {
			want.DraftLength = max(want.DraftLength, r.Spec.DraftLength, len(r.Spec.Accepted)-1)
		}
		draftless, ones := 0, 0
		for _, r := range recs {
			if steps, ok := reconcileWithin(want.DraftLength, r.Spec.Accepted, eventCounts(r)); ok {
				draftless, ones = draftless+steps, ones+steps+r.Spec.Accepted[0]
				explained++
			}
		}
		want.DraftlessOnes = share(draftless, ones)
		if got := forth.Rules(Run{}); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		if got := back.Rules(Run{}); got != want {
			t.Fatalf("backwards: got %+v, want %+v", got, want)
		}
	})
	if explained < 50 {
		t.Errorf("got %d records that their block explains, want more", explained)
	}
}

// ruleRecord makes a Record whose events are its steps, some without drafts, the
// last one cut, now and then with events that the block does not explain.
func ruleRecord(t *rapid.T) *Record {
	k := rapid.IntRange(1, 4).Draw(t, "k")
	r := &Record{Stream: true, Spec: &Spec{DraftLength: rapid.SampledFrom([]int{0, k}).Draw(t, "said"), Accepted: make([]int, k+1)}, Usage: &Usage{}}
	add := func(tokens int) {
		r.Chunks = append(r.Chunks, Chunk{Tokens: tokens})
		r.Usage.CompletionTokens += tokens
	}
	add(1)
	for _, step := range rapid.SliceOfN(rapid.IntRange(-1, k), 1, 12).Draw(t, "steps") {
		if step < 0 {
			add(1)
			continue
		}
		r.Spec.Accepted[step]++
		add(step + 1)
	}
	if last := &r.Chunks[len(r.Chunks)-1]; last.Tokens > 1 {
		cut := rapid.IntRange(0, last.Tokens-1).Draw(t, "cut")
		last.Tokens -= cut
		r.Usage.CompletionTokens -= cut
	}
	if rapid.IntRange(0, 3).Draw(t, "merged") == 0 {
		add(rapid.IntRange(1, 9).Draw(t, "tokens"))
	}
	if rapid.IntRange(0, 3).Draw(t, "shorter") == 0 { // a histogram that leaves its end out
		for len(r.Spec.Accepted) > 1 && r.Spec.Accepted[len(r.Spec.Accepted)-1] == 0 {
			r.Spec.Accepted = r.Spec.Accepted[:len(r.Spec.Accepted)-1]
		}
		r.Spec.DraftLength = 0
	}
	return r
}
