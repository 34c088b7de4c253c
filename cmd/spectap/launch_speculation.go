package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"spectap/sweep"
)

// speculation is how the server's command line makes it draft, by the names of
// specdec_bench's options; what the command line leaves to vLLM is left out. The
// members of --speculative-config come in any of vLLM's spellings:
//
//	--speculative-config '{"method": "ngram"}'   --speculative-config.method ngram
//	-sc '{"method": "ngram"}'                    --spec-method ngram
func (all options) speculation() sweep.Speculation {
	members := map[string]string{}
	for _, o := range all {
		switch {
		case o.is("speculative-config") && o.member != "":
			members[strings.ReplaceAll(o.member, "-", "_")] = o.value()
		case o.is("speculative-config"), o.name == "-sc":
			var object map[string]any
			if json.Unmarshal([]byte(o.value()), &object) != nil {
				continue
			}
			for name, value := range object {
				if value != nil {
					members[name] = fmt.Sprint(value)
				}
			}
		case o.is("spec-method"):
			members["method"] = o.value()
		case o.is("spec-model"):
			members["model"] = o.value()
		case o.is("spec-tokens"):
			members["num_speculative_tokens"] = o.value()
		}
	}
	s := sweep.Speculation{Algorithm: algorithmName(members["method"]), DraftModel: members["model"]}
	if n, err := strconv.Atoi(members["num_speculative_tokens"]); err == nil && n > 0 {
		s.DraftLength = n
	}
	return s
}

// algorithmName is specdec_bench's name of one of vLLM's methods. Where it has
// none it is vLLM's, in capitals as the others are. Source: specdec_bench
// models/vllm.py.
func algorithmName(method string) string {
	switch {
	case method == "draft_model":
		return "DRAFT_TARGET"
	case strings.HasSuffix(method, "_mtp"): // deepseek_mtp and its like
		return "MTP"
	}
	return strings.ToUpper(method)
}
