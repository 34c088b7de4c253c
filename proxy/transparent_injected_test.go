package proxy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spectap/proxy/tap"
)

var finishes = regexp.MustCompile(`"finish_reason":\s*"`)

// captureDir finds a capture in one of the folders of captures.
func captureDir(t testing.TB, name string) string {
	t.Helper()
	for _, folder := range []string{filepath.Join("tap", "testdata", "vllm-0.32"), filepath.Join("testdata", "routes")} {
		if dir := filepath.Join(folder, name); exists(dir) {
			return dir
		}
	}
	t.Fatalf("no capture %q", name)
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// unasking is the request of a capture without its stream_options, as a client
// sends it that asks for no usage, and the mode in which we ask for what the
// capture has; "" where it asked for nothing.
func unasking(t testing.TB, request string) (path, text, mode string) {
	t.Helper()
	head, body, _ := strings.Cut(request, "\r\n\r\n")
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &members); err != nil {
		t.Fatal(err)
	}
	switch options := string(members["stream_options"]); {
	case strings.Contains(options, "continuous_usage_stats"):
		mode = "tokens"
	case options != "":
		mode = "usage"
	}
	delete(members, "stream_options")
	out, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(head)[1], string(out), mode
}

// Every kind of answer of a real vLLM, asked by us for usage, is to a client that
// did not ask what the engine's answer is without it: the events that we asked for
// are cut by an independent reading of the whole (referenceCut), which equals real
// uninjected answers (TestCutEqualsUninjected). Each event is sent when the client
// has got what is its due of the one before; a finish event may wait for the next.
func TestInjectedStreams(t *testing.T) {
	th := openTheatre(t)
	servers := map[string]*stack{}
	for _, mode := range []string{"usage", "tokens"} {
		cfg := testConfig(t, upstreamOf(th.scripted))
		cfg.Measure, cfg.Hold = mode, patience
		servers[mode] = startProxy(t, cfg, nil)
	}
	f := func(kind string, asks bool, names ...string) {
		for _, name := range names {
			_, _, only := unasking(t, captured(t, captureDir(t, name)).request[0])
			for mode, p := range servers {
				if only == "" || only == mode || !asks {
					t.Run(kind+"/"+name+" in "+mode, func(t *testing.T) { playInjected(t, th, p, name, mode, asks) })
				}
			}
		}
	}
	f("chat", true, "nd-chat-stream-usage", "nd-chat-stream-cont", "nd-chat-stream-cont-tokids", "nd-chat-stream-eos", "nd-chat-stream-max1", "dd-chat-stream-usage", "dd-chat-unicode",
		"dd-chat-stream-cont-tokids", "ns-chat-stream-usage", "nn-chat-stream-usage", "nd-chat-twoturn")
	f("completions", true, "nd-comp-stream-usage", "nd-comp-stream-cont", "nd-comp-stream-eos", "nd-comp-unicode", "dd-comp-stream-usage", "dd-comp-respformat")
	f("logprobs", true, "nd-chat-stream-logprobs", "dd-comp-stream-logprobs")
	f("stop string", true, "nd-chat-stream-stop", "nd-chat-stop-mid-step", "nd-chat-stop-nohit", "dd-comp-stream-stop", "bf-chat-stream-stop")
	f("stop token", true, "dd-chat-stream-stoptok", "nd-chat-stoptok-real")
	f("tools", true, "bf-chat-tools-auto", "bf-chat-tools-named", "bf-chat-tools-required")
	f("error in the stream", true, "nd-chat-minp-t1-stream", "dd-kill9-enginecore", "bf-load-01")
	f("cut stream", true, "nd-kill9-api")
	f("refused before the stream", true, "nd-chat-err-ctx-stream")
	f("n of 2", false, "nd-chat-stream-n2", "nd-comp-stream-n2", "bf-chat-stream-n2")
	f("not streamed", false, "nd-chat-nonstream", "nd-chat-err-model", "nd-comp-err-maxtok", "bf-chat-tools-named-nonstream", "nd-chat-nonstream-logprobs")
}

func playInjected(t *testing.T, th *theatre, p *stack, name, mode string, asks bool) {
	sc := captured(t, captureDir(t, name))
	path, text, _ := unasking(t, sc.request[0])
	r := sc.answer(nil)
	_, req := Policy{Measure: Measure(mode)}.Apply(nil, []byte(text), tap.RouteOf(path), EngineVLLM)
	if asks != (req.Asked != Asked{}) {
		t.Fatalf("got %+v asked, want anything: %v", req.Asked, asks)
	}
	sent := ""
	for _, part := range r.parts {
		due := 0
		if sent += part; len(r.due) > 0 {
			due = r.due[len(r.due)-1]
		}
		if !asks || !finishes.MatchString(part) {
			due = len(referenceCut(req.Asked, []byte(sent)))
		}
		r.due = append(r.due, due)
	}
	sc.request, sc.answer, sc.fresh = []string{post(path, text)}, fixed(r), true
	v := th.play(t, p.addr, &sc, waits{patience, patience})
	if v.late {
		t.Errorf("an event waited for the next")
	}
	if d := cmp.Diff(string(referenceCut(req.Asked, []byte(sent))), v.answers[0].body); d != "" {
		t.Errorf("body differs from the uninjected one:\n%s", d)
	}
	rec := p.recs.next(t)
	if got := len(rec.Injected) > 0; got != asks {
		t.Errorf("got injected %q, want any: %v", rec.Injected, asks)
	}
	if asks && !strings.HasPrefix(name, "bf-") && strings.Contains(v.answers[0].body, `"usage":{`) {
		t.Errorf("usage is left in %q", v.answers[0].body)
	}
}
