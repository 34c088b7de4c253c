package tap

import (
	"slices"
	"strconv"

	"spectap/collector"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Fill writes what the answer said into r. What the caller has set of Engine,
// ErrorKind and Error stays: it knows who left and which connection broke. A
// Tap that was not ended is ended as a broken answer. Nothing of r is shared
// with the Tap.
func (t *Tap) Fill(r *collector.Record) {
	t.End(t.at, false)
	r.ResponseID, r.Model = t.id, t.model
	if r.Engine == "" {
		r.Engine = t.engine
	}
	if chunks := t.chunkList(); chunks != nil {
		r.Chunks = chunks
		t.chunks = t.chunks[:0]
	}
	if len(r.Chunks) > 0 {
		r.FirstOutput = collector.At(r.Chunks[0].At)
	}
	r.Events, r.SawDone = t.events, t.done
	r.Finish, r.StopReason = t.finishReason()
	r.Reply, r.Reasoning = string(t.reply), string(t.reasoning)
	r.Usage = t.finalUsage()
	t.checkTokens(r)
	if kind, text := t.outcome(); r.ErrorKind == "" {
		r.ErrorKind, r.Error = kind, text
	}
	if r.Spec = t.spec(); r.Spec == nil {
		r.SpecMissing = t.missing(r)
	}
	r.Warnings = append(slices.Clone(r.Warnings), t.finalWarnings()...)
}

// finishReason returns that of the choice with the lowest index that has one.
func (t *Tap) finishReason() (finish, stop string) {
	lowest := -1
	for i := range t.choices {
		if s := &t.choices[i]; s.finish != "" && (lowest < 0 || s.index < t.choices[lowest].index) {
			lowest = i
		}
	}
	if lowest < 0 {
		return t.routeFinish, ""
	}
	return t.choices[lowest].finish, t.choices[lowest].stop
}

// finalUsage returns the usage of the request. Without a final one, what the choices had counted
// so far is added up.
func (t *Tap) finalUsage() *collector.Usage {
	if !t.usage.known {
		return nil
	}
	u := t.usage.Usage
	if !t.usageTotal && len(t.choices) > 1 {
		u.CompletionTokens = 0
		for i := range t.choices {
			u.CompletionTokens += t.choices[i].tokens
		}
	}
	return &u
}

// checkTokens warns where the chunks' counts do not add up to the usage.
func (t *Tap) checkTokens(r *collector.Record) {
	if !t.usageTotal || len(r.Chunks) == 0 {
		return
	}
	sum := 0
	for _, c := range r.Chunks {
		if c.Tokens == 0 {
			return
		}
		sum += c.Tokens
	}
	t.expect(sum == r.Usage.CompletionTokens, "the events' tokens do not add up to the usage")
}

// outcome returns what went wrong by the answer itself. [DONE] alone is no success: vLLM sends it
// after errors too.
func (t *Tap) outcome() (kind, text string) {
	switch {
	case t.status >= 400 && t.failed:
		return collector.ErrHTTPStatus, t.failure
	case t.status >= 400:
		return collector.ErrHTTPStatus, "untyped error"
	case t.failed:
		return collector.ErrInBand, t.failure
	case !t.clean && !t.done:
		return collector.ErrTruncated, "the answer broke off"
	case t.mode != readNothing && !t.unread && !t.finished():
		return collector.ErrNotFinished, "the answer ended without a finish reason"
	}
	if !t.clean {
		t.warn("the connection broke after the last event")
	}
	return "", ""
}

// finished says whether every choice that was seen has a finish reason.
func (t *Tap) finished() bool {
	for i := range t.choices {
		if t.choices[i].finish == "" {
			return false
		}
	}
	return len(t.choices) > 0 || t.routeFinish != ""
}

// missing returns the reason why there is no block. A stop string comes before a missing usage
// event, because no block would have come with it either.
func (t *Tap) missing(r *collector.Record) string {
	switch {
	case r.ErrorKind == collector.ErrClientGone:
		return collector.MissingClientGone
	case r.ErrorKind == collector.ErrTruncated, r.ErrorKind == collector.ErrDrained:
		return collector.MissingTruncated
	case r.ErrorKind != "" && r.ErrorKind != collector.ErrNotFinished:
		return collector.MissingError
	case t.mode == readNothing || t.unread:
		return collector.MissingNotMeasured
	case t.options.Choices > 1 || len(t.choices) > 1:
		return collector.MissingSeveralChoices
	case r.Finish == "stop" && r.StopReason == "string" && r.Engine != "sglang":
		return collector.MissingStopString
	case t.mode == readStream && !t.usageAtEnd && r.Engine != "sglang" && r.Engine != "llamacpp":
		return collector.MissingNoUsage
	}
	return collector.MissingNotReported
}
