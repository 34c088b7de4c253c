package collector

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

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

// ParseCounters reads the Prometheus text of a vLLM's /metrics. Names must match
// exactly (the "_created" series beside the totals are times), series of one name
// are summed over their labels (one a data-parallel engine). A text without such
// series, as of another engine, gives the zero Counters.
func ParseCounters(text []byte) (Counters, error) {
	var c Counters
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if !strings.HasPrefix(line, "vllm:") {
			continue
		}
		if err := c.addSeries(strings.TrimSpace(line)); err != nil {
			return Counters{}, fmt.Errorf("cannot parse metrics: line %d: %w", n, err)
		}
	}
	return c, nil
}

// addSeries adds one series to the total that it belongs to.
func (c *Counters) addSeries(line string) error {
	name := line
	if i := strings.IndexAny(line, "{ \t"); i >= 0 {
		name = line[:i]
	}
	to, ok := c.total(name)
	if !ok && name != "vllm:spec_decode_num_accepted_tokens_per_pos_total" && name != "vllm:cache_config_info" {
		return nil
	}
	labels, rest, err := parseLabels(line[len(name):])
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if name == "vllm:cache_config_info" {
		if c.CacheConfig == nil { // engines of one server have one configuration; the first is kept
			c.CacheConfig = labels
		}
		return nil
	}
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " ") // a timestamp may follow
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return fmt.Errorf("%s: value %q, want a finite number", name, number)
	}
	if strings.HasPrefix(name, "vllm:spec_decode_") {
		c.HasSpec = true
	}
	if to == nil {
		if to, err = c.position(labels["position"]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	*to += value
	return nil
}

// total returns the total that a series name is summed into.
func (c *Counters) total(name string) (*float64, bool) {
	switch name {
	case "vllm:spec_decode_num_drafts_total":
		return &c.Drafts, true
	case "vllm:spec_decode_num_draft_tokens_total":
		return &c.DraftTokens, true
	case "vllm:spec_decode_num_accepted_tokens_total":
		return &c.AcceptedTokens, true
	case "vllm:request_success_total":
		return &c.RequestsFinished, true
	case "vllm:generation_tokens_total":
		return &c.GenerationTokens, true
	case "vllm:prompt_tokens_total":
		return &c.PromptTokens, true
	case "vllm:num_preemptions_total":
		return &c.Preemptions, true
	case "vllm:prefix_cache_queries_total":
		return &c.PrefixCacheQueries, true
	case "vllm:prefix_cache_hits_total":
		return &c.PrefixCacheHits, true
	}
	return nil, false
}

// maxPositions bounds the draft positions that a server may list.
const maxPositions = 4096

// position returns the total of a draft position.
func (c *Counters) position(label string) (*float64, error) {
	i, err := strconv.Atoi(label)
	if err != nil || i < 0 || i >= maxPositions {
		return nil, fmt.Errorf("position %q, want 0 to %d", label, maxPositions-1)
	}
	for len(c.AcceptedPerPos) <= i {
		c.AcceptedPerPos = append(c.AcceptedPerPos, 0)
	}
	return &c.AcceptedPerPos[i], nil
}

// parseLabels reads `{name="value",...}` with the escapes \\, \" and \n, and
// returns what follows it.
func parseLabels(s string) (map[string]string, string, error) {
	if !strings.HasPrefix(s, "{") {
		return nil, s, nil
	}
	labels := make(map[string]string)
	for s = strings.TrimLeft(s[1:], " ,"); !strings.HasPrefix(s, "}"); s = strings.TrimLeft(s, " ,") {
		name, rest, ok := strings.Cut(s, "=\"")
		if !ok {
			return nil, "", fmt.Errorf("labels end early at %q", s)
		}
		end := 0
		for end < len(rest) && rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(rest) {
			return nil, "", fmt.Errorf("label %q has no closing quote", name)
		}
		labels[name] = unescapeLabel.Replace(rest[:end])
		s = rest[end+1:]
	}
	return labels, s[1:], nil
}

var unescapeLabel = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")

// Sub returns what was counted since before. A total that went down means that
// the server was restarted in between, which is an error.
func (c Counters) Sub(before Counters) (Counters, error) {
	d := c
	d.AcceptedPerPos = append([]float64(nil), c.AcceptedPerPos...)
	for len(d.AcceptedPerPos) < len(before.AcceptedPerPos) {
		d.AcceptedPerPos = append(d.AcceptedPerPos, 0)
	}
	pairs := []struct {
		name  string
		value *float64
		less  float64
	}{
		{"drafts", &d.Drafts, before.Drafts},
		{"draft tokens", &d.DraftTokens, before.DraftTokens},
		{"accepted tokens", &d.AcceptedTokens, before.AcceptedTokens},
		{"finished requests", &d.RequestsFinished, before.RequestsFinished},
		{"generation tokens", &d.GenerationTokens, before.GenerationTokens},
		{"prompt tokens", &d.PromptTokens, before.PromptTokens},
		{"preemptions", &d.Preemptions, before.Preemptions},
		{"prefix cache queries", &d.PrefixCacheQueries, before.PrefixCacheQueries},
		{"prefix cache hits", &d.PrefixCacheHits, before.PrefixCacheHits},
	}
	for _, p := range pairs {
		if *p.value < p.less {
			return Counters{}, fmt.Errorf("cannot compare counters: %s went from %g down to %g, so the server was restarted", p.name, p.less, *p.value)
		}
		*p.value -= p.less
	}
	for i, less := range before.AcceptedPerPos {
		if d.AcceptedPerPos[i] < less {
			return Counters{}, fmt.Errorf("cannot compare counters: accepted tokens at position %d went from %g down to %g, so the server was restarted", i, less, d.AcceptedPerPos[i])
		}
		d.AcceptedPerPos[i] -= less
	}
	return d, nil
}

// Histogram returns verify steps by accepted drafts. vLLM counts at position i
// the steps that accepted more than i drafts (vllm/v1/spec_decode/metrics.py), so
// hist[0] = drafts - perPos[0], hist[j] = perPos[j-1] - perPos[j], and the last
// is perPos[k-1]. It is nil without spec-decode series, or where the totals do not fit.
func (c Counters) Histogram() []int {
	if !c.HasSpec {
		return nil
	}
	hist := make([]int, 0, len(c.AcceptedPerPos)+1)
	reached := c.Drafts
	for _, further := range append(c.AcceptedPerPos[:len(c.AcceptedPerPos):len(c.AcceptedPerPos)], 0) {
		if further > reached {
			return nil
		}
		hist = append(hist, int(reached-further))
		reached = further
	}
	return hist
}
