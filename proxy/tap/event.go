package tap

// event is what one event of a stream, or a whole body, says. Its byte slices
// are raw JSON values inside the data that was parsed, nil where absent or null.
type event struct {
	whole   bool // a body, not an event of a stream
	tooMany bool // choices beyond maxChoices were skipped

	id, model, object, fingerprint []byte

	choices []choice
	usage   usage

	spec     []byte // metrics.speculative_decoding (vLLM)
	sglext   []byte // SGLang
	timings  []byte // llama.cpp
	progress bool   // prompt_progress: prefill goes on (llama.cpp)

	failure    []byte // error: an object or a string
	kind, code []byte // type and code at the root: a flat error, or the type of an event
	status     []byte // status of a response (/v1/responses)
	stop       []byte // stop_reason at the root or in the delta (/v1/messages)
	delta      []byte // delta at the root (/v1/responses, /v1/messages)
	nested     []byte // response or message at the root: the same members one level deeper
}

// choice is one element of choices.
type choice struct {
	index                    int
	delta, role              bool   // the member delta or message, and a role in it
	content, reasoning, text []byte // raw strings; "" where the token has no text
	other                    bool   // tool calls, or another kind of output
	finish, stop, matched    []byte
	hasStop, hasIDs          bool // the members stop_reason and token_ids stand there, null or not
	ids, logprobs            int  // tokens by token_ids and by logprobs; -1 where not said
	perIter                  bool // avg_decoded_tokens_per_iter (TensorRT-LLM)
	spec                     []byte
	sparse                   []byte // speculative_decoding_stats, vLLM before its release
}

// parse reads one JSON object; false where it is none. What an earlier event left is overwritten.
func (e *event) parse(b []byte) bool {
	*e = event{choices: e.choices[:0]}
	end := object(b, Space(b, 0), func(key []byte, i int) int { return e.member(b, key, i) })
	return end >= 0 && Space(b, end) == len(b)
}

func (e *event) member(b, key []byte, i int) (end int) {
	switch string(key) {
	case "choices":
		e.choices = e.choices[:0]
		return elements(b, i, func(i int) int { return e.choice(b, i) })
	case "usage":
		return e.usage.parse(b, i)
	case "id":
		e.id, end = rawString(b, i)
	case "model":
		e.model, end = rawString(b, i)
	case "object":
		e.object, end = rawString(b, i)
	case "system_fingerprint":
		e.fingerprint, end = rawString(b, i)
	case "metrics":
		return e.metrics(b, i)
	case "sglext":
		e.sglext, end = raw(b, i)
	case "timings":
		e.timings, end = raw(b, i)
	case "prompt_progress":
		e.progress, end = true, skip(b, i)
	case "error":
		e.failure, end = raw(b, i)
	default:
		return e.rare(b, key, i)
	}
	return end
}

// rare takes the members that chat completions and completions do not have.
func (e *event) rare(b, key []byte, i int) (end int) {
	switch string(key) {
	case "type":
		e.kind, end = rawString(b, i)
	case "code":
		e.code, end = raw(b, i)
	case "status":
		e.status, end = rawString(b, i)
	case "stop_reason":
		e.stop, end = rawString(b, i)
	case "delta":
		e.delta, end = raw(b, i)
	case "response", "message":
		e.nested, end = raw(b, i)
	default:
		return skip(b, i)
	}
	return end
}

func (e *event) metrics(b []byte, i int) int {
	return members(b, i, func(key []byte, i int) (end int) {
		if string(key) != "speculative_decoding" {
			return skip(b, i)
		}
		e.spec, end = raw(b, i)
		return end
	})
}

func (e *event) choice(b []byte, i int) int {
	if len(e.choices) == maxChoices {
		e.tooMany = true
		return skip(b, i)
	}
	e.choices = append(e.choices, choice{ids: -1, logprobs: -1})
	c := &e.choices[len(e.choices)-1]
	return members(b, i, func(key []byte, i int) int { return c.member(b, key, i) })
}

func (c *choice) member(b, key []byte, i int) (end int) {
	var v []byte
	switch string(key) {
	case "index":
		v, end = raw(b, i)
		c.index, _ = natural(v)
	case "delta", "message":
		c.delta = true
		return members(b, i, func(key []byte, i int) int { return c.output(b, key, i) })
	case "text":
		c.text, end = rawString(b, i)
	case "finish_reason":
		c.finish, end = rawString(b, i)
	case "stop_reason":
		c.hasStop = true
		c.stop, end = raw(b, i)
	case "token_ids":
		c.hasIDs = true
		c.ids, end = count(b, i)
	case "logprobs":
		return members(b, i, func(key []byte, i int) int { return c.logprob(b, key, i) })
	case "matched_stop":
		c.matched, end = raw(b, i)
	case "speculative_decoding":
		c.spec, end = raw(b, i)
	case "speculative_decoding_stats":
		c.sparse, end = raw(b, i)
	case "avg_decoded_tokens_per_iter":
		c.perIter, end = true, skip(b, i)
	default:
		return skip(b, i)
	}
	return end
}

// output takes one member of a delta or a message.
func (c *choice) output(b, key []byte, i int) (end int) {
	var v []byte
	switch string(key) {
	case "role":
		v, end = rawString(b, i)
		c.role = v != nil
	case "content":
		if v, end = raw(b, i); len(v) > 0 && v[0] == '"' {
			c.content = v
		} else {
			c.other = c.other || filled(v)
		}
	case "reasoning", "reasoning_content":
		if v, end = rawString(b, i); len(v) > 2 || c.reasoning == nil {
			c.reasoning = v
		}
	case "tool_calls", "function_call", "refusal", "audio":
		v, end = raw(b, i)
		c.other = c.other || filled(v)
	default:
		return skip(b, i)
	}
	return end
}

// logprob counts the tokens of chat's logprobs.content and of completions' logprobs.tokens.
func (c *choice) logprob(b, key []byte, i int) (end int) {
	switch string(key) {
	case "content", "tokens":
		c.logprobs, end = count(b, i)
		return end
	}
	return skip(b, i)
}

// filled says whether a raw value is a string, array or object that is not empty.
func filled(v []byte) bool {
	return len(v) > 2 && (v[0] == '"' || Space(v, 1) < len(v)-1)
}

// hasText says whether the choice carries output that a reader would see.
func (c *choice) hasText() bool {
	return len(c.content) > 2 || len(c.reasoning) > 2 || len(c.text) > 2 || c.other
}
