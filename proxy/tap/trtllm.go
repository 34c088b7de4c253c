package tap

// TensorRT-LLM, with per_request_spec_decode_stats in the server's YAML:
// choices[].speculative_decoding on the choice that has the finish reason. Its
// names of the sums tell it from vLLM's block; avg_decoded_tokens_per_iter
// averages over all iterations and is no acceptance length.
var trtllmNames = specNames{
	histogram: "acceptance_histogram", steps: "num_spec_steps",
	accepted: "total_accepted_draft_tokens", drafted: "total_draft_tokens", length: "num_spec_tokens",
}

func (t *Tap) trtllm(choice int, block []byte) {
	s := readSpec("trtllm", block, trtllmNames)
	if !s.hasAccepted {
		t.readVLLM(fromVLLMSparse, choice, block) // vLLM's names at TensorRT-LLM's place
		return
	}
	t.mark("trtllm", markStatistics)
	t.store(fromTRTLLM, choice, t.finish(s))
}
