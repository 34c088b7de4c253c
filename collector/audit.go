package collector

import (
	"fmt"
	"strconv"
)

// blockSums are the sums of all statistics blocks of a point.
type blockSums struct {
	drafts, draftTokens, accepted int
	hist                          []int
	uniform                       bool // every step drafted k
	k                             int
	reachedAt, acceptedAt         []int // by position, from the per-step lists
	lists                         int   // blocks that have per-step lists
	blocks                        int
}

func newBlockSums(recs []*Record) blockSums {
	s := blockSums{uniform: true}
	for _, r := range recs {
		if r.Spec != nil {
			s.k = max(s.k, r.Spec.DraftLength, len(r.Spec.Accepted)-1)
		}
	}
	for _, r := range recs {
		if r.Spec == nil {
			continue
		}
		s.blocks++
		s.drafts += r.Spec.Steps
		s.draftTokens += r.Spec.DraftedTokens
		s.accepted += r.Spec.AcceptedTokens
		s.hist = addCounts(s.hist, r.Spec.Accepted)
		s.uniform = s.uniform && r.Spec.DraftedTokens == s.k*r.Spec.Steps
		s.addLists(r.Spec)
	}
	return s
}

// addLists counts the steps that proposed a draft at a position after accepting all before it.
func (s *blockSums) addLists(spec *Spec) {
	if len(spec.PerStepAccepted) != spec.Steps || len(spec.PerStepDrafted) != spec.Steps {
		return
	}
	s.lists++
	for i, drafted := range spec.PerStepDrafted {
		accepted := spec.PerStepAccepted[i]
		for pos := 0; pos < min(drafted, accepted+1, maxPositions); pos++ {
			for len(s.reachedAt) <= pos {
				s.reachedAt, s.acceptedAt = append(s.reachedAt, 0), append(s.acceptedAt, 0)
			}
			s.reachedAt[pos]++
			if pos < accepted {
				s.acceptedAt[pos]++
			}
		}
	}
}

func addCounts(to, from []int) []int {
	for len(to) < len(from) {
		to = append(to, 0)
	}
	for i, n := range from {
		to[i] += n
	}
	return to
}

// tails returns, for each position, the steps that accepted more than that many drafts.
func tails(hist []int) []int {
	if len(hist) == 0 {
		return nil
	}
	list := make([]int, len(hist)-1)
	above := 0
	for j := len(hist) - 1; j > 0; j-- {
		above += hist[j]
		list[j-1] = above
	}
	return list
}

// audit compares the Records with what the server counted in the meantime. A
// request whose block got lost is no difference: the counters must then be at
// least the sums of the blocks that came.
func (p Point) audit(sums blockSums, expected int) (Audit, *Counters) {
	a := Audit{Verdict: AuditNone, BlocksCame: sums.blocks, BlocksExpected: expected, Sums: []AuditEntry{}}
	switch {
	case len(p.Run.Shards) > 0 && (p.Run.Before == nil || p.Run.After == nil):
		a.Reason = "the shards' counters are not of one server, or it shows none"
		return a, nil
	case p.Run.Before == nil || p.Run.After == nil:
		a.Reason = "the server shows no counters"
		return a, nil
	case !p.Run.After.HasSpec && !p.Run.Baseline:
		a.Reason = "the server shows no speculative-decoding counters"
		return a, nil
	}
	diff, err := p.Run.After.Sub(*p.Run.Before)
	if err != nil {
		a.Reason = err.Error()
		return a, nil
	}
	finished, reached, tokens, told := 0, 0, 0, 0 // told: finished requests whose tokens are known
	for _, r := range p.Records {
		if r.Usage != nil {
			tokens += r.Usage.CompletionTokens
		}
		switch {
		case r.SpecMissing == MissingNotMeasured:
		case r.Status == 200 && r.ErrorKind == "":
			finished, reached = finished+1, reached+1
			told += count(r.Usage != nil)
		case r.Status == 200 || r.Status == 0:
			reached++
		}
	}
	a.Preemptions, a.CacheQueries, a.CacheHits = &diff.Preemptions, &diff.PrefixCacheQueries, &diff.PrefixCacheHits
	a.Generation = &AuditEntry{"generation_tokens", float64(tokens), diff.GenerationTokens}
	a.KVCacheTokens = kvCacheTokens(p.Run.After.CacheConfig)
	a.ForeignRequests = max(0, int(diff.RequestsFinished)-finished)
	if p.Run.Baseline {
		a.auditBaseline(finished, diff)
		return a, &diff
	}
	a.Sums = auditEntries(sums, diff, finished)
	a.Verdict, a.Reason = verdict(a, reached > finished)
	if n := unfinished(a); n > 0 && a.Sums[0].Server == a.Sums[0].Ours && reached == finished && told == finished {
		a.Verdict, a.Reason = AuditForeign, fmt.Sprintf("the server made %g tokens that are in no finished request: others were running at the point's end", n)
	}
	if p.Run.Shard != nil && p.Run.Shard.Of > 1 {
		a.amongShards()
	}
	return a, &diff
}

// amongShards judges a shard again whose server counted more than its requests:
// the other shards' are among them, and no sum of ours can be told from theirs.
func (a *Audit) amongShards() {
	if a.Verdict != AuditDiffers && a.Verdict != AuditForeign {
		return
	}
	for _, e := range a.Sums {
		if e.Server < e.Ours {
			return
		}
	}
	if a.Verdict == AuditDiffers {
		a.Verdict, a.Reason = AuditForeign, "the server counted more than our requests"
	}
	a.Reason += "; the other shards' are among them, the merged point is audited as a whole"
}

// auditEntries lists what can be compared, the number of requests first.
func auditEntries(sums blockSums, diff Counters, finished int) []AuditEntry {
	list := []AuditEntry{
		{"requests", float64(finished), diff.RequestsFinished},
		{"drafts", float64(sums.drafts), diff.Drafts},
		{"draft_tokens", float64(sums.draftTokens), diff.DraftTokens},
		{"accepted_tokens", float64(sums.accepted), diff.AcceptedTokens},
	}
	above := tails(sums.hist)
	for i := range max(len(above), len(diff.AcceptedPerPos)) {
		e := AuditEntry{Name: "accepted_at_position_" + strconv.Itoa(i)}
		if i < len(above) {
			e.Ours = float64(above[i])
		}
		if i < len(diff.AcceptedPerPos) {
			e.Server = diff.AcceptedPerPos[i]
		}
		list = append(list, e)
	}
	return list
}

// verdict says whether the sums agree. broken says that requests of ours ended
// in a way that the server may have counted in part.
func verdict(a Audit, broken bool) (word, reason string) {
	requests := a.Sums[0]
	if requests.Server > requests.Ours {
		return AuditForeign, fmt.Sprintf("the server finished %g requests, %g of them ours", requests.Server, requests.Ours)
	}
	if requests.Server < requests.Ours {
		return AuditDiffers, fmt.Sprintf("the server finished %g requests, we saw %g", requests.Server, requests.Ours)
	}
	partial := broken || a.BlocksCame < int(requests.Ours)
	for _, e := range a.Sums[1:] {
		if e.Server < e.Ours || e.Server > e.Ours && !partial {
			return AuditDiffers, fmt.Sprintf("%s: ours %g, the server's %g", e.Name, e.Ours, e.Server)
		}
	}
	if partial {
		return AuditExact, fmt.Sprintf("requests agree; blocks came from %d of %g, and their sums are within the counters", a.BlocksCame, requests.Ours)
	}
	return AuditExact, "all sums agree"
}

// unfinished returns the tokens that the server made for requests of others that
// had not ended. There are some where it counts more in every sum, and a token or
// more for each verify step that is not ours: a lost block adds steps, no tokens,
// and what a stop string cut off adds tokens, no steps.
func unfinished(a Audit) float64 {
	steps, tokens := a.Sums[1].Server-a.Sums[1].Ours, a.Generation.Server-a.Generation.Ours
	for _, e := range a.Sums[1:] {
		if e.Server < e.Ours {
			return 0
		}
	}
	if steps <= 0 || tokens < steps {
		return 0
	}
	return tokens
}

// kvCacheTokens is the size of the KV cache as vllm:cache_config_info has it, or blocks times block size.
func kvCacheTokens(config map[string]string) *int {
	if n, err := strconv.Atoi(config["kv_cache_size_tokens"]); err == nil {
		return &n
	}
	blocks, err := strconv.Atoi(config["num_gpu_blocks"])
	size, err2 := strconv.Atoi(config["block_size"])
	if err != nil || err2 != nil {
		return nil
	}
	n := blocks * size
	return &n
}
