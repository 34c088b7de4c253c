package fakevllm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// request is the part of a body that changes the answer. Members with a default
// hold it before a body is read.
type request struct {
	Model       string
	Messages    []struct{ Role, Content any } // text or a list of parts
	Prompt      any                           // text or token ids
	MaxTokens   int                           `json:"max_tokens"`
	MaxNew      *int                          `json:"max_completion_tokens"`
	Temperature float64                       `json:"temperature"`
	TopP        float64                       `json:"top_p"`
	MinP        float64                       `json:"min_p"`
	N           int
	Seed        any
	Stop        json.RawMessage // a string or a list of them
	IgnoreEOS   bool            `json:"ignore_eos"`
	SkipSpecial bool            `json:"skip_special_tokens"`
	Stream      any             // pydantic takes "true", 1 and "on" too
	Options     struct {
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"` // needs include_usage, as in vLLM
	} `json:"stream_options"`
	TokenIDs  bool   `json:"return_token_ids"`
	CacheSalt string `json:"cache_salt"`

	chat         bool
	fault        fault
	text         string // all that the model reads
	promptTokens int
	stops        []string
}

func (q *request) streams() bool {
	return slices.Contains([]string{"true", "1", "t", "yes", "y", "on"}, strings.ToLower(fmt.Sprint(q.Stream)))
}

// apiError is an error answer as vLLM words it.
type apiError struct {
	status               int
	kind, param, message string
	inBand               bool // comes after the 200 of a stream
}

// The shapes of an error; in a stream it has json.dumps' spacing.
const (
	errorBody  = `{"error":{"message":%s,"type":%s,"param":%s,"code":%d}}`
	errorEvent = `{"error": {"message": %s, "type": %s, "param": %s, "code": %d}}`
)

func (a *apiError) json(shape string) string {
	return fmt.Sprintf(shape, text(a.message), text(a.kind), orNull(a.param != "", a.param), a.status)
}

// refusal is a 400 of vLLM's own checks, invalid one of its schema.
func refusal(param, format string, args ...any) *apiError {
	return &apiError{status: 400, kind: "BadRequestError", param: param, message: fmt.Sprintf(format, args...)}
}

func invalid(param, message string) *apiError {
	return &apiError{status: 400, kind: "Bad Request", param: param, message: "1 validation error:\n  " + message}
}

// read parses a request and chooses its fault: its header's, else the engine's if
// it is its turn. The error is what vLLM would answer.
func (e *Engine) read(r *http.Request) (*request, *apiError) {
	q := &request{chat: r.URL.Path == "/v1/chat/completions", MaxTokens: 16, Temperature: 1, TopP: 1, N: 1, SkipSpecial: true}
	if q.chat {
		q.MaxTokens = e.cfg.MaxModelLen
	}
	e.tally(func(c *counters) {
		if c.requests++; c.requests%e.fault.every == 0 {
			q.fault = e.fault
		}
	})
	err := json.NewDecoder(r.Body).Decode(q)
	if h := r.Header.Get("X-Fake-Fault"); h != "" && err == nil {
		q.fault, err = parseFault(h)
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch {
	case kind != "application/json":
		return q, invalid("", "Unsupported Media Type: Only 'application/json' is allowed")
	case err != nil:
		return q, invalid("body", fmt.Sprintf("{'type': 'json_invalid', 'loc': 'body', 'msg': 'JSON decode error', 'ctx': {'error': '%v'}}", err))
	case q.chat && q.Messages == nil || !q.chat && q.Prompt == nil:
		return q, invalid("body", "{'type': 'missing', 'loc': 'body', 'msg': 'Field required'}")
	}
	q.derive()
	return q, q.check(&e.cfg)
}

// derive reads what can come in several forms. A prompt has about a token a word,
// and a template around each message.
func (q *request) derive() {
	list := "[" + strings.Trim(string(q.Stop), "[]") + "]"
	_ = json.Unmarshal([]byte(list), &q.stops)
	if q.MaxNew != nil && q.chat {
		q.MaxTokens = *q.MaxNew
	}
	q.text, q.promptTokens = fmt.Sprint(q.Prompt), 1
	if q.chat {
		q.text, q.promptTokens = "", 22+4*len(q.Messages)
	}
	for _, m := range q.Messages {
		q.text += fmt.Sprintf("%v\x00%v\x00 ", m.Role, m.Content)
	}
	q.promptTokens += len(strings.Fields(q.text))
}

// check refuses what the fault wants refused, and what vLLM refuses, with its words.
func (q *request) check(cfg *Config) *apiError {
	status, scripted := strings.CutPrefix(q.fault.name, "status")
	switch code, _ := strconv.Atoi(status); {
	case scripted:
		return &apiError{status: code, kind: http.StatusText(code), message: "scripted fault"}
	case q.Model != "" && q.Model != cfg.Model:
		return &apiError{status: 404, kind: "NotFoundError", param: "model", message: fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", q.Model, cfg.Model)}
	case q.Options.IncludeUsage && !q.streams():
		return refusal("stream_options", "Stream options can only be defined when `stream=True`. (parameter=stream_options)")
	case q.Temperature < 0 || q.Temperature > 2:
		return refusal("temperature", "temperature must be in [0, 2], got %[1]v. (parameter=temperature, value=%[1]v)", q.Temperature)
	case q.N != 1: // vLLM says so at temperature 0 only
		return refusal("", "n must be 1 when using greedy sampling, got %d.", q.N)
	case q.MaxTokens < 1:
		return refusal("max_tokens", "max_tokens must be at least 1, got %[1]d. (parameter=max_tokens, value=%[1]d)", q.MaxTokens)
	case q.promptTokens >= cfg.MaxModelLen:
		return refusal("input_tokens", "This model's maximum context length is %[1]d tokens. However, your prompt contains at least %[2]d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=%[2]d)", cfg.MaxModelLen, cfg.MaxModelLen+1)
	case q.MinP > 0 && q.Temperature > 0:
		refused := refusal("", "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding.")
		refused.inBand = q.streams()
		return refused
	}
	return nil
}

// text is v as JSON, with only what JSON demands escaped, as pydantic writes it.
func text(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // strings, numbers and lists of them: no error
	return strings.TrimSuffix(b.String(), "\n")
}

func orNull(present bool, v any) string {
	if present {
		return text(v)
	}
	return "null"
}

// fault is a scripted misbehaviour: "name", "name@n", and in Config.Fault also
// "name@n/m" for every m-th request.
type fault struct {
	name  string
	n     int // events before it
	every int
}

// FaultNames lists the scripted faults and what each does, one a line.
func FaultNames() string {
	return `
nostats    no statistics block
status400  error status; status429, status500 and status503 likewise
error      an error event after n events, then [DONE]
cut        the connection closes after n events, without the last chunk
stall      nothing more after n events, the connection stays open
nodone     no [DONE], a clean end
comments   a keep-alive comment before every event
split      every event in three writes
merge      three events in one write`
}

func parseFault(s string) (fault, error) {
	rest, every, _ := strings.Cut(s, "/")
	name, n, _ := strings.Cut(rest, "@")
	f := fault{name: name}
	var errN, errEvery error
	f.n, errN = strconv.Atoi(cmp.Or(n, "3"))
	f.every, errEvery = strconv.Atoi(cmp.Or(every, "1"))
	known := strings.Contains(FaultNames(), "\n"+name+" ") || slices.Contains([]string{"", "status429", "status500", "status503"}, name)
	if !known || errN != nil || errEvery != nil || f.every < 1 {
		return f, fmt.Errorf("cannot read fault %q: want name, name@n or name@n/every, with a name of %s", s, FaultNames())
	}
	return f, nil
}
