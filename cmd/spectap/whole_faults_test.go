package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spectap/collector"
)

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
			if want := []string{"report.html", "summary.csv", "sweep.json", "t0_c2", "t0_c4.failed", "t0_c4.failed/error.json", "t0_c4.failed/records.jsonl"}; !slices.Equal(names, want) {
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
	var out, errs shared
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
	if len(left) != 5 || len(hidden) != 0 {
		t.Errorf("got %v and %v, want sweep.json, summary.csv, report.html, set_aside and t0_c1", left, hidden)
	}
	aside := filepath.Join(dir, "set_aside", "t0_c2.1")
	if kept, err := os.ReadFile(filepath.Join(aside, "records.jsonl")); err != nil || strings.Count(string(kept), "\n") < 2 || !strings.Contains(errs.String(), "the records of t0_c2, which was running, are in "+aside) {
		t.Errorf("got records %s (%v), want those of the point that was interrupted, and where they are:\n%s", kept, err, &errs)
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
	if !strings.HasPrefix(stderr, "spectap: cannot run this sweep:\n") {
		t.Errorf("got %s, want all below one headline", stderr)
	}
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
