package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parquet-go/parquet-go"

	"spectap/collector"
	"spectap/proxy/fakevllm"
)

// watcher stands between a sweep and its server and keeps the requests for
// replies. Unlike the measuring proxy it knows nothing of what they mean.
type watcher struct {
	mu     sync.Mutex
	bodies []map[string]json.RawMessage
	auth   []string    // their Authorization headers
	seen   func(n int) // called with the number of requests so far; nil: not
}

// watch returns the URL to ask instead of target's.
func watch(t *testing.T, target string) (string, *watcher) {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{}
	forward := httputil.NewSingleHostReverseProxy(to)
	forward.FlushInterval = -1
	forward.ErrorLog = log.New(io.Discard, "", 0) // clients that leave
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			text, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(text))
			w.keep(r.Header.Get("Authorization"), text)
		}
		forward.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, w
}

func (w *watcher) keep(auth string, text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var body map[string]json.RawMessage
	_ = json.Unmarshal(text, &body)
	w.bodies, w.auth = append(w.bodies, body), append(w.auth, auth)
	if w.seen != nil {
		w.seen(len(w.bodies))
	}
}

// averageAL reads Average_AL of a point's acceptance_rate.json.
func averageAL(t *testing.T, dir, point string) float64 {
	t.Helper()
	var runs []struct {
		AverageAL float64 `json:"Average_AL"`
	}
	readJSON(t, filepath.Join(dir, point, "acceptance_rate.json"), &runs)
	if len(runs) != 1 {
		t.Fatalf("got %d runs in acceptance_rate.json, want 1", len(runs))
	}
	return runs[0].AverageAL
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// truthAL is the engine's own AL of a point, by its log: the client view.
func truthAL(t *testing.T, records, truth string) float64 {
	t.Helper()
	log, err := readTruth(truth)
	if err != nil {
		t.Fatal(err)
	}
	point, bad, err := readPoint(records)
	if err != nil || len(bad) > 0 {
		t.Fatal(err, bad)
	}
	c, err := comparePoint(point, log)
	if err != nil {
		t.Fatal(err)
	}
	return c.engine[0]
}

// Neither the key of --api_key nor the password of a URL appears in any file
// or output, and both reach the server.
func TestCredentialsStayOut(t *testing.T) {
	const canary = "CANARY-7d1f"
	engine, _ := serveEngine(t, fakevllm.Config{Seed: 7, APIKey: canary, Prefill: 1, Step: 1, StepPerRequest: 1})
	server, watched := watch(t, engine)
	f := func(name string, want int, auth string, args ...string) {
		t.Run(name, func(t *testing.T) {
			watched.auth = nil
			dir := filepath.Join(t.TempDir(), "out")
			code, stdout, stderr := spectap(t, append(args, "sweep", "--mtbench", writeQuestions(t, 2), "--output_length", "16", "--log_level", "debug", "--save_dir", dir)...)
			if code != want {
				t.Errorf("got exit code %d, want %d\n%s%s", code, want, stdout, stderr)
			}
			if want == 0 && (len(watched.auth) < 5 || slices.ContainsFunc(watched.auth, func(a string) bool { return a != auth })) {
				t.Errorf("got Authorization %q, want %q on every request", watched.auth, auth)
			}
			mustNotHold(t, canary, dir, stdout, stderr)
		})
	}
	f("flag", 0, "Bearer "+canary, "--url", server, "--api_key", canary)
	f("flag with =", 0, "Bearer "+canary, "--url", server, "--api-key="+canary)
	f("wrong key", 2, "", "--url", server, "--api_key", "not-"+canary)
	f("password that is not the key", 2, "", "--url", strings.Replace(server, "://", "://user:"+canary+"@", 1))
	free, _ := serveEngine(t, fastEngine())
	server, watched = watch(t, free)
	f("password of the URL", 0, "Basic dXNlcjpDQU5BUlktN2QxZg==", "--url", strings.Replace(server, "://", "://user:"+canary+"@", 1))
	f("password of a URL that cannot be used", 2, "", "--url", "http://user:"+canary+"@host:port")
}

// mustNotHold looks for a secret in the outputs and in all files below dir.
func mustNotHold(t *testing.T, secret, dir string, outputs ...string) {
	t.Helper()
	for _, text := range outputs {
		if strings.Contains(text, secret) {
			t.Errorf("the output holds the secret:\n%s", text)
		}
	}
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s holds the secret (%v)", path, err)
		}
		return nil
	})
}

// A server without per-request statistics: the events alone give the engine's
// own chunk lengths.
func TestNoSpecStatsEqualsTruth(t *testing.T) {
	cfg := fastEngine()
	cfg.NoSpecStats, cfg.Draftless, cfg.EOS = true, 0.5, 0.02
	server, truth := serveEngine(t, cfg)
	dir := t.TempDir()
	args := []string{"sweep", "--url", server, "--mtbench", writeQuestions(t, 23), "--concurrency", "8", "--output_length", "64", "--save_dir", dir}
	_, stderr := mustSpectap(t, 4, args...)
	if !strings.Contains(stderr, "--no_spec_stats") || !strings.Contains(stderr, "--per-request-spec-decode-metrics summary") {
		t.Errorf("got %s, want both ways out", stderr)
	}
	mustSpectap(t, 0, append(args, "--no_spec_stats")...)
	got, want := averageAL(t, dir, "t0_c8"), truthAL(t, filepath.Join(dir, "t0_c8", "records.jsonl"), truth)
	if got != want {
		t.Errorf("got Average_AL %v, the engine's log says %v", got, want)
	}
	_, stderr = mustSpectap(t, 2, "collect", filepath.Join(dir, "t0_c8", "records.jsonl"), "--acceptance", "server", "--save_dir", t.TempDir())
	if !strings.Contains(stderr, "--no_spec_stats") {
		t.Errorf("got %s, want why there is no server view", stderr)
	}
}

// Without counts on the events the client view is made of block and tokens:
// only whether EOS came alone is unknown, which is one chunk a turn at most: 2 %
// of the AL here, where most of the short replies end at EOS.
func TestMeasureUsageIsClose(t *testing.T) {
	cfg := fastEngine()
	cfg.Draftless, cfg.EOS = 0.3, 0.01
	server, truth := serveEngine(t, cfg)
	dir := t.TempDir()
	out, _ := mustSpectap(t, 0, "sweep", "--url", server, "--mtbench", writeQuestions(t, 40), "--concurrency", "8", "--output_length", "128", "--measure", "usage", "--save_dir", dir)
	got, want := averageAL(t, dir, "t0_c8"), truthAL(t, filepath.Join(dir, "t0_c8", "records.jsonl"), truth)
	t.Logf("Average_AL %v, the engine's log says %v", got, want)
	if d := got - want; d > 0.05 || d < -0.05 {
		t.Errorf("got Average_AL %v, the engine's log says %v", got, want)
	}
	if !strings.Contains(out, "80 of 80 turns have no usable token counts on their events: their client lengths are made of the statistics block and the reply's tokens") {
		t.Errorf("the table does not say what the lengths are made of:\n%s", out)
	}
	var file collector.Speculation
	readJSON(t, filepath.Join(dir, "t0_c8", "speculation.json"), &file)
	if n := file.Blocks.LengthsOf[collector.SourceSums]; n != 80 {
		t.Errorf("got %v, want 80 turns from %s", file.Blocks.LengthsOf, collector.SourceSums)
	}
}

// Every request says its sampling; what only vLLM knows goes to vLLM alone.
func TestMembersByEngine(t *testing.T) {
	f := func(ownedBy string, with, without []string) {
		t.Run(ownedBy, func(t *testing.T) {
			cfg := fastEngine()
			cfg.OwnedBy = ownedBy
			engine, _ := serveEngine(t, cfg)
			server, watched := watch(t, engine)
			mustSpectap(t, 0, "sweep", "--url", server, "--mtbench", writeQuestions(t, 3), "--temperature", "0", "0.6", "--output_length", "16", "--save_dir", t.TempDir())
			if len(watched.bodies) != 1+2*6 {
				t.Errorf("got %d requests, want one of preflight and 6 a point", len(watched.bodies))
			}
			for _, body := range watched.bodies {
				for _, name := range append(with, "model", "messages", "temperature", "top_p", "max_tokens", "stream", "stream_options") {
					if body[name] == nil {
						t.Errorf("%q is missing in %s", name, body)
					}
				}
				for _, name := range without {
					if body[name] != nil {
						t.Errorf("got %q: %s, want none", name, body[name])
					}
				}
			}
		})
	}
	sampling := []string{"top_k", "min_p", "repetition_penalty", "skip_special_tokens"}
	f("vllm", append(sampling, "cache_salt"), []string{"return_spec_tokens_details"})
	f("sglang", append(sampling, "return_spec_tokens_details"), []string{"cache_salt"})
	f("tensorrt_llm", sampling, []string{"cache_salt", "return_spec_tokens_details"})
}

// Turn 2 repeats turn 1's reply with its special tokens, and each point has a
// cache_salt of its own.
func TestHistoryKeepsSpecialTokens(t *testing.T) {
	engine, _ := serveEngine(t, fastEngine())
	server, watched := watch(t, engine)
	dir := t.TempDir()
	mustSpectap(t, 0, "sweep", "--url", server, "--mtbench", writeQuestions(t, 20), "--temperature", "0", "1", "--concurrency", "4", "--output_length", "80", "--save_dir", dir)
	special, salts := 0, map[string]int{}
	for _, body := range watched.bodies {
		salts[string(body["cache_salt"])]++
		var history []struct{ Role, Content string }
		if err := json.Unmarshal(body["messages"], &history); err != nil {
			t.Fatal(err)
		}
		if len(history) == 3 && strings.Contains(history[1].Content, "<|im_start|>") {
			special++
		}
	}
	responses, err := os.ReadFile(filepath.Join(dir, "t0_c4", "mtbench_responses.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if special == 0 || !bytes.Contains(responses, []byte("<|im_start|>")) {
		t.Errorf("got %d histories with a special token, and none in the responses: want some", special)
	}
	counts := []int{}
	for _, n := range salts {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	if !slices.Equal(counts, []int{1, 40, 40}) {
		t.Errorf("got requests by cache_salt %v, want one of preflight and 40 a point", counts)
	}
}

// SPEED-Bench from a folder of prepared parquet: round robin over categories,
// and that order in every file; a placeholder is refused before any request.
func TestSpeedBench(t *testing.T) {
	type row struct {
		ID       string   `parquet:"question_id"`
		Category string   `parquet:"category"`
		Turns    []string `parquet:"turns,list"`
	}
	write := func(rows ...row) string {
		folder := filepath.Join(t.TempDir(), "speed", "qualitative")
		if err := os.MkdirAll(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := parquet.WriteFile(filepath.Join(folder, "test.parquet"), rows); err != nil {
			t.Fatal(err)
		}
		return filepath.Dir(folder)
	}
	rows := []row{{"a1", "math", []string{"one"}}, {"a2", "math", []string{"two", "more"}}, {"a3", "math", []string{"three"}},
		{"b1", "qa", []string{"four"}}, {"c1", "stem", []string{"five", "more", "still more"}}}
	server, truth := serveEngine(t, fastEngine())
	dir := t.TempDir()
	args := []string{"sweep", "--url", server, "--dataset", "speed", "--num_requests", "4", "--output_length", "24", "--concurrency", "4", "--save_dir", dir, "--dataset_path"}
	mustSpectap(t, 0, append(args, write(rows...))...)
	for file, pattern := range map[string]string{
		"acceptance_rate.json":      `(?s)"a1".*"b1".*"c1".*"a2".*"math".*"qa".*"stem".*Average_AL`,
		"specbench_responses.jsonl": `(?s)^\{"question_id": "a1", "category": "math".*"b1".*"c1".*"a2"`,
		"specbench_results.json":    `(?s)^\{.*"a1".*"b1".*"c1".*"a2"`,
		"configuration.json":        `"dataset": "speed"`,
	} {
		text, err := os.ReadFile(filepath.Join(dir, "t0_c4", file))
		if err != nil || !regexp.MustCompile(pattern).Match(text) || bytes.Contains(text, []byte(`"a3"`)) {
			t.Errorf("%s (%v): want %s and no a3 in\n%s", file, err, pattern, text)
		}
	}
	mustSpectap(t, 0, "check", "--truth", truth, filepath.Join(dir, "t0_c4", "records.jsonl"))
	rows[3].Turns[0] = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"
	_, stderr := mustSpectap(t, 2, append(args, write(rows...))...)
	if !strings.Contains(stderr, `question "b1" of category "qa" is a placeholder`) {
		t.Errorf("got %s, want the placeholder named", stderr)
	}
}
