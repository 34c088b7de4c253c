package sweep

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// A block may be missing by chance: preflight asks up to three times, with
// different prompts, before it says that there are none.
func TestPreflightTriesThree(t *testing.T) {
	f := func(missing int, wantCode, wantTries int) {
		t.Helper()
		s := newScripted(t, func(q sent) answer {
			a := echo(q)
			a.noBlock = q.n < missing
			return a
		})
		p := plan(t, s, Config{})
		result, err := newSweep(p, s).Run(context.Background())
		if got := ExitCode(result, err); got != wantCode {
			t.Errorf("%d missing: got exit code %d (%v), want %d", missing, got, err, wantCode)
		}
		prompts := map[string]bool{}
		for _, q := range s.sent {
			if q.preflight() {
				prompts[q.history[0].Content] = true
			}
		}
		if len(prompts) != wantTries {
			t.Errorf("%d missing: got %d different short requests, want %d", missing, len(prompts), wantTries)
		}
	}
	f(0, 0, 1)
	f(1, 0, 2)
	f(2, 0, 3)
	f(3, 4, 3)
}

// Without statistics nothing is asked or written, and the message names the
// setting of the engine and the way without statistics.
func TestNoStatistics(t *testing.T) {
	f := func(ownedBy string, want ...string) {
		t.Helper()
		s := newScripted(t, func(q sent) answer { a := echo(q); a.noBlock = true; return a })
		s.models = strings.Replace(oneModel, `"owned_by":"vllm"`, `"owned_by":"`+ownedBy+`"`, 1)
		p := plan(t, s, Config{})
		result, err := newSweep(p, s).Run(context.Background())
		if !errors.Is(err, ErrNoStatistics) || ExitCode(result, err) != 4 {
			t.Fatalf("%s: got %v", ownedBy, err)
		}
		for _, text := range append(want, "--no_spec_stats") {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: the message has no %q: %v", ownedBy, text, err)
			}
		}
		if len(s.requests()) != 0 || exists(p.Config.SaveDir) {
			t.Errorf("%s: got %d requests after preflight, folder made: %v", ownedBy, len(s.requests()), exists(p.Config.SaveDir))
		}
		if !slices.Equal(result.NotRun, []string{"t0_c1"}) {
			t.Errorf("%s: got not run %v", ownedBy, result.NotRun)
		}
	}
	f("vllm", "--per-request-spec-decode-metrics summary", "0.29.0")
	f("sglang", "return_spec_tokens_details")
	f("tensorrt_llm", "per_request_spec_decode_stats", "YAML")
	f("llamacpp", "--model-draft")
}

// --no_spec_stats asks for token counts instead of a block.
func TestNoSpecStats(t *testing.T) {
	f := func(bare answer, wantCode int) {
		t.Helper()
		s := newScripted(t, func(q sent) answer { bare.noBlock = true; return bare })
		p := plan(t, s, Config{NoSpecStats: true})
		result, err := newSweep(p, s).Run(context.Background())
		if got := ExitCode(result, err); got != wantCode {
			t.Errorf("%+v: got exit code %d (%v), want %d", bare, got, err, wantCode)
		}
	}
	f(answer{}, 0)
	f(answer{noCounts: true}, 4)
	f(answer{late: true}, 4) // the total with the last event tells no steps
}

// A server that refuses the short request is explained, with its own words.
func TestPreflightRefused(t *testing.T) {
	f := func(status int, body string, wantCode int, want string) {
		t.Helper()
		s := newScripted(t, func(sent) answer { return answer{status: status, body: body} })
		p := plan(t, s, Config{})
		result, err := newSweep(p, s).Run(context.Background())
		if got := ExitCode(result, err); got != wantCode || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: got exit code %d, %v; want %d and %q", status, got, err, wantCode, want)
		}
	}
	f(400, `{"error":{"message":"min_p is not supported"}}`, 2, "min_p is not supported")
	f(401, `{"error":"Unauthorized"}`, 2, "--api_key")
	f(500, `{"error":"boom"}`, 1, "boom")
}

// A proxy that loses Records is noticed.
func TestNoRecord(t *testing.T) {
	s := newScripted(t, echo)
	p := plan(t, s, Config{})
	w := newSweep(p, s)
	w.Records.(*recorder).forget = true
	if _, err := w.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "no Record") {
		t.Errorf("got %v, want an error about the missing Record", err)
	}
}

// An unknown engine is learned from the first answer, and then asked in full.
func TestEngineLearned(t *testing.T) {
	s := newScripted(t, func(q sent) answer { a := echo(q); a.noBlock = q.n == 0; return a })
	s.models = strings.Replace(oneModel, `"owned_by":"vllm"`, `"owned_by":"gateway"`, 1)
	p := plan(t, s, Config{})
	w := newSweep(p, s)
	if _, err := w.identify(context.Background(), nil); err == nil {
		t.Error("no model is listed or named: want an error")
	}
	srv := server{model: "m"}
	if _, err := w.preflight(context.Background(), &srv); err != nil || srv.engine != engineVLLM || srv.version != "0.32.0" {
		t.Fatalf("got %+v, %v", srv, err)
	}
	if s.sent[0].body["top_k"] != nil || s.sent[1].body["top_k"] == nil {
		t.Errorf("got top_k %s then %s, want none and one", s.sent[0].body["top_k"], s.sent[1].body["top_k"])
	}
}

// The sweep waits for a server that loads, says so, and gives up after --wait.
func TestWait(t *testing.T) {
	f := func(name string, wait time.Duration, health func(int) int, wantCode, wantCalls int) {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, echo)
			s.health = health
			p := plan(t, s, Config{Wait: wait})
			w := newSweep(p, s)
			var out strings.Builder
			w.Progress = &out
			result, err := w.Run(context.Background())
			if got := ExitCode(result, err); got != wantCode {
				t.Errorf("got exit code %d (%v), want %d", got, err, wantCode)
			}
			if got := s.calls["/health"]; got != wantCalls {
				t.Errorf("got %d calls of /health, want %d", got, wantCalls)
			}
			if wantCalls > 1 && !strings.Contains(out.String(), "waiting for the server: /health answers 503") {
				t.Errorf("got progress %q", out.String())
			}
			if wantCode == 3 && !strings.Contains(err.Error(), "--wait") {
				t.Errorf("got %v, want --wait named", err)
			}
		})
	}
	loading := func(until int) func(int) int {
		return func(call int) int {
			if call < until {
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		}
	}
	f("ready", 0, nil, 0, 1)
	f("loads for 3 s", 10*time.Second, loading(3), 0, 4)
	f("does not wait", 0, loading(1), 3, 1)
	f("gives up", 5*time.Second, loading(100), 3, 6)
	f("has no /health", 0, func(int) int { return http.StatusNotFound }, 0, 1)
}

// Nobody listens.
func TestNotReachable(t *testing.T) {
	s := newScripted(t, echo)
	p := plan(t, s, Config{Wait: 2 * time.Second})
	s.server.Close()
	result, err := newSweep(p, s).Run(context.Background())
	if !errors.Is(err, ErrNotReachable) || ExitCode(result, err) != 3 {
		t.Errorf("got %v, want ErrNotReachable", err)
	}
	if !strings.Contains(err.Error(), "no connection") {
		t.Errorf("got %v, want the state named", err)
	}
	if exists(p.Config.SaveDir) {
		t.Error("save_dir was made")
	}
}

// A server that is restarted after a point is waited for; one that stays away
// ends the sweep, and the points that are left are named, not failed.
func TestServerGoesAway(t *testing.T) {
	f := func(away, wantCode int, wantNotRun []string) {
		t.Helper()
		s := newScripted(t, echo)
		s.health = func(call int) int { // the first call is the sweep's start
			if call > 0 && call <= away {
				return http.StatusBadGateway
			}
			if call > 0 { // an adapter was loaded meanwhile
				s.models = strings.Replace(oneModel, "[", `[{"id":"adapter","owned_by":"vllm","parent":"m"},`, 1)
			}
			return http.StatusOK
		}
		p := plan(t, s, Config{Concurrency: []string{"1", "2", "4"}, Wait: 10 * time.Second})
		result, err := newSweep(p, s).Run(context.Background())
		if got := ExitCode(result, err); got != wantCode {
			t.Errorf("away for %d s: got exit code %d (%v), want %d", away, got, err, wantCode)
		}
		if len(result.Failed) != 0 || !slices.Equal(result.NotRun, wantNotRun) || len(result.Summaries) != 3-len(wantNotRun) {
			t.Errorf("away for %d s: got %+v, want not run %v and none failed", away, result, wantNotRun)
		}
	}
	f(5, 0, nil)
	f(100, 3, []string{"t0_c2", "t0_c4"})
}

// The model is the one that is listed; several must be named.
func TestModels(t *testing.T) {
	f := func(name, cards, model, want string, wantErr ...string) {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, echo)
			s.models = `{"data":[` + cards + `]}`
			p := plan(t, s, Config{Model: model})
			w := newSweep(p, s)
			w.progress = newProgress(nil, false, w.now)
			srv, err := w.connect(context.Background())
			if len(wantErr) > 0 {
				if err == nil || ExitCode(Result{}, err) != 2 {
					t.Fatalf("got %v, want a usage error", err)
				}
				for _, text := range wantErr {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("the error has no %q: %v", text, err)
					}
				}
				return
			}
			if err != nil || srv.model != want || srv.engine != engineVLLM || srv.version != "0.32.0" {
				t.Errorf("got %+v, %v; want model %q of vllm 0.32.0", srv, err, want)
			}
		})
	}
	base := `{"id":"a","owned_by":"vllm","root":"org/a","parent":null}`
	adapter := `{"id":"lora","owned_by":"vllm","root":"/x","parent":"a"}`
	other := `{"id":"b","owned_by":"vllm","root":"org/a","parent":null}`
	f("one", base, "", "a")
	f("named", base+","+adapter, "lora", "lora")
	f("adapter", base+","+adapter, "", "", `"a"`, `"lora" (adapter of "a")`, "--model")
	f("two names", base+","+other, "", "", `"b" (another name of "a")`)
	f("unknown", base, "c", "", `no model "c"`, `"a"`)
	f("none", "", "", "", "lists no model")
	f("none but named", "", "c", "c")
}

// A missing or wrong key is said plainly.
func TestUnauthorized(t *testing.T) {
	f := func(key, want string) {
		t.Helper()
		s := newScripted(t, echo)
		s.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/models" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
		p := plan(t, s, Config{APIKey: key, Wait: time.Minute})
		result, err := newSweep(p, s).Run(context.Background())
		if ExitCode(result, err) != 2 || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if key != "" && strings.Contains(err.Error(), key) {
			t.Errorf("the message holds the key: %v", err)
		}
	}
	f("", "no key is set")
	f("hunter2", "does not take the key")
}

// What the proxy in between says of a server is told; of another proxy's 502 it is
// only known that no server is there.
func TestStateOfServer(t *testing.T) {
	f := func(status int, body, want string) {
		t.Helper()
		if got := answersWith("/health", status, []byte(body)).why; got != want {
			t.Errorf("%d %s: got %q, want %q", status, body, got, want)
		}
	}
	f(503, "", "/health answers 503")
	f(502, "<html>", "no connection")
	f(504, `{"error":"late"}`, "no connection")
	f(502, `{"error":{"message":"cannot connect","type":"spectap_upstream_refused"}}`, "no connection")
	f(502, `{"error":{"message":"upstream's answer is not HTTP/1.1","type":"spectap_upstream_protocol"}}`, "no answer: upstream's answer is not HTTP/1.1")
}
