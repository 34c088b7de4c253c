package proxy

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spectap/collector"
	"spectap/proxy/tap"
)

func apply(p Policy, body string, route tap.Route, engine Engine) (string, Request) {
	out, req := p.Apply(nil, []byte(body), route, engine)
	return string(out), req
}

func TestApplyAsksForUsage(t *testing.T) {
	usage, tokens := Policy{Measure: MeasureUsage}, Policy{Measure: MeasureTokens}
	f := func(p Policy, engine Engine, body, want string, asked Asked) {
		t.Helper()
		body, want = strings.Replace(body, "{", `{"messages":[],`, 1), strings.Replace(want, "{", `{"messages":[],`, 1)
		got, req := apply(p, body, tap.RouteChat, engine)
		if got != want || req.Asked != asked || req.Rewritten != (got != body) {
			t.Errorf("%s, %q: %s\n got %s %+v rewritten %v\nwant %s %+v", p.Measure, engine, body, got, req.Asked, req.Rewritten, want, asked)
		}
	}
	same := func(p Policy, engine Engine, body string) {
		t.Helper()
		f(p, engine, body, body, Asked{})
	}
	const asks, both = `"stream_options":{"include_usage":true}`, `"stream_options":{"include_usage":true,"continuous_usage_stats":true}`
	one, two := Asked{Usage: true}, Asked{Usage: true, Continuous: true}
	f(usage, EngineVLLM, `{"stream":true}`, `{"stream":true,`+asks+`}`, one)
	f(usage, EngineUnknown, `{"stream":"Yes","n":null}`, `{"stream":"Yes","n":null,`+asks+`}`, one)
	f(usage, EngineVLLM, `{"stream":1,"stream_options":null}`, `{"stream":1,`+asks+`}`, one)
	f(usage, EngineVLLM, `{"stream_options":{},"stream":true}`, `{"stream":true,`+asks+`}`, one)
	f(tokens, EngineVLLM, `{"stream":true,"n":1}`, `{"stream":true,"n":1,`+both+`}`, two)
	f(tokens, EngineUnknown, `{"stream":true}`, `{"stream":true,`+asks+`}`, one)  // not in the OpenAI API
	f(tokens, EngineLlamaCpp, `{"stream":true}`, `{"stream":true,`+asks+`}`, one) // not read there
	f(tokens, EngineSGLang, `{"stream":true}`, `{"stream":true,`+both+`}`, Asked{Usage: true, Continuous: true, NullUsage: true})
	f(tokens, EngineVLLM, `{"stream":true,`+asks+`}`, `{"stream":true,`+both+`}`, Asked{Continuous: true})
	f(usage, EngineVLLM, `{"stream":true,"stream_options":{"continuous_usage_stats":true}}`,
		`{"stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true}}`, two) // alone it yields nothing
	f(usage, EngineSGLang, `{"stream":true,"stream_options":{"continuous_usage_stats":true}}`,
		`{"stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true}}`, Asked{Usage: true, KeepEvents: true})
	f(usage, EngineVLLM, `{"stream":false,"stream":true,"stream":true}`, `{"stream":false,"stream":true,"stream":true,`+asks+`}`, one)
	f(usage, EngineVLLM, `{"stream":true,"stream_options":{"include_usage":false,"include_usage":null,"x":1}}`,
		`{"stream":true,"stream_options":{"x":1,"include_usage":true}}`, one)
	f(usage, EngineVLLM, "\xef\xbb\xbf{\"stream\":true}", "\xef\xbb\xbf{\"stream\":true,"+asks+"}", one) // vLLM accepts a BOM
	for _, p := range []Policy{usage, tokens} {
		same(p, EngineVLLM, `{"stream":true,"stream_options":{"include_usage":false}}`)
		same(p, EngineVLLM, `{"stream":true,`+both+`}`)
		same(p, EngineVLLM, `{"stream":true,"stream":false}`) // the last counts
		same(p, EngineVLLM, `{"stream":true,"stream":null}`)
		same(p, EngineVLLM, `{"model":"m"}`)
		same(p, EngineVLLM, `{"stream":"false"}`)
		same(p, EngineVLLM, `{"stream":true,"n":2}`)
		same(p, EngineVLLM, `{"stream":true,"n":"2"}`)
		same(p, EngineVLLM, `{"stream":true,"n":"many"}`)
		same(p, EngineVLLM, `{"stream":true,"stream_options":"x"}`)
		same(p, EngineTRTLLM, `{"stream":true,"stream_options":{"continuous_usage_stats":true}}`)  // usage is its default
		same(p, EngineUnknown, `{"stream":true,"stream_options":{"continuous_usage_stats":true}}`) // nobody knows what it would yield
	}
	same(usage, EngineTRTLLM, `{"stream":true,"stream_options":{}}`)
	same(usage, EngineVLLM, `{"stream":true,`+asks+`}`)
	same(Policy{Measure: MeasureObserve}, EngineVLLM, `{"stream":true}`)
	const asksNothing = `{"model":"m","stream":true}` // vLLM's error says how many members there were
	if got, req := apply(usage, asksNothing, tap.RouteChat, EngineVLLM); got != asksNothing || req.Asked != (Asked{}) {
		t.Errorf("a request without messages: got %s, %+v, want it as it is", got, req.Asked)
	}
}

func TestApplyPromptsAndRoutes(t *testing.T) {
	f := func(route tap.Route, body string, choices int, rewritten bool) {
		t.Helper()
		_, req := apply(Policy{Measure: MeasureTokens}, body, route, EngineVLLM)
		if req.Choices != choices || req.Rewritten != rewritten {
			t.Errorf("%s: %d choices, rewritten %v, want %d, %v", body, req.Choices, req.Rewritten, choices, rewritten)
		}
	}
	f(tap.RouteCompletions, `{"stream":true,"prompt":"a"}`, 1, true)
	f(tap.RouteCompletions, `{"stream":true,"prompt":["a"]}`, 1, true)
	f(tap.RouteCompletions, `{"stream":true,"prompt":[1,2,3]}`, 1, true) // token ids
	f(tap.RouteCompletions, `{"stream":true,"prompt":[[1,2],[3]]}`, 2, false)
	f(tap.RouteCompletions, `{"stream":true,"prompt":["a","b"],"n":2}`, 4, false)
	f(tap.RouteCompletions, `{"stream":true,"prompt":"a","n":1.0}`, 1, true)
	f(tap.RouteMessages, `{"stream":true}`, 1, false)
	f(tap.RouteResponses, `{"stream":true}`, 1, false)
	f(tap.RouteOther, `{"stream":true}`, 1, false)
}

func TestApplyFills(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	fill := Policy{Fill: map[string]json.RawMessage{"temperature": raw("0"), "top_k": raw("-1")}, MaxTokens: 64}
	over := fill
	over.Override = true
	f := func(p Policy, route tap.Route, engine Engine, body, want string, injected ...string) {
		t.Helper()
		got, req := apply(p, body, route, engine)
		if got != want || !slices.Equal(req.Injected, injected) {
			t.Errorf("%s:\n got %s %q\nwant %s %q", body, got, req.Injected, want, injected)
		}
	}
	chat, comp := tap.RouteChat, tap.RouteCompletions
	f(fill, chat, EngineVLLM, `{}`, `{"max_completion_tokens":64,"temperature":0,"top_k":-1}`, "max_completion_tokens", "temperature", "top_k")
	f(fill, comp, EngineVLLM, `{}`, `{"max_tokens":64,"temperature":0,"top_k":-1}`, "max_tokens", "temperature", "top_k")
	f(fill, chat, EngineUnknown, `{}`, `{"max_completion_tokens":64,"temperature":0}`, "max_completion_tokens", "temperature")
	f(fill, chat, EngineVLLM, `{"max_tokens":5,"temperature":0.70,"top_k":null}`, `{"max_tokens":5,"temperature":0.70,"top_k":-1}`, "top_k")
	f(fill, chat, EngineVLLM, `{"max_tokens":5,"temperature":1,"temperature":null,"top_k":1}`, `{"max_tokens":5,"top_k":1,"temperature":0}`, "temperature")
	f(fill, comp, EngineVLLM, `{"max_completion_tokens":5,"temperature":1,"top_k":1}`,
		`{"max_completion_tokens":5,"temperature":1,"top_k":1,"max_tokens":64}`, "max_tokens") // ignored there by vLLM
	f(over, chat, EngineVLLM, `{"max_tokens":5,"temperature":1,"top_k":-1}`, `{"top_k":-1,"max_completion_tokens":64,"temperature":0}`,
		"max_completion_tokens", "max_tokens", "temperature")
	f(fill, tap.RouteOther, EngineVLLM, `{}`, `{}`)
	twice := Policy{Override: true, Fill: map[string]json.RawMessage{"seed": raw("1")}}
	f(twice, chat, EngineVLLM, `{"seed":2,"seed":1}`, `{"seed":1}`, "seed") // a strict parser would refuse the duplicate
	several := Policy{Measure: MeasureUsage, Fill: map[string]json.RawMessage{"n": raw("2")}}
	f(several, chat, EngineVLLM, `{"stream":true}`, `{"stream":true,"n":2}`, "n") // what is filled in counts: no usage is asked for
	_, req := apply(over, `{"temperature":1.50,"top_k":-1,"stop":"secret","n":null}`, chat, EngineVLLM)
	if got := string(mustJSON(t, req.SamplingClient)); got != `{"temperature":1.50,"top_k":-1}` {
		t.Errorf("SamplingClient is %s", got)
	}
	if got := string(mustJSON(t, req.SamplingSent)); got != `{"max_completion_tokens":64,"temperature":0,"top_k":-1}` {
		t.Errorf("SamplingSent is %s", got)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The sampling maps never hold content, wherever a client puts it.
func TestSamplingHoldsNoContent(t *testing.T) {
	_, req := apply(Policy{Measure: MeasureTokens}, `{"temperature":"secret","logprobs":["secret"],"seed":{"secret":1},"n":"1","stream":"ON",`+
		`"stream_options":{"include_usage":"secret"},"messages":[{"role":"user","content":"secret"}],"user":"secret"}`, tap.RouteChat, EngineVLLM)
	if got := mustJSON(t, req.SamplingClient); string(got) != `{"n":"1","stream":"ON"}` {
		t.Errorf("SamplingClient is %s", got)
	}
	if bytes.Contains(mustJSON(t, req.SamplingSent), []byte("secret")) || req.Prompt != "" || req.UserHash != "" {
		t.Errorf("content in %+v", req)
	}
}

func TestApplyReadsUserTexts(t *testing.T) {
	p := Policy{KeepText: true, HashUser: true}
	f := func(route tap.Route, body string, turns int, first, last string) {
		t.Helper()
		_, req := apply(p, body, route, EngineVLLM)
		want := ""
		if turns > 0 {
			want = collector.HashText(nil, first)
		}
		if req.UserTurns != turns || req.UserHash != want || req.Prompt != last {
			t.Errorf("%s: %d turns, hash %s, prompt %q, want %d, %s, %q", body, req.UserTurns, req.UserHash, req.Prompt, turns, want, last)
		}
	}
	f(tap.RouteChat, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a\u00e9\n"},{"role":"assistant","content":"b"},{"content":"c","role":"user"}]}`, 2, "aé\n", "c")
	f(tap.RouteChat, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":"b"}]}]}`, 1, "ab", "ab")
	f(tap.RouteChat, `{"messages":[{"role":"user","content":null}]}`, 1, "", "")
	f(tap.RouteChat, `{"messages":[{"role":"system","content":"s"},7,null]}`, 0, "", "")
	f(tap.RouteChat, `{"messages":"x"}`, 0, "", "")
	f(tap.RouteCompletions, `{"prompt":"p"}`, 1, "p", "p")
	f(tap.RouteCompletions, `{"prompt":["p","q"]}`, 1, "p", "p")
	f(tap.RouteCompletions, `{"prompt":[1,2]}`, 1, "[1,2]", "[1,2]")
	f(tap.RouteCompletions, `{}`, 0, "", "")
	if got, want := collector.HashText(nil, "abc"), "ba7816bf8f01cfea414140de5dae2223"; got != want { // SHA-256 of "abc", FIPS 180-2 B.1
		t.Errorf("HashText(abc) = %s, want %s", got, want)
	}
}

func TestApplyLeavesBrokenBodies(t *testing.T) {
	p := Policy{Measure: MeasureTokens, Fill: map[string]json.RawMessage{"seed": json.RawMessage("1")}}
	for _, body := range []string{``, `[]`, `{"stream":true`, `{"stream":true}x`, `{"stream":true,"temperature":NaN}`, "\xff\xfe{\x00}\x00"} {
		got, req := apply(p, body, tap.RouteChat, EngineVLLM)
		if got != body || req.Problem == "" || req.Rewritten || req.Asked != (Asked{}) {
			t.Errorf("%q became %q, %+v", body, got, req)
		}
	}
	if _, req := apply(Policy{Measure: MeasureObserve}, `[]`, tap.RouteChat, EngineVLLM); req.Problem != "" {
		t.Errorf("observe has the problem %q, want none: it changes nothing", req.Problem)
	}
}

func FuzzApply(f *testing.F) {
	for _, body := range []string{
		`{"stream":true,"stream_options":{"continuous_usage_stats":true}}`, `{"n":1,"prompt":[1,"a"],"stream":"y"}`, string(chatBody(300)),
		`{"messages":[{"role":"user","content":[{"text":"a"}]}],"max_tokens":1,"max_completion_tokens":2}`, "\xef\xbb\xbf{\"seed\":1,\"seed\":2}",
		`{"str\u0065am":true}`, `{"stream":true,"stream_options":{"include_usage":tru`, `{"":[""],"stream":""}`,
	} {
		f.Add([]byte(body), byte(0), byte(1), byte(1), true)
		f.Add([]byte(body), byte(1), byte(2), byte(2), false)
	}
	engines := []Engine{EngineUnknown, EngineVLLM, EngineSGLang, EngineTRTLLM, EngineLlamaCpp, EngineDynamo}
	f.Fuzz(func(t *testing.T, body []byte, measure, route, engine byte, override bool) {
		p := Policy{Measure: []Measure{MeasureUsage, MeasureTokens}[measure%2], Override: override, MaxTokens: 9, KeepText: true, HashUser: true,
			Fill: map[string]json.RawMessage{"temperature": json.RawMessage("0"), "top_k": json.RawMessage("-1")}}
		r, e := tap.Route(route%5), engines[int(engine)%len(engines)]
		before := bytes.Clone(body)
		once, req := p.Apply(nil, body, r, e)
		if !bytes.Equal(body, before) {
			t.Fatalf("Apply changed the caller's bytes %q", before)
		}
		twice, second := p.Apply(nil, once, r, e)
		if !bytes.Equal(once, twice) || second.Rewritten {
			t.Fatalf("applied to %q once: %q, twice: %q (%v)", body, once, twice, second.Injected)
		}
		if req.Rewritten == bytes.Equal(once, body) {
			t.Fatalf("%q became %q, rewritten %v", body, once, req.Rewritten)
		}
		if json.Valid(body) && !json.Valid(once) {
			t.Fatalf("valid %q became invalid %q", body, once)
		}
		if out, req := (Policy{Measure: MeasureObserve}).Apply(nil, body, r, e); !bytes.Equal(out, body) || req.Asked != (Asked{}) {
			t.Fatalf("observe made %q of %q", out, body)
		}
	})
}

func TestEngines(t *testing.T) {
	f := func(got, want Engine, from string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %q, want %q", from, got, want)
		}
	}
	models := func(body string, want Engine) { t.Helper(); f(EngineFromModels([]byte(body)), want, body) }
	real, err := os.ReadFile(filepath.Join("testdata", "models-vllm-0.32.json"))
	if err != nil {
		t.Fatal(err)
	}
	models(string(real), EngineVLLM)
	models(`{"data":[{"id":"a","owned_by":"sglang"}]}`, EngineSGLang)
	models(`{"data":[{"id":"a","owned_by":"tensorrt_llm"}]}`, EngineTRTLLM)
	models(`{"models":[{}],"object":"list","data":[{"owned_by":"llamacpp"}]}`, EngineLlamaCpp)
	models(`{"data":[{"owned_by":"me"},7,{"owned_by":"vllm"}]}`, EngineVLLM)
	models(`{"data":[]}`, EngineUnknown)
	models(`{"data":"vllm"}`, EngineUnknown)
	models(`{"data":[{"owned_by":"vllm"}]`, EngineUnknown) // cut off
	models(`Not Found`, EngineUnknown)
	version := func(body string, want Engine) { t.Helper(); f(EngineFromVersion([]byte(body)), want, body) }
	version(`{"version":"0.32.0"}`, EngineVLLM)
	version(`{"version":"1","commit":"x"}`, EngineUnknown)
	version(`{"version":1}`, EngineUnknown)
	version(`{"detail":"Not Found"}`, EngineUnknown)
	version(``, EngineUnknown)
}

// The table of wire-formats-engines.md 4.5, and the members of a sweep.
func TestMay(t *testing.T) {
	f := func(member, engines string) {
		t.Helper()
		letters := map[Engine]string{EngineVLLM: "v", EngineSGLang: "s", EngineTRTLLM: "t", EngineLlamaCpp: "l", EngineDynamo: "d", EngineUnknown: "u"}
		for _, engine := range slices.Sorted(maps.Keys(letters)) {
			if got, want := engine.May(member), bytes.Contains([]byte(engines), []byte(letters[engine])); got != want {
				t.Errorf("%q may have %s: %v, want %v", engine, member, got, want)
			}
		}
	}
	f("stream_options", "vstldu")
	f("include_usage", "vstldu")
	f("continuous_usage_stats", "vst")
	f("return_token_ids", "v")
	f("return_spec_tokens_details", "s")
	f("timings_per_token", "l")
	for _, member := range []string{"temperature", "top_p", "seed", "max_tokens", "max_completion_tokens"} {
		f(member, "vstldu")
	}
	for _, member := range []string{"top_k", "min_p", "repetition_penalty", "skip_special_tokens", "ignore_eos"} {
		f(member, "vstl")
	}
	f("cache_salt", "vsl")
}

func BenchmarkApply(b *testing.B) {
	p := Policy{Measure: MeasureTokens, Fill: map[string]json.RawMessage{"top_k": json.RawMessage("0"), "min_p": json.RawMessage("0")}}
	body, dst := chatBody(1024), make([]byte, 0, 2048)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, req := p.Apply(dst, body, tap.RouteChat, EngineVLLM); !req.Rewritten {
			b.Fatal("not rewritten")
		}
	}
}
