package fakevllm

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// counters are the engine's own, as /metrics shows them. A step counts when it is
// executed, whether or not its request ends or its tokens are sent.
type counters struct {
	mu                              sync.Mutex
	started                         float64 // Unix seconds
	running                         int
	drafts, draftTokens             int
	perPos                          []int // accepted at a position, from 0
	prompt, generated, stop, length int
}

func (c *counters) step(st step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generated += len(st.tokens)
	if st.drafted == 0 {
		return
	}
	c.drafts++
	c.draftTokens += st.drafted
	for i := range st.accepted {
		c.perPos[i]++
	}
}

func (c *counters) finish(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reason == "stop" {
		c.stop++
	} else {
		c.length++
	}
}

// enter counts a request in; the function it returns counts it out.
func (e *Engine) enter(prompt int) func() {
	c := &e.count
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running++
	c.prompt += prompt
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running--
	}
}

// stepTime is the length of one engine step under the present load.
func (e *Engine) stepTime() time.Duration {
	e.count.mu.Lock()
	defer e.count.mu.Unlock()
	return e.cfg.Step + time.Duration(e.count.running-1)*e.cfg.StepPerRequest
}

// page writes Prometheus text as prometheus_client does: every counter with its
// _created gauge, numbers as Python floats.
type page struct {
	b       []byte
	labels  string
	created float64
}

func (p *page) family(name, help, kind string, series ...string) {
	p.b = fmt.Appendf(p.b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	for _, s := range series {
		p.b = append(append(p.b, name...), s...)
	}
}

func (p *page) gauge(name, help string, v int) {
	p.family(name, help, "gauge", fmt.Sprintf("{%s} %d.0\n", p.labels, v))
}

// counter writes values by label; label is the whole label set.
func (p *page) counter(name, help string, labels []string, values []int) {
	var total, created []string
	for i, v := range values {
		total = append(total, fmt.Sprintf("{%s} %d.0\n", labels[i], v))
		created = append(created, fmt.Sprintf("{%s} %s\n", labels[i], strconv.FormatFloat(p.created, 'e', -1, 64)))
	}
	p.family(name+"_total", help, "counter", total...)
	p.family(name+"_created", help, "gauge", created...)
}

func (p *page) one(name, help string, v int) {
	p.counter(name, help, []string{p.labels}, []int{v})
}

func (e *Engine) metrics() []byte {
	c := &e.count
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &page{labels: fmt.Sprintf(`engine="0",model_name="%s"`, e.cfg.Model), created: c.started}
	p.one("vllm:spec_decode_num_drafts", "Number of spec decoding drafts.", c.drafts)
	p.one("vllm:spec_decode_num_draft_tokens", "Number of draft tokens.", c.draftTokens)
	accepted, pos := 0, []string{}
	for i, n := range c.perPos {
		accepted += n
		pos = append(pos, fmt.Sprintf(`%s,position="%d"`, p.labels, i))
	}
	p.one("vllm:spec_decode_num_accepted_tokens", "Number of accepted tokens.", accepted)
	p.counter("vllm:spec_decode_num_accepted_tokens_per_pos", "Accepted tokens per draft position.", pos, c.perPos)
	p.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", c.running)
	p.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", 0)
	p.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", 0)
	p.one("vllm:prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.", c.prompt)
	p.one("vllm:prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", 0)
	p.one("vllm:num_preemptions", "Cumulative number of preemption from the engine.", 0)
	p.one("vllm:prompt_tokens", "Number of prefill tokens processed.", c.prompt)
	p.one("vllm:generation_tokens", "Number of generation tokens processed.", c.generated)
	var reasons []string
	for _, r := range []string{"stop", "length", "abort", "error", "repetition"} {
		reasons = append(reasons, fmt.Sprintf(`engine="0",finished_reason="%s",model_name="%s"`, r, e.cfg.Model))
	}
	p.counter("vllm:request_success", "Count of successfully processed requests.", reasons, []int{c.stop, c.length, 0, 0, 0})
	p.family("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", "gauge",
		`{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",gpu_memory_utilization="0.92",kv_cache_size_tokens="262144",num_gpu_blocks="16384",sliding_window="None"} 1.0`+"\n")
	return p.b
}
