package fakevllm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"spectap/proxy/fakevllm"
)

// ask makes the i-th of a family of different requests.
func ask(i int, more string) []byte {
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Question %d about topic %d"}],"temperature":%d,"max_tokens":%d,"stream":true,"return_token_ids":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}%s}`,
		i, i*7, i%2, 20+i%50, more)
	return post("/v1/chat/completions", body, fmt.Sprintf("X-Request-Id: r%d", i))
}

type event struct {
	ID      string
	Choices []struct {
		Index  int
		Delta  struct{ Content string }
		Tokens []int   `json:"token_ids"`
		Finish *string `json:"finish_reason"`
	}
	Usage *struct {
		Completion int `json:"completion_tokens"`
	}
	Metrics *struct {
		Spec *struct {
			Histogram []int `json:"acceptance_histogram"`
		} `json:"speculative_decoding"`
	}
}

func decode(t *testing.T, a answer) []event {
	t.Helper()
	var list []event
	for _, data := range a.events() {
		if data == "[DONE]" {
			continue
		}
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("event %q: %v", data, err)
		}
		list = append(list, e)
	}
	return list
}

func text(events []event) string {
	s := ""
	for _, e := range events {
		for _, c := range e.Choices {
			s += c.Delta.Content
		}
	}
	return s
}

// TestTruthAgreesWithTheWire holds the log against what a client counts, and the
// sums against the counters.
func TestTruthAgreesWithTheWire(t *testing.T) {
	e, addr := start(t, fakevllm.Config{Seed: 3, EOS: 0.02, Draftless: 0.3})
	sums, ends := map[string]int{}, map[string]int{}
	for i := range 40 {
		raw, err := send(t, addr, ask(i, ""))
		if err != nil {
			t.Fatal(err)
		}
		events, tr := decode(t, cut(t, raw)), e.Truth()[i]
		last := events[len(events)-1]
		var lengths []int
		tokens, writes := 0, 0
		for _, ev := range events[:len(events)-1] {
			if n := len(ev.Choices[0].Tokens); n > 0 {
				lengths = append(lengths, n)
				tokens += n
				writes++
			}
			if ev.Usage.Completion != tokens {
				t.Fatalf("request %d: usage says %d tokens after %d", i, ev.Usage.Completion, tokens)
			}
		}
		if tr.Finish == "stop" { // an EOS is no part of a chunk
			if lengths[len(lengths)-1]--; lengths[len(lengths)-1] == 0 {
				lengths = lengths[:len(lengths)-1]
			}
		}
		if d := cmp.Diff(lengths, tr.ChunkLengths) + cmp.Diff(last.Metrics.Spec.Histogram, tr.Histogram); d != "" {
			t.Errorf("request %d (-wire +truth):\n%s", i, d)
		}
		if tr.Completion != tokens || last.Usage.Completion != tokens || len(tr.WriteUnixNs) != writes || !slices.IsSorted(tr.WriteUnixNs) || tr.ArriveUnixNs == 0 || tr.ArriveUnixNs > tr.WriteUnixNs[0] {
			t.Errorf("request %d: %d tokens in %d events, truth says %+v", i, tokens, writes, tr)
		}
		ends[tr.Finish]++
		count(sums, tr)
	}
	if ends["stop"] == 0 || ends["length"] == 0 || sums["overcount"] == 0 || sums["draftless"] == 0 {
		t.Errorf("the family lacks a case: ends %v, sums %v", ends, sums)
	}
	checkCounters(t, addr, sums, ends)
}

// count adds a request's figures; overcount are tokens that its block promises and that were cut.
func count(sums map[string]int, tr fakevllm.Truth) {
	made := 1 + tr.Draftless
	for j, n := range tr.Histogram {
		sums["drafts"] += n
		sums["accepted"] += j * n
		made += (j + 1) * n
	}
	sums["overcount"] += made - tr.Completion
	sums["draftless"] += tr.Draftless
	sums["tokens"] += tr.Completion
	sums["prompt"] += tr.PromptTokens
}

func checkCounters(t *testing.T, addr string, sums, ends map[string]int) {
	t.Helper()
	raw, err := send(t, addr, []byte("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(raw, []byte("Content-Type: text/plain; version=1.0.0; charset=utf-8")) {
		t.Errorf("content type of %.300s", raw)
	}
	f := func(series string, want int) {
		t.Helper()
		m := regexp.MustCompile(`(?m)^vllm:`+series+` (\d+)\.0$`).FindAllSubmatch(raw, -1)
		got := 0
		for _, v := range m {
			n, _ := strconv.Atoi(string(v[1]))
			got += n
		}
		if len(m) == 0 || got != want {
			t.Errorf("%s: got %d (%d series), want %d", series, got, len(m), want)
		}
	}
	f(`spec_decode_num_drafts_total\{.*\}`, sums["drafts"])
	f(`spec_decode_num_draft_tokens_total\{.*\}`, 5*sums["drafts"])
	f(`spec_decode_num_accepted_tokens_total\{.*\}`, sums["accepted"])
	f(`spec_decode_num_accepted_tokens_per_pos_total\{.*\}`, sums["accepted"])
	f(`generation_tokens_total\{.*\}`, sums["tokens"])
	f(`prompt_tokens_total\{.*\}`, sums["prompt"])
	f(`request_success_total\{.*finished_reason="stop".*\}`, ends["stop"])
	f(`request_success_total\{.*finished_reason="length".*\}`, ends["length"])
	f(`num_requests_running\{.*\}`, 0)
}

var apartFromTime = cmpopts.IgnoreFields(fakevllm.Truth{}, "WriteUnixNs", "ArriveUnixNs")

// TestSameWhateverTheOrder: neither order nor concurrency changes a reply.
func TestSameWhateverTheOrder(t *testing.T) {
	run := func(order func(do func(i int))) map[string]fakevllm.Truth {
		e, addr := start(t, fakevllm.Config{Seed: 5, EOS: 0.01, Draftless: 0.2, DropBlocks: 0.3})
		order(func(i int) {
			if _, err := send(t, addr, ask(i, "")); err != nil {
				t.Error(err)
			}
		})
		all := map[string]fakevllm.Truth{}
		for _, tr := range e.Truth() {
			all[tr.RequestID] = tr
		}
		return all
	}
	const n = 24
	forward := run(func(do func(int)) {
		for i := range n {
			do(i)
		}
	})
	backward := run(func(do func(int)) {
		for i := range n {
			do(n - 1 - i)
		}
	})
	together := run(func(do func(int)) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { do(i) })
		}
		wg.Wait()
	})
	if d := cmp.Diff(forward, backward, apartFromTime) + cmp.Diff(forward, together, apartFromTime); d != "" || len(forward) != n {
		t.Errorf("%d requests, truths differ:\n%s", len(forward), d)
	}
}

// TestSaltAndSeed: a cache salt and a seed give another reply at temperature 1 only; the engine's seed always.
func TestSaltAndSeed(t *testing.T) {
	reply := func(seed uint64, temperature, more string) string {
		_, addr := start(t, fakevllm.Config{Seed: seed})
		body := `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":30,"temperature":` + temperature + more + `}`
		raw, err := send(t, addr, post("/v1/chat/completions", body))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(regexp.MustCompile(`"content":"[^"]+"|"acceptance_histogram":[^]]+`).FindAllString(string(raw), -1), " ")
	}
	f := func(a, b string, same bool) {
		t.Helper()
		if (a == b) != same {
			t.Errorf("%s and %s: want same %v", a, b, same)
		}
	}
	f(reply(1, "0", ""), reply(1, "0", `,"cache_salt":"x","seed":4,"top_p":0.5`), true)
	f(reply(1, "1", ""), reply(1, "1", ""), true)
	f(reply(1, "1", ""), reply(1, "1", `,"cache_salt":"x"`), false)
	f(reply(1, "1", ""), reply(1, "1", `,"seed":4`), false)
	f(reply(1, "0", ""), reply(2, "0", ""), false)
}

// TestAcceptanceFallsWithTemperature and differs between conversations.
func TestAcceptanceFallsWithTemperature(t *testing.T) {
	e, addr := start(t, fakevllm.Config{})
	al := func(question string, temperature int) float64 {
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"max_tokens":2000,"temperature":%d}`, question, temperature)
		if _, err := send(t, addr, post("/v1/chat/completions", body)); err != nil {
			t.Fatal(err)
		}
		all := e.Truth()
		tr := all[len(all)-1]
		return float64(tr.Completion) / float64(len(tr.ChunkLengths))
	}
	var cold []float64
	for _, q := range []string{"write a poem", "solve this sum", "who was it", "explain the tides"} {
		c, h := al(q, 0), al(q, 1)
		if h >= c {
			t.Errorf("%q: AL %.3f at temperature 1, %.3f at 0", q, h, c)
		}
		cold = append(cold, c)
	}
	if slices.Max(cold)-slices.Min(cold) < 0.2 {
		t.Errorf("conversations hardly differ: %v", cold)
	}
}

// TestSpecialTokens: kept in the text only where the request says so.
func TestSpecialTokens(t *testing.T) {
	_, addr := start(t, fakevllm.Config{Seed: 1})
	kept := 0
	for i := range 12 {
		both := [2]string{}
		for k, more := range []string{"", `,"skip_special_tokens":false`} {
			raw, err := send(t, addr, ask(i, more))
			if err != nil {
				t.Fatal(err)
			}
			both[k] = text(decode(t, cut(t, raw)))
		}
		if strings.Contains(both[0], "<|") || strings.ReplaceAll(both[1], "<|im_start|>", "") != both[0] {
			t.Errorf("skipped %q, kept %q", both[0], both[1])
		}
		kept += strings.Count(both[1], "<|im_start|>")
	}
	if kept == 0 {
		t.Error("no reply has a special token")
	}
}

// TestEmptyTextTokens: now and then an event in the middle brings tokens and no text.
func TestEmptyTextTokens(t *testing.T) {
	_, addr := start(t, fakevllm.Config{Seed: 1, Acceptance: []float64{0}})
	found := 0
	for i := range 20 {
		raw, err := send(t, addr, ask(i, `,"max_tokens":80,"skip_special_tokens":false`))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range decode(t, cut(t, raw)) {
			if len(e.Choices) == 1 && len(e.Choices[0].Tokens) == 1 && e.Choices[0].Delta.Content == "" && e.Choices[0].Finish == nil {
				found++
			}
		}
	}
	if found == 0 {
		t.Error("every event has text")
	}
}

// TestDroppedBlocks: no block, and the last two steps in one event; the truth keeps the steps.
func TestDroppedBlocks(t *testing.T) {
	e, addr := start(t, fakevllm.Config{Seed: 2, DropBlocks: 0.3})
	dropped := 0
	for i := range 60 {
		raw, err := send(t, addr, ask(i, ""))
		if err != nil {
			t.Fatal(err)
		}
		events, tr := decode(t, cut(t, raw)), e.Truth()[i]
		if (events[len(events)-1].Metrics == nil) != tr.BlockDropped {
			t.Errorf("request %d: block_dropped %v, metrics %v", i, tr.BlockDropped, events[len(events)-1].Metrics)
		}
		if !tr.BlockDropped {
			continue
		}
		dropped++
		n := len(tr.ChunkLengths)
		got := len(events[len(events)-2].Choices[0].Tokens)
		if want := tr.ChunkLengths[n-1] + tr.ChunkLengths[n-2]; got != want || len(tr.WriteUnixNs) != n-1 {
			t.Errorf("request %d: %d tokens in the last event, want %d; %d writes of %d steps", i, got, want, len(tr.WriteUnixNs), n)
		}
	}
	if dropped < 8 || dropped > 30 {
		t.Errorf("%d of 60 blocks dropped, asked for 30 %%", dropped)
	}
}

// TestStops: what ends a reply, and what is left of it.
func TestStops(t *testing.T) {
	e, addr := start(t, fakevllm.Config{Seed: 9})
	var raw []byte
	get := func(more string) ([]event, fakevllm.Truth) {
		t.Helper()
		var err error
		raw, err = send(t, addr, ask(1, more))
		if err != nil {
			t.Fatal(err)
		}
		all := e.Truth()
		return decode(t, cut(t, raw)), all[len(all)-1]
	}
	plain, _ := get(`,"max_tokens":60`)
	all := text(plain)
	w := strings.Fields(all)
	stop := w[12] + " " + w[13]
	before := all[:strings.Index(all, stop)]

	events, tr := get(fmt.Sprintf(`,"max_tokens":60,"stop":[%q]`, stop))
	if got := text(events); got != before || !bytes.Contains(raw, fmt.Appendf(nil, `"stop_reason":%q`, stop)) || tr.Finish != "stop" || events[len(events)-1].Metrics != nil {
		t.Errorf("stop string: text %q, want %q; %+v", got, before, tr)
	}
	if c := events[1].Choices[0]; c.Delta.Content != "" || len(c.Tokens) == 0 {
		t.Errorf("the first event is not held back: %+v", c)
	}
	if events, tr = get(`,"max_tokens":60,"stop":"never"`); text(events) != all || events[len(events)-1].Metrics == nil {
		t.Errorf("a stop string that does not come: text %q, want %q", text(events), all)
	}
}

// TestIgnoreEOS: the reply goes on, and the truth takes nothing away.
func TestIgnoreEOS(t *testing.T) {
	e, addr := start(t, fakevllm.Config{Seed: 9, EOS: 0.2})
	for i := range 6 {
		if _, err := send(t, addr, ask(i, `,"ignore_eos":true,"max_tokens":64`)); err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, n := range e.Truth()[i].ChunkLengths {
			sum += n
		}
		if tr := e.Truth()[i]; tr.Finish != "length" || tr.Completion != 64 || sum != 64 {
			t.Errorf("got %+v, want 64 tokens to the limit", tr)
		}
	}
}

// TestTruthLines: whole lines, one a request, also for refused ones, with the agreed names.
func TestTruthLines(t *testing.T) {
	var log bytes.Buffer
	_, addr := start(t, fakevllm.Config{Truth: &log})
	for _, raw := range [][]byte{ask(1, ""), ask(2, `,"max_tokens":0`), post("/v1/chat/completions", `{`, "X-Request-Id: r3")} {
		if _, err := send(t, addr, raw); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
	for i, want := range []int{200, 400, 400} {
		var m map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &m); err != nil {
			t.Fatal(err)
		}
		if m["x_request_id"] != fmt.Sprintf("r%d", i+1) || m["status"] != float64(want) {
			t.Errorf("line %d: %s", i, lines[i])
		}
		for _, name := range strings.Fields("histogram chunk_lengths steps_without_drafts completion_tokens finish_reason write_unix_ns fault") {
			if v, ok := m[name]; !ok || v == nil {
				t.Errorf("line %d: %s is %v", i, name, v)
			}
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d lines, want 3", len(lines))
	}
}
