package proxy

import (
	"strconv"
	"strings"
	"testing"
)

// What goes on to the client at each read, not only in the end.
func TestCutterPassesEarly(t *testing.T) {
	f := func(asked Asked, steps ...string) { // read, what goes on, read, what goes on, ...
		t.Helper()
		var c Cutter
		c.Reset(asked)
		for i := 0; i < len(steps); i += 2 {
			if got := string(c.Feed(nil, []byte(steps[i]))); got != steps[i+1] {
				t.Errorf("read %q:\n got %q\nwant %q", steps[i], got, steps[i+1])
			}
		}
	}
	const head, filled = `data: {"id":"1","choices":`, `[{"index":0,"delta":{"content":"a"}`
	usage := Asked{Usage: true}
	f(usage, head, "", "[", "", `{"in`, head+`[{"in`, `dex":0}`, `dex":0`, "]", "}]", "}\n\n", "}\n\n")              // as soon as choices shows it
	f(usage, head+filled+`,"finish_reason":null}]}`, head+filled+`,"finish_reason":null}]`, "\n", "", "\n", "}\n\n") // the closing brace waits for the event's end
	f(usage, head+filled+`,"finish_reason":"stop"}]`, head+filled+`,"finish_reason":"stop"}]`, "}\n\n", "",
		`data: {"choices":[],"usage":{"n":1},"system_fingerprint":"f"}`+"\n\n", `,"system_fingerprint":"f"}`+"\n\n", "data: [DONE]\n\n", "data: [DONE]\n\n") // and takes the fingerprint
	f(usage, head+"[", "", `],"usage":{"n":1}`, "", "}\n\n", "")                                                       // nothing of a usage event
	f(usage, "data: [DO", "data: [DO", "NE]\n\n", "NE]\n\n")                                                           // no JSON
	f(usage, ": keep-alive\n", ": keep-alive\n", "\n", "\n")                                                           // comments at once
	f(Asked{Usage: true, Continuous: true}, head+filled, "", `}],"usage":{"n":1}}`, "", "\n\n", head+filled+"}]}\n\n") // whole events
}

func TestCutterHolds(t *testing.T) {
	const finish = `data: {"choices":[{"finish_reason":"stop"}]}` + "\n\n"
	const usage = `data: {"choices":[],"usage":{"n":1},"system_fingerprint":"f"}` + "\n\n"
	for _, asked := range []Asked{{Usage: true}, {Usage: true, Continuous: true}} {
		var c Cutter
		c.Reset(asked)
		if got := c.Feed(nil, []byte(finish+": ping\n\n"+usage[:20])); len(got) > 0 || !c.Held() {
			t.Errorf("%+v: finish event went on as %q, held %v", asked, got, c.Held())
		}
		if got, want := string(c.Expire(nil)), finish+": ping\n\n"; got != want || c.Held() {
			t.Errorf("%+v: Expire gave %q, held %v, want %q", asked, got, c.Held(), want)
		}
		if got := c.Feed(nil, []byte(usage[20:])); len(got) > 0 {
			t.Errorf("%+v: the usage event went on as %q after the timer", asked, got)
		}
		c.Reset(asked)
		c.Feed(nil, []byte(finish+`data: {"choices":[{"del`))
		if got, want := string(c.Release(nil)), finish+`data: {"choices":[{"del`; !strings.HasSuffix(want, got) || c.Held() {
			t.Errorf("%+v: Release gave %q, want the rest of %q", asked, got, want)
		}
	}
}

// Shapes of other engines (wire-formats-engines.md 4.1 to 4.3).
func TestCutOtherEngines(t *testing.T) {
	f := func(name string, asked Asked, injected, want string) {
		t.Helper()
		in := []byte(strings.ReplaceAll(injected, "|", "\n\n"))
		want = strings.ReplaceAll(want, "|", "\n\n")
		for cut := range in {
			if got := string(cutAt(asked, in, cut)); got != want {
				t.Fatalf("%s cut at %d:\n got %s\nwant %s", name, cut, got, want)
			}
		}
	}
	const spec = `data: {"choices":[],"usage":null,"sglext":{"spec_tokens_details":{"spec_verify_ct":40}}}|`
	const done = `data: [DONE]|`
	f("SGLang, usage", Asked{Usage: true},
		`data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}],"usage":null}|data: {"choices":[{"delta":{},"finish_reason":"stop","matched_stop":2}],"usage":null}|`+spec+`data: {"choices":[],"usage":{"prompt_tokens":1}}|`+done,
		`data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}],"usage":null}|data: {"choices":[{"delta":{},"finish_reason":"stop","matched_stop":2}],"usage":null}|`+spec+done)
	f("SGLang, tokens", Asked{Usage: true, Continuous: true, NullUsage: true},
		`data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}],"usage":{"completion_tokens":1}}|data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}|`+spec+`data: {"choices":[],"usage":{"completion_tokens":1}}|`+done,
		`data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}],"usage":null}|data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}|`+spec+done)
	f("SGLang, the client's own counts", Asked{Usage: true, KeepEvents: true},
		`data: {"choices":[{"finish_reason":null}],"usage":{"completion_tokens":1}}|data: {"choices":[],"usage":{"completion_tokens":1}}|`+done,
		`data: {"choices":[{"finish_reason":null}],"usage":{"completion_tokens":1}}|`+done)
	f("TensorRT-LLM, tokens", Asked{Usage: true, Continuous: true},
		`data: {"choices":[{"delta":{"role":"assistant"}}],"usage":{"completion_tokens":0}} |data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop","speculative_decoding":{"num_spec_steps":1}}],"usage":{"completion_tokens":1}}|data: {"choices":[],"usage":{"completion_tokens":1}}|`+done,
		`data: {"choices":[{"delta":{"role":"assistant"}}]} |data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop","speculative_decoding":{"num_spec_steps":1}}]}|`+done)
	f("llama.cpp, usage", Asked{Usage: true}, // timings stand on the last event
		`data: {"choices":[{"finish_reason":"stop","delta":{}}],"system_fingerprint":"b9-a","object":"chat.completion.chunk"}|data: {"choices":[],"system_fingerprint":"b9-a","usage":{"prompt_tokens":1},"timings":{"draft_n":1}}|`+done,
		`data: {"choices":[{"finish_reason":"stop","delta":{}}],"system_fingerprint":"b9-a","object":"chat.completion.chunk","timings":{"draft_n":1}}|`+done)
	f("usage first and spaced", Asked{Continuous: true},
		`data: {"usage": {"n": 1}, "choices": [{"finish_reason": null}]}|`, `data: {"choices": [{"finish_reason": null}]}|`)
}

// benchCut feeds events whose text and counts change.
func benchCut(b *testing.B, asked Asked, rest string) {
	var events [100][]byte
	for i := range events {
		event := benchEvent + rest + "}\n\n"
		events[i] = []byte(strings.ReplaceAll(event, "%", strconv.Itoa(i+5)))
	}
	var c Cutter
	c.Reset(asked)
	dst := make([]byte, 0, 1024)
	b.SetBytes(int64(len(events[0])))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if out := c.Feed(dst, events[i%len(events)]); len(out) < 200 {
			b.Fatalf("%d bytes came out", len(out))
		}
	}
}

const benchEvent = `data: {"id":"chatcmpl-83882ee37bb37191","object":"chat.completion.chunk","created":1796008422,"model":"smollm2","choices":[{"index":0,"delta":{"content":" four five %"},"logprobs":null,"finish_reason":null,"token_ids":null}]`

func BenchmarkCutterUsage(b *testing.B) { benchCut(b, Asked{Usage: true}, "") }

func BenchmarkCutterTokens(b *testing.B) {
	benchCut(b, Asked{Usage: true, Continuous: true},
		`,"usage":{"prompt_tokens":47,"total_tokens":57,"completion_tokens":%,"completion_tokens_details":null}`)
}

// Events that never are as the one before, as where the number of tokens changes.
func BenchmarkCutterChanging(b *testing.B) {
	var events [2][]byte
	for i, ids := range []string{"[314]", "[314,15]"} {
		event := strings.Replace(strings.ReplaceAll(benchEvent, "%", "5"), `"token_ids":null`, `"token_ids":`+ids, 1)
		events[i] = []byte(event + `,"usage":{"prompt_tokens":47,"total_tokens":57,"completion_tokens":9,"completion_tokens_details":null}}` + "\n\n")
	}
	var c Cutter
	c.Reset(Asked{Usage: true, Continuous: true})
	dst := make([]byte, 0, 1024)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if out := c.Feed(dst, events[i%2]); len(out) < 200 {
			b.Fatalf("%d bytes came out", len(out))
		}
	}
}

func BenchmarkCutterNothingAsked(b *testing.B) { benchCut(b, Asked{}, "") }

// Feed allocates nothing in steady state.
func TestCutterAllocations(t *testing.T) {
	var c Cutter
	c.Reset(Asked{Usage: true})
	dst, in := make([]byte, 0, 1024), []byte(benchEvent+"}\n\n")
	if n := testing.AllocsPerRun(100, func() { c.Feed(c.Feed(dst, in[:150]), in[150:]) }); n > 0 {
		t.Errorf("got %v allocations an event, want none", n)
	}
}
