package proxy

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"spectap/collector"
	"spectap/proxy/tap"
)

// Request holds what the body of a request says, as far as it can be read. It
// keeps copies, never the caller's bytes.
type Request struct {
	Stream  bool // as sent upstream; true for what vLLM takes as true
	Choices int  // choices that will come: n times the number of prompts
	Model   string

	SamplingClient map[string]json.RawMessage // sampling members as the client sent them; null and content are left out
	SamplingSent   map[string]json.RawMessage // the same as sent upstream
	Injected       []string                   // names of the members added or changed, sorted
	Asked          Asked                      // what has to be taken out of the answer again

	UserTurns int               // messages of the role user; 1 for completions with a prompt
	UserHash  string            // collector.HashText of the first user message's text; only with Policy.HashUser
	Thread    *collector.Thread // hashes of the messages; only with Policy.HashUser
	Prompt    string            // text of the last user message; only with Policy.KeepText

	Rewritten bool   // the body sent upstream differs from the client's
	Problem   string // why a body that the policy would have changed went on unchanged; ""
}

// samplingMember reports whether a member belongs into Record.SamplingClient and SamplingSent.
// Values of these names are numbers and switches, never content.
func samplingMember(name string) bool {
	switch name {
	case "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
		"frequency_penalty", "seed", "max_tokens", "max_completion_tokens", "min_tokens", "n", "ignore_eos",
		"skip_special_tokens", "include_stop_str_in_output", "logprobs", "top_logprobs", "return_token_ids",
		"stream_interval", "stream", "stream_options":
		return true
	}
	return false
}

// member is one top-level member of a body.
type member struct {
	key   string
	value []byte // raw, in the caller's bytes
	times int    // how often the key stands in the body; the last value counts, as in vLLM
}

// members are the members of a body that the policy looks at.
type members []member

// readMembers reads the members for which want is true. The error says that body is no JSON object.
func readMembers(list members, body []byte, want func(string) bool) (members, error) {
	end, err := tap.Members(body, 0, func(key, value []byte, _, _ int) bool {
		list = list.add(key, value, want)
		return true
	})
	if err == nil && tap.Space(body, end) != len(body) {
		err = tap.ErrJSON
	}
	return list, err
}

func (m members) add(key, value []byte, want func(string) bool) members {
	name := unescape(key)
	if !want(name) {
		return m
	}
	for i := range m {
		if m[i].key == name {
			m[i].value = value
			m[i].times++
			return m
		}
	}
	return append(m, member{key: name, value: value, times: 1})
}

func (m members) find(key string) (member, bool) {
	for i := range m {
		if m[i].key == key {
			return m[i], true
		}
	}
	return member{}, false
}

// any reports whether one of the members is there.
func (m members) any(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		_, ok := m.find(key)
		return ok
	})
}

// get returns the raw value of a member; nil where it is absent or null, which is the same to vLLM.
func (m members) get(key string) []byte {
	found, _ := m.find(key)
	if string(found.value) == "null" {
		return nil
	}
	return found.value
}

// isTrue reports whether a raw JSON value is true to vLLM, whose bools pydantic
// reads leniently: true, 1, "true", "1", "yes", "on", "t", "y" in any case.
func isTrue(value []byte) bool {
	if len(value) == 0 {
		return false
	}
	switch value[0] {
	case 't':
		return true
	case '"':
		switch strings.ToLower(unescape(value[1 : len(value)-1])) {
		case "true", "1", "yes", "on", "t", "y":
			return true
		}
		return false
	}
	f, err := strconv.ParseFloat(string(value), 64)
	return err == nil && f == 1
}

// wholeNumber reads a raw JSON value as pydantic reads an int: 2, 2.0 or "2". ok is false for anything else.
func wholeNumber(value []byte) (n int, ok bool) {
	text := string(bytes.Trim(value, `"`))
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || f != float64(int(f)) {
		return 0, false
	}
	return int(f), true
}

// choices returns how many choices will come for the members of a body; 0 where n cannot be read.
func choices(m members) int {
	n := 1
	if value := m.get("n"); value != nil {
		var ok bool
		if n, ok = wholeNumber(value); !ok || n < 0 {
			return 0
		}
	}
	return n * max(1, prompts(m.get("prompt"))+prompts(m.get("prompt_embeds")))
}

// prompts counts the prompts of a completions request: a string and a list of token ids are one.
func prompts(value []byte) int {
	if len(value) == 0 {
		return 0
	}
	if value[0] != '[' {
		return 1
	}
	n, tokens := 0, false
	_, _ = tap.Elements(value, 0, func(element []byte) bool {
		n++
		tokens = element[0] != '"' && element[0] != '['
		return !tokens
	})
	if tokens {
		return 1
	}
	return n
}

// sampling copies the sampling members that are set. A string longer than a
// number or a switch, and an object other than stream_options, is left out.
func sampling(m members) map[string]json.RawMessage {
	size, count := 0, 0
	for _, one := range m {
		if recordable(one) {
			size += len(one.value)
			count++
		}
	}
	values := make(map[string]json.RawMessage, count)
	room := make([]byte, 0, size)
	for _, one := range m {
		if recordable(one) {
			at := len(room)
			room = append(room, one.value...)
			values[one.key] = room[at:len(room):len(room)]
		}
	}
	return values
}

func recordable(one member) bool {
	if !samplingMember(one.key) || len(one.value) == 0 {
		return false
	}
	switch one.value[0] {
	case 'n', '[':
		return false
	case '{':
		return one.key == "stream_options" && onlySwitches(one.value)
	case '"':
		return wordOrNumber(one.value)
	}
	return true
}

// wordOrNumber reports whether a raw string is one that vLLM reads as a number or a switch.
func wordOrNumber(value []byte) bool {
	if len(value) > 32 {
		return false
	}
	switch text := strings.ToLower(unescape(value[1 : len(value)-1])); text {
	case "true", "yes", "on", "t", "y", "false", "no", "off", "f", "n":
		return true
	default:
		_, err := strconv.ParseFloat(text, 64)
		return err == nil
	}
}

// onlySwitches reports whether no value of an object can hold text.
func onlySwitches(object []byte) bool {
	only := len(object) <= 256
	_, err := tap.Members(object, 0, func(_, value []byte, _, _ int) bool {
		only = only && (value[0] != '"' || wordOrNumber(value)) && value[0] != '{' && value[0] != '['
		return only
	})
	return only && err == nil
}
