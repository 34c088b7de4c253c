package fakevllm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// lax is a number or boolean that may also come as a string, as pydantic reads it.
type lax string

func (l *lax) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	*l = lax(strings.Trim(string(b), `"`))
	return nil
}

func (l lax) bool() bool {
	switch strings.ToLower(string(l)) {
	case "true", "1", "yes", "on", "t", "y":
		return true
	}
	return false
}

// float returns def where the member was absent or null.
func (l lax) float(def float64) float64 {
	if f, err := strconv.ParseFloat(string(l), 64); err == nil {
		return f
	}
	return def
}

// prompt is one prompt of a request; first is the text of its first user message.
type prompt struct {
	text, first string
	tokens      int
}

// request is the part of a body that changes the answer.
type request struct {
	Model       string            `json:"model"`
	Messages    []json.RawMessage `json:"messages"`
	Prompt      json.RawMessage   `json:"prompt"`
	MaxTokens   *int              `json:"max_tokens"`
	MaxNew      *int              `json:"max_completion_tokens"`
	Temperature lax               `json:"temperature"`
	TopP        lax               `json:"top_p"`
	TopK        lax               `json:"top_k"`
	MinP        lax               `json:"min_p"`
	N           *int              `json:"n"`
	Seed        *int64            `json:"seed"`
	Stop        json.RawMessage   `json:"stop"`
	StopTokens  []int             `json:"stop_token_ids"`
	IgnoreEOS   bool              `json:"ignore_eos"`
	IncludeStop bool              `json:"include_stop_str_in_output"`
	SkipSpecial *bool             `json:"skip_special_tokens"`
	Stream      lax               `json:"stream"`
	Options     map[string]any    `json:"stream_options"`
	TokenIDs    bool              `json:"return_token_ids"`
	Interval    int               `json:"stream_interval"`
	CacheSalt   string            `json:"cache_salt"`
	LogitBias   map[string]any    `json:"logit_bias"`
	RequestID   string            `json:"request_id"`

	chat     bool
	id       string // "chatcmpl-..." or "cmpl-..."
	xid      string // X-Request-ID
	fault    fault
	n        int
	prompts  []prompt
	stops    []string
	holdBack int // characters
	users    []string
}

func (r *request) temperature() float64 { return r.Temperature.float(1) }
func (r *request) skipSpecial() bool    { return r.SkipSpecial == nil || *r.SkipSpecial }
func (r *request) includeUsage() bool   { return r.Options["include_usage"] == true }
func (r *request) choices() int         { return r.n * len(r.prompts) }

// continuous usage needs include_usage, as in vLLM.
func (r *request) continuous() bool {
	return r.includeUsage() && r.Options["continuous_usage_stats"] == true
}

func (r *request) stopsAt(id int) bool {
	for _, s := range r.StopTokens {
		if s == id {
			return true
		}
	}
	return false
}

// limit is the number of tokens at which a reply ends: completions default to 16,
// a chat to the context's rest, which also caps what was asked for.
func (r *request) limit(cfg *Config) int {
	rest := cfg.MaxModelLen - r.prompts[0].tokens
	switch {
	case r.chat && r.MaxNew != nil:
		return min(*r.MaxNew, rest)
	case r.MaxTokens != nil:
		return min(*r.MaxTokens, rest)
	case r.chat:
		return rest
	}
	return min(16, rest)
}

// parse reads a body; the error is what vLLM would answer.
func parse(body []byte, chat bool, cfg *Config) (*request, *apiError) {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	r := &request{chat: chat}
	switch {
	case len(body) == 0:
		return nil, schemaError("body", `{'type': 'missing', 'loc': 'body', 'msg': 'Field required', 'input': 'None'}`)
	case !utf8.Valid(body):
		return nil, &apiError{status: 400, detail: "There was an error parsing the body"}
	case body[0] == '[':
		return nil, schemaError("body", `{'type': 'model_attributes_type', 'loc': 'body', 'msg': 'Input should be a valid dictionary or object to extract fields from', 'input': '<list of 0 items>'}`)
	case !json.Valid(body):
		at := syntaxAt(body)
		return nil, schemaError("body."+at, `{'type': 'json_invalid', 'loc': 'body.`+at+`', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting value'}}`)
	}
	if err := json.Unmarshal(body, r); err != nil {
		return nil, schemaError("body", fmt.Sprintf(`{'type': 'value_error', 'loc': 'body', 'msg': '%v'}`, err))
	}
	if e := r.readPrompts(members(body)); e != nil {
		return nil, e
	}
	r.readStops()
	return r, r.check(cfg)
}

// members counts the members of a JSON object.
func members(body []byte) int {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(body, &m) // valid, or no object and 0
	return len(m)
}

func syntaxAt(body []byte) string {
	var v any
	err := json.Unmarshal(body, &v)
	if s, ok := err.(*json.SyntaxError); ok {
		return strconv.FormatInt(s.Offset, 10)
	}
	return "0"
}

func (r *request) readStops() {
	var one string
	if json.Unmarshal(r.Stop, &r.stops) != nil && json.Unmarshal(r.Stop, &one) == nil && one != "" {
		r.stops = []string{one}
	}
	for _, s := range r.stops {
		r.holdBack = max(r.holdBack, utf8.RuneCountInString(s)-1)
	}
}

func (r *request) readPrompts(members int) *apiError {
	if r.chat {
		return r.readMessages(members)
	}
	var many []string
	var one string
	var ids []int
	switch {
	case json.Unmarshal(r.Prompt, &one) == nil:
		many = []string{one}
	case json.Unmarshal(r.Prompt, &many) == nil:
	case json.Unmarshal(r.Prompt, &ids) == nil:
		many = []string{strings.Trim(string(r.Prompt), "[]")}
	default:
		return missing("prompt", members)
	}
	for _, p := range many {
		r.prompts = append(r.prompts, prompt{p, p, max(len(ids), len(strings.Fields(p))+1)})
	}
	r.users = many
	return nil
}

// readMessages counts about a token a word, and a template around each message.
func (r *request) readMessages(members int) *apiError {
	if r.Messages == nil {
		return missing("messages", members)
	}
	if len(r.Messages) == 0 {
		return badRequest("", "Cannot apply chat template to an empty conversation. Provide at least one message.")
	}
	p := prompt{tokens: 22}
	for _, raw := range r.Messages {
		var m struct {
			Role    string `json:"role"`
			Content any    `json:"content"`
		}
		if json.Unmarshal(raw, &m) != nil {
			return missing("messages.role", members)
		}
		text := contentText(m.Content)
		if m.Role == "user" {
			r.users = append(r.users, text)
		}
		p.text += m.Role + "\x00" + text + "\x00"
		p.tokens += 4 + len(strings.Fields(text))
	}
	if len(r.users) > 0 {
		p.first = r.users[0]
	}
	r.prompts = []prompt{p}
	return nil
}

// contentText is a message's text: a string, or the text parts of a list.
func contentText(content any) string {
	switch c := content.(type) {
	case string:
		return c
	case []any:
		text := ""
		for _, part := range c {
			if m, ok := part.(map[string]any); ok {
				s, _ := m["text"].(string)
				text += s
			}
		}
		return text
	}
	return ""
}
