package collector

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// capturedTurn is a request to a real vLLM: the tokens of each event and its statistics block.
type capturedTurn struct {
	Counts     []int `json:"counts"`
	Micros     []int `json:"us"`
	Completion int   `json:"completion"`
	Finish     string
	StopReason json.RawMessage `json:"stop_reason"`
	Spec       *struct {
		Accepted    []int `json:"acceptance_histogram"`
		Steps       int   `json:"num_spec_steps"`
		Tokens      int   `json:"num_accepted_draft_tokens"`
		Drafted     int   `json:"num_draft_tokens"`
		DraftLength int   `json:"num_spec_tokens"`
		PerStep     []int `json:"per_step_accepted"`
		PerStepDraf []int `json:"per_step_drafted"`
	} `json:"spec"`
}

func readCounters(t *testing.T, name string) Counters {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "vllm-0.32-counters", name))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseCounters(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// capturedRequests are the 32 requests between metrics-before.txt and metrics-after.txt.
func capturedRequests(t *testing.T) []capturedTurn {
	t.Helper()
	text, err := os.ReadFile("testdata/vllm-0.32-counters/requests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var turns []capturedTurn
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var c capturedTurn
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		turns = append(turns, c)
	}
	return turns
}

// TestCountersOfRealServer compares a real server's counters with the sums of its requests' blocks.
func TestCountersOfRealServer(t *testing.T) {
	diff, err := readCounters(t, "metrics-after.txt").Sub(readCounters(t, "metrics-before.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var hist []int
	drafts, drafted, accepted, tokens := 0, 0, 0, 0
	turns := capturedRequests(t)
	for _, c := range turns {
		hist = addCounts(hist, c.Spec.Accepted)
		drafts, drafted, accepted, tokens = drafts+c.Spec.Steps, drafted+c.Spec.Drafted, accepted+c.Spec.Tokens, tokens+c.Completion
	}
	if got, want := []float64{diff.Drafts, diff.DraftTokens, diff.AcceptedTokens, diff.RequestsFinished, diff.GenerationTokens},
		[]float64{424, 1696, 1316, 32, 1696}; !slices.Equal(got, want) || drafts != 424 || drafted != 1696 || accepted != 1316 || tokens != 1696 {
		t.Errorf("got differences %v, sums %d %d %d, want %v", got, drafts, drafted, accepted, want)
	}
	if got := diff.Histogram(); !slices.Equal(got, hist) {
		t.Errorf("got histogram %v from the counters, %v from the blocks", got, hist)
	}
	if got := diff.CacheConfig["kv_cache_size_tokens"]; got != "23296" {
		t.Errorf("got KV cache size %q, want 23296", got)
	}
}

func TestParseCounters(t *testing.T) {
	c, err := ParseCounters([]byte(`# HELP vllm:spec_decode_num_drafts_total x
vllm:spec_decode_num_drafts_total{engine="0",model_name="a}\"\\\n,b"} 5.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="x"} 2 1796008942
vllm:spec_decode_num_drafts_created{engine="0"} 1.7e+09
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 1
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 3
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="0"} 1
vllm:cache_config_info{model="a}\"\\\n,b",block_size="16",} 1.0
vllm:num_preemptions_total 3
other_total{broken 7
`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Drafts != 7 || !slices.Equal(c.AcceptedPerPos, []float64{4, 1}) || c.Preemptions != 3 || !c.HasSpec {
		t.Errorf("got %+v, want 7 drafts, 4 and 1 by position, 3 preemptions", c)
	}
	if got := c.CacheConfig["model"]; got != "a}\"\\\n,b" || c.CacheConfig["block_size"] != "16" {
		t.Errorf("got labels %q", c.CacheConfig)
	}
	if got := c.Histogram(); !slices.Equal(got, []int{3, 3, 1}) {
		t.Errorf("got histogram %v, want [3 3 1]", got)
	}
	for _, text := range []string{
		`vllm:num_preemptions_total x`, `vllm:num_preemptions_total NaN`, `vllm:num_preemptions_total{a="b`, `vllm:num_preemptions_total{a} 1`,
		`vllm:spec_decode_num_accepted_tokens_per_pos_total{position="-1"} 1`, `vllm:spec_decode_num_accepted_tokens_per_pos_total{position="9999999"} 1`,
	} {
		if _, err := ParseCounters([]byte(text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	if c, err := ParseCounters([]byte("sglang:x 1\n")); c.HasSpec || err != nil {
		t.Errorf("got %+v, %v from another engine, want nothing", c, err)
	}
}

func TestCountersReset(t *testing.T) {
	before := Counters{Drafts: 5, AcceptedPerPos: []float64{3, 1}, HasSpec: true}
	for _, after := range []Counters{{Drafts: 4, AcceptedPerPos: []float64{3, 1}}, {Drafts: 6, AcceptedPerPos: []float64{2, 1}}, {Drafts: 6, AcceptedPerPos: []float64{3}}} {
		if d, err := after.Sub(before); err == nil {
			t.Errorf("%+v: got %+v, want an error", after, d)
		}
	}
	after := Counters{Drafts: 7, AcceptedPerPos: []float64{4, 1, 1}}
	d, err := after.Sub(before)
	if err != nil || d.Drafts != 2 || !slices.Equal(d.AcceptedPerPos, []float64{1, 0, 1}) || after.AcceptedPerPos[0] != 4 {
		t.Errorf("got %+v, %v", d, err)
	}
	if got := (Counters{HasSpec: true, Drafts: 1, AcceptedPerPos: []float64{2}}).Histogram(); got != nil {
		t.Errorf("got %v of counters that do not fit, want nil", got)
	}
}

func FuzzParseCounters(f *testing.F) {
	f.Add([]byte(`vllm:num_preemptions_total{a="b\"",c="d"} 1`))
	f.Add([]byte(`vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 3`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseCounters(text)
		if err == nil && len(c.AcceptedPerPos) > maxPositions {
			t.Errorf("got %d positions", len(c.AcceptedPerPos))
		}
	})
}
