package fakevllm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Truth is what the engine did for one request: one line of truth.jsonl.
type Truth struct {
	RequestID    string  `json:"x_request_id"`
	Histogram    []int   `json:"histogram"`            // verify steps by accepted drafts, over all choices
	ChunkLengths []int   `json:"chunk_lengths"`        // tokens of each step as emitted, EOS removed, the prefill's first; what specdec_bench counts
	Draftless    int     `json:"steps_without_drafts"` // decode steps that verified nothing
	Completion   int     `json:"completion_tokens"`
	Finish       string  `json:"finish_reason"` // of the first choice; empty where the reply did not end
	WriteUnixNs  []int64 `json:"write_unix_ns"` // one per event that carried tokens, taken just before its write
	Fault        string  `json:"fault"`         // the scripted fault, "client_gone", "closed" or ""
	Status       int     `json:"status"`
	StopReason   any     `json:"stop_reason"`
	PromptTokens int     `json:"prompt_tokens"`
	BlockDropped bool    `json:"block_dropped"` // the statistics were lost and the last two steps merged
	ReplySHA     string  `json:"reply_sha"`     // first 16 hex digits of SHA-256 of the first choice's text
}

func shortSHA(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// log appends t to the truth log: one Write call, one whole line.
func (e *Engine) log(t *Truth) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cfg.KeepTruth {
		e.truth = append(e.truth, *t)
	}
	if e.cfg.Truth == nil {
		return
	}
	line, err := json.Marshal(t)
	if err == nil {
		_, err = e.cfg.Truth.Write(append(line, '\n'))
	}
	if err != nil && e.truthErr == nil {
		e.truthErr = err
	}
}

// Truth returns the lines so far, where Config.KeepTruth asked for them.
func (e *Engine) Truth() []Truth {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Truth(nil), e.truth...)
}

// counters are the engine's own, as /metrics shows them. A step counts when it is
// executed, whether or not its request ends or its tokens are sent.
type counters struct {
	requests, running         int
	drafts, prompt, generated int
	perPos                    []int // accepted at a position, from 0
	finished                  map[string]int
}

// count adds a step; finished is the reason where it ended a reply.
func (e *Engine) count(st step, finished string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counters.generated += len(st.ids)
	if st.drafted {
		e.counters.drafts++
	}
	for i := range st.accepted {
		e.counters.perPos[i]++
	}
	if finished != "" {
		e.counters.finished[finished]++
	}
}

// enter counts a request in; the function it returns counts it out.
func (e *Engine) enter(prompt int) func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counters.running++
	e.counters.prompt += prompt
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.counters.running--
	}
}

// stepTime is the length of one engine step under the present load.
func (e *Engine) stepTime() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cfg.Step + time.Duration(e.counters.running-1)*e.cfg.StepPerRequest
}

// sample is one series of a counter.
type sample struct {
	labels string
	value  int
}

// metrics is Prometheus text as prometheus_client writes it: every counter with
// its _created gauge, numbers as Python floats.
func (e *Engine) metrics() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, labels := &e.counters, fmt.Sprintf(`engine="0",model_name=%q`, e.cfg.Model)
	one := func(v int) []sample { return []sample{{labels, v}} }
	accepted, perPos, reasons := 0, []sample(nil), []sample(nil)
	for i, n := range c.perPos {
		accepted += n
		perPos = append(perPos, sample{fmt.Sprintf(`%s,position="%d"`, labels, i), n})
	}
	for _, r := range []string{"stop", "length", "abort", "error", "repetition"} {
		reasons = append(reasons, sample{fmt.Sprintf(`engine="0",finished_reason=%q,model_name=%q`, r, e.cfg.Model), c.finished[r]})
	}
	b := fmt.Appendf(nil, "# HELP vllm:num_requests_running Number of requests in model execution batches.\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{%s} %d.0\n", labels, c.running)
	b = append(b, `# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",gpu_memory_utilization="0.92",kv_cache_size_tokens="262144",num_gpu_blocks="16384",sliding_window="None"} 1.0
`...)
	for _, f := range []struct {
		name, help string
		samples    []sample
	}{
		{"spec_decode_num_drafts", "Number of spec decoding drafts.", one(c.drafts)},
		{"spec_decode_num_draft_tokens", "Number of draft tokens.", one(c.drafts * e.cfg.DraftLength)},
		{"spec_decode_num_accepted_tokens", "Number of accepted tokens.", one(accepted)},
		{"spec_decode_num_accepted_tokens_per_pos", "Accepted tokens per draft position.", perPos},
		{"prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.", one(c.prompt)},
		{"prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", one(0)},
		{"num_preemptions", "Cumulative number of preemption from the engine.", one(0)},
		{"prompt_tokens", "Number of prefill tokens processed.", one(c.prompt)},
		{"generation_tokens", "Number of generation tokens processed.", one(c.generated)},
		{"request_success", "Count of successfully processed requests.", reasons},
	} {
		b = fmt.Appendf(b, "# HELP vllm:%[1]s_total %[2]s\n# TYPE vllm:%[1]s_total counter\n", f.name, f.help)
		for _, s := range f.samples {
			b = fmt.Appendf(b, "vllm:%s_total{%s} %d.0\n", f.name, s.labels, s.value)
		}
		b = fmt.Appendf(b, "# HELP vllm:%[1]s_created %[2]s\n# TYPE vllm:%[1]s_created gauge\n", f.name, f.help)
		for _, s := range f.samples {
			b = fmt.Appendf(b, "vllm:%s_created{%s} %d.0\n", f.name, s.labels, e.started)
		}
	}
	return string(b)
}
