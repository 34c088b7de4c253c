package tap

// SGLang, asked with return_spec_tokens_details: sglext.spec_tokens_details, in
// an event of its own before the usage event; a list with one object for each
// choice where n > 1. Its builder writes 0 and [] for what it does not know, so
// a block of zeros says nothing. It has no draft length.
var sglangNames = specNames{
	histogram: "spec_correct_drafts_histogram", steps: "spec_verify_ct",
	accepted: "spec_num_correct_drafts", drafted: "spec_num_proposed_drafts",
}

func (t *Tap) sglang(sglext []byte) {
	t.mark("sglang", markExtension)
	members(sglext, 0, func(key []byte, i int) int {
		if string(key) != "spec_tokens_details" {
			return skip(sglext, i)
		}
		if i < len(sglext) && sglext[i] == '{' {
			block, end := raw(sglext, i)
			t.sglangBlock(0, block)
			return end
		}
		choice := 0
		return elements(sglext, i, func(i int) int {
			block, end := raw(sglext, i)
			t.sglangBlock(choice, block)
			choice++
			return end
		})
	})
}

func (t *Tap) sglangBlock(choice int, block []byte) {
	if len(block) == 0 || block[0] != '{' || choice >= maxChoices {
		return
	}
	s := readSpec("sglang", block, sglangNames)
	if s.Steps == 0 && total(s.Accepted) == 0 && s.DraftedTokens == 0 {
		t.warn("statistics: SGLang's block is all zero, which may mean that nothing was reported")
		return
	}
	steps, accepted := histogramSums(s.Accepted)
	s.hasSteps = s.Steps > 0 || steps == 0
	s.hasAccepted = s.AcceptedTokens > 0 || accepted == 0
	s.hasDrafted = s.DraftedTokens > 0
	t.store(fromSGLang, choice, t.finish(s))
}
