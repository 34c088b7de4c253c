package collector

import (
	"encoding/json"
	"fmt"
)

type wireQuestion struct {
	ID       json.RawMessage `json:"question_id"`
	Category string          `json:"category"`
	Turns    int             `json:"turns"`
	System   string          `json:"system,omitempty"`
	Prompts  []string        `json:"prompts,omitempty"`
	NotAsked bool            `json:"not_asked,omitempty"`
}

type wireCounters struct {
	HasSpec            bool              `json:"has_spec"`
	Drafts             float64           `json:"drafts"`
	DraftTokens        float64           `json:"draft_tokens"`
	AcceptedTokens     float64           `json:"accepted_tokens"`
	AcceptedPerPos     []float64         `json:"accepted_per_position"`
	RequestsFinished   float64           `json:"requests_finished"`
	GenerationTokens   float64           `json:"generation_tokens"`
	PromptTokens       float64           `json:"prompt_tokens"`
	Preemptions        float64           `json:"preemptions"`
	PrefixCacheQueries float64           `json:"prefix_cache_query_tokens"`
	PrefixCacheHits    float64           `json:"prefix_cache_hit_tokens"`
	CacheConfig        map[string]string `json:"cache_config,omitempty"`
}

// wireRun is a Run as the first line of records.jsonl has it.
type wireRun struct {
	Schema        string          `json:"schema"`
	ID            string          `json:"run"`
	Point         string          `json:"point"`
	Dataset       string          `json:"dataset"`
	Metric        Metric          `json:"metric"`
	GPUs          int             `json:"gpus"`
	Temperature   float64         `json:"temperature"`
	Concurrency   int             `json:"concurrency"`
	Schedule      *Schedule       `json:"schedule,omitempty"`
	Repeat        Repeat          `json:"repeat,omitzero"` // from 1; absent: 1
	Warmup        int             `json:"warmup_conversations,omitempty"`
	Acceptance    string          `json:"acceptance_view"`
	Measure       string          `json:"measure"`
	Postprocess   string          `json:"postprocess"`
	IgnoreEOS     bool            `json:"ignore_eos"`
	NoSpecStats   bool            `json:"no_spec_stats"`
	Baseline      bool            `json:"baseline,omitempty"`
	Seed          int64           `json:"seed"`
	Model         string          `json:"model"`
	Engine        string          `json:"engine"`
	EngineVersion string          `json:"engine_version"`
	Before        *Counters       `json:"counters_before"`
	After         *Counters       `json:"counters_after"`
	SLO           *SLO            `json:"slo,omitempty"`
	Shard         *Shard          `json:"shard,omitempty"`
	Shards        []Shard         `json:"shards,omitempty"`
	Questions     []wireQuestion  `json:"questions"`
	Attribution   *Attribution    `json:"attribution,omitempty"`
	Configuration json.RawMessage `json:"configuration,omitempty"`
}

// MarshalJSON writes the Run as the first line of records.jsonl.
func (r Run) MarshalJSON() ([]byte, error) {
	w := wireRun{
		Schema: SchemaRun, ID: r.ID, Point: r.Point, Dataset: r.Dataset, Metric: r.Metric, GPUs: r.GPUs,
		Temperature: r.Temperature, Concurrency: r.Concurrency, Repeat: r.Repeat, Warmup: r.Warmup, Acceptance: r.Acceptance, Measure: r.Measure,
		Postprocess: r.Postprocess, IgnoreEOS: r.IgnoreEOS, NoSpecStats: r.NoSpecStats, Seed: r.Seed,
		Model: r.Model, Engine: r.Engine, EngineVersion: r.EngineVersion,
		Schedule: r.Schedule, Baseline: r.Baseline, SLO: r.SLO,
		Before: r.Before, After: r.After, Shard: r.Shard, Shards: r.Shards, Attribution: r.Attribution,
	}
	if r.Configuration != nil {
		// The text has its own layout and a compact copy would lose it, so it travels as a string.
		text, err := marshalPlain(string(r.Configuration))
		if err != nil {
			return nil, fmt.Errorf("cannot write configuration: %w", err)
		}
		w.Configuration = text
	}
	for _, q := range r.Questions {
		w.Questions = append(w.Questions, wireQuestion{ID: q.ID, Category: q.Category, Turns: q.Turns, System: q.System, Prompts: q.Prompts, NotAsked: q.NotAsked})
	}
	return marshalPlain(w)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Run) UnmarshalJSON(b []byte) error {
	var w wireRun
	if err := json.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("cannot parse run: %w", err)
	}
	if w.Schema != SchemaRun {
		return fmt.Errorf("cannot read run of schema %q, want %q: %w", w.Schema, SchemaRun, errSchema)
	}
	*r = Run{
		ID: w.ID, Point: w.Point, Dataset: w.Dataset, Metric: w.Metric, GPUs: w.GPUs,
		Temperature: w.Temperature, Concurrency: w.Concurrency, Repeat: w.Repeat, Warmup: w.Warmup, Acceptance: w.Acceptance, Measure: w.Measure,
		Postprocess: w.Postprocess, IgnoreEOS: w.IgnoreEOS, NoSpecStats: w.NoSpecStats, Seed: w.Seed,
		Model: w.Model, Engine: w.Engine, EngineVersion: w.EngineVersion,
		Schedule: w.Schedule, Baseline: w.Baseline, SLO: w.SLO,
		Before: w.Before, After: w.After, Shard: w.Shard, Shards: w.Shards, Attribution: w.Attribution,
	}
	if err := r.checkShards(); err != nil {
		return fmt.Errorf("cannot read the run: %w", err)
	}
	if w.Configuration != nil {
		var text string
		if err := json.Unmarshal(w.Configuration, &text); err != nil {
			return fmt.Errorf("cannot read the configuration of a run: %w", err)
		}
		r.Configuration = json.RawMessage(text)
	}
	for i, q := range w.Questions {
		if q.Turns < 0 || q.Turns > maxTurns {
			return fmt.Errorf("cannot read the run: question %d has %d turns, want 0 to %d", i, q.Turns, maxTurns)
		}
		r.Questions = append(r.Questions, Question{ID: q.ID, Category: q.Category, Turns: q.Turns, System: q.System, Prompts: q.Prompts, NotAsked: q.NotAsked})
	}
	return nil
}

// MarshalJSON writes the totals with names and units.
func (c Counters) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireCounters{
		HasSpec: c.HasSpec, Drafts: c.Drafts, DraftTokens: c.DraftTokens, AcceptedTokens: c.AcceptedTokens,
		AcceptedPerPos: c.AcceptedPerPos, RequestsFinished: c.RequestsFinished, GenerationTokens: c.GenerationTokens,
		PromptTokens: c.PromptTokens, Preemptions: c.Preemptions, PrefixCacheQueries: c.PrefixCacheQueries,
		PrefixCacheHits: c.PrefixCacheHits, CacheConfig: c.CacheConfig,
	})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Counters) UnmarshalJSON(b []byte) error {
	var w wireCounters
	if err := json.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("cannot parse counters: %w", err)
	}
	*c = Counters{
		HasSpec: w.HasSpec, Drafts: w.Drafts, DraftTokens: w.DraftTokens, AcceptedTokens: w.AcceptedTokens,
		AcceptedPerPos: w.AcceptedPerPos, RequestsFinished: w.RequestsFinished, GenerationTokens: w.GenerationTokens,
		PromptTokens: w.PromptTokens, Preemptions: w.Preemptions, PrefixCacheQueries: w.PrefixCacheQueries,
		PrefixCacheHits: w.PrefixCacheHits, CacheConfig: w.CacheConfig,
	}
	return nil
}
