package tap

// llama.cpp and servers with its names: timings on the last event, with draft_n
// and draft_n_accepted where anything was drafted. There is no histogram, and no
// number of steps unless the server adds draft_rounds: otherwise steps are
// predicted_n - draft_n_accepted, which also counts the prefill's token and the
// steps without drafts.
func (t *Tap) llamacpp(timings []byte) {
	s := readSpec("llamacpp", timings, specNames{accepted: "draft_n_accepted", drafted: "draft_n", steps: "draft_rounds"})
	predicted, known := 0, false
	members(timings, 0, func(key []byte, i int) int {
		v, end := raw(timings, i)
		if string(key) == "predicted_n" {
			predicted, known = natural(v)
		}
		return end
	})
	if known || s.hasDrafted {
		t.mark("llamacpp", markStatistics)
	}
	if s.DraftedTokens == 0 {
		return
	}
	if !s.hasSteps && known && predicted >= s.AcceptedTokens {
		s.Steps = predicted - s.AcceptedTokens
		s.Derived = append(s.Derived, fieldSteps)
	}
	t.store(fromLlamaCpp, 0, t.finish(s))
}
