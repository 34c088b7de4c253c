package fakevllm_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spectap/collector"
	"spectap/proxy/fakevllm"
	"spectap/proxy/tap"
)

var perStep = regexp.MustCompile(`,"per_step_accepted":\[[^]]*\],"per_step_drafted":\[[^]]*\]`)

func capture(t *testing.T, name string) (request []byte, real answer) {
	t.Helper()
	dir := filepath.Join("testdata", "vllm-0.32", name)
	request, err := os.ReadFile(filepath.Join(dir, "request.http"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "response.raw"))
	if err != nil {
		t.Fatal(err)
	}
	real = cut(t, raw)
	lists := "" // our level is summary: a body has null where the level detailed has lists, an event has nothing
	if real.chunks == nil {
		lists = `,"per_step_accepted":null,"per_step_drafted":null`
	}
	real.body = perStep.ReplaceAll(real.body, []byte(lists))
	return request, real
}

// as is the engine in the configuration of a capture: its prefix, and EOS where
// the real reply ended by it.
func as(name string, real answer, seed uint64) fakevllm.Config {
	cfg := fakevllm.Config{Model: "smollm2", MaxModelLen: 2048, DraftLength: 3, Seed: seed}
	switch name[:2] {
	case "dd":
		cfg.DraftLength = 4
	case "ns":
		cfg.StreamInterval = 4
	case "bf":
		cfg.APIKey = "sekret"
	}
	if bytes.Contains(real.body, []byte(`"finish_reason":"stop","stop_reason":null`)) {
		cfg.EOS = 0.06
	}
	return cfg
}

// TestHonesty sends the requests of the captures: for some seed (which decides how
// the reply ends, and in what order choices do) head, framing and the sequence of
// event shapes are the real server's.
func TestHonesty(t *testing.T) {
	for _, name := range strings.Fields(`dd-chat-stream-usage dd-chat-stream-cont-tokids dd-chat-stream-eos dd-chat-stream-max1
		dd-chat-stream-stop nd-chat-stream-nousage nd-chat-stream-contonly nd-chat-stream-str
		dd-comp-stream-usage dd-comp-stream-cont-tokids nd-comp-stream-nousage dd-comp-stream-stop ns-chat-stream-tokids
		dd-chat-nonstream ns-chat-nonstream nd-chat-nonstream-tokids nd-chat-nonstream-max1 dd-chat-nonstream-stop
		dd-comp-nonstream nd-comp-nonstream-eos nd-chat-xreqid nd-get-v1_models
		nd-chat-minp-t1-stream`) {
		t.Run(name, func(t *testing.T) { compare(t, name) })
	}
}

func compare(t *testing.T, name string) {
	request, real := capture(t, name)
	diff := ""
	for seed := range uint64(80) {
		_, addr := start(t, as(name, real, seed))
		raw, err := send(t, addr, request)
		if err != nil {
			t.Fatal(err)
		}
		ours := cut(t, raw)
		if d := cmp.Diff(real.status, ours.status) + cmp.Diff(real.names, ours.names); d != "" {
			t.Fatalf("head (-real +ours):\n%s", d)
		}
		if ours.whole != real.whole || len(ours.chunks) != len(ours.events()) || len(real.chunks) != len(real.events()) {
			t.Fatalf("framing: %d chunks of %d events, whole %v; real %d of %d, %v", len(ours.chunks), len(ours.events()), ours.whole, len(real.chunks), len(real.events()), real.whole)
		}
		if diff = cmp.Diff(real.shapes(), ours.shapes()); real.chunks == nil {
			diff = cmp.Diff(shape(string(real.body)), shape(string(ours.body)))
		}
		if diff == "" {
			sameRecord(t, name, request, real, ours)
			return
		}
	}
	t.Errorf("no seed gives the real shapes (-real +ours):\n%s", diff)
}

// sameRecord shows that both answers give the same kind of Record.
func sameRecord(t *testing.T, name string, request []byte, real, ours answer) {
	t.Helper()
	if !bytes.HasPrefix(request, []byte("POST")) {
		return
	}
	type kind struct {
		Status                             int
		ErrorKind, Engine, Finish, Missing string
		Done, Spec, Usage, Stop, Chunks    bool
		K                                  int
	}
	read := func(a answer) kind {
		content := "application/json"
		route := tap.RouteChat
		if bytes.Contains(request[:40], []byte("/v1/completions")) {
			route = tap.RouteCompletions
		}
		if a.chunks != nil {
			content = "text/event-stream; charset=utf-8"
		}
		p := tap.New(tap.Options{Route: route})
		p.Head(200, content, "")
		p.Observe(1, a.body)
		p.End(2, true)
		var r collector.Record
		p.Fill(&r)
		k := kind{r.Status, r.ErrorKind, r.Engine, r.Finish, r.SpecMissing, r.SawDone, r.Spec != nil, r.Usage != nil, r.StopReason != "", len(r.Chunks) > 0, 0}
		if r.Spec != nil {
			k.K = r.Spec.DraftLength
		}
		return k
	}
	if d := cmp.Diff(read(real), read(ours)); d != "" {
		t.Errorf("%s: Records differ (-real +ours):\n%s", name, d)
	}
}

// TestErrorsAsCaptured compares whole bodies: refusals are byte for byte vLLM's.
func TestErrorsAsCaptured(t *testing.T) {
	for _, name := range strings.Fields(`nd-chat-err-ct nd-chat-err-ctx
		nd-chat-err-get nd-chat-err-maxtok0 nd-chat-err-model nd-chat-err-model-stream nd-chat-err-noct nd-chat-err-usage-nostream nd-chat-minp-t1 nd-chat-temp2_5
		nd-chat-stream-n2-greedy bf-chat-noauth nd-get-nope nd-get-version nd-get-health nd-head-health nd-chat-minp-t1-stream`) {
		t.Run(name, func(t *testing.T) {
			request, real := capture(t, name)
			_, addr := start(t, as(name, real, 1))
			raw, err := send(t, addr, request)
			if err != nil {
				t.Fatal(err)
			}
			ours := cut(t, raw)
			if d := cmp.Diff(real.status, ours.status) + cmp.Diff(real.names, ours.names) + cmp.Diff(string(real.body), string(ours.body)); d != "" {
				t.Errorf("(-real +ours):\n%s", d)
			}
		})
	}
}

// TestInvalidAsCaptured: what vLLM's schema refuses gets its status, its kind and
// its shape; the words of the parser are our own.
func TestInvalidAsCaptured(t *testing.T) {
	for _, name := range strings.Fields(`nd-chat-err-arr nd-chat-err-badjson nd-chat-err-empty nd-chat-err-nomessages nd-chat-err-temptype`) {
		t.Run(name, func(t *testing.T) {
			request, real := capture(t, name)
			_, addr := start(t, as(name, real, 1))
			raw, err := send(t, addr, request)
			if err != nil {
				t.Fatal(err)
			}
			ours := cut(t, raw)
			if d := cmp.Diff(real.status, ours.status) + cmp.Diff(real.names, ours.names) + cmp.Diff(shape(string(real.body)), shape(string(ours.body))); d != "" {
				t.Errorf("(-real +ours):\n%s", d)
			}
			if !bytes.Contains(ours.body, []byte(`"type":"Bad Request"`)) {
				t.Errorf("got %s", ours.body)
			}
		})
	}
}
