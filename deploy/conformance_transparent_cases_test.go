package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// transparentCase is a request that is sent directly and through spectap.
type transparentCase struct {
	name    string
	request rawRequest
	exact   bool                // nothing is masked
	anew    []string            // members beside id and created that the server makes anew
	shape   func(string) string // what of the body is compared; nil: all
	closes  bool                // the server closes a connection that the client would keep
}

// transparentKey is the server's API key.
const transparentKey = "sesame"

type members = map[string]any

// asked makes a request of a method, a target, a body and more header lines.
func asked(method, target, body string, lines ...string) rawRequest {
	head := []string{method + " " + target + " HTTP/1.1", "Host: vllm.test:8000"}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Authorization:") }) {
		head = append(head, "Authorization: Bearer "+transparentKey)
	}
	if body != "" {
		head = append(head, fmt.Sprintf("Content-Length: %d", len(body)))
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Content-Type:") }) {
			head = append(head, "Content-Type: application/json")
		}
	}
	head = slices.DeleteFunc(append(head, lines...), func(l string) bool { return strings.HasSuffix(l, ": -") })
	return rawRequest{head: strings.Join(head, "\r\n") + "\r\n\r\n", body: body}
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // a case is no JSON
	}
	return string(text)
}

// chatBody is a short chat request at temperature 0 with more members; nil removes one.
func chatBody(more members) members {
	body := members{"model": servedModel, "temperature": 0, "max_tokens": 16,
		"messages": []members{{"role": "user", "content": "Repeat: one two three, one two three, one two three."}}}
	return with(body, more)
}

func completionBody(more members) members {
	return with(members{"model": servedModel, "temperature": 0, "max_tokens": 16, "prompt": "one two three, one two three, one two"}, more)
}

func with(body, more members) members {
	maps.Copy(body, more)
	maps.DeleteFunc(body, func(_ string, v any) bool { return v == nil })
	return body
}

// transparentVariant is a variant of a generation, asked for streamed and not.
type transparentVariant struct {
	name string
	more members
	anew []string
}

var weatherTool = []members{{"type": "function", "function": members{
	"name": "weather", "description": "The weather of a city.",
	"parameters": members{"type": "object", "properties": members{"city": members{"type": "string", "maxLength": 8}},
		"required": []string{"city"}, "additionalProperties": false},
}}}

// says is a conversation of one message.
func says(text string) []members { return []members{{"role": "user", "content": text}} }

var chatVariants = []transparentVariant{
	{name: "plain"},
	{name: "n=2", more: members{"n": 2, "temperature": 0.3, "seed": 7}},
	{name: "n=2 greedy", more: members{"n": 2}},
	{name: "logprobs", more: members{"logprobs": true, "top_logprobs": 2, "max_tokens": 6}},
	{name: "stop string", more: members{"stop": []string{"three"}}},
	{name: "stop string kept", more: members{"stop": "three", "include_stop_str_in_output": true}},
	{name: "stop never", more: members{"stop": []string{"###"}}},
	{name: "stop token", more: members{"stop_token_ids": []int{28}}},
	{name: "one token", more: members{"max_tokens": 1}},
	{name: "max_completion_tokens", more: members{"max_tokens": nil, "max_completion_tokens": 4}},
	{name: "token ids", more: members{"return_token_ids": true}},
	{name: "special tokens", more: members{"skip_special_tokens": false}},
	{name: "stream interval", more: members{"stream_interval": 5}},
	{name: "unicode", more: members{"messages": says("Repeat: おはよう 🌅 é, おはよう 🌅 é, おはよう"), "max_tokens": 24}},
	{name: "unicode escaped", more: members{"messages": says("a\u2028b\u0000\"\\")}},
	{name: "JSON mode", more: members{"response_format": members{"type": "json_object"}}},
	{name: "JSON schema", more: members{"response_format": members{"type": "json_schema", "json_schema": members{"name": "a", "schema": weatherTool[0]["function"].(members)["parameters"]}}}},
	{name: "tools auto, none called", more: members{"tools": weatherTool}},
	{name: "tools auto, called", more: members{"tools": weatherTool, "tool_choice": "auto", "max_tokens": 40,
		"messages": []members{{"role": "system", "content": "You repeat what you are given."}, {"role": "user", "content": "Repeat exactly:\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"}}}},
	{name: "tools required", more: members{"tools": weatherTool, "tool_choice": "required", "max_tokens": 40}},
	{name: "tools named", more: members{"tools": weatherTool, "tool_choice": members{"type": "function", "function": members{"name": "weather"}}, "max_tokens": 40}},
	{name: "tools none", more: members{"tools": weatherTool, "tool_choice": "none"}},
	{name: "tools empty", more: members{"tools": []any{}}},
	{name: "echo", more: members{"echo": true, "add_generation_prompt": false, "continue_final_message": true, "messages": []members{{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "one two"}}}},
	{name: "history", more: members{"messages": []members{{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"}}}},
	{name: "content parts", more: members{"messages": []members{{"role": "user", "content": []members{{"type": "text", "text": "one"}, {"type": "text", "text": "two"}}}}}},
	{name: "unknown members", more: members{"metadata": members{"a": "b"}, "foo": []int{1}, "cache_salt": "x"}},
	{name: "min_p under speculation", more: members{"temperature": 1, "min_p": 0.1}}, // streamed: an event after 200
	{name: "logit_bias", more: members{"logit_bias": members{"5": 1}}},
	{name: "unknown model", more: members{"model": "nobody"}},
	{name: "bad temperature", more: members{"temperature": -1}},
	{name: "too many tokens", more: members{"max_tokens": 100000}},
	{name: "prompt too long", more: members{"messages": says(strings.Repeat("one two ", 1500))}},
	{name: "no messages", more: members{"messages": nil}},
	{name: "empty messages", more: members{"messages": []any{}}},
	{name: "null members", more: members{"stop": json.RawMessage("null"), "stream_options": json.RawMessage("null"), "n": json.RawMessage("null")}},
}

var completionVariants = []transparentVariant{
	{name: "plain"},
	{name: "n=2", more: members{"n": 2, "temperature": 0.3, "seed": 7}},
	{name: "logprobs", more: members{"logprobs": 2, "max_tokens": 6}},
	{name: "echo", more: members{"echo": true}},
	{name: "stop string", more: members{"stop": "three"}},
	{name: "several prompts", more: members{"prompt": []string{"one two", "three four"}, "max_tokens": 4}},
	{name: "prompt of tokens", more: members{"prompt": []int{88, 2756, 31394}}},
	{name: "token ids", more: members{"return_token_ids": true}},
	{name: "unicode", more: members{"prompt": "おはよう 🌅, おはよう 🌅, おは"}},
	{name: "default length", more: members{"max_tokens": nil}},
	{name: "min_p under speculation", more: members{"temperature": 1, "min_p": 0.1}},
	{name: "unknown model", more: members{"model": "nobody"}},
	{name: "no prompt", more: members{"prompt": nil}},
}

// streamForms are the forms in which a client says whether it wants a stream, and usage in it.
var streamForms = []transparentVariant{
	{name: `stream "true"`, more: members{"stream": "true"}},
	{name: "stream 1", more: members{"stream": 1}},
	{name: "stream maybe", more: members{"stream": "maybe"}},
	{name: "usage", more: options(members{"include_usage": true})},
	{name: "no usage", more: options(members{"include_usage": false})},
	{name: "usage null", more: options(members{"include_usage": json.RawMessage("null")})},
	{name: "options empty", more: options(members{})},
	{name: "options a list", more: members{"stream": true, "stream_options": []int{1}}},
	{name: "options unknown", more: options(members{"foo": 1})},
	{name: "usage and counts", more: options(members{"include_usage": true, "continuous_usage_stats": true})},
	{name: "usage, no counts", more: options(members{"include_usage": true, "continuous_usage_stats": false})},
	{name: "counts alone", more: options(members{"continuous_usage_stats": true})},
	{name: "counts, no usage", more: options(members{"include_usage": false, "continuous_usage_stats": true})},
	{name: "usage as a text", more: options(members{"include_usage": "true"})},
	{name: "usage and n=2", more: with(members{"n": 2, "temperature": 0.3, "seed": 7}, options(members{"include_usage": true}))},
	{name: "usage and a stop string", more: with(members{"stop": "three"}, options(members{"include_usage": true}))},
	{name: "usage, not streamed", more: members{"stream": false, "stream_options": members{"include_usage": true}}},
	{name: "options, not streamed", more: members{"stream_options": members{}}},
}

func options(o members) members { return members{"stream": true, "stream_options": o} }

// generations are the cases of chat and completions.
func generations() (out []transparentCase) {
	f := func(path string, body func(members) members, v transparentVariant, suffix string, more members) {
		text := jsonOf(with(body(v.more), more))
		name := strings.ReplaceAll(strings.TrimPrefix(path, "/v1/"), "/", " ") + ", " + v.name + suffix
		out = append(out, transparentCase{name: name, request: asked("POST", path, text), anew: v.anew})
	}
	for _, v := range chatVariants {
		f("/v1/chat/completions", chatBody, v, "", nil)
		f("/v1/chat/completions", chatBody, v, ", streamed", members{"stream": true})
	}
	for _, v := range completionVariants {
		f("/v1/completions", completionBody, v, "", nil)
		f("/v1/completions", completionBody, v, ", streamed", members{"stream": true})
	}
	for _, v := range streamForms {
		f("/v1/chat/completions", chatBody, v, "", nil)
		f("/v1/completions", completionBody, v, "", nil)
	}
	return out
}

// metricNames is what of /metrics two answers have in common: the names, types and helps.
func metricNames(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "# ") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
