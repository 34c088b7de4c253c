package collector

// LengthRules are the rules of a Point: the largest k that any Record or the
// counters show, and whether any Record has a block.
func (p Point) LengthRules() LengthRules {
	var sums RuleSums
	for _, r := range p.Records {
		sums.Add(r)
	}
	return sums.Rules(p.Run)
}

// RuleSums find the LengthRules of a Point from its Records, one after another and
// in any order, without holding them. The zero RuleSums have seen none.
type RuleSums struct {
	draftLength     int
	blocks          bool
	draftless, ones int // steps of one token of Records that have block and events: without drafts, all
}

// Add counts a Record.
func (s *RuleSums) Add(r *Record) {
	if r.Spec == nil {
		return
	}
	if k := max(r.Spec.DraftLength, len(r.Spec.Accepted)-1); k <= maxPositions {
		s.draftLength = max(s.draftLength, k)
	}
	s.blocks = s.blocks || r.Spec.Accepted != nil
	if hist, counts := block(r), eventCounts(r); len(hist) > 0 && counts != nil && !several(r) {
		if draftless, _, ok := reconcile(hist, counts); ok {
			s.draftless, s.ones = s.draftless+draftless, s.ones+draftless+hist[0]
		}
	}
}

// Rules are the rules of the Records that were added, which are those of run.
func (s *RuleSums) Rules(run Run) LengthRules {
	rules := LengthRules{
		Baseline: run.Baseline, DraftLength: s.draftLength, BlocksReported: s.blocks && !run.NoSpecStats, IgnoreEOS: run.IgnoreEOS,
		DraftlessOnes: share(s.draftless, s.ones),
	}
	if rules.DraftLength == 0 && run.After != nil {
		rules.DraftLength = len(run.After.AcceptedPerPos)
	}
	return rules
}
