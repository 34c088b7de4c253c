package fakevllm

// planned is one step and the text that the detokenizer lets out with it.
type planned struct {
	step
	text string
}

// plan is the whole of one choice: what a request will be answered, before any
// of it is sent. Time decides when a step is sent, never what it holds.
type plan struct {
	steps      []planned
	finish     string
	stopReason any
	text       string
	dropped    bool // no statistics block; the last two steps come in one event
	eos        bool // the last token is an EOS that ended the reply
}

func newPlan(cfg *Config, r *request, choice int) *plan {
	s := newSequence(cfg, r, choice)
	p := &plan{}
	sent := 0
	for s.finish == "" {
		st := s.next()
		to := max(sent, s.visible())
		p.steps = append(p.steps, planned{st, s.reply.String()[sent:to]})
		sent = to
	}
	p.text = s.reply.String()[:sent]
	p.finish, p.stopReason = s.finish, s.stopReason
	p.eos = s.finish == "stop" && s.stopReason == nil
	p.dropped = s.dropped && !s.onString() && len(p.steps) > 2
	return p
}

// reports says whether the engine's finishing output, which carries the
// statistics, reaches the frontend.
func (p *plan) reports() bool {
	_, onString := p.stopReason.(string)
	return !onString && !p.dropped
}

// tally counts executed steps, as the engine's scheduler does: a verify step by
// what the verifier accepted, before the reply's end cut it.
type tally struct {
	histogram   []int
	accepted    []int // per verify step
	draftless   int   // decode steps without drafts
	chunks      []int // tokens of each step, EOS removed; a step that was EOS alone is left out
	completions int
}

func (t *tally) add(p *plan, i int) {
	st := p.steps[i]
	t.completions += len(st.tokens)
	switch {
	case st.drafted > 0:
		t.histogram[st.accepted]++
		t.accepted = append(t.accepted, st.accepted)
	case i > 0:
		t.draftless++
	}
	n := len(st.tokens)
	if p.eos && i == len(p.steps)-1 {
		n--
	}
	if n > 0 {
		t.chunks = append(t.chunks, n)
	}
}
