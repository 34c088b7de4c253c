package sweep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"spectap/collector"
)

// message is one message of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// template makes the bodies of one point's requests. Sampling is explicit on
// every request: what is left open would be filled from the model's
// generation_config.json.
type template struct {
	engine      string
	model       string
	temperature float64
	topP        float64
	topK        int
	maxTokens   int
	cacheSalt   string // "": none
	chatArgs    json.RawMessage
	seed        *int64
	completions bool
	ignoreEOS   bool
	includeStop bool
	countEvents bool // ask for token counts on every event
	insist      bool // ask an unknown engine too: nothing else tells acceptance
}

// path is the route of the requests.
func (t template) path() string {
	if t.completions {
		return "/v1/completions"
	}
	return "/v1/chat/completions"
}

// body writes the request for a history that ends with a user message.
func (t template) body(history []message) ([]byte, error) {
	var o objectWriter
	o.add("model", t.model)
	if t.completions {
		o.add("prompt", history[len(history)-1].Content)
	} else {
		o.add("messages", history)
	}
	t.addParameters(&o)
	o.add("stream", true)
	o.add("stream_options", t.streamOptions())
	return o.close()
}

// extras are the members that another driver is told to add to its bodies,
// which have model, messages and stream by themselves.
func (t template) extras() ([]byte, error) {
	var o objectWriter
	t.addParameters(&o)
	o.add("stream_options", t.streamOptions())
	return o.close()
}

// addParameters adds sampling, token limit and what else the requests of a point share.
func (t template) addParameters(o *objectWriter) {
	o.add("temperature", t.temperature)
	o.add("top_p", t.topP)
	o.add("max_tokens", t.maxTokens)
	t.addEngineMembers(o)
	if t.chatArgs != nil && !t.completions {
		o.add("chat_template_kwargs", t.chatArgs)
	}
	if t.seed != nil {
		o.add("seed", *t.seed)
	}
}

// addEngineMembers adds what goes beyond the OpenAI API, where the engine takes
// it: TensorRT-LLM refuses unknown members, an unknown engine gets none.
func (t template) addEngineMembers(o *objectWriter) {
	topK := t.topK
	switch t.engine {
	case engineVLLM, engineTRTLLM:
	case engineSGLang:
		if topK == 0 {
			topK = -1 // its way to say off
		}
		o.add("return_spec_tokens_details", true)
	case engineLlamaCPP:
		o.add("top_k", max(topK, 0))
		o.add("min_p", 0)
		o.add("repeat_penalty", 1)
		if t.ignoreEOS {
			o.add("ignore_eos", true)
		}
		return
	default:
		return
	}
	o.add("top_k", topK)
	o.add("min_p", 0)
	o.add("repetition_penalty", 1)
	o.add("skip_special_tokens", false)
	if t.ignoreEOS {
		o.add("ignore_eos", true)
	}
	if t.includeStop {
		o.add("include_stop_str_in_output", true)
	}
	if t.engine == engineVLLM && t.cacheSalt != "" {
		o.add("cache_salt", t.cacheSalt)
	}
}

func (t template) streamOptions() map[string]bool {
	options := map[string]bool{"include_usage": true}
	if t.countEvents && (t.engine != "" || t.insist) && t.engine != engineLlamaCPP {
		options["continuous_usage_stats"] = true
	}
	return options
}

// objectWriter writes a JSON object in the order of its members, without
// escaping HTML.
type objectWriter struct {
	buf bytes.Buffer
	err error
}

func (o *objectWriter) add(key string, value any) {
	if o.buf.Len() > 0 {
		o.buf.WriteByte(',')
	}
	o.buf.WriteString(strconv.Quote(key) + ":")
	e := json.NewEncoder(&o.buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil && o.err == nil {
		o.err = fmt.Errorf("cannot write member %q: %w", key, err)
	}
	if n := o.buf.Len(); n > 0 && o.buf.Bytes()[n-1] == '\n' {
		o.buf.Truncate(n - 1)
	}
}

func (o *objectWriter) close() ([]byte, error) {
	return []byte("{" + o.buf.String() + "}"), o.err
}

// baggage writes labels as a W3C baggage header.
func baggage(l collector.Labels) string {
	var members []string
	for _, m := range []struct{ key, value string }{
		{"run", l.Run}, {"point", l.Point}, {"conversation", l.Conversation},
		{"question", l.Question}, {"turn", turnText(l)}, {"category", l.Category},
	} {
		if m.value != "" {
			members = append(members, "spectap."+m.key+"="+percentEncode(m.value))
		}
	}
	return strings.Join(members, ",")
}

func turnText(l collector.Labels) string {
	if !l.HasTurn {
		return ""
	}
	return strconv.Itoa(l.Turn)
}

// percentEncode leaves the characters that need no escape in any URI part.
func percentEncode(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteString("%" + string(hex[c>>4]) + string(hex[c&15]))
	}
	return b.String()
}
