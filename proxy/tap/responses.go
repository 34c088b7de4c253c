package tap

import "bytes"

// responses takes an event of /v1/responses, whose type is in the data, or its whole body.
func (t *Tap) responses(e *event) {
	if e.whole {
		t.response(e)
		return
	}
	kind := bytes.Trim(e.kind, `"`)
	switch string(kind) {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		t.done = true
		t.nestedResponse(e)
	case "response.created", "response.in_progress", "response.queued":
		t.nestedResponse(e)
	case "error":
		t.failed, t.failure = true, failureText(e)
	case "response.output_text.delta":
		t.plainDelta(e.delta, &t.reply)
	case "response.reasoning_text.delta":
		t.plainDelta(e.delta, &t.reasoning)
	default:
		if bytes.HasSuffix(kind, []byte(".delta")) {
			t.addChunk(0, 0)
		}
	}
}

func (t *Tap) nestedResponse(e *event) {
	var inner event
	if inner.parse(e.nested) {
		t.response(&inner)
	}
}

// response takes the response object. A status other than "in_progress" is its finish.
func (t *Tap) response(e *event) {
	t.identify(e)
	t.totals(e)
	t.statistics(e)
	if e.failed() {
		t.failed, t.failure = true, failureText(e)
	}
	if e.status != nil && !is(e.status, "in_progress") && !is(e.status, "queued") {
		t.routeFinish = reason(e.status)
	}
}

// plainDelta takes a delta that is a string.
func (t *Tap) plainDelta(delta []byte, to *[]byte) {
	if len(delta) <= 2 {
		return
	}
	t.addChunk(0, 0)
	t.appendTo(to, delta)
}

func (t *Tap) appendTo(to *[]byte, raw []byte) {
	if t.options.KeepText && len(*to)+len(raw) <= t.options.MaxEvent {
		*to = appendText(*to, raw)
	}
}

// messages takes an event of /v1/messages, or its whole body.
func (t *Tap) messages(e *event) {
	if e.whole {
		t.message(e)
		return
	}
	switch string(bytes.Trim(e.kind, `"`)) {
	case "message_start":
		var inner event
		if inner.parse(e.nested) {
			t.message(&inner)
		}
	case "content_block_delta":
		t.blockDelta(e.delta)
	case "message_delta":
		members(e.delta, 0, func(key []byte, i int) (end int) {
			if string(key) != "stop_reason" {
				return skip(e.delta, i)
			}
			e.stop, end = rawString(e.delta, i)
			return end
		})
		t.message(e)
	case "message_stop":
		t.done = true
	}
}

func (t *Tap) message(e *event) {
	t.identify(e)
	cached := t.usage.CachedTokens
	t.totals(e)
	if t.usage.CachedTokens == 0 {
		t.usage.CachedTokens = cached // said at the start only
	}
	if e.stop != nil {
		t.routeFinish = reason(e.stop)
	}
}

// blockDelta takes text, thinking or the arguments of a tool call; a signature is no output.
func (t *Tap) blockDelta(delta []byte) {
	output := false
	members(delta, 0, func(key []byte, i int) int {
		v, end := rawString(delta, i)
		switch string(key) {
		case "text":
			t.appendTo(&t.reply, v)
			output = output || len(v) > 2
		case "thinking":
			t.appendTo(&t.reasoning, v)
			output = output || len(v) > 2
		case "partial_json":
			output = output || len(v) > 2
		}
		return end
	})
	if output {
		t.addChunk(0, 0)
	}
}
