package collector

// Counters are the totals that an engine's /metrics shows, summed over its
// engines (wire-formats: vllm:spec_decode_* and their neighbours).
type Counters struct {
	Drafts         float64   // vllm:spec_decode_num_drafts_total: verify steps
	DraftTokens    float64   // vllm:spec_decode_num_draft_tokens_total
	AcceptedTokens float64   // vllm:spec_decode_num_accepted_tokens_total
	AcceptedPerPos []float64 // vllm:spec_decode_num_accepted_tokens_per_pos_total; [i] = steps that accepted more than i drafts
	HasSpec        bool      // the spec_decode series exist

	RequestsFinished   float64 // vllm:request_success_total over all reasons
	GenerationTokens   float64
	PromptTokens       float64
	Preemptions        float64
	PrefixCacheQueries float64
	PrefixCacheHits    float64

	CacheConfig map[string]string // labels of vllm:cache_config_info (kv_cache_size_tokens, block_size, enable_prefix_caching, ...)
}
