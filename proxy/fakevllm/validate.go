package fakevllm

import (
	"fmt"
	"strconv"
	"strings"
)

// apiError is an error body; detail alone makes FastAPI's shape, bare a string.
type apiError struct {
	status                       int
	message, kind, param, detail string
	inBand                       bool // comes after the 200 of a stream
}

func badRequest(param, message string) *apiError {
	return &apiError{status: 400, message: message, kind: "BadRequestError", param: param}
}

func schemaError(param, detail string) *apiError {
	return &apiError{status: 400, message: "1 validation error:\n  " + detail, kind: "Bad Request", param: param}
}

func missing(name string, members int) *apiError {
	return schemaError("body."+name, fmt.Sprintf(`{'type': 'missing', 'loc': 'body.%s', 'msg': 'Field required', 'input': '<dict of %d items>'}`, name, members))
}

// valueError is a refused value: its message ends in the parameter and the value.
func valueError(param, value, format string, args ...any) *apiError {
	tail := " (parameter=" + param + ", value=" + value + ")"
	if value == "" {
		tail = " (parameter=" + param + ")"
	}
	return badRequest(param, fmt.Sprintf(format, args...)+tail)
}

// check refuses what vLLM refuses, with its words.
func (r *request) check(cfg *Config) *apiError {
	r.n = 1
	if r.N != nil {
		r.n = *r.N
	}
	if r.Model != "" && r.Model != cfg.Model {
		return &apiError{status: 404, kind: "NotFoundError", param: "model",
			message: fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", r.Model, cfg.Model)}
	}
	if len(r.Options) > 0 && !r.Stream.bool() {
		return valueError("stream_options", "", "Stream options can only be defined when `stream=True`.")
	}
	if e := r.checkNumbers(); e != nil {
		return e
	}
	if e := r.checkLengths(cfg); e != nil {
		return e
	}
	if len(r.LogitBias) > 0 || r.MinP.float(0) > 0 && r.temperature() > 0 {
		e := badRequest("", "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding.")
		e.inBand = r.Stream.bool()
		return e
	}
	return nil
}

func (r *request) checkNumbers() *apiError {
	for name, v := range map[string]lax{"temperature": r.Temperature, "top_p": r.TopP, "top_k": r.TopK, "min_p": r.MinP} {
		if _, err := strconv.ParseFloat(string(v), 64); v != "" && err != nil {
			return schemaError("body."+name, `{'type': 'float_parsing', 'loc': 'body.`+name+`', 'msg': 'Input should be a valid number, unable to parse string as a number', 'input': '`+string(v)+`'}`)
		}
	}
	t, p, k := r.temperature(), r.TopP.float(1), r.TopK.float(0)
	switch {
	case t < 0 || t > 2:
		return valueError("temperature", pyFloat(t), "temperature must be in [0, 2], got %s.", pyFloat(t))
	case p <= 0 || p > 1:
		return valueError("top_p", pyFloat(p), "top_p must be in (0, 1], got %s.", pyFloat(p))
	case k < -1:
		return badRequest("", fmt.Sprintf("top_k must be 0 (disable), or at least 1, got %d.", int(k)))
	case r.n < 1:
		return valueError("n", strconv.Itoa(r.n), "n must be at least 1, got %d.", r.n)
	case r.n > 1 && t == 0:
		return badRequest("", fmt.Sprintf("n must be 1 when using greedy sampling, got %d.", r.n))
	}
	return nil
}

func (r *request) checkLengths(cfg *Config) *apiError {
	want := r.MaxTokens
	if r.chat && r.MaxNew != nil {
		want = r.MaxNew
	}
	if want != nil && *want < 1 {
		return valueError("max_tokens", strconv.Itoa(*want), "max_tokens must be at least 1, got %d.", *want)
	}
	if want != nil && *want > cfg.MaxModelLen {
		return valueError("max_tokens", strconv.Itoa(*want), "max_tokens=%d cannot be greater than max_model_len=%d. Please request fewer output tokens.", *want, cfg.MaxModelLen)
	}
	for _, p := range r.prompts {
		if p.tokens >= cfg.MaxModelLen {
			least := cfg.MaxModelLen + 1
			return valueError("input_tokens", strconv.Itoa(least), "This model's maximum context length is %d tokens. However, your prompt contains at least %d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.", cfg.MaxModelLen, least)
		}
	}
	return nil
}

// pyFloat is Python's text of a float that is neither huge nor tiny.
func pyFloat(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
