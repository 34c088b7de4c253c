package tap

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"spectap/collector"
)

const (
	roleEvent   = `data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	hiEvent     = `data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}` + "\n\n"
	finishEvent = `data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop","stop_reason":null}]}` + "\n\n"
	usageEvent  = `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}` + "\n\n"
	doneEvent   = "data: [DONE]\n\n"
)

func TestRouteOf(t *testing.T) {
	f := func(path string, want Route) {
		t.Helper()
		if got := RouteOf(path); got != want {
			t.Errorf("RouteOf(%q): got %d, want %d", path, got, want)
		}
	}
	f("/v1/chat/completions", RouteChat)
	f("/v1/chat/completions/", RouteChat)
	f("/v1/chat/completions?x=/v1/completions", RouteChat)
	f("//v1/chat/completions", RouteChat)
	f("/chat/completions", RouteChat)           // llama.cpp
	f("/openai/v1/chat/completions", RouteChat) // behind a prefix
	f("/v1/completions", RouteCompletions)
	f("/engine/v1/completions", RouteCompletions)
	f("/completions", RouteOther) // llama.cpp's native API
	f("/v1/chat/completions/batch", RouteOther)
	f("/v1/chat/completions/render", RouteOther)
	f("/v1/responses", RouteResponses)
	f("/v1/messages", RouteMessages)
	f("/v1/messages/count_tokens", RouteOther)
	f("/v1/models", RouteOther)
	f("/", RouteOther)
	f("", RouteOther)
}

// TestOutcome says how an answer ended by its payload and its end.
func TestOutcome(t *testing.T) {
	f := func(status int, media, encoding, body string, clean bool, want string) {
		t.Helper()
		tap := New(Options{Route: RouteChat})
		tap.Head(status, media, encoding)
		tap.Observe(time.Second, []byte(body))
		tap.End(time.Second, clean)
		var r collector.Record
		tap.Fill(&r)
		got := fmt.Sprintf("%s|%s|%s|%v|%d", r.ErrorKind, r.Error, r.SpecMissing, r.SawDone, len(r.Warnings))
		if got != want {
			t.Errorf("%.60q: got %s, want %s; warnings %q", body, got, want, r.Warnings)
		}
	}
	const stream, body = "text/event-stream", "application/json"
	whole := roleEvent + hiEvent + finishEvent + usageEvent
	f(200, stream, "", whole+doneEvent, true, "||not_reported|true|0")
	f(200, "Text/Event-Stream ; charset=utf-8", "identity", whole+doneEvent, true, "||not_reported|true|0")
	f(200, "", "", whole+doneEvent, true, "||not_reported|true|0")           // no Content-Type: sniffed
	f(200, "text/plain", "", whole+doneEvent, true, "||not_reported|true|0") // a wrong one
	f(200, stream, "", whole, true, "||not_reported|false|0")                // no [DONE]
	f(200, stream, "", whole+"data: [DONE]\r\n\r\n", true, "||not_reported|true|0")
	f(200, stream, "", whole+"data:[DONE] ", true, "||not_reported|true|0") // no line end at all
	f(200, stream, "", roleEvent+hiEvent+finishEvent+doneEvent, true, "||no_usage_event|true|0")
	f(200, stream, "", whole+doneEvent, false, "||not_reported|true|1") // broke after the last event
	f(200, stream, "", whole, false, "truncated|the answer broke off|truncated|false|0")
	f(200, stream, "", roleEvent+hiEvent+`data: {"choi`, false, "truncated|the answer broke off|truncated|false|0")
	f(200, stream, "", roleEvent+hiEvent+doneEvent, true, "not_finished|the answer ended without a finish reason|no_usage_event|true|0")
	f(200, stream, "", "", true, "not_finished|the answer ended without a finish reason|no_usage_event|false|0")
	f(200, stream, "", `data: {"error": {"message": "secret", "type": "BadRequestError", "param": null, "code": 400}}`+"\n\n"+doneEvent, true,
		"in_band_error|BadRequestError (400)|error|true|0")
	f(200, stream, "", roleEvent+`data: {"error": "a secret"}`+"\n\n"+doneEvent, true, "in_band_error|untyped error|error|true|0")
	f(200, stream, "", roleEvent+"event: error\n"+`data: {"object":"error","message":"secret","type":"X","code":5}`+"\n\n", true,
		"in_band_error|X (5)|error|false|0")
	f(200, stream, "", `data: {"error":null,"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`+"\n\n"+usageEvent, true,
		"||not_reported|false|0") // error null is none
	f(400, body, "", `{"error":{"message":"secret","type":"the secret: is here","code":"model_not_found"}}`, true,
		"http_status|code model_not_found|error|false|0") // a type that could be prose
	f(400, body, "", `{"error":{"message":"secret","type":"the secret is here","code":"Secret it is"}}`, true,
		"http_status|untyped error|error|false|0") // words without capitals are prose
	f(422, body, "", `{"error":{"message":"secret","type":"Unprocessable Entity","code":422}}`, true,
		"http_status|Unprocessable Entity (422)|error|false|0")
	f(401, body, "", `{"error": "Unauthorized"}`, true, "http_status|untyped error|error|false|0")
	f(400, body, "", `{"object":"error","message":"secret","type":"invalid_request_error","param":null,"code":400}`, true,
		"http_status|invalid_request_error (400)|error|false|0")
	f(404, body, "", `{"detail":"Not Found"}`, true, "http_status|untyped error|error|false|0")
	f(502, "text/html", "", `<html>`, true, "http_status|untyped error|error|false|0")
	f(503, body, "", ``, true, "http_status|untyped error|error|false|0")
	f(200, stream, "gzip", "\x1f\x8b\x08", true, "||not_measured|false|1")
	f(200, stream, "br", "\x1f\x8b\x08", false, "truncated|the answer broke off|truncated|false|1")
	f(200, body, "", `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}`, true, "||not_reported|false|0")
	f(200, body, "", `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":null}]}`, true,
		"not_finished|the answer ended without a finish reason|not_reported|false|0")
	f(200, body, "", `{"choices":[{"index":0,"mess`, false, "truncated|the answer broke off|truncated|false|0")
	f(200, body, "", `not json`, true, "not_finished|the answer ended without a finish reason|not_reported|false|1")
	f(200, "text/html", "", `<html>`, true, "||not_measured|false|0")
	f(307, "", "", ``, true, "||not_measured|false|0")
	f(200, stream, "", "data: {bad\n\ndata: [1]\n\n"+whole+doneEvent, true, "||not_reported|true|1") // warned once
	f(200, stream, "", whole+doneEvent+hiEvent, true, "||not_reported|true|1")                       // data after the end
	f(200, stream, "", "data: \n\n"+whole+doneEvent, true, "||not_reported|true|0")                  // empty data is nothing
}

// TestCallerKnowsBetter: who left is the caller's knowledge, and so is the engine.
func TestCallerKnowsBetter(t *testing.T) {
	tap := New(Options{Route: RouteChat})
	tap.Head(200, "text/event-stream", "")
	tap.Observe(time.Second, []byte(roleEvent+hiEvent))
	if tap.Finished() {
		t.Error("finished without [DONE]")
	}
	r := collector.Record{ErrorKind: collector.ErrClientGone, Error: "left", Engine: "vllm", Warnings: []string{"w"}}
	tap.Fill(&r) // without End: ended as broken
	if r.ErrorKind != collector.ErrClientGone || r.Error != "left" || r.SpecMissing != collector.MissingClientGone || r.Engine != "vllm" ||
		!slices.Equal(r.Warnings, []string{"w"}) {
		t.Errorf("got %+v", r)
	}
	tap.Reset(Options{Route: RouteChat})
	tap.Head(200, "text/event-stream", "")
	tap.Observe(time.Second, []byte(roleEvent+hiEvent+finishEvent+"data: [DONE]"))
	if tap.Finished() {
		t.Error("finished before the end of the line")
	}
	tap.Observe(time.Second, []byte("\n\n"))
	if !tap.Finished() {
		t.Error("not finished after [DONE]")
	}
}

// TestFirstOutput: the first output is the first event that carries output, never the first event.
func TestFirstOutput(t *testing.T) {
	f := func(route Route, want int, tokens string, events ...string) {
		t.Helper()
		tap := New(Options{Route: route})
		tap.Head(200, "text/event-stream", "")
		for i, e := range events {
			if e[0] != ':' {
				e = "data: " + e
			}
			tap.Observe(time.Duration(i+1), []byte(e+"\n\n"))
		}
		tap.End(99, true)
		var r collector.Record
		tap.Fill(&r)
		var got []int
		for _, c := range r.Chunks {
			got = append(got, c.Tokens)
		}
		if int(r.FirstOutput.Offset) != want || r.FirstOutput.Known != (want > 0) || fmt.Sprint(got) != tokens {
			t.Errorf("%s: got first output %v, tokens %v; want event %d, tokens %s", events, r.FirstOutput, got, want, tokens)
		}
	}
	delta := func(d string) string { return `{"choices":[{"index":0,"delta":` + d + `}]}` }
	role := delta(`{"role":"assistant","content":""}`)
	f(RouteChat, 2, "[0]", role, delta(`{"content":"a"}`))
	f(RouteChat, 1, "[0]", delta(`{"role":"assistant","content":"a"}`)) // role and text in one
	f(RouteChat, 4, "[0]", ": keep-alive", role, ": keep-alive", delta(`{"content":"a"}`))
	f(RouteChat, 2, "[0]", role, delta(`{"reasoning":"a"}`))
	f(RouteChat, 2, "[0]", role, delta(`{"reasoning_content":"a"}`))
	f(RouteChat, 2, "[0]", role, delta(`{"reasoning":"a","reasoning_content":""}`)) // both names
	f(RouteChat, 2, "[0]", role, delta(`{"content":null,"tool_calls":[{"index":0}]}`))
	f(RouteChat, 2, "[0]", role, delta(`{"content":[{"type":"text","text":"a"}]}`))   // parts
	f(RouteChat, 2, "[0 0]", role, delta(`{"content":""}`), delta(`{"content":"a"}`)) // a token without text
	f(RouteChat, 0, "[]", delta(`{"content":""}`))                                    // no role event yet: nothing says that this is a token
	f(RouteChat, 0, "[]", role, role)
	f(RouteChat, 0, "[]", role, `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":0}}`)
	f(RouteChat, 0, "[]", role, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)                              // OpenAI's finish
	f(RouteChat, 0, "[]", role, `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop","matched_stop":2}]}`) // SGLang's
	f(RouteChat, 2, "[0]", role, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","token_ids":null}]}`)            // vLLM's
	f(RouteChat, 2, "[2]", role, `{"choices":[{"index":0,"delta":{"content":""},"token_ids":[5,6]}]}`)
	f(RouteChat, 2, "[2]", role, `{"choices":[{"index":0,"delta":{"content":""},"logprobs":{"content":[{"token":"x"},{"token":"y"}]}}]}`)
	f(RouteChat, 0, "[]", role, `{"choices":[{"index":0,"delta":{},"token_ids":[]}]}`) // counted: none
	usage := func(n int, d string) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"delta":%s}],"usage":{"completion_tokens":%d}}`, d, n)
	}
	// Swallowed tokens: the next count jumps. A count that stands still without text is no chunk.
	f(RouteChat, 2, "[1 7]", usage(0, `{"role":"assistant"}`), usage(1, `{"content":"a"}`), usage(1, `{"content":""}`), usage(8, `{"content":"b"}`))
	f(RouteCompletions, 1, "[0 0]", `{"choices":[{"index":0,"text":"a"}]}`, `{"choices":[{"index":0,"text":""}]}`)
	f(RouteCompletions, 1, "[0]", `{"choices":[{"index":0,"text":"a"}]}`, `{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}`)                      // llama.cpp's finish
	f(RouteCompletions, 1, "[0 0]", `{"choices":[{"index":0,"text":"a"}]}`, `{"choices":[{"index":0,"text":"","finish_reason":"stop","stop_reason":null}]}`) // vLLM's
	f(RouteCompletions, 1, "[2]", `{"choices":[{"index":0,"text":"a","logprobs":{"tokens":["a","b"]}}]}`)
}

// TestChoices counts cumulative usage for each choice by itself.
func TestChoices(t *testing.T) {
	event := func(choice, n int) string {
		return fmt.Sprintf(`data: {"choices":[{"index":%d,"text":"x","finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":%d}}`+"\n\n", choice, n)
	}
	r := replayBody(Options{Route: RouteCompletions, KeepText: true, Choices: 2}, []byte(event(0, 1)+event(1, 2)+event(0, 4)+event(1, 3)), false)
	if got := fmt.Sprint(r.Chunks, *r.Usage, r.Reply, r.SpecMissing); got !=
		"[{1ms 1 0 false} {2ms 2 1 false} {3ms 3 0 false} {4ms 1 1 false}] {3 7 0 0}xxseveral_choices" {
		t.Errorf("got %s", got)
	}
}

// TestShared marks the chunks that one read completed after the first.
func TestShared(t *testing.T) {
	tap := New(Options{Route: RouteChat})
	tap.Head(200, "text/event-stream", "")
	tap.Observe(1, []byte(roleEvent+hiEvent+hiEvent[:20]))
	tap.Observe(2, []byte(hiEvent[20:]+hiEvent+finishEvent))
	tap.Observe(2, []byte(hiEvent)) // another read at the same time
	tap.End(9, true)
	var r collector.Record
	tap.Fill(&r)
	if got := fmt.Sprint(r.Chunks); got != "[{1ns 0 0 false} {2ns 0 0 false} {2ns 0 0 true} {2ns 0 0 true} {2ns 0 0 false}]" {
		t.Errorf("got %s", got)
	}
}

// TestStatistics reads vLLM's block where it is wrong: warnings, never a refusal.
func TestStatistics(t *testing.T) {
	f := func(block, want string, warnings int) {
		t.Helper()
		r := replayBody(Options{Route: RouteChat}, []byte(`{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"length"}],"metrics":{"speculative_decoding":`+block+`}}`), true)
		got := "none"
		if r.Spec != nil {
			got = fmt.Sprint(r.Spec.Accepted, r.Spec.Steps, r.Spec.AcceptedTokens, r.Spec.DraftedTokens, r.Spec.DraftLength, r.Spec.PerStepAccepted, r.Spec.Derived)
		}
		if got != want || len(r.Warnings) != warnings {
			t.Errorf("%s: got %s, warnings %q; want %s, %d", block, got, r.Warnings, want, warnings)
		}
	}
	f(`null`, "none", 0)
	f(`{}`, "none", 1)
	f(`"text"`, "none", 1)
	f(`{"mean_acceptance_length":NaN,"acceptance_histogram":[1,2],"num_spec_steps":3,"num_accepted_draft_tokens":2,"num_draft_tokens":3,"num_spec_tokens":1}`, "[1 2] 3 2 3 1 [] []", 0)
	f(`{"acceptance_histogram":[1,2],"num_draft_tokens":3}`, "[1 2] 3 2 3 0 [] [num_steps accepted_tokens]", 0)
	f(`{"acceptance_histogram":[1,2],"num_spec_steps":"3","num_accepted_draft_tokens":-2,"num_draft_tokens":3.0}`, "[1 2] 3 2 3 0 [] [num_steps accepted_tokens]", 0)
	f(`{"acceptance_histogram":[1,-2],"num_spec_steps":3,"num_accepted_draft_tokens":2,"num_draft_tokens":3}`, "[] 3 2 3 0 [] []", 0)
	f(`{"acceptance_histogram":[1,2],"num_spec_steps":4,"num_accepted_draft_tokens":9,"num_draft_tokens":3,"num_spec_tokens":7}`, "[1 2] 4 9 3 7 [] []", 4)
	f(`{"acceptance_histogram":[1,2],"num_spec_steps":3,"num_accepted_draft_tokens":2,"num_draft_tokens":3,"per_step_accepted":[1,1],"per_step_drafted":[1]}`, "[1 2] 3 2 3 0 [1 1] []", 2)
	f(`{"acceptance_histogram":[1,2],"num_spec_steps":3,"num_accepted_draft_tokens":2}`, "[1 2] 3 2 0 0 [] []", 1)
	f(`{"num_spec_steps":1e3,"num_draft_tokens":1e999}`, "[] 1000 0 0 0 [] []", 1)
}

// TestCountsDoNotChangeTheChunks: what vLLM's captures show with counts in every event, the rules
// for events without counts must find too.
func TestCountsDoNotChangeTheChunks(t *testing.T) {
	usage := regexp.MustCompile(`,"usage":\{"prompt_tokens":\d+,"total_tokens":\d+,"completion_tokens":\d+(,"completion_tokens_details":null)?\}`)
	ids := regexp.MustCompile(`"token_ids":\[[^\]]*\]`)
	compared := 0
	for _, dir := range captureFolders(t) {
		c, ok := readCapture(t, dir)
		if !ok || c.route != RouteChat && c.route != RouteCompletions || !strings.HasPrefix(c.head.Header.Get("Content-Type"), "text/event-stream") {
			continue
		}
		if strings.Contains(c.name, "tools") {
			continue // parsers send what they like; only counts tell
		}
		plain := ids.ReplaceAll(usage.ReplaceAll(c.body, nil), []byte(`"token_ids":null`))
		want := c.replay(New(c.options()))
		got := replayBody(c.options(), plain, false)
		if len(got.Chunks) != len(want.Chunks) {
			t.Errorf("%s: got %d chunks without counts, %d with", c.name, len(got.Chunks), len(want.Chunks))
		}
		compared++
	}
	if compared == 0 {
		t.Fatal("nothing compared")
	}
}

// TestManyChoices bounds what an answer with absurdly many choices costs.
func TestManyChoices(t *testing.T) {
	body := `{"choices":[` + strings.Repeat("{},", 100_000) + `{}]}`
	tap := New(Options{Route: RouteChat})
	tap.Head(200, "application/json", "")
	tap.Observe(1, []byte(body))
	for i := range 5000 {
		tap.event.parse(fmt.Appendf(nil, `{"choices":[{"index":%d,"speculative_decoding":{"num_spec_steps":1,"total_accepted_draft_tokens":1}}]}`, i))
		tap.apply(&tap.event)
	}
	tap.End(1, true)
	if len(tap.event.choices) > maxChoices || len(tap.choices) > maxChoices || len(tap.stats) > maxChoices || !slices.Contains(tap.warnings, tooManyChoices) {
		t.Errorf("got %d, %d, %d; warnings %q", len(tap.event.choices), len(tap.choices), len(tap.stats), tap.warnings)
	}
}
