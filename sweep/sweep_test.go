package sweep

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spectap/collector"
)

// Turn 2 carries turn 1 and its reply as the server sent it, special tokens
// and blanks kept; every request has its own id and its labels.
func TestConversation(t *testing.T) {
	s := newScripted(t, echo)
	p := plan(t, s, Config{Temperatures: []string{"0"}, Concurrency: []string{"1"}})
	if _, err := newSweep(p, s).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	got := s.requests()
	if len(got) != 6 {
		t.Fatalf("got %d requests, want 6", len(got))
	}
	ids := map[string]bool{}
	for i, q := range got {
		conversation, turn := i/2, i%2
		want := []message{{"user", fmt.Sprintf("q%d first", conversation)}}
		if turn == 1 {
			want = append(want, message{"assistant", fmt.Sprintf("<|s|>reply to %d.0 ", conversation)}, message{"user", fmt.Sprintf("q%d second <b>", conversation)})
		}
		if d := cmp.Diff(want, q.history); d != "" {
			t.Errorf("request %d: history differs (-want +got):\n%s", i, d)
		}
		for key, want := range map[string]string{"point": "t0_c1", "conversation": fmt.Sprint(conversation), "question": fmt.Sprint(81 + conversation), "turn": fmt.Sprint(turn), "category": "writing"} {
			if got := q.labels["spectap."+key]; got != want {
				t.Errorf("request %d: got label %s %q, want %q", i, key, got, want)
			}
		}
		ids[q.header.Get("X-Request-ID")] = true
	}
	if len(ids) != 6 {
		t.Errorf("got %d different request ids, want 6", len(ids))
	}
}

// The history holds the postprocessed reply.
func TestPostprocessedHistory(t *testing.T) {
	s := newScripted(t, func(sent) answer {
		return answer{text: "<|channel|>analysis<|message|>think<|end|><|channel|>final<|message|>Answer<|return|>"}
	})
	p := plan(t, s, Config{Postprocess: "gptoss"})
	if _, err := newSweep(p, s).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, q := range s.requests() {
		if len(q.history) == 3 && q.history[1].Content != "Answer" {
			t.Errorf("got history %q, want the postprocessed reply %q", q.history[1].Content, "Answer")
		}
	}
}

// With include_stop_str_in_output the server returns the EOS that ended a reply;
// turn 2 and the responses file have it not, as in specdec_bench.
func TestIncludeStop(t *testing.T) {
	s := newScripted(t, func(sent) answer { return answer{text: "<|s|>Answer<|im_end|>", finish: "stop"} })
	p := plan(t, s, Config{IncludeStop: true})
	w := newSweep(p, s)
	w.write = nil
	if _, err := w.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, q := range s.requests() {
		if string(q.body["include_stop_str_in_output"]) != "true" {
			t.Errorf("got body %s, want include_stop_str_in_output", q.body)
		}
		if len(q.history) == 3 && q.history[1].Content != "<|s|>Answer" {
			t.Errorf("got history %q, want the reply without EOS", q.history[1].Content)
		}
	}
	text, err := os.ReadFile(filepath.Join(p.Config.SaveDir, "t0_c1", "mtbench_responses.jsonl"))
	if err != nil || strings.Count(string(text), `"<|s|>Answer"`) != 6 {
		t.Errorf("got responses %s (%v), want 6 replies without EOS", text, err)
	}
}

// --completions sends the last user text alone.
func TestCompletions(t *testing.T) {
	s := newScripted(t, echo)
	p := plan(t, s, Config{Completions: true})
	if _, err := newSweep(p, s).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i, q := range s.requests() {
		want := fmt.Sprintf(`"q%d %s"`, i/2, [...]string{"first", "second <b>"}[i%2])
		var prompt string
		_ = json.Unmarshal(q.body["prompt"], &prompt)
		if got := `"` + prompt + `"`; q.path != "/v1/completions" || got != want || q.body["messages"] != nil {
			t.Errorf("request %d: got %s %s, want /v1/completions %s without messages", i, q.path, got, want)
		}
	}
}

// Each request says all that generation_config.json would fill.
func TestExplicitSampling(t *testing.T) {
	s := newScripted(t, echo)
	topP, topK := 0.9, 20
	p := plan(t, s, Config{Temperatures: []string{"0", "0.6"}, Concurrency: []string{"2"}, OutputLength: 128, TopP: &topP, TopK: &topK, IgnoreEOS: true})
	if _, err := newSweep(p, s).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	salts := map[string]map[string]bool{}
	for _, q := range s.sent {
		temperature := "0"
		if strings.HasPrefix(q.labels["spectap.point"], "t0.6") {
			temperature = "0.6"
		}
		limit := "128"
		if q.preflight() {
			limit = "16"
		}
		for name, want := range map[string]string{"temperature": temperature, "top_p": "0.9", "top_k": "20", "min_p": "0", "repetition_penalty": "1",
			"max_tokens": limit, "skip_special_tokens": "false", "stream": "true", "ignore_eos": "true",
			"stream_options": `{"continuous_usage_stats":true,"include_usage":true}`} {
			if got := string(q.body[name]); got != want {
				t.Errorf("%s: got %s %s, want %s", q.labels["spectap.point"], name, got, want)
			}
		}
		for _, name := range []string{"n", "seed", "stop"} {
			if q.body[name] != nil {
				t.Errorf("got %s %s, want none", name, q.body[name])
			}
		}
		point := q.labels["spectap.point"]
		if salts[point] == nil {
			salts[point] = map[string]bool{}
		}
		salts[point][string(q.body["cache_salt"])] = true
	}
	seen := map[string]bool{}
	for point, set := range salts {
		if len(set) != 1 || set[""] {
			t.Errorf("%s: got salts %v, want one", point, set)
		}
		for salt := range set {
			if seen[salt] {
				t.Errorf("%s: its salt is another point's", point)
			}
			seen[salt] = true
		}
	}
}

// The load reaches the point's concurrency, never exceeds it, and starts the
// conversations in data-set order.
func TestConcurrency(t *testing.T) {
	const c = 4
	var mu sync.Mutex
	inFlight, most := 0, 0
	full := make(chan struct{})
	s := newScripted(t, func(q sent) answer {
		if q.preflight() {
			return echo(q)
		}
		mu.Lock()
		inFlight++
		if inFlight == c && most < c {
			close(full)
		}
		most = max(most, inFlight)
		mu.Unlock()
		a := echo(q)
		a.wait = func(ctx context.Context) {
			select {
			case <-full:
			case <-ctx.Done():
			}
			mu.Lock()
			inFlight--
			mu.Unlock()
		}
		return a
	})
	p := plan(t, s, Config{MTBench: questions(t, 12), Concurrency: []string{"4"}})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // less load would wait for ever
	defer cancel()
	if _, err := newSweep(p, s).Run(ctx); err != nil {
		t.Fatal(err)
	}
	if most != c {
		t.Errorf("got at most %d requests at a time, want %d", most, c)
	}
	var started []string
	for _, q := range s.requests()[:c] {
		started = append(started, q.labels["spectap.conversation"])
	}
	slices.Sort(started)
	if want := []string{"0", "1", "2", "3"}; !slices.Equal(started, want) {
		t.Errorf("got first conversations %v, want %v", started, want)
	}
}

// A complete point has its files, sweep.json and summary.csv a row each.
func TestFiles(t *testing.T) {
	s := newScripted(t, echo)
	dir := filepath.Join(t.TempDir(), "a", "b")
	p := plan(t, s, Config{SaveDir: dir, Temperatures: []string{"0.60"}, Concurrency: []string{"1", "2"},
		Argv: []string{"spectap", "sweep", "--api_key", "topsecret", "--url", "http://u:p@h"}, APIKey: "topsecret",
		Env: map[string]string{"CONTAINER_IMAGE": "image:1", "HOME": "/home/somebody"}})
	result, err := newSweep(p, s).Run(context.Background())
	if err != nil || ExitCode(result, err) != 0 {
		t.Fatalf("got exit code %d, error %v", ExitCode(result, err), err)
	}
	if got, want := entries(t, dir), []string{"summary.csv", "sweep.json", "t0.6_c1", "t0.6_c2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, q := range s.sent {
		if got := q.header.Get("Authorization"); got != "Bearer topsecret" {
			t.Fatalf("got Authorization %q", got)
		}
	}
	var book struct {
		Environment map[string]string
		Argv        []string
		Points      []struct {
			Point, State string
			Average      float64 `json:"average_al"`
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, "sweep.json"))
	if err := json.Unmarshal(text, &book); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"topsecret", "u:p@", "somebody", "q0 first", "reply to"} {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("sweep.json holds %q", secret)
		}
	}
	if len(book.Points) != 2 || book.Points[1].Point != "t0.6_c2" || book.Points[1].State != "complete" || book.Points[1].Average != 2.5 {
		t.Errorf("got rows %+v", book.Points)
	}
	if d := cmp.Diff(map[string]string{"CONTAINER_IMAGE": "image:1"}, book.Environment); d != "" {
		t.Errorf("environment (-want +got):\n%s", d)
	}
	table, _ := os.ReadFile(filepath.Join(dir, "summary.csv"))
	rows, err := csv.NewReader(bytes.NewReader(table)).ReadAll()
	if err != nil || len(rows) != 3 || rows[2][1] != "t0.6_c2" || rows[2][8] != "2.5" {
		t.Errorf("got csv %v, %v", rows, err)
	}
}

// records.jsonl begins with the whole run, the counters after the point
// included, and keeps no text unless asked.
func TestRecordsFile(t *testing.T) {
	f := func(keep bool) {
		s := newScripted(t, echo)
		p := plan(t, s, Config{KeepTexts: keep})
		if _, err := newSweep(p, s).Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(p.Config.SaveDir, "t0_c1", "records.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		points, bad, err := collector.ReadPoints(bytes.NewReader(text))
		if err != nil || len(points) != 1 || len(points[0].Records) != 6 || len(bad) != 0 {
			t.Fatalf("got %d points, bad lines %v, error %v; want 1 of 6 records", len(points), bad, err)
		}
		run := points[0].Run
		if run.Before == nil || run.After == nil || run.After.RequestsFinished-run.Before.RequestsFinished != 6 || run.Before.RequestsFinished != 1 {
			t.Errorf("got counters %+v and %+v, want 1 and 7 requests", run.Before, run.After)
		}
		if run.EngineVersion != "0.32.0" || run.Model != "m" || run.Metric != collector.MetricMTBench || len(run.Configuration) == 0 {
			t.Errorf("got run %+v", run)
		}
		if got := bytes.Contains(text, []byte("reply to")); got != keep {
			t.Errorf("keep_texts %v: got replies in the file: %v", keep, got)
		}
	}
	f(false)
	f(true)
}

// The counters are read again until the last request is counted.
func TestCountersSettle(t *testing.T) {
	s := newScripted(t, nil)
	s.script = func(q sent) answer {
		s.mu.Lock()
		defer s.mu.Unlock()
		if q.n == 6 {
			s.lag = 5
		}
		return echo(q)
	}
	p := plan(t, s, Config{})
	var after float64
	w := newSweep(p, s)
	w.write = func(p collector.Point, dir string) (collector.Summary, error) {
		after = p.Run.After.RequestsFinished - p.Run.Before.RequestsFinished
		return writeStub(p, dir)
	}
	if _, err := w.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if after != 6 {
		t.Errorf("got %v requests counted in the point, want 6", after)
	}
}

// configuration.json has specdec_bench's names, what the server tells, and no secret.
func TestConfiguration(t *testing.T) {
	s := newScripted(t, echo)
	yaml := filepath.Join(t.TempDir(), "r.yaml")
	if err := os.WriteFile(yaml, []byte("sampling_kwargs:\n  temperature: 1\n  top_p: 0.5\nchat_template_args:\n  enable_thinking: false\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := plan(t, s, Config{RuntimeParams: yaml, Temperatures: []string{"0"}, GPUs: 4, Version: "v1", Env: map[string]string{"CONTAINER_IMAGE": "image:1"}})
	if _, err := newSweep(p, s).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, q := range s.requests() {
		if got := string(q.body["chat_template_kwargs"]); got != `{"enable_thinking":false}` || string(q.body["top_p"]) != "0.5" {
			t.Fatalf("got chat_template_kwargs %s, top_p %s", got, q.body["top_p"])
		}
	}
	text, err := os.ReadFile(filepath.Join(p.Config.SaveDir, "t0_c1", "configuration.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"engine": "VLLM"`, `"engine_version": "0.32.0"`, `"tp_size": 4`, `"concurrency": 1`, `"temperature": 0.0`,
		`"max_model_len": 2048`, `"kv_cache_size": "46592"`, `"container_image": "image:1"`, `"spectap_version": "v1"`, `"cache_salt": true`,
		"\"sampling_kwargs\": {\n            \"temperature\": 0.0,\n            \"top_p\": 0.5", `"mtbench": `, `"measure": "tokens"`,
		`"model_dir": "m"`, "\"checkpoint\": {\n        \"path\": \"m\"\n    }"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("configuration.json has no %s:\n%s", want, text)
		}
	}
}
