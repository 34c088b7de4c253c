package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spectap/proxy/fakevllm"
)

// fastEngine is a simulated engine that takes no time to speak of.
func fastEngine() fakevllm.Config {
	return fakevllm.Config{Seed: 7, DraftLength: 5, Prefill: time.Microsecond, Step: time.Microsecond, StepPerRequest: time.Microsecond}
}

// serveEngine serves a simulated engine on loopback and returns its URL and the
// path of its log.
func serveEngine(t *testing.T, cfg fakevllm.Config) (url, truth string) {
	t.Helper()
	truth = filepath.Join(t.TempDir(), "truth.jsonl")
	log, err := os.Create(truth)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Truth = log
	engine, err := fakevllm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- engine.Serve(listener) }()
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
		<-served
		log.Close()
	})
	return "http://" + listener.Addr().String(), truth
}

// spectap runs one command line in this process.
func spectap(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs shared // a proxy's goroutines log beside the command
	p := program{stdout: &out, stderr: &errs, env: map[string]string{}, argv: append([]string{"spectap"}, args...)}
	code = p.run(context.Background(), args)
	return code, out.String(), errs.String()
}

// mustSpectap runs a command line that must end with the given code.
func mustSpectap(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := spectap(t, args...)
	if code != want {
		t.Fatalf("spectap %s: got exit code %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), code, want, stdout, stderr)
	}
	return stdout, stderr
}

// writeQuestions writes n two-turn questions of our own in MT-Bench's form.
func writeQuestions(t *testing.T, n int) string {
	t.Helper()
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `{"question_id": %d, "category": "c%d", "turns": ["Question %d: describe thing number %d.", "And what about thing %d?"]}`+"\n", 81+i, i/10, i, i, i+1)
	}
	path := filepath.Join(t.TempDir(), "question.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The sweep's figures are the engine's own, in both views, at every point.
func TestSweepEqualsGroundTruth(t *testing.T) {
	f := func(name string, cfg fakevllm.Config, args ...string) {
		t.Run(name, func(t *testing.T) {
			url, truth := serveEngine(t, cfg)
			dir := t.TempDir()
			mustSpectap(t, 0, append([]string{"sweep", "--url", url, "--temperature", "0", "1",
				"--concurrency", "1", "8", "--output_length", "64", "--save_dir", dir}, args...)...)
			records, _ := filepath.Glob(filepath.Join(dir, "t*", "records.jsonl"))
			if len(records) != 4 {
				t.Fatalf("got %d records files, want 4", len(records))
			}
			out, _ := mustSpectap(t, 0, append([]string{"check", "--truth", truth}, records...)...)
			if n := strings.Count(out, " equal:"); n != 4 {
				t.Errorf("got %d equal points, want 4:\n%s", n, out)
			}
		})
	}
	questions := writeQuestions(t, 23)
	draftless := fastEngine()
	draftless.Draftless = 0.7 // as n-gram drafting
	draftless.EOS = 0.02
	f("MT-Bench", fastEngine(), "--mtbench", questions)
	f("steps without drafts, replies that end at EOS", draftless, "--mtbench", questions)
	f("the server's view", draftless, "--mtbench", questions, "--acceptance", "server")
	f("Spec-Bench", draftless, "--specbench", questions, "--num_requests", "12", "--select", "stratified")
	f("by name", fastEngine(), "--dataset", "specbench", "--dataset_path", questions, "--ignore_eos")
}

// collect makes the same files from the records alone.
func TestCollectMakesTheSameFiles(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	dir, again := t.TempDir(), filepath.Join(t.TempDir(), "again")
	mustSpectap(t, 0, "sweep", "--url", url, "--mtbench", writeQuestions(t, 12), "--concurrency", "8", "--output_length", "32", "--keep_texts", "--save_dir", dir)
	mustSpectap(t, 0, "collect", filepath.Join(dir, "t0_c8", "records.jsonl"), "--save_dir", again)
	for _, name := range []string{"acceptance_rate.json", "timing.json", "mtbench_responses.jsonl", "configuration.json", "speculation.json"} {
		want, err := os.ReadFile(filepath.Join(dir, "t0_c8", name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(again, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// With 30 % of the blocks dropped no point fails, Average_AL stays within 0.02
// of the engine's log and the point's histogram comes from the counters.
func TestDroppedBlocks(t *testing.T) {
	cfg := fastEngine()
	cfg.DropBlocks = 0.3
	url, truthPath := serveEngine(t, cfg)
	dir := t.TempDir()
	mustSpectap(t, 0, "sweep", "--url", url, "--mtbench", writeQuestions(t, 40), "--concurrency", "8", "--output_length", "128", "--save_dir", dir)
	log, err := readTruth(truthPath)
	if err != nil {
		t.Fatal(err)
	}
	point, _, err := readPoint(filepath.Join(dir, "t0_c8", "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := comparePoint(point, log)
	if err != nil {
		t.Fatal(err)
	}
	if d := c.ours[0] - c.engine[0]; d > 0.02 || d < -0.02 {
		t.Errorf("got Average_AL %v, the engine's log says %v", c.ours[0], c.engine[0])
	}
	missing := 0
	var want []int
	for _, r := range point.Records {
		if r.Spec == nil {
			missing++
		}
		for j, n := range log[r.RequestID].Histogram {
			for len(want) <= j {
				want = append(want, 0)
			}
			want[j] += n
		}
	}
	if missing < 10 {
		t.Errorf("got %d requests without a block, want about a third of 80", missing)
	}
	text, err := os.ReadFile(filepath.Join(dir, "t0_c8", "speculation.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Histogram struct {
			Counters []int `json:"from_counters"`
		} `json:"accepted_histogram"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if got := file.Histogram.Counters; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got histogram %v from the counters, the engine's log says %v", got, want)
	}
}
