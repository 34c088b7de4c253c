package tap

// vLLM, with --per-request-spec-decode-metrics: metrics.speculative_decoding on
// the usage event, or at the root of a whole body. "detailed" adds the lists by
// step. Before the feature was released the block stood in each choice, with a
// sparse histogram, as speculative_decoding_stats.
var vllmNames = specNames{
	histogram: "acceptance_histogram", steps: "num_spec_steps",
	accepted: "num_accepted_draft_tokens", drafted: "num_draft_tokens", length: "num_spec_tokens",
	perAccepted: "per_step_accepted", perDrafted: "per_step_drafted",
}

func (t *Tap) vllm(block []byte) {
	t.readVLLM(fromVLLM, 0, block)
}

func (t *Tap) vllmSparse(choice int, block []byte) {
	t.readVLLM(fromVLLMSparse, choice, block)
}

func (t *Tap) readVLLM(from, choice int, block []byte) {
	t.mark("vllm", markStatistics)
	s := readSpec("vllm", block, vllmNames)
	if s.Accepted == nil && !s.hasSteps {
		t.warn("statistics: a block without histogram and steps was not read")
		return
	}
	t.store(from, choice, t.finish(s))
}
