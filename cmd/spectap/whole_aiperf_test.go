package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spectap/collector"
	"spectap/proxy/fakevllm"
)

// tokenizerFolder is a folder that looks like a tokenizer's.
func tokenizerFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// aiperfArguments are a sweep's with the stand-in as its driver.
func aiperfArguments(t *testing.T, server, behaviour string, args ...string) []string {
	t.Helper()
	return append([]string{"sweep", "--url", server, "--driver", "aiperf", "--aiperf", standIn(t, behaviour), "--tokenizer", tokenizerFolder(t), "--output_length", "48"}, args...)
}

// AIPerf's requests give the same acceptance, texts and questions as the built-in
// driver's, and its figures agree with ours.
func TestAIPerfEqualsBuiltin(t *testing.T) {
	server, truth := serveEngine(t, fastEngine())
	questions := writeQuestions(t, 13)
	theirs, ours := t.TempDir(), t.TempDir()
	table, _ := mustSpectap(t, 0, aiperfArguments(t, server, "", "--mtbench", questions, "--concurrency", "1", "4", "--temperature", "0", "--save_dir", theirs)...)
	mustSpectap(t, 0, "sweep", "--url", server, "--mtbench", questions, "--concurrency", "1", "4", "--output_length", "48", "--save_dir", ours)
	if !strings.Contains(table, "26 of 26") || !strings.Contains(table, "exact") {
		t.Errorf("got\n%s\nwant all blocks and an exact audit", table)
	}
	for _, point := range []string{"t0_c1", "t0_c4"} {
		for _, name := range []string{"acceptance_rate.json", "mtbench_responses.jsonl"} {
			got, err := os.ReadFile(filepath.Join(theirs, point, name))
			want, err2 := os.ReadFile(filepath.Join(ours, point, name))
			if err != nil || err2 != nil || !bytes.Equal(got, want) {
				t.Errorf("%s/%s differs from the built-in driver's (%v, %v)", point, name, err, err2)
			}
		}
		mustSpectap(t, 0, "check", "--truth", truth, filepath.Join(theirs, point, "records.jsonl"))
		checkCross(t, filepath.Join(theirs, point), 26)
	}
	var configuration struct{ Driver string }
	readJSON(t, filepath.Join(theirs, "t0_c1", "configuration.json"), &configuration)
	if configuration.Driver != "aiperf 0.13.0" {
		t.Errorf("got driver %q in configuration.json, want aiperf 0.13.0", configuration.Driver)
	}
}

// checkCross looks at a point's cross-check: the exact figures must agree.
func checkCross(t *testing.T, dir string, requests int) {
	t.Helper()
	var file collector.Speculation
	readJSON(t, filepath.Join(dir, "speculation.json"), &file)
	c := file.CrossCheck
	if c == nil || c.Client != "aiperf 0.13.0" || c.Requests.Both != requests || c.Requests.OnlyClient+c.Requests.OnlyOurs+c.Requests.Failed+c.Requests.BadRows != 0 {
		t.Fatalf("got %+v, want %d requests seen by both", c, requests)
	}
	exact := 0
	for _, d := range c.PerRequest {
		if d.N != requests {
			t.Errorf("%s is of %d requests, want %d", d.Name, d.N, requests)
		}
		if d.Name == "output_tokens_by_usage" || d.Name == "acceptance_length_of_a_request" {
			exact++
			if d.Worst != 0 || !d.Within {
				t.Errorf("%s differs: %+v", d.Name, d)
			}
		}
	}
	for _, a := range c.Aggregates {
		if a.Theirs == "spec_decode_acceptance_length" || a.Theirs == "request_count" {
			exact++
			if !a.Within || a.Ours == 0 {
				t.Errorf("%s differs: %+v", a.Theirs, a)
			}
		}
	}
	if exact != 4 {
		t.Errorf("got %d of the 4 exact figures in %+v", exact, c)
	}
}

// What AIPerf sends beside the messages is what the built-in driver sends, and
// the server's key reaches the server without being told to AIPerf.
func TestAIPerfSendsTheSame(t *testing.T) {
	const canary = "CANARY-91ab"
	cfg := fastEngine()
	cfg.APIKey = canary
	engine, _ := serveEngine(t, cfg)
	server, watched := watch(t, engine)
	yaml := filepath.Join(t.TempDir(), "runtime.yaml")
	if err := os.WriteFile(yaml, []byte("chat_template_args:\n  enable_thinking: false\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	sent := func(dir string, args []string) []map[string]json.RawMessage {
		watched.bodies, watched.auth = nil, nil
		args = append(args, "--mtbench", writeQuestions(t, 3), "--temperature", "0.6", "--top_p", "0.9", "--seed", "12", "--ignore_eos", "--runtime_params", yaml, "--concurrency", "1", "--save_dir", dir, "--api_key", canary)
		_, _ = mustSpectap(t, 0, args...)
		if slices.ContainsFunc(watched.auth, func(a string) bool { return a != "Bearer "+canary }) {
			t.Errorf("got Authorization %q, want the key on every request", watched.auth)
		}
		mustNotHold(t, canary, dir)
		return watched.bodies[1:] // without preflight
	}
	dir := t.TempDir()
	theirs := sent(dir, aiperfArguments(t, server, ""))
	ours := sent(t.TempDir(), []string{"sweep", "--url", server, "--output_length", "48"})
	if len(theirs) != 6 || len(ours) != 6 {
		t.Fatalf("got %d requests of AIPerf's and %d of ours, want 6 each", len(theirs), len(ours))
	}
	for i := range ours {
		for name := range ours[i] {
			same := name == "cache_salt" || name == "messages" && i%2 == 1 // a reply of another salt
			if theirs[i][name] == nil || !same && !bytes.Equal(theirs[i][name], ours[i][name]) {
				t.Errorf("request %d: got %s: %s, the built-in driver sends %s", i, name, theirs[i][name], ours[i][name])
			}
		}
		if len(theirs[i]) != len(ours[i]) {
			t.Errorf("request %d: got %d members, want %d", i, len(theirs[i]), len(ours[i]))
		}
	}
}

// A system message and questions that begin alike: each conversation keeps its
// own question.
func TestAIPerfTellsQuestionsApart(t *testing.T) {
	server, truth := serveEngine(t, fastEngine())
	path := filepath.Join(t.TempDir(), "question.jsonl")
	lines := `{"question_id": 1, "category": "writing", "turns": ["Same beginning.", "Then one."]}
{"question_id": 2, "category": "writing", "turns": ["Same beginning.", "Then two, with <b> & \"quotes\"."]}
{"question_id": 3, "category": "writing", "turns": ["Other beginning. \n", "Then three."]}
{"question_id": 4, "category": "writing", "turns": ["Same beginning.", "Then four."]}
`
	if err := os.WriteFile(path, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mustSpectap(t, 0, aiperfArguments(t, server, "", "--mtbench", path, "--concurrency", "4", "--keep_texts", "--save_dir", dir)...)
	records := filepath.Join(dir, "t0_c4", "records.jsonl")
	mustSpectap(t, 0, "check", "--truth", truth, records)
	point, bad, err := readPoint(records)
	if err != nil || len(bad) > 0 || len(point.Records) != 8 {
		t.Fatalf("got %d records, %v, %v; want 8", len(point.Records), bad, err)
	}
	second := map[string]string{"0": "Then one.", "1": "Then two, with <b> & \"quotes\".", "2": "Then three.", "3": "Then four."}
	for _, r := range point.Records {
		if r.Labels.Point != "t0_c4" || r.Labels.Run != point.Run.ID || r.Labels.Category == "" {
			t.Errorf("got labels %+v", r.Labels)
		}
		if r.Labels.Turn == 1 && r.Prompt != second[r.Labels.Conversation] {
			t.Errorf("conversation %s has the second turn %q, want %q", r.Labels.Conversation, r.Prompt, second[r.Labels.Conversation])
		}
		if r.UserHash != "" || r.Thread != nil || r.NamedBy != "" {
			t.Errorf("a hash of the text was kept: %q, %+v", r.UserHash, r.Thread)
		}
	}
}

// A point whose run is not a whole good one fails, whatever AIPerf's exit code
// is, and keeps what AIPerf wrote.
func TestAIPerfFailures(t *testing.T) {
	f := func(name, behaviour, fault string, want ...string) {
		t.Run(name, func(t *testing.T) {
			cfg := fastEngine()
			cfg.Fault = fault
			server, _ := serveEngine(t, cfg)
			dir := t.TempDir()
			out, _ := mustSpectap(t, exitFailed, aiperfArguments(t, server, behaviour, "--mtbench", writeQuestions(t, 4), "--concurrency", "2", "--save_dir", dir)...)
			var file struct {
				Reason string
				Failed []struct {
					Conversation, Turn int
					Error              string
				} `json:"failed_requests"`
			}
			readJSON(t, filepath.Join(dir, "t0_c2.failed", "error.json"), &file)
			for _, text := range want {
				if !strings.Contains(file.Reason, text) || !strings.Contains(out, text) {
					t.Errorf("got reason %q, want %q in it and in\n%s", file.Reason, text, out)
				}
			}
			if strings.Contains(file.Reason, "may hold content") {
				t.Errorf("the reason holds the server's message: %s", file.Reason)
			}
			for _, kept := range []string{"records.jsonl", "aiperf/conversations.jsonl", "aiperf/output.log"} {
				if _, err := os.Stat(filepath.Join(dir, "t0_c2.failed", kept)); err != nil {
					t.Error(err)
				}
			}
			for _, gone := range []string{"configuration.json", "timing.json", "acceptance_rate.json"} {
				if _, err := os.Stat(filepath.Join(dir, "t0_c2.failed", gone)); err == nil {
					t.Errorf("%s marks a run", gone)
				}
			}
		})
	}
	f("some requests fail", "", "status500@1/4", "2 of 8 requests failed", "http_status", "AIPerf counts failed requests: 6 of 8 requests good, 2 failed (2 500 Internal Server Error)")
	f("answers break off", "", "cut@3/4", "2 of 8 requests failed", "truncated", "ClientPayloadError")
	f("in-band errors, a success to AIPerf", "", "error@2/4", "2 of 8 requests failed", "in_band_error")
	f("all requests fail", "allfail", "", "8 of 8 requests failed", "AIPerf ended (exit status 1) without profile_export_aiperf.json; its output")
	f("aborted by its threshold", "threshold", "status500@1/4", "requests failed", "AIPerf was cancelled: ")
	f("no exports, exit code 0", "noexport", "", "AIPerf ended (exit status 0) without profile_export_aiperf.json", "aiperf/output.log")
	f("no start", "nostart", "", "8 of 8 requests failed", "AIPerf did not ask it", "(exit status 1)", "Failed to load tokenizer")
	f("a conversation is left out", "drop", "", "2 of 8 requests failed; the first: AIPerf did not ask it", "AIPerf counts another number of requests: 6 of 8")
	f("a turn is asked twice", "twice", "", "1 of 8 requests failed; the first: the turn was asked more than once")
	f("texts are changed", "edits", "", "4 of 8 requests failed; the first: another text was asked than the question's")
	f("AIPerf alone says that one failed", "lies", "", "AIPerf counts failed requests: 7 of 8 requests good, 1 failed")
}

// What AIPerf cannot do, and an AIPerf that is not there or another, is refused
// before the server is asked.
func TestAIPerfRefused(t *testing.T) {
	questions, tokenizer := writeQuestions(t, 2), tokenizerFolder(t)
	f := func(name, want string, args ...string) {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"sweep", "--url", "http://127.0.0.1:9", "--wait", "0s", "--mtbench", questions, "--driver", "aiperf", "--save_dir", filepath.Join(t.TempDir(), "out")}, args...)
			_, stderr := mustSpectap(t, exitUsage, args...)
			if !strings.Contains(stderr, want) {
				t.Errorf("got %s, want %s", stderr, want)
			}
		})
	}
	f("not on PATH", "pip install aiperf==0.13.0", "--tokenizer", tokenizer)
	f("not there", "pip install aiperf==0.13.0", "--tokenizer", tokenizer, "--aiperf", "/nowhere/aiperf")
	f("not a program", "pip install aiperf==0.13.0", "--tokenizer", tokenizer, "--aiperf", questions)
	f("no tokenizer", "--tokenizer is not set", "--aiperf", standIn(t, ""))
	f("tokenizer not there", "/nowhere", "--aiperf", standIn(t, ""), "--tokenizer", "/nowhere")
	f("tokenizer of no files", "tokenizer.json", "--aiperf", standIn(t, ""), "--tokenizer", t.TempDir())
	f("completions", "--completions", "--aiperf", standIn(t, ""), "--tokenizer", tokenizer, "--completions")
	f("postprocess", "--postprocess gptoss", "--aiperf", standIn(t, ""), "--tokenizer", tokenizer, "--postprocess", "gptoss")
	f("stop string", "--include_stop_str_in_output", "--aiperf", standIn(t, ""), "--tokenizer", tokenizer, "--include_stop_str_in_output")
	f("old", "want 0.13", "--aiperf", standIn(t, "version 0.12.4"), "--tokenizer", tokenizer)
	f("no version", `it says "usage" for its version`, "--aiperf", standIn(t, "version usage"), "--tokenizer", tokenizer)
	f("other driver", `--driver "locust"`, "--driver", "locust")
}

// Requests of nobody's question are in no figure, and counted.
func TestAIPerfWithStrangers(t *testing.T) {
	server, _ := serveEngine(t, fastEngine())
	dir := t.TempDir()
	out, _ := mustSpectap(t, 0, aiperfArguments(t, server, "stranger", "--mtbench", writeQuestions(t, 2), "--save_dir", dir)...)
	if !strings.Contains(out, "t0_c1: 2 requests of none of the questions came through the measuring proxy and are in no figure") {
		t.Errorf("got\n%s\nwant the foreign requests counted", out)
	}
	var file collector.Speculation
	readJSON(t, filepath.Join(dir, "t0_c1", "speculation.json"), &file)
	if file.LeftOut["foreign"] != 2 || file.CrossCheck.Requests.Both != 4 || file.CrossCheck.Requests.OnlyOurs != 2 {
		t.Errorf("got %v left out and %+v, want 2 foreign and 2 only ours", file.LeftOut, file.CrossCheck.Requests)
	}
}

// A later AIPerf is tried, with a warning that stays in sweep.json.
func TestAIPerfOfAnotherVersion(t *testing.T) {
	server, _ := serveEngine(t, fastEngine())
	dir := t.TempDir()
	_, stderr := mustSpectap(t, 0, aiperfArguments(t, server, "version 0.14.1", "--mtbench", writeQuestions(t, 2), "--save_dir", dir)...)
	text, err := os.ReadFile(filepath.Join(dir, "sweep.json"))
	if err != nil || !strings.Contains(stderr, "AIPerf 0.14.1") || !bytes.Contains(text, []byte("AIPerf 0.14.1")) {
		t.Errorf("got %s and %s (%v), want a warning in both", stderr, text, err)
	}
}

// A sweep that is stopped stops AIPerf too and leaves nothing of the point.
func TestAIPerfStopped(t *testing.T) {
	engine, _ := serveEngine(t, fakevllm.Config{Seed: 7, Fault: "stall@2/3", Prefill: 1, Step: 1, StepPerRequest: 1})
	server, watched := watch(t, engine)
	ctx, cancel := context.WithCancel(context.Background())
	watched.seen = func(n int) {
		if n == 4 {
			cancel()
		}
	}
	dir := t.TempDir()
	var out, errs bytes.Buffer
	p := program{stdout: &out, stderr: &errs, env: map[string]string{}}
	code := p.run(ctx, aiperfArguments(t, server, "", "--mtbench", writeQuestions(t, 6), "--concurrency", "3", "--save_dir", dir))
	if code != 130 || !strings.Contains(out.String(), "not run: t0_c3") {
		t.Errorf("got exit code %d and\n%s%s, want 130 and the point named", code, out.String(), errs.String())
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*t0_c3*")); err != nil || len(left) > 0 {
		t.Errorf("got %v (%v) left of the point, want nothing", left, err)
	}
}

// collect reads AIPerf's files beside the records again.
func TestCollectCrossChecks(t *testing.T) {
	server, _ := serveEngine(t, fastEngine())
	dir, again := t.TempDir(), t.TempDir()
	mustSpectap(t, 0, aiperfArguments(t, server, "", "--mtbench", writeQuestions(t, 3), "--save_dir", dir)...)
	mustSpectap(t, 0, "collect", filepath.Join(dir, "t0_c1", "records.jsonl"), "--save_dir", again)
	got, err := os.ReadFile(filepath.Join(again, "speculation.json"))
	want, err2 := os.ReadFile(filepath.Join(dir, "t0_c1", "speculation.json"))
	if err != nil || err2 != nil || !bytes.Equal(got, want) || !bytes.Contains(got, []byte("cross_check")) {
		t.Errorf("collect makes another speculation.json (%v, %v):\n%s", err, err2, got)
	}
}
