package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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

// A fault of every nth request sets its point aside; the other points run.
func TestFaultsSetPointsAside(t *testing.T) {
	f := func(fault, kind string, more ...string) {
		t.Run(fault, func(t *testing.T) {
			cfg := fastEngine()
			cfg.Fault = fault // preflight is request 1, the first point has 2 to 9, the second 10 to 17
			server, _ := serveEngine(t, cfg)
			dir := t.TempDir()
			out, _ := mustSpectap(t, 1, append(more, "sweep", "--url", server, "--mtbench", writeQuestions(t, 4), "--concurrency", "2", "4", "--output_length", "48", "--save_dir", dir)...)
			names := []string{}
			for _, pattern := range []string{"*", "*/*"} {
				found, _ := filepath.Glob(filepath.Join(dir, pattern))
				for _, path := range found {
					if name, _ := filepath.Rel(dir, path); !strings.HasPrefix(name, "t0_c2/") {
						names = append(names, name)
					}
				}
			}
			if want := []string{"summary.csv", "sweep.json", "t0_c2", "t0_c4.failed", "t0_c4.failed/error.json", "t0_c4.failed/records.jsonl"}; !slices.Equal(names, want) {
				t.Errorf("got files %v, want %v", names, want)
			}
			var file struct {
				Failed []struct {
					Kind string `json:"error_kind"`
					ID   string `json:"x_request_id"`
				} `json:"failed_requests"`
			}
			readJSON(t, filepath.Join(dir, "t0_c4.failed", "error.json"), &file)
			if len(file.Failed) != 1 || file.Failed[0].Kind != kind || file.Failed[0].ID == "" {
				t.Errorf("got %+v, want one request of kind %s", file.Failed, kind)
			}
			if !strings.Contains(out, "t0_c4 failed: 1 of 8 requests failed") {
				t.Errorf("the table does not name the failed point:\n%s", out)
			}
			_, stderr := mustSpectap(t, 1, "collect", filepath.Join(dir, "t0_c4.failed", "records.jsonl"), "--save_dir", filepath.Join(dir, "again"))
			if !strings.Contains(stderr, "incomplete: 6 requests measured, 1 failed, 0 bad lines") {
				t.Errorf("got %s, want three conversations measured", stderr)
			}
		})
	}
	f("error@3/12", collector.ErrInBand)
	f("cut@3/12", collector.ErrTruncated)
	f("status503@0/12", collector.ErrHTTPStatus)
	f("stall@3/12", collector.ErrStalled, "--stall_timeout", "300ms")
}

// Ctrl-C in the middle of a point: the complete one stays, the others are
// named, no half folder is left, and a second sweep runs the rest.
func TestInterruptedSweepGoesOn(t *testing.T) {
	engine, _ := serveEngine(t, fastEngine())
	server, watched := watch(t, engine)
	dir := filepath.Join(t.TempDir(), "out")
	args := []string{"sweep", "--url", server, "--mtbench", writeQuestions(t, 4), "--output_length", "16", "--save_dir", dir, "--temperature", "0", "--concurrency"}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out, errs bytes.Buffer
	p := program{stdout: &out, stderr: &errs, argv: []string{"spectap"}}
	watched.seen = func(n int) {
		if n == 1+8+3 { // in the second point
			cancel()
		}
	}
	if code := p.run(ctx, append(slices.Clone(args), "1", "2", "4")); code != 130 {
		t.Fatalf("got exit code %d, want 130\n%s%s", code, &out, &errs)
	}
	if !strings.Contains(out.String(), "not run: t0_c2, t0_c4") || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("want the points that were not run and the reason:\n%s%s", &out, &errs)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	hidden, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(left) != 3 || len(hidden) != 0 {
		t.Errorf("got %v and %v, want sweep.json, summary.csv and t0_c1", left, hidden)
	}
	_, stderr := mustSpectap(t, 2, append(slices.Clone(args), "1", "2", "4")...)
	if !strings.Contains(stderr, "the point is complete; leave this point out, or choose another --save_dir") {
		t.Errorf("got %s, want what to do", stderr)
	}
	mustSpectap(t, 0, append(slices.Clone(args), "2", "4")...)
	text, err := os.ReadFile(filepath.Join(dir, "summary.csv"))
	if err != nil || strings.Count(string(text), ",complete,") != 3 {
		t.Errorf("got %s (%v), want three complete points", text, err)
	}
}

// Everything that is wrong is said before the first request, all at once.
func TestAllProblemsAtOnce(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.Mkdir(filepath.Join(dir, "t0_c1"), 0o777); err != nil {
		t.Fatal(err)
	}
	_, stderr := mustSpectap(t, 2, "sweep", "--url", "nonsense", "--mtbench", write("q.jsonl", `{"turns": ["a", "b"]}`+"\n{bad\n"),
		"--runtime_params", write("r.yaml", "foo: 1\n"), "--temperature", "0", "0.0", "abc", "--concurrency", "1", "0",
		"--output_length", "0", "--num_gpus", "0", "--log_level", "loud", "--api_key", "a", "--api_key_file", "b", "--top_p", "3", "--save_dir", dir)
	for _, want := range []string{"--output_length 0", "--num_gpus 0", `--log_level "loud"`, "--api_key and --api_key_file", "--top_p 3",
		`--url "nonsense"`, `unknown section "foo"`, `--temperature "abc"`, `--concurrency "0"`, "two points are equal", "line 2: is not a JSON object", "the point is complete"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q is not told:\n%s", want, stderr)
		}
	}
	_, stderr = mustSpectap(t, 2, "sweep", "--temperature", "--save_dir", dir)
	if !strings.Contains(stderr, "--temperature") || !strings.Contains(stderr, "want one value or more") {
		t.Errorf("got %s, want that --temperature has no value", stderr)
	}
}

// Load of others during a point is told, whether it ended within the point or not.
func TestForeignLoad(t *testing.T) {
	f := func(name string, tokens int, wait bool) {
		t.Run(name, func(t *testing.T) {
			cfg := fastEngine()
			cfg.Step = time.Millisecond
			engine, _ := serveEngine(t, cfg)
			server, watched := watch(t, engine)
			ctx, cancel := context.WithCancel(context.Background())
			var others sync.WaitGroup
			watched.seen = func(n int) {
				if n != 1+2 { // in the first point
					return
				}
				body := `{"model": "fake-model", "ignore_eos": true, "messages": [{"role": "user", "content": "hi"}], "max_tokens": ` + strconv.Itoa(tokens) + `}`
				ask := func() {
					req, _ := http.NewRequestWithContext(ctx, http.MethodPost, engine+"/v1/chat/completions", strings.NewReader(body))
					req.Header.Set("Content-Type", "application/json")
					if resp, err := http.DefaultClient.Do(req); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}
				if wait {
					ask()
					return
				}
				others.Go(ask)
			}
			out, _ := mustSpectap(t, 0, "sweep", "--url", server, "--mtbench", writeQuestions(t, 4), "--output_length", "48", "--save_dir", t.TempDir())
			cancel()
			others.Wait()
			if !strings.Contains(out, "│ foreign load │") || !strings.Contains(out, "t0_c1: self-audit: foreign load: the server ") {
				t.Errorf("the table does not tell the load of others:\n%s", out)
			}
		})
	}
	f("ends within the point", 8, true)
	f("goes on", 30000, false)
}
