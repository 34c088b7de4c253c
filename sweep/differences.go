package sweep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"spectap/collector"
)

// difference is a setting, or something that the server says, that is not as it was.
type difference struct{ name, was, is string }

// longestValue bounds what an error shows of a value.
const longestValue = 300

// String shows both values.
func (d difference) String() string {
	cut := func(s string) string {
		s = strings.Join(strings.Fields(s), " ")
		if len(s) > longestValue {
			return strings.ToValidUTF8(s[:longestValue], "") + "..."
		}
		return s
	}
	return fmt.Sprintf("%s: was %s, is %s", d.name, cut(d.was), cut(d.is))
}

// freeOfPlan are the members of sweep.json's plan that change no number of a point
// that was measured. Every other one has to be the same, those of later versions too.
var freeOfPlan = []string{"points", "repeats", "dataset_path"}

// planDifferences compares two plans of sweep.json. left names members that are
// not known yet.
func planDifferences(was json.RawMessage, is bookPlan, left ...string) []difference {
	return objectDifferences("", objectOf(was), objectOf(is), append(left, freeOfPlan...))
}

// serverDifferences compares what two servers said of themselves, as far as both
// did; unseen names what only one said. Where a server is does not matter, and the
// size of a KV cache that was profiled may differ a little.
func serverDifferences(was json.RawMessage, is bookServer) (list []difference, unseen []string) {
	a, b := objectOf(was), objectOf(is)
	for _, name := range []string{"model", "engine", "version", "model_card", "cache_config", "draft_length_tokens", "command"} {
		v, w := member(a, name), member(b, name)
		if v == nil && w == nil {
			continue
		}
		if v == nil || w == nil {
			unseen = append(unseen, name)
			continue
		}
		x, okX := v.(collector.Object)
		y, okY := w.(collector.Object)
		if !okX || !okY {
			x, y = collector.Object{{Key: name, Value: v}}, collector.Object{{Key: name, Value: w}}
			list = append(list, objectDifferences("", x, y, nil)...)
			continue
		}
		// /v1/models of vLLM makes these anew for each answer
		list = append(list, objectDifferences(name+".", x, y, []string{"created", "permission"})...)
	}
	return slices.DeleteFunc(list, difference.isProfiled), unseen
}

// profiledSizes are what vLLM finds out about its KV cache at each start.
var profiledSizes = []string{"cache_config.num_gpu_blocks", "cache_config.kv_cache_size_tokens", "cache_config.kv_cache_max_concurrency", "cache_config.kv_cache_memory_bytes"}

// profiledTolerance is how far they may be apart, as a share.
const profiledTolerance = 0.02

// isProfiled says that a difference is that of two starts of one server.
func (d difference) isProfiled() bool {
	v, errV := strconv.ParseFloat(strings.Trim(d.was, `"`), 64)
	w, errW := strconv.ParseFloat(strings.Trim(d.is, `"`), 64)
	return slices.Contains(profiledSizes, d.name) && errV == nil && errW == nil && math.Abs(v-w) <= profiledTolerance*math.Abs(v)
}

// objectDifferences compares two objects member by member, in the order of b, then
// of what only a has.
func objectDifferences(prefix string, a, b collector.Object, left []string) []difference {
	var list []difference
	seen := map[string]bool{}
	for _, m := range append(slices.Clone(b), a...) {
		if seen[m.Key] || slices.Contains(left, m.Key) {
			continue
		}
		seen[m.Key] = true
		was, is := valueText(a, m.Key), valueText(b, m.Key)
		if was != is {
			list = append(list, difference{prefix + m.Key, was, is})
		}
	}
	return list
}

// valueText is a member as text. One that is not there is as one that is off.
func valueText(o collector.Object, name string) string {
	v, _ := o.Get(name)
	text := string(collector.AppendIndented(nil, v))
	switch text {
	case "null", "false", `""`, "{}", "[]":
		return "not set"
	}
	return text
}

// member is a member's value; nil where it is not there, or empty.
func member(o collector.Object, name string) any {
	v, _ := o.Get(name)
	switch v := v.(type) {
	case string:
		if v == "" {
			return nil
		}
	case collector.Object:
		if len(v) == 0 {
			return nil
		}
	}
	return v
}

// objectOf decodes an object, or anything that encodes as one; an empty one where it is none.
func objectOf(v any) collector.Object {
	text, ok := v.(json.RawMessage)
	if !ok {
		text, _ = json.Marshal(v) // our own types
	}
	decoded, err := collector.DecodeOrdered(bytes.TrimSpace(text))
	o, isObject := decoded.(collector.Object)
	if err != nil || !isObject {
		return nil
	}
	return o
}
