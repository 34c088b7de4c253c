package fakevllm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// request is the part of a body that changes the answer. Members with a default
// hold it before a body is read.
type request struct {
	Model       string
	Messages    []message
	Prompt      json.RawMessage
	MaxTokens   int     `json:"max_tokens"`
	MaxNew      *int    `json:"max_completion_tokens"`
	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"`
	TopK        int     `json:"top_k"`
	MinP        float64 `json:"min_p"`
	N           int
	Seed        any
	Stop        json.RawMessage
	StopTokens  []int `json:"stop_token_ids"`
	IgnoreEOS   bool  `json:"ignore_eos"`
	SkipSpecial bool  `json:"skip_special_tokens"`
	Stream      any   // pydantic takes "true" too
	Options     struct {
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"` // needs include_usage, as in vLLM
	} `json:"stream_options"`
	TokenIDs  bool   `json:"return_token_ids"`
	CacheSalt string `json:"cache_salt"`

	chat         bool
	fault        fault
	first        string // text of the first user message, or the prompt
	text         string // all that the model reads
	promptTokens int
	stops        []string
}

type message struct {
	Role    string
	Content any // a string or a list of parts
}

func (q *request) streams() bool { return fmt.Sprint(q.Stream) == "true" }

// apiError is an error answer as vLLM words it.
type apiError struct {
	status               int
	kind, param, message string
	inBand               bool // comes after the 200 of a stream
}

// json fills the members into a body; in-band errors have json.dumps' spacing.
func (a *apiError) json(format string) string {
	param := "null"
	if a.param != "" {
		param = text(a.param)
	}
	return fmt.Sprintf(format, text(a.message), text(a.kind), param, a.status)
}

const (
	errorBody  = `{"error":{"message":%s,"type":%s,"param":%s,"code":%d}}`
	errorEvent = `data: {"error": {"message": %s, "type": %s, "param": %s, "code": %d}}` + "\n\n"
)

// refusal is a 400 of vLLM's own checks, invalid one of its schema.
func refusal(param, format string, args ...any) *apiError {
	return &apiError{status: 400, kind: "BadRequestError", param: param, message: fmt.Sprintf(format, args...)}
}

func invalid(param, format string, args ...any) *apiError {
	return &apiError{status: 400, kind: "Bad Request", param: param, message: fmt.Sprintf("1 validation error:\n  "+format, args...)}
}

// read parses a request and chooses its fault; the error is what vLLM would answer.
func (e *Engine) read(r *http.Request) (*request, *apiError) {
	q := &request{chat: r.URL.Path == "/v1/chat/completions", MaxTokens: 16, Temperature: 1, TopP: 1, N: 1, SkipSpecial: true}
	if q.chat {
		q.MaxTokens = e.cfg.MaxModelLen
	}
	var err error
	if q.fault, err = e.pickFault(r.Header.Get("X-Fake-Fault")); err != nil {
		return q, refusal("X-Fake-Fault", "%v", err)
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, q)
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch {
	case kind != "application/json":
		return q, invalid("", "Unsupported Media Type: Only 'application/json' is allowed")
	case err != nil:
		return q, invalid("body", "{'type': 'json_invalid', 'loc': 'body', 'msg': 'JSON decode error', 'ctx': {'error': '%v'}}", err)
	case q.chat && q.Messages == nil:
		return q, invalid("body.messages", "{'type': 'missing', 'loc': 'body.messages', 'msg': 'Field required'}")
	case !q.chat && q.Prompt == nil:
		return q, invalid("body.prompt", "{'type': 'missing', 'loc': 'body.prompt', 'msg': 'Field required'}")
	}
	q.readPrompt()
	if refused := q.check(&e.cfg); refused != nil {
		return q, refused
	}
	if status, ok := strings.CutPrefix(q.fault.name, "status"); ok {
		code, _ := strconv.Atoi(status)
		return q, &apiError{status: code, kind: http.StatusText(code), message: "scripted fault " + q.fault.name}
	}
	return q, nil
}

// readPrompt counts about a token a word, and a template around each message.
func (q *request) readPrompt() {
	if q.chat && q.MaxNew != nil {
		q.MaxTokens = *q.MaxNew
	}
	list := "[" + strings.Trim(string(q.Stop), "[]") + "]" // a string or a list of them
	_ = json.Unmarshal([]byte(list), &q.stops)
	if !q.chat {
		if json.Unmarshal(q.Prompt, &q.text) != nil {
			q.text = string(q.Prompt) // token ids
		}
		q.first, q.promptTokens = q.text, 1+len(strings.Fields(q.text))
		return
	}
	q.promptTokens = 22
	for _, m := range q.Messages {
		content := fmt.Sprint(m.Content)
		if m.Role == "user" && q.first == "" {
			q.first = content
		}
		q.text += m.Role + "\x00" + content + "\x00"
		q.promptTokens += 4 + len(strings.Fields(content))
	}
}

// check refuses what vLLM refuses, with its words.
func (q *request) check(cfg *Config) *apiError {
	switch {
	case q.Model != "" && q.Model != cfg.Model:
		return &apiError{status: 404, kind: "NotFoundError", param: "model", message: fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", q.Model, cfg.Model)}
	case q.Options.IncludeUsage && !q.streams():
		return refusal("stream_options", "Stream options can only be defined when `stream=True`. (parameter=stream_options)")
	case q.chat && len(q.Messages) == 0:
		return refusal("", "Cannot apply chat template to an empty conversation. Provide at least one message.")
	case q.Temperature < 0 || q.Temperature > 2:
		return refusal("temperature", "temperature must be in [0, 2], got %[1]s. (parameter=temperature, value=%[1]s)", pyFloat(q.Temperature))
	case q.TopP <= 0 || q.TopP > 1:
		return refusal("top_p", "top_p must be in (0, 1], got %[1]s. (parameter=top_p, value=%[1]s)", pyFloat(q.TopP))
	case q.TopK < -1:
		return refusal("", "top_k must be 0 (disable), or at least 1, got %d.", q.TopK)
	case q.N < 1:
		return refusal("n", "n must be at least 1, got %[1]d. (parameter=n, value=%[1]d)", q.N)
	case q.N > 1 && q.Temperature == 0:
		return refusal("", "n must be 1 when using greedy sampling, got %d.", q.N)
	case q.MaxTokens < 1:
		return refusal("max_tokens", "max_tokens must be at least 1, got %[1]d. (parameter=max_tokens, value=%[1]d)", q.MaxTokens)
	case q.MaxTokens > cfg.MaxModelLen:
		return refusal("max_tokens", "max_tokens=%[1]d cannot be greater than max_model_len=%[2]d. Please request fewer output tokens. (parameter=max_tokens, value=%[1]d)", q.MaxTokens, cfg.MaxModelLen)
	case q.promptTokens >= cfg.MaxModelLen:
		return refusal("input_tokens", "This model's maximum context length is %[1]d tokens. However, your prompt contains at least %[2]d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=%[2]d)", cfg.MaxModelLen, cfg.MaxModelLen+1)
	case q.MinP > 0 && q.Temperature > 0:
		refused := refusal("", "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding.")
		refused.inBand = q.streams()
		return refused
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

// text is v as JSON, with only what JSON demands escaped, as pydantic writes it.
func text(v any) string {
	if v == nil {
		return "null"
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // strings, numbers and lists of them: no error
	return strings.TrimSuffix(b.String(), "\n")
}
