package sweep

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"

	"spectap/collector"
)

// configuration makes the text of a point's configuration.json. Names with
// "key" or "token" in them would be redacted, so ours avoid them.
func (s *Sweep) configuration(srv server, point PlannedPoint, t template, counters *collector.Counters) json.RawMessage {
	cfg := s.Plan.Config
	params, _ := collector.DecodeOrdered(s.Plan.runtimeText(point)) // our own text
	c := collector.Configuration{
		Tokenizer: optional(cfg.Tokenizer), Dataset: optional(cfg.Dataset), DatasetPath: optional(cfg.DatasetPath),
		NumRequests: cfg.NumRequests, Engine: optional(engineNames[srv.engine]), ModelDir: optional(srv.root),
		RuntimeParams: params, Temperature: &point.Temperature, OutputLength: &cfg.OutputLength,
		TPSize: &cfg.GPUs, IgnoreEOS: &cfg.IgnoreEOS,
		Completions: &cfg.Completions, Postprocess: &cfg.Postprocess, SaveDir: optional(cfg.SaveDir),
		ServingConfig: servingConfig(srv, counters, cfg.ServerCommand), EngineVersion: optional(srv.version), Argv: cfg.Argv,
		Provenance: collector.ProvenanceOf(cfg.Env, checkpoint(srv.root), s.now()),
	}
	c.SpeculativeAlgorithm, c.DraftModelDir = optional(cfg.Speculation.Algorithm), optional(collector.StripUserinfo(cfg.Speculation.DraftModel))
	if n := cfg.Speculation.DraftLength; n > 0 {
		c.DraftLength = &n
	}
	switch s.Plan.Dataset {
	case "mtbench":
		c.MTBench = optional(s.Plan.datasetPath)
	case "specbench":
		c.SpecBench = optional(s.Plan.datasetPath)
	}
	c.Extra = s.extra(srv, t)
	if schedule := s.schedule(point); schedule != nil {
		c.Extra.Set("request_rate", schedule.Rate)
		c.Extra.Set("arrivals", schedule.Arrivals)
		c.Extra.Set("arrivals_seed", int(schedule.Seed))
	} else {
		c.Concurrency = &point.Concurrency
	}
	if cfg.Repeats > 1 {
		c.Extra.Set("repeat", point.Repeat.Number())
	}
	if s.Plan.Shard.divided() {
		c.Extra.Set("shard", s.Plan.Shard.String())
		c.Extra.Set("shard_conversations", s.Plan.Conversations())
		if !point.openLoop() {
			c.Extra.Set("shard_concurrency", point.Own)
		}
	}
	return c.JSON()
}

// engineNames are the engines by specdec_bench's names.
var engineNames = map[string]string{
	engineVLLM: "VLLM", engineSGLang: "SGLANG", engineTRTLLM: "TRTLLM", engineLlamaCPP: "LLAMACPP",
}

// optional is nil for "".
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// checkpoint describes the server's checkpoint, with sizes and hash where it is
// a folder that is seen from here too. A relative path means nothing here.
func checkpoint(root string) collector.Object {
	if root == "" || filepath.IsAbs(root) {
		return collector.Checkpoint(root)
	}
	return collector.Object{{Key: "path", Value: root}}
}

// servingConfig is what the server tells of itself: its entry in the list of
// models, its version, and the labels of vllm:cache_config_info; and the command
// line that started it, where we did.
func servingConfig(srv server, counters *collector.Counters, command []string) collector.Object {
	var o collector.Object
	if srv.card != nil {
		if card, err := collector.DecodeOrdered(srv.card); err == nil {
			o.Set("model", card)
		}
	}
	if srv.version != "" {
		o.Set("version", srv.version)
	}
	if counters != nil && len(counters.CacheConfig) > 0 {
		var cache collector.Object
		for _, name := range slices.Sorted(maps.Keys(counters.CacheConfig)) {
			cache.Set(cacheName(name), counters.CacheConfig[name])
		}
		o.Set("cache_config", cache)
	}
	if command != nil {
		words := make([]any, len(command))
		for i, word := range command {
			words[i] = word
		}
		o.Set("command", words)
	}
	return o
}

// cacheName keeps the size of the KV cache readable: by specdec_bench's rule
// kv_cache_size_tokens would be redacted.
func cacheName(label string) string {
	if label == "kv_cache_size_tokens" {
		return "kv_cache_size"
	}
	return label
}

// extra are our own members: how the point was measured.
func (s *Sweep) extra(srv server, t template) collector.Object {
	cfg := s.Plan.Config
	var o collector.Object
	o.Set("spectap_version", cfg.Version)
	o.Set("spectap_run", s.runID)
	o.Set("url", collector.StripUserinfo(cfg.URL))
	o.Set("served_model", srv.model)
	o.Set("driver", s.driverName())
	o.Set("measure", cfg.Measure)
	o.Set("acceptance", cfg.Acceptance)
	o.Set("select", cfg.Select)
	o.Set("top_p", t.topP)
	o.Set("top_k", t.topK)
	o.Set("conversations", len(s.Plan.Questions))
	o.Set("per_request_statistics", !cfg.NoSpecStats && !cfg.Baseline)
	if cfg.Baseline {
		o.Set("baseline", true)
	}
	o.Set("include_stop_str_in_output", cfg.IncludeStop)
	o.Set("cache_salt", t.cacheSalt != "")
	if cfg.Warmup > 0 {
		o.Set("warmup_conversations", cfg.Warmup)
	}
	if t.seed != nil {
		o.Set("sampling_seed", int(*t.seed))
	}
	return o
}
