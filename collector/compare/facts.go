package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"spectap/collector"
)

// Level says what a difference between two sides means for their comparison.
type Level string

// The levels of a Difference.
const (
	refuse Level = "refuse"  // the numbers mean different things: compared only by force
	warn   Level = "warning" // the difference may be the cause of what is seen
	note   Level = "note"    // what was changed, usually on purpose
)

// fact is one thing that a run says about itself.
type fact struct {
	name  string
	level Level
	value string // as JSON has it; "" where it does not say
}

type facts []fact

func (f facts) get(name string) string {
	for _, one := range f {
		if one.name == name {
			return one.value
		}
	}
	return ""
}

// configFacts are the members of configuration.json that are compared, and what a
// difference means. Names with a dot are members of members.
var configFacts = []struct {
	name, path string
	level      Level
}{
	{"output limit", "output_length", warn},
	{"top_p", "top_p", warn},
	{"top_k", "top_k", warn},
	{"sampling seed", "sampling_seed", warn},
	{"runtime_params", "runtime_params", warn},
	{"ignore_eos", "ignore_eos", warn},
	{"completions", "completions", warn},
	{"postprocess", "postprocess", warn},
	{"include_stop_str_in_output", "include_stop_str_in_output", warn},
	{"cache_salt", "cache_salt", warn},
	{"selection", "select", warn},
	{"driver", "driver", warn},
	{"engine", "engine", warn},
	{"engine version", "engine_version", warn},
	{"GPUs", "tp_size", warn},
	{"expert parallel size", "ep_size", warn},
	{"GPU", "gpu", warn},
	{"block size of a drafter", "block_size", note},
	{"context length", "serving_config.model.max_model_len", warn},
	{"prefix caching", "serving_config.cache_config.enable_prefix_caching", warn},
	{"cache data type", "serving_config.cache_config.cache_dtype", warn},
	{"cache block size", "serving_config.cache_config.block_size", warn},
	{"cache size", "serving_config.cache_config.kv_cache_size", warn},
	{"draft length", "draft_length", note},
	{"speculative algorithm", "speculative_algorithm", note},
	{"draft model", "draft_model_dir", note},
	{"server command", "serving_config.command", note},
	{"measure", "measure", note},
	{"container image", "container_image", note},
	{"spectap version", "spectap_version", note},
}

// factsOfFiles are the facts of a folder of specdec_bench's.
func factsOfFiles(config collector.Object) facts {
	f := facts{
		{"data set", refuse, datasetOf(config)},
		{"model", refuse, cmp.Or(configText(config, "model_dir"), configText(config, "served_model"))},
		{"temperature", warn, configText(config, "temperature")},
	}
	if c := configText(config, "concurrency"); c != "" {
		f = append(f, fact{"load", warn, "concurrency " + c})
	}
	return append(f, commonFacts(config)...)
}

// factsOfRun are the facts of a point of ours.
func factsOfRun(p collector.Point) facts {
	v, _ := collector.DecodeOrdered(p.Run.Configuration)
	config, _ := v.(collector.Object)
	f := facts{
		{"metric", refuse, string(p.Run.Metric)},
		{"data set", refuse, p.Run.Dataset},
		{"model", refuse, cmp.Or(configText(config, "model_dir"), p.Run.Model)},
		{"temperature", warn, jsonText(p.Run.Temperature)},
		{"warm-up", warn, fmt.Sprintf("%d conversations", p.Run.Warmup)},
	}
	if s := p.Run.Schedule; s != nil {
		f = append(f, fact{"load", warn, p.Run.Load() + " " + s.Arrivals})
	} else {
		f = append(f, fact{"load", warn, "concurrency " + p.Run.Load()})
	}
	f = append(f, commonFacts(config)...)
	f = slices.DeleteFunc(f, func(one fact) bool { return ofRun(p.Run, one.name) != "" })
	for _, name := range []string{"engine", "engine version", "GPUs", "postprocess", "ignore_eos", "measure"} {
		if v := ofRun(p.Run, name); v != "" {
			f = append(f, fact{name, levelOf(name), v})
		}
	}
	if k := p.LengthRules().DraftLength; k > 0 {
		f = slices.DeleteFunc(f, func(one fact) bool { return one.name == "draft length" })
		f = append(f, fact{"draft length", note, jsonText(k)})
	}
	return append(f, sentFacts(p.Records)...)
}

// ofRun is what the run line itself says; it is there without a configuration too.
func ofRun(r collector.Run, name string) string {
	switch name {
	case "engine":
		return strings.ToUpper(r.Engine)
	case "engine version":
		return r.EngineVersion
	case "GPUs":
		return jsonText(r.GPUs)
	case "postprocess":
		return r.Postprocess
	case "ignore_eos":
		return jsonText(r.IgnoreEOS)
	case "measure":
		return r.Measure
	}
	return ""
}

func levelOf(name string) Level {
	for _, c := range configFacts {
		if c.name == name {
			return c.level
		}
	}
	return warn
}

func commonFacts(config collector.Object) facts {
	var f facts
	for _, c := range configFacts {
		value := configText(config, strings.Split(c.path, ".")...)
		if c.name == "engine" {
			value = strings.ToUpper(value)
		}
		f = append(f, fact{c.name, c.level, value})
	}
	return f
}

// sentFacts are the sampling members that the requests carried, with the values
// that occur. What differs from request to request by design is left out.
func sentFacts(records []*collector.Record) facts {
	values := map[string]map[string]bool{}
	for _, r := range records {
		if r.SetApart != "" || r.Route == collector.RouteOther {
			continue
		}
		for name, raw := range r.SamplingSent {
			switch name {
			case "seed", "stream", "stream_options", "return_token_ids", "logprobs", "top_logprobs":
				continue
			case "max_completion_tokens":
				name = "max_tokens"
			}
			if values[name] == nil {
				values[name] = map[string]bool{}
			}
			values[name][string(raw)] = true
		}
	}
	var f facts
	for _, name := range slices.Sorted(maps.Keys(values)) {
		f = append(f, fact{"sent " + name, warn, strings.Join(slices.Sorted(maps.Keys(values[name])), ", ")})
	}
	return f
}

// datasetOf names the data set of specdec_bench's command line.
func datasetOf(config collector.Object) string {
	for _, name := range []string{"mtbench", "specbench"} {
		if configText(config, name) != "" {
			return name
		}
	}
	return configText(config, "dataset")
}

// configText is a member's value as one line of JSON, a text without its quotes;
// "" where it is null or not there.
func configText(config collector.Object, names ...string) string {
	var v any = config
	for _, name := range names {
		o, ok := v.(collector.Object)
		if !ok {
			return ""
		}
		v, _ = o.Get(name)
	}
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number: // 0 and 0.0 are one value
		if f, err := v.Float64(); err == nil {
			return strconv.FormatFloat(f, 'f', -1, 64)
		}
	case collector.Object:
		if len(v) == 0 {
			return ""
		}
	}
	return string(collector.AppendCompact(nil, v))
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// sameModel says that two names may be one model: equal, or the last parts of
// their paths are.
func sameModel(a, b string) bool { return a == b || path.Base(a) == path.Base(b) }

// Difference is one thing in which two sides differ.
type Difference struct {
	What   string   `json:"what"`
	Level  Level    `json:"level"`
	A      string   `json:"a"`
	B      string   `json:"b"`
	Points []string `json:"points"` // where; all that were compared if it is so everywhere
}

// unsaid stands for a value that nobody wrote down.
const unsaid = "(not said)"

// factsDiffer lists what differs between the runs of two sides.
func factsDiffer(a, b Point) []Difference {
	var list []Difference
	seen := map[string]bool{}
	for _, f := range append(slices.Clone(a.runs[0].facts), b.runs[0].facts...) {
		if seen[f.name] {
			continue
		}
		seen[f.name] = true
		x, y := a.said(f.name), b.said(f.name)
		d := Difference{What: f.name, Level: f.level, A: x, B: y}
		switch {
		case x == y:
			continue
		case x == "" || y == "":
			if f.level != refuse {
				continue // what one side does not say is no difference
			}
			d.Level, d.A, d.B = warn, cmp.Or(x, unsaid), cmp.Or(y, unsaid)
		case f.name == "model" && sameModel(x, y):
			d.Level = warn
		}
		list = append(list, d)
	}
	return list
}

// said is the value of a fact in all runs of a point, those that differ side by side.
func (p Point) said(name string) string {
	var values []string
	for _, r := range p.runs {
		if v := r.facts.get(name); v != "" && !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return strings.Join(values, " and ")
}
