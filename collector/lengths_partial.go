package collector

import "slices"

// fromBlock uses the block alone. d = c - S is then a bound of P where it is
// positive and of O where it is negative.
func (rules LengthRules) fromBlock(r *Record, hist []int) TurnLengths {
	t := TurnLengths{Lengths: HistogramLengths(hist), Source: SourceBlock, EOSEnded: rules.eosEnded(r)}
	if n, ok := replyTokens(r); ok {
		_, tokens := histogramSums(hist)
		t.DraftlessSteps = max(0, n-1-tokens)
		t.CutTokens = max(0, 1+tokens-n)
	}
	return t
}

// fromSums makes client lengths where the events are not one engine step each.
// P is then at least M - 1 - n and at least c - S, and O = S + P - c follows: with
// one of P and O at 0, the usual case, sum and number of the lengths are exact but
// for EOS. Which step was cut is not known (the longest is taken), nor which one
// EOS came in. The block alone would leave out the steps without drafts, with
// n-gram drafting most of all.
func (rules LengthRules) fromSums(r *Record, hist, counts []int) TurnLengths {
	t := rules.fromBlock(r, hist)
	reply, ok := replyTokens(r)
	if !ok {
		return t
	}
	n, tokens := histogramSums(hist)
	excess := reply - 1 - tokens  // P - O
	longest := len(t.Lengths) - 1 // HistogramLengths ascends
	draftless := max(0, excess)
	if events := len(r.Chunks) - 1 - n; events > draftless && events-excess < t.Lengths[longest] {
		draftless = events
	}
	cut := draftless - excess
	if cut >= t.Lengths[longest] {
		return t
	}
	t.Lengths[longest] -= cut
	t.Source, t.DraftlessSteps, t.CutTokens = SourceSums, draftless, cut
	slices.Sort(t.Lengths)
	t.Lengths = append(slices.Repeat([]int{1}, draftless), t.Lengths...)
	if t.EOSEnded && eosAlone(t.Lengths, hist, counts) {
		t.Lengths = t.Lengths[1:]
		return t
	}
	t.Lengths = cutEOS(t.Lengths, t.EOSEnded)
	return t
}

// eosAlone says whether EOS was the only token of its step, which then has no
// chunk. The last event says so if it has one token, and denies it if it has
// more. Without counts it is drawn: EOS stands first in a step as often as any
// token does, steps / tokens. lengths ascend.
func eosAlone(lengths, hist, counts []int) bool {
	if counts != nil {
		return counts[len(counts)-1] == 1
	}
	if len(lengths) < 2 || lengths[1] > 1 {
		return false // the prefill's token is the only chunk of 1
	}
	tokens := 0
	for _, n := range lengths {
		tokens += n
	}
	return draw(append(slices.Clone(hist), tokens), tokens) < len(lengths)
}

// fromEvents uses the events alone. vLLM with asynchronous scheduling can lose
// the block because it merges the last two steps into one event, so a whole
// answer without a block on a server that reports blocks has its last event split
// again (firstOfTwo).
func (rules LengthRules) fromEvents(r *Record, counts []int) TurnLengths {
	t := TurnLengths{Source: SourceEvents, EOSEnded: rules.eosEnded(r), Merged: incomplete(r, counts)}
	last := counts[len(counts)-1]
	if rules.BlocksReported && r.SpecMissing == MissingNotReported && r.Finish != "" && last >= 2 {
		first := rules.firstOfTwo(counts, t.EOSEnded)
		counts = append(counts[:len(counts)-1], first, last-first)
		t.Source = SourceSplit
	}
	if k := rules.DraftLength; k > 0 && slices.Max(counts) > k+1 {
		t.Merged = true
	}
	t.Lengths = cutEOS(counts, t.EOSEnded)
	return t
}

// firstOfTwo splits the tokens of two merged last steps: how many the first one
// had. With k+1 the most of a step, splits whose first step has no more than k are
// about equally likely (p^(a-1)(1-p) for a tokens first, p^(b-1) for b or more),
// one of k+1, which needs no rejection, about fullWeight times as likely. AL
// depends on the split only where the reply ended at EOS, which is a step without
// a chunk if it was the second step's only token: drawn, so that the mean is right.
func (rules LengthRules) firstOfTwo(counts []int, eos bool) int {
	const fullWeight = 3 // 1/(1-p) for p = 2/3
	tokens, k := counts[len(counts)-1], rules.DraftLength
	if k <= 0 {
		k = tokens
	}
	first := min(tokens-1, k+1)
	if !eos || first < tokens-1 || tokens == 2 {
		return first
	}
	alone := 1
	if tokens == k+2 {
		alone = fullWeight
	}
	if others := tokens - 2; draw(counts, alone+others) >= alone {
		return tokens - 2
	}
	return first
}

// draw picks a number below n by what is measured of a turn, so that the same
// Record always gives the same number and different ones are spread evenly.
// Source: FNV-1a, finished as in MurmurHash3.
func draw(counts []int, n int) int {
	h := uint64(14695981039346656037)
	for _, c := range counts {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	return int((h ^ h>>33) % uint64(n))
}
