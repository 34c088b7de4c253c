package tap

import "spectap/collector"

// usage is a usage object under the names of all APIs.
type usage struct {
	known           bool // a number of tokens stands there
	hasCompletion   bool
	topReasoning    bool // usage.reasoning_tokens (SGLang)
	collector.Usage      // what is not said is 0
}

func (u *usage) parse(b []byte, i int) int {
	*u = usage{}
	return members(b, i, func(key []byte, i int) (end int) {
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			return u.number(b, i, &u.PromptTokens)
		case "completion_tokens", "output_tokens":
			end = u.number(b, i, &u.CompletionTokens)
			u.hasCompletion = u.hasCompletion || end > 0 && b[i] >= '0' && b[i] <= '9'
			return end
		case "reasoning_tokens":
			u.topReasoning = true
			return u.number(b, i, &u.ReasoningTokens)
		case "cache_read_input_tokens":
			return u.number(b, i, &u.CachedTokens)
		case "prompt_tokens_details", "input_tokens_details", "completion_tokens_details", "output_tokens_details":
			return members(b, i, func(key []byte, i int) int { return u.detail(b, key, i) })
		}
		return skip(b, i)
	})
}

func (u *usage) detail(b, key []byte, i int) int {
	switch string(key) {
	case "cached_tokens":
		return u.number(b, i, &u.CachedTokens)
	case "reasoning_tokens":
		return u.number(b, i, &u.ReasoningTokens)
	}
	return skip(b, i)
}

func (u *usage) number(b []byte, i int, field *int) int {
	v, end := raw(b, i)
	if n, ok := natural(v); ok {
		*field, u.known = n, true
	}
	return end
}
