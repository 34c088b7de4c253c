package tap

// maxChoices bounds the choices of an answer that are told apart.
const maxChoices = 1024

const tooManyChoices = "the answer has more choices than are told apart"

// choiceState is what a stream has said of one choice so far.
type choiceState struct {
	index     int
	role      bool   // its role event came
	tokens    int    // cumulative completion_tokens
	uncounted bool   // a chunk without a count came, so a usage after it is no increment
	finish    string // its finish reason
	stop      string // Record.StopReason's form of its stop reason
}

// apply takes an event of a stream, or a whole body.
func (t *Tap) apply(e *event) {
	if e.failed() {
		t.failed, t.failure = true, failureText(e)
		return
	}
	switch t.options.Route {
	case RouteResponses:
		t.responses(e)
	case RouteMessages:
		t.messages(e)
	case RouteChat, RouteCompletions:
		t.completion(e)
	}
}

func (t *Tap) completion(e *event) {
	t.identify(e)
	for i := range e.choices {
		t.choice(e, &e.choices[i])
	}
	t.expect(!e.tooMany, tooManyChoices)
	t.totals(e)
	t.statistics(e)
}

func (t *Tap) identify(e *event) {
	if t.id == "" && e.id != nil {
		t.id = text(e.id)
	}
	if t.model == "" && e.model != nil {
		t.model = text(e.model)
	}
	if e.fingerprint != nil {
		t.markFingerprint(e.fingerprint)
	}
}

// choice takes one choice of an event.
func (t *Tap) choice(e *event, c *choice) {
	s := t.state(c.index)
	if s == nil {
		t.warn(tooManyChoices)
		return
	}
	if !e.whole {
		t.chunk(e, c, s)
	}
	if c.finish != nil {
		s.finish, s.stop = reason(c.finish), stopReason(c)
	}
	if t.options.KeepText && c.index == 0 {
		t.keepText(c)
	}
}

func (t *Tap) state(index int) *choiceState {
	for i := range t.choices {
		if t.choices[i].index == index {
			return &t.choices[i]
		}
	}
	if len(t.choices) == maxChoices {
		return nil
	}
	t.choices = append(t.choices, choiceState{index: index})
	return &t.choices[len(t.choices)-1]
}

// chunk appends a Chunk where the event carries output of the choice.
func (t *Tap) chunk(e *event, c *choice, s *choiceState) {
	first := c.role && !s.role
	s.role = s.role || c.role
	if first && !c.hasText() && c.ids <= 0 && c.logprobs <= 0 {
		return // role-only, even where its usage counts the token that the next event brings
	}
	tokens, counted := t.tokens(e, c, s)
	if !t.isOutput(e, c, s, tokens, counted) {
		return
	}
	s.uncounted = s.uncounted || tokens == 0
	t.addChunk(tokens, c.index)
}

// tokens returns how many tokens an event brought, and whether anything says so: the rise of
// usage.completion_tokens, else token_ids, else logprobs (wire-formats.md 1.6). A usage that
// first comes after uncounted chunks is the sum of the request, not an increment.
func (t *Tap) tokens(e *event, c *choice, s *choiceState) (n int, counted bool) {
	if e.usage.hasCompletion && len(e.choices) == 1 && !s.uncounted {
		n = e.usage.CompletionTokens - s.tokens
		if s.tokens = e.usage.CompletionTokens; n >= 0 {
			return n, true
		}
		t.warn("the number of completion tokens fell during the stream")
	}
	if c.ids >= 0 {
		return c.ids, true
	}
	if c.logprobs >= 0 {
		return c.logprobs, true
	}
	return 0, false
}

// isOutput decides whether an event is a chunk (metric-parity.md 5.4). Text is. Without text a
// count decides, because one engine step can end in the middle of a character or be a special
// token. With neither, an event after the role event is a step of its own, except:
//
//   - a role again (llama.cpp during prefill) and prompt_progress;
//   - a separate finish event, as of SGLang (matched_stop), llama.cpp and OpenAI (delta {}).
//     vLLM's and TensorRT-LLM's finish events belong to the last step: they have content "", the
//     member token_ids, or in completions the member stop_reason.
//
// Text before the first token is the prompt's echo and no output.
func (t *Tap) isOutput(e *event, c *choice, s *choiceState, tokens int, counted bool) bool {
	switch {
	case c.hasText():
		return !(e.usage.hasCompletion && e.usage.CompletionTokens == 0)
	case counted:
		return tokens > 0
	case c.role, e.progress, c.matched != nil:
		return false
	case c.finish != nil:
		return c.hasIDs || c.content != nil || c.text != nil && c.hasStop
	}
	return c.text != nil || c.delta && s.role
}

// totals keeps the last usage. With choices beside it in a stream it is cumulative for that choice.
func (t *Tap) totals(e *event) {
	if !e.usage.known {
		return
	}
	t.usage = e.usage
	t.usageTotal = e.whole || len(e.choices) == 0
	for i := range e.choices {
		t.usageAtEnd = t.usageAtEnd || e.choices[i].finish != nil
	}
	t.usageAtEnd = t.usageAtEnd || t.usageTotal
	if e.usage.topReasoning {
		t.mark("sglang", markFinish)
	}
}

// statistics reads the engine's blocks where the event has one.
func (t *Tap) statistics(e *event) {
	if e.spec != nil {
		t.vllm(e.spec)
	}
	if e.sglext != nil {
		t.sglang(e.sglext)
	}
	if e.timings != nil {
		t.llamacpp(e.timings)
	}
	for i := range e.choices {
		c := &e.choices[i]
		switch {
		case t.state(c.index) == nil:
		case c.spec != nil:
			t.trtllm(c.index, c.spec)
		case c.sparse != nil:
			t.vllmSparse(c.index, c.sparse)
		}
		if c.matched != nil {
			t.mark("sglang", markFinish)
		}
		if c.perIter {
			t.mark("trtllm", markFinish)
		}
	}
}

// stopReason returns Record.StopReason's form. SGLang's matched_stop is an id at EOS too, where
// vLLM has null, so only a string of it is taken.
func stopReason(c *choice) string {
	switch {
	case len(c.stop) > 0 && c.stop[0] == '"', c.stop == nil && len(c.matched) > 0 && c.matched[0] == '"':
		return "string"
	case len(c.stop) > 0:
		if id, ok := natural(c.stop); ok {
			return "token:" + itoa(id)
		}
	}
	return ""
}

// keepText appends the choice's text, up to the size of one event.
func (t *Tap) keepText(c *choice) {
	if len(t.reply)+len(t.reasoning)+len(c.content)+len(c.text)+len(c.reasoning) > t.options.MaxEvent {
		t.warn("the reply's text is over the size limit and is not complete")
		return
	}
	t.reply = appendText(appendText(t.reply, c.content), c.text)
	t.reasoning = appendText(t.reasoning, c.reasoning)
}
