package fakevllm

import (
	"fmt"
	"strconv"
)

// appendString appends s as pydantic writes it: only what JSON demands is escaped.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c < 0x20:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

func appendInts(b []byte, list []int) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(v), 10)
	}
	return append(b, ']')
}

func appendIDs(b []byte, tokens []token) []byte {
	b = append(b, '[')
	for i, t := range tokens {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(t.id), 10)
	}
	return append(b, ']')
}

// appendPrompt appends invented ids of a prompt of n tokens.
func appendPrompt(b []byte, n int) []byte {
	b = append(b, '[')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(firstWord+i), 10)
	}
	return append(b, ']')
}

func appendOptional(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendString(b, s)
}

func appendStop(b []byte, reason any) []byte {
	switch v := reason.(type) {
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case string:
		return appendString(b, v)
	}
	return append(b, "null"...)
}

func appendUsage(b []byte, prompt, completion int) []byte {
	return fmt.Appendf(b, `"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d`, prompt, prompt+completion, completion)
}

// appendSpec appends the statistics block (vLLM: SpeculativeDecodingMetrics).
// per_step_* are left out of streams where there are none, and null elsewhere.
func (e *Engine) appendSpec(b []byte, t *tally, nulls bool) []byte {
	steps, accepted := 0, 0
	for j, n := range t.histogram {
		steps += n
		accepted += j * n
	}
	mean, rate := 1.0, 0.0
	if steps > 0 {
		mean = 1 + float64(accepted)/float64(steps)
		rate = float64(accepted) / float64(steps*e.cfg.DraftLength)
	}
	b = fmt.Appendf(b, `"speculative_decoding":{"mean_acceptance_length":%s,"draft_acceptance_rate":%s,"acceptance_histogram":`, pyFloat(mean), pyFloat(rate))
	b = appendInts(b, t.histogram)
	b = fmt.Appendf(b, `,"num_spec_steps":%d,"num_accepted_draft_tokens":%d,"num_draft_tokens":%d,"num_spec_tokens":%d`, steps, accepted, steps*e.cfg.DraftLength, e.cfg.DraftLength)
	switch {
	case e.cfg.Detailed && steps > 0:
		b = appendInts(append(b, `,"per_step_accepted":`...), t.accepted)
		drafted := make([]int, steps)
		for i := range drafted {
			drafted[i] = e.cfg.DraftLength
		}
		b = appendInts(append(b, `,"per_step_drafted":`...), drafted)
	case nulls:
		b = append(b, `,"per_step_accepted":null,"per_step_drafted":null`...)
	}
	return append(b, '}')
}

// appendHead appends an answer's first members, up to the choices.
func (g *generation) appendHead(b []byte, object string) []byte {
	b = appendString(append(b, `{"id":`...), g.r.id)
	b = appendString(append(b, `,"object":`...), object)
	b = strconv.AppendInt(append(b, `,"created":`...), g.created, 10)
	b = appendString(append(b, `,"model":`...), g.e.cfg.Model)
	return append(b, `,"choices":[`...)
}

// body is the answer to a request that does not stream: every member, nulls too.
func (g *generation) body() []byte {
	object := "text_completion"
	if g.r.chat {
		object = "chat.completion"
	}
	b := g.appendHead(nil, object)
	for i := range g.plans {
		if i > 0 {
			b = append(b, ',')
		}
		b = g.appendWhole(b, i)
	}
	b = appendString(append(b, `],"service_tier":null,"system_fingerprint":`...), g.e.fingerprint())
	b = appendUsage(append(b, ','), g.truth.PromptTokens, g.tally.completions)
	b = append(b, `,"prompt_tokens_details":null,"completion_tokens_details":null}`...)
	if g.r.chat {
		b = append(b, `,"prompt_logprobs":null,"prompt_token_ids":`...)
		b = append(g.appendPromptIDs(b, 0), `,"prompt_text":null`...)
	}
	b = append(b, `,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":`...)
	if !g.reports() {
		return append(b, `null}`...)
	}
	b = append(b, `{"time_to_first_token_ms":null,"generation_time_ms":null,"queue_time_ms":null,"mean_itl_ms":null,"tokens_per_second":null,`...)
	return append(g.e.appendSpec(b, g.tally, true), `}}`...)
}

// appendWhole appends choice i of a whole answer.
func (g *generation) appendWhole(b []byte, i int) []byte {
	p := g.plans[i]
	b = strconv.AppendInt(append(b, `{"index":`...), int64(i), 10)
	if g.r.chat {
		b = appendString(append(b, `,"message":{"role":"assistant","content":`...), p.text)
		b = append(b, `,"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null}`...)
	} else {
		b = appendString(append(b, `,"text":`...), p.text)
	}
	b = appendString(append(b, `,"logprobs":null,"finish_reason":`...), p.finish)
	b = appendStop(append(b, `,"stop_reason":`...), p.stopReason)
	b = append(b, `,"token_ids":`...)
	if g.r.TokenIDs {
		var all []token
		for _, st := range p.steps {
			all = append(all, st.tokens...)
		}
		b = appendIDs(b, all)
	} else {
		b = append(b, `null`...)
	}
	if !g.r.chat {
		b = g.appendPromptIDs(append(b, `,"prompt_logprobs":null,"prompt_token_ids":`...), i/g.r.n)
	}
	return append(b, `,"routed_experts":null}`...)
}

func (g *generation) appendPromptIDs(b []byte, prompt int) []byte {
	if !g.r.TokenIDs {
		return append(b, `null`...)
	}
	return appendPrompt(b, g.r.prompts[prompt].tokens)
}

// body is the error as the body of an answer.
func (a *apiError) body() []byte {
	if a.kind == "" {
		return append(appendString([]byte(`{"detail":`), a.detail), '}')
	}
	b := appendString([]byte(`{"error":{"message":`), a.message)
	b = appendString(append(b, `,"type":`...), a.kind)
	b = appendOptional(append(b, `,"param":`...), a.param)
	return fmt.Appendf(b, `,"code":%d}}`, a.status)
}

// event is the error inside a stream, in json.dumps' spacing.
func (a *apiError) event() []byte {
	b := appendString([]byte(`data: {"error": {"message": `), a.message)
	b = appendString(append(b, `, "type": `...), a.kind)
	b = appendOptional(append(b, `, "param": `...), a.param)
	return fmt.Appendf(b, ", \"code\": %d}}\n\n", a.status)
}
