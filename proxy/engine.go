package proxy

import (
	"spectap/proxy/tap"
)

// Engine names the server behind the proxy, as far as it is known. It decides
// what may be injected into a request.
type Engine string

// The engines.
const (
	EngineUnknown  Engine = ""
	EngineVLLM     Engine = "vllm"
	EngineSGLang   Engine = "sglang"
	EngineTRTLLM   Engine = "trtllm"
	EngineLlamaCpp Engine = "llamacpp"
	EngineDynamo   Engine = "dynamo"
)

// EngineFromModels reads the engine from an answer of GET /v1/models: the first
// card's owned_by that is an engine's. It returns EngineUnknown for anything else.
func EngineFromModels(body []byte) Engine {
	found := EngineUnknown
	_, err := tap.Members(body, 0, func(key, value []byte, _, _ int) bool {
		if string(key) != "data" || value[0] != '[' {
			return true
		}
		_, _ = tap.Elements(value, 0, func(card []byte) bool {
			found = ownerOf(card)
			return found == EngineUnknown
		})
		return true
	})
	if err != nil {
		return EngineUnknown
	}
	return found
}

// ownerOf returns the engine that a model card's owned_by names (wire-formats-engines.md 4.5).
func ownerOf(card []byte) Engine {
	found := EngineUnknown
	if card[0] != '{' {
		return found
	}
	_, _ = tap.Members(card, 0, func(key, value []byte, _, _ int) bool {
		if string(key) != "owned_by" {
			return true
		}
		switch string(value) {
		case `"vllm"`:
			found = EngineVLLM
		case `"sglang"`:
			found = EngineSGLang
		case `"tensorrt_llm"`:
			found = EngineTRTLLM
		case `"llamacpp"`:
			found = EngineLlamaCpp
		}
		return true
	})
	return found
}

// EngineFromVersion returns EngineVLLM for an answer of GET /version in vLLM's
// form, an object whose only member is the string "version". TensorRT-LLM has
// the same endpoint, so ask EngineFromModels first.
func EngineFromVersion(body []byte) Engine {
	found, members := EngineUnknown, 0
	end, err := tap.Members(body, 0, func(key, value []byte, _, _ int) bool {
		members++
		if string(key) == "version" && value[0] == '"' && len(value) > 2 {
			found = EngineVLLM
		}
		return true
	})
	if err != nil || members != 1 || tap.Space(body, end) != len(body) {
		return EngineUnknown
	}
	return found
}

// May reports whether a member can be injected without the engine refusing the
// request (wire-formats-engines.md 4.5). member is a top-level name, or
// continuous_usage_stats inside stream_options. vLLM, SGLang and llama.cpp
// ignore what they do not know; TensorRT-LLM answers 400; an unknown engine and
// Dynamo get only what the OpenAI API defines.
func (e Engine) May(member string) bool {
	switch e {
	case EngineVLLM:
		return member != "return_spec_tokens_details" && member != "timings_per_token"
	case EngineSGLang:
		// The chat stream refuses return_token_ids and its neighbours.
		return member != "return_token_ids" && member != "return_prompt_token_ids" &&
			member != "return_meta_info" && member != "timings_per_token"
	case EngineLlamaCpp:
		return member != "continuous_usage_stats" && member != "return_token_ids" &&
			member != "return_spec_tokens_details"
	case EngineTRTLLM:
		return openAIMember(member) || trtllmMember(member)
	}
	return openAIMember(member)
}

// openAIMember reports whether the OpenAI API defines a request member.
func openAIMember(member string) bool {
	switch member {
	case "model", "messages", "prompt", "temperature", "top_p", "presence_penalty", "frequency_penalty",
		"seed", "max_tokens", "max_completion_tokens", "n", "stop", "logprobs", "top_logprobs", "logit_bias",
		"stream", "stream_options", "include_usage", "response_format", "tools", "tool_choice", "user":
		return true
	}
	return false
}

// trtllmMember reports whether TensorRT-LLM's request schema has a member that
// the OpenAI API lacks (tensorrt_llm/serve/openai_protocol.py).
func trtllmMember(member string) bool {
	switch member {
	case "continuous_usage_stats", "top_k", "min_p", "repetition_penalty", "length_penalty", "ignore_eos",
		"min_tokens", "skip_special_tokens", "spaces_between_special_tokens", "include_stop_str_in_output",
		"stop_token_ids":
		return true
	}
	return false
}
