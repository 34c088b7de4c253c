package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spectap/collector"
	"spectap/proxy/fakevllm"
)

// sharedBuffer is a buffer for several writers.
type sharedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (s *sharedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sharedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// execSpectap executes a command in this process; env is added to ours.
func execSpectap(t *testing.T, want int, env map[string]string, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs sharedBuffer // the command writes to them too
	p := program{stdout: &out, stderr: &errs, env: environment(os.Environ()), argv: append([]string{"spectap"}, args...)}
	p.env[processVar] = "client"
	for name, value := range env {
		p.env[name] = value
	}
	if code := p.run(context.Background(), args); code != want {
		t.Fatalf("spectap %s: got exit code %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), code, want, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// attributionOf reads the report of a point.
func attributionOf(t *testing.T, dir string) collector.Attribution {
	t.Helper()
	var file struct{ Attribution *collector.Attribution }
	readJSON(t, filepath.Join(dir, "speculation.json"), &file)
	if file.Attribution == nil {
		t.Fatal("speculation.json has no attribution")
	}
	return *file.Attribution
}

// equalsTruth holds a point against the engine's log. Conversations that could not
// be measured are left out, and counted.
func equalsTruth(t *testing.T, dir, truth string) (leftOut int) {
	t.Helper()
	log, err := readTruth(truth)
	if err != nil {
		t.Fatal(err)
	}
	point, _, err := readPoint(filepath.Join(dir, "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	_, failures := point.Conversations(collector.ViewClient)
	for _, f := range failures {
		if f.Conversation >= 0 && !point.Run.Questions[f.Conversation].NotAsked {
			point.Run.Questions[f.Conversation].NotAsked = true
			leftOut++
		}
	}
	point.Records = slices.DeleteFunc(point.Records, func(r *collector.Record) bool {
		return r.SetApart == "" && slices.ContainsFunc(failures, func(f collector.Failure) bool { return fmt.Sprint(f.Conversation) == r.Labels.Conversation })
	})
	c, err := comparePoint(point, log)
	if err != nil {
		t.Fatal(err)
	}
	if !c.equal() {
		t.Errorf("%s differs from the engine's log: %+v", dir, c)
	}
	var runs []struct {
		AverageAL float64 `json:"Average_AL"`
	}
	readJSON(t, filepath.Join(dir, "acceptance_rate.json"), &runs)
	if len(runs) != 1 || runs[0].AverageAL != c.engine[0] {
		t.Errorf("got Average_AL %v in the file, the engine's log says %v", runs, c.engine[0])
	}
	return leftOut
}

// fateOfRecords counts the Records of a file by error kind, or by why they were set apart.
func fateOfRecords(t *testing.T, dir string) map[string]int {
	t.Helper()
	point, _, err := readPoint(filepath.Join(dir, "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, r := range point.Records {
		n[strings.TrimPrefix(r.SetApart+"/"+r.ErrorKind, "/")]++
	}
	return n
}

// Whatever client asks, the point's figures are the engine's own, and every
// request is accounted for.
func TestExecEqualsGroundTruth(t *testing.T) {
	const n = 12
	type want struct {
		code    int
		by      string // conversations_by
		apart   string // requests_set_apart_by_reason
		asked   int
		leftOut int    // conversations
		fates   string // of the records
	}
	clean := func(by string) want { return want{by: by, apart: "map[]", asked: n, fates: "map[:24]"} }
	f := func(name string, cfg fakevllm.Config, client string, w want) {
		t.Run(name, func(t *testing.T) {
			url, truth := serveEngine(t, cfg)
			dir, questions := t.TempDir(), writeQuestions(t, 15)
			args := append([]string{"exec", "--url", url, "--save_dir", dir, "--mtbench", questions, "--temperature", "0", "--concurrency", "4", "--"},
				testProcess(append([]string{"--questions", questions, "-n", fmt.Sprint(n), "-c", "4"}, strings.Fields(client)...)...)...)
			_, stderr := execSpectap(t, w.code, map[string]string{"CLIENT_PREFIX": "id"}, args...)
			point := filepath.Join(dir, "t0_c4")
			if got := equalsTruth(t, point, truth); got != w.leftOut {
				t.Errorf("got %d conversations left out, want %d\n%s", got, w.leftOut, stderr)
			}
			var spec collector.Speculation
			readJSON(t, filepath.Join(point, "speculation.json"), &spec)
			if w.leftOut == 0 && spec.Audit.Verdict != collector.AuditExact {
				t.Errorf("got audit %q (%s), want %s", spec.Audit.Verdict, spec.Audit.Reason, collector.AuditExact)
			}
			a := attributionOf(t, point)
			apart := 0
			for _, count := range a.SetApart {
				apart += count
			}
			if fmt.Sprint(a.By) != w.by || fmt.Sprint(a.SetApart) != w.apart || a.Asked != w.asked || a.Questions != 15 || a.Attributed+apart != a.Requests {
				t.Errorf("got %+v, want %+v\n%s", a, w, stderr)
			}
			if got := fmt.Sprint(fateOfRecords(t, point)); got != w.fates {
				t.Errorf("got records %s, want %s\n%s", got, w.fates, stderr)
			}
			if w.apart != "map[]" && !strings.Contains(stderr, "set apart, in no figure:") {
				t.Errorf("what was set apart is not said:\n%s", stderr)
			}
		})
	}
	draftless := fastEngine()
	draftless.Draftless, draftless.EOS = 0.5, 0.02
	f("no headers", draftless, "", clean("map[history:12]"))
	f("X-Correlation-ID", draftless, "-named correlation", clean("map[x-correlation-id:12]"))
	f("X-Session-Affinity", fastEngine(), "-named affinity", clean("map[x-session-affinity:12]"))
	f("baggage", fastEngine(), "-named baggage", clean("map[baggage:12]"))
	f("replies that are not replayed", fastEngine(), "-forget", clean("map[history:12]"))
	f("a client that resets its connections behind [DONE]", draftless, "-wire rst", clean("map[history:12]"))
	f("AIPerf: ready probe and warm-up", fastEngine(), "-wire aiperf -probe -warm 3",
		want{by: "map[x-correlation-id:12]", apart: "map[ready_probe:1 warm_up:3]", asked: n, fates: "map[:24 ready_probe/:1 warm_up/:3]"})
	f("foreign questions", fastEngine(), "-foreign 2",
		want{code: 1, by: "map[history:12]", apart: "map[foreign:2]", asked: n, fates: "map[:24 foreign/:2]"})
	slow := draftless
	slow.Step = 2 * time.Millisecond
	f("a client that leaves", slow, "-leave 5",
		want{code: 1, by: "map[history:12]", apart: "map[]", asked: n, leftOut: 1, fates: "map[:23 client_gone:1]"})
	failing := fastEngine()
	failing.Fault = "status503@0/3" // of six requests, turn 1 of the second conversation and turn 2 of the third
	f("turns fail and the next is asked", failing, "-c 1",
		want{code: 1, by: "map[history:12]", apart: "map[]", asked: n, leftOut: 8, fates: "map[:16 http_status:8]"})
	f("turns fail and the next is asked, AIPerf", failing, "-c 1 -wire aiperf",
		want{code: 1, by: "map[x-correlation-id:12]", apart: "map[]", asked: n, leftOut: 8, fates: "map[:16 http_status:8]"})
	f("turns fail and are asked again", failing, "-c 1 -on_fail retry",
		want{by: "map[history:12]", apart: "map[superseded:11]", asked: n, fates: "map[:24 superseded/http_status:11]"})
	f("half of the file", fastEngine(), "-n 6", want{by: "map[history:6]", apart: "map[]", asked: 6, fates: "map[:12]"})
	f("the command's exit code", fastEngine(), "-code 7", want{code: 7, by: "map[history:12]", apart: "map[]", asked: n, fates: "map[:24]"})
}

// Without a question file every conversation counts, by the generic metric, and
// nothing that could be checked against a text is kept.
func TestExecWithoutQuestions(t *testing.T) {
	url, truth := serveEngine(t, fastEngine())
	dir, questions := t.TempDir(), writeQuestions(t, 8)
	out, stderr := execSpectap(t, 0, map[string]string{"CLIENT_PREFIX": "id"}, append([]string{"exec", "--url", url + "/v1", "--save_dir", dir, "--label", "mine", "--"},
		testProcess("-url", "{url}", "--questions", questions, "-n", "8", "-c", "4", "-warm", "2")...)...)
	point := filepath.Join(dir, "mine")
	if n := equalsTruth(t, point, truth); n != 0 {
		t.Errorf("got %d conversations left out, want none\n%s", n, stderr)
	}
	if a := attributionOf(t, point); fmt.Sprint(a.By) != "map[alone:2 history:8]" || a.Questions != 0 || a.Attributed != 18 {
		t.Errorf("got %+v, want 8 conversations and 2 single questions", a)
	}
	text, err := os.ReadFile(filepath.Join(point, "records.jsonl"))
	if err != nil || bytes.Contains(text, []byte("_hash")) || bytes.Contains(text, []byte(`"thread"`)) || bytes.Contains(text, []byte("describe thing")) {
		t.Errorf("records.jsonl holds hashes or texts (%v)", err)
	}
	names := []string{}
	entries, _ := os.ReadDir(point)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"acceptance_rate.json", "configuration.json", "performance.json", "records.jsonl", "speculation.json", "speculation_profile.json", "timing.json"}; !slices.Equal(names, want) {
		t.Errorf("got files %v, want %v", names, want)
	}
	if out != "" {
		t.Errorf("spectap wrote %q to the command's stdout", out)
	}
}

// What the flags say is what the server is asked for, whatever the command says;
// without them the command's own values stay. Answers that do not stream are measured too.
func TestExecSampling(t *testing.T) {
	f := func(name, temperature, limit string, events int, label string, args, client []string) {
		t.Run(name, func(t *testing.T) {
			engine, truth := serveEngine(t, fastEngine())
			server, watched := watch(t, engine)
			dir, questions := t.TempDir(), writeQuestions(t, 2)
			full := append([]string{"exec", "--url", server, "--save_dir", dir, "--label", "p", "--mtbench", questions}, args...)
			_, stderr := execSpectap(t, 0, map[string]string{"CLIENT_PREFIX": "id"}, append(append(full, "--"), testProcess(append([]string{"--questions", questions, "-n", "2"}, client...)...)...)...)
			for _, body := range watched.bodies {
				got := string(body["max_tokens"]) + string(body["max_completion_tokens"])
				if string(body["temperature"]) != temperature || got != limit {
					t.Errorf("got temperature %s, limit %s; want %s, %s", body["temperature"], got, temperature, limit)
				}
			}
			point, _, err := readPoint(filepath.Join(dir, "p", "records.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			if len(watched.bodies) != 4 || fmt.Sprint(point.Run.Temperature) != label || min(len(point.Records[0].Chunks), 2) != events {
				t.Errorf("got %d requests, temperature %v, %d chunks", len(watched.bodies), point.Run.Temperature, len(point.Records[0].Chunks))
			}
			if said := strings.Contains(stderr, "4 of 4 requests were sent with another temperature than 0.2"); said != (label != temperature) {
				t.Errorf("got\n%s\nwant a word on the temperature if it is not the label's", stderr)
			}
			if events > 0 {
				equalsTruth(t, filepath.Join(dir, "p"), truth)
				return
			}
			var runs []any
			readJSON(t, filepath.Join(dir, "p", "acceptance_rate.json"), &runs)
			if _, err := os.Stat(filepath.Join(dir, "p", "timing.json")); len(runs) != 1 || err == nil || !strings.Contains(stderr, "timing.json is not written: no answer was streamed") {
				t.Errorf("want acceptance without timing, and a word on it:\n%s", stderr)
			}
		})
	}
	f("the command's own", "0.7", "48", 2, "0.7", nil, nil)
	f("flags win", "0.2", "16", 2, "0.2", []string{"--temperature", "0.2", "--max_tokens", "16"}, nil)
	f("flags fill", "0.7", "48", 2, "0.2", []string{"--temperature", "0.2", "--max_tokens", "16", "--override=false"}, nil)
	f("not streamed", "0.7", "48", 0, "0.7", nil, []string{"-stream=false"})
}
