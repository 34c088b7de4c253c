package sweep

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// The user and password of the URL are sent where no key is set, and shown nowhere.
func TestBasicAuth(t *testing.T) {
	s := newScripted(t, echo)
	p := plan(t, s, Config{})
	p.Config.URL = strings.Replace(s.server.URL, "http://", "http://ann:secret@", 1)
	if _, err := newSweep(p, s).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, q := range s.sent {
		if got, want := q.header.Get("Authorization"), "Basic YW5uOnNlY3JldA=="; got != want {
			t.Fatalf("got Authorization %q, want %q", got, want)
		}
	}
}

// Engines are known by their owned_by, and versions from where each tells them.
func TestEngineOf(t *testing.T) {
	for ownedBy, want := range map[string]string{"vllm": "vllm", "sglang": "sglang", "tensorrt_llm": "trtllm", "llamacpp": "llamacpp", "openai": ""} {
		if got := engineOf(ownedBy); got != want {
			t.Errorf("%s: got %q, want %q", ownedBy, got, want)
		}
	}
	s := newScripted(t, echo)
	w := newSweep(plan(t, s, Config{}), s)
	srv, err := w.identify(context.Background(), []modelCard{{ID: "m", OwnedBy: "somebody"}})
	if err != nil || srv.engine != engineVLLM {
		t.Errorf("a server with /version: got %+v, %v; want vllm", srv, err)
	}
	if c := w.counters(context.Background(), engineTRTLLM); c != nil || s.calls["/metrics"] != 0 {
		t.Error("TensorRT-LLM's /metrics was read, which drains it")
	}
}

// A server that will not come back is not waited for.
func TestGone(t *testing.T) {
	s := newScripted(t, echo)
	p := plan(t, s, Config{Wait: time.Hour})
	s.server.Close()
	asked := 0
	p.Config.Gone = func() error {
		if asked++; asked < 3 {
			return nil
		}
		return errors.New("it ended")
	}
	w := newSweep(p, s)
	start := w.now()
	result, err := w.Run(context.Background())
	if ExitCode(result, err) != 3 || !strings.HasSuffix(err.Error(), "it ended") {
		t.Errorf("got %v, want ErrNotReachable with the reason", err)
	}
	if waited := w.now().Sub(start); waited != 2*time.Second {
		t.Errorf("waited %v, want 2s", waited)
	}
}
