package collector

import (
	"encoding/json"
	"strings"
)

// The kinds of drafters (WhatIf.Drafter).
const (
	DrafterChain   = "chain"   // one draft after another, or looked up: the first ones do not depend on how many follow
	DrafterBlock   = "block"   // all drafts of a step are made at once, for its length
	DrafterUnknown = "unknown" // the server does not say
)

// drafters are methods of vLLM's speculative configuration whose kind is known.
// Source: vLLM docs/features/speculative_decoding; Model-Optimizer's
// speculation_profile.py counts EAGLE and draft models as chains, DFlash and DSpark not.
var drafters = map[string]string{
	"eagle": DrafterChain, "eagle3": DrafterChain, "mtp": DrafterChain, "draft_model": DrafterChain,
	"medusa": DrafterChain, "mlp_speculator": DrafterChain, "ngram": DrafterChain, "ngram_gpu": DrafterChain,
	"dflash": DrafterBlock, "dspark": DrafterBlock, "pard": DrafterBlock,
}

// speculative is what is read of --speculative-config.
type speculative struct {
	Method   string `json:"method"`
	Model    string `json:"model"`
	Parallel bool   `json:"parallel_drafting"`
}

// drafter is how the server drafts, by the command line that started it, which
// configuration.json has where spectap launch did; method is "" where nobody said.
func (r Run) drafter() (method, kind string) {
	s := r.speculative()
	kind = drafters[s.Method]
	switch {
	case s.Parallel:
		kind = DrafterBlock
	case strings.HasSuffix(s.Method, "_mtp"):
		kind = DrafterChain
	case kind == "":
		kind = DrafterUnknown
	}
	return s.Method, kind
}

// speculative finds the speculative configuration among the server's arguments:
// a JSON object, or single members as --speculative-config.method.
func (r Run) speculative() speculative {
	var s speculative
	words := r.serverCommand()
	for i, word := range words {
		name, value, inline := strings.Cut(strings.ReplaceAll(word, "_", "-"), "=")
		if inline {
			_, value, _ = strings.Cut(word, "=")
		} else if i+1 < len(words) {
			value = words[i+1]
		}
		switch name {
		case "--speculative-config", "-sc":
			_ = json.Unmarshal([]byte(value), &s) // else nobody said
		case "--speculative-config.method", "-sc.method", "--spec-method":
			s.Method = value
		case "--speculative-config.model", "-sc.model", "--spec-model":
			s.Model = value
		}
	}
	return s
}

// serverCommand is serving_config.command of the configuration.
func (r Run) serverCommand() []string {
	var c struct {
		Serving struct {
			Command []string `json:"command"`
		} `json:"serving_config"`
	}
	if json.Unmarshal(r.Configuration, &c) != nil {
		return nil
	}
	return c.Serving.Command
}
