package tap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spectap/collector"
)

// The documented shapes of engines that no capture is at hand of (wire-formats.md,
// wire-formats-engines.md), as whole bodies.

func readShape(t testing.TB, name string) *collector.Record {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", "shapes", name))
	if err != nil {
		t.Fatal(err)
	}
	route := RouteChat
	if strings.Contains(name, "completions") {
		route = RouteCompletions
	}
	return replayBody(Options{Route: route, KeepText: true}, body, strings.HasSuffix(name, ".json"))
}

// replayBody shows a Tap an event in each read, a millisecond apart, or a whole JSON body.
func replayBody(o Options, body []byte, whole bool) *collector.Record {
	t := New(o)
	status, media := 200, "text/event-stream; charset=utf-8"
	if whole {
		media = "application/json"
	}
	t.Head(status, media, "")
	at := time.Duration(0)
	for _, part := range strings.SplitAfter(string(body), "\n\n") {
		at += time.Millisecond
		t.Observe(at, []byte(part))
	}
	t.End(at, true)
	r := &collector.Record{}
	t.Fill(r)
	return r
}

func TestGoldenShapes(t *testing.T) {
	found, err := filepath.Glob(filepath.Join("testdata", "shapes", "*.[sj]s*"))
	if err != nil || len(found) == 0 {
		t.Fatal("no shapes", err)
	}
	for _, f := range found {
		if strings.HasSuffix(f, ".record.json") {
			continue
		}
		t.Run(filepath.Base(f), func(t *testing.T) {
			checkGolden(t, f+".record.json", readShape(t, filepath.Base(f)))
		})
	}
}

// TestShapes states by hand what each shape must give.
func TestShapes(t *testing.T) {
	histogram := []int{10, 12, 8, 10}
	full := func(engine string, k int) *collector.Spec {
		return &collector.Spec{Engine: engine, Accepted: histogram, Steps: 40, AcceptedTokens: 58, DraftedTokens: 120, DraftLength: k}
	}
	sums := []string{fieldAccepted, fieldSteps, fieldAcceptedTokens, fieldDraftedTokens}
	f := func(name, engine, finish, stop, reply string, tokens []int, firstMS int, spec *collector.Spec, missing string) {
		t.Helper()
		r := readShape(t, name)
		got := []any{r.Engine, r.Finish, r.StopReason, r.Reply, r.SpecMissing, r.ErrorKind}
		want := []any{engine, finish, stop, reply, missing, ""}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(spec, r.Spec); diff != "" {
			t.Errorf("%s: statistics (-want +got):\n%s", name, diff)
		}
		var have []int
		for _, c := range r.Chunks {
			have = append(have, c.Tokens)
		}
		if diff := cmp.Diff(tokens, have); diff != "" {
			t.Errorf("%s: tokens of the chunks (-want +got):\n%s", name, diff)
		}
		if r.FirstOutput.Known != (firstMS > 0) || r.FirstOutput.Offset != time.Duration(firstMS)*time.Millisecond {
			t.Errorf("%s: first output %+v, want event %d", name, r.FirstOutput, firstMS)
		}
	}
	// Separate finish, block and usage events are no chunks; reasoning is the first output.
	f("sglang-chat.sse", "sglang", "stop", "", "Hi there.", []int{0, 0, 0}, 2, full("sglang", 0), "")
	// The role event counts a token already: it is given to the event that brings its text.
	f("sglang-chat-continuous.sse", "sglang", "stop", "", "Hi there.", []int{1, 3}, 2, full("sglang", 0), "")
	// One block for each choice: their sum.
	f("sglang-chat-n2.sse", "sglang", "length", "", "A", []int{0, 0}, 2, &collector.Spec{
		Engine: "sglang", Accepted: []int{11, 13, 9, 10}, Steps: 43, AcceptedTokens: 61, DraftedTokens: 129, Derived: sums}, "")
	// Zeros may mean that nothing was reported.
	f("sglang-chat-zero.json", "sglang", "stop", "", "Hi.", nil, 0, nil, collector.MissingNotReported)
	// A named event without choices, the finish with the last text, a stop string.
	f("sglang-completions.sse", "sglang", "stop", "string", "Hi there", []int{0, 0}, 1, full("sglang", 0), "")
	// A space after the role event; an empty token; a named event that is no JSON.
	f("trtllm-chat.sse", "trtllm", "stop", "", "Hi.", []int{0, 0, 0}, 2, full("trtllm", 3), "")
	f("trtllm-chat-n2.json", "trtllm", "stop", "", "A", nil, 0, &collector.Spec{
		Engine: "trtllm", Accepted: []int{10, 14, 8, 10}, Steps: 42, AcceptedTokens: 60, DraftedTokens: 124, Derived: sums}, "")
	// The role repeats during prefill; the finish event is empty; no histogram.
	f("llamacpp-chat.sse", "llamacpp", "stop", "", "Hi", []int{0, 0}, 5, &collector.Spec{
		Engine: "llamacpp", Steps: 41, AcceptedTokens: 58, DraftedTokens: 120, Derived: []string{fieldSteps}}, "")
	// draft_rounds is a number of steps that was reported.
	f("llamacpp-chat-rounds.sse", "llamacpp", "length", "", "Hi", []int{0}, 2, &collector.Spec{
		Engine: "llamacpp", Steps: 40, AcceptedTokens: 58, DraftedTokens: 120}, "")
	// Nothing drafted; the usage on the finish event is the sum, not an increment.
	f("llamacpp-completions.sse", "llamacpp", "stop", "", "Hi you", []int{0, 0}, 1, nil, collector.MissingNotReported)
	// A sparse histogram in the choice.
	f("vllm-premerge.sse", "vllm", "stop", "", "Hi", []int{0, 0}, 2, &collector.Spec{
		Engine: "vllm", Accepted: []int{39, 1, 0, 3}, Steps: 43, AcceptedTokens: 10, DraftedTokens: 129, DraftLength: 3}, "")
	// The full answer in one event.
	f("vllm-completions-one-event.sse", "vllm", "length", "", "A whole answer.", []int{10}, 1, &collector.Spec{
		Engine: "vllm", Accepted: []int{1, 1, 1, 1}, Steps: 4, AcceptedTokens: 6, DraftedTokens: 11, DraftLength: 3,
		PerStepAccepted: []int{3, 0, 2, 1}, PerStepDrafted: []int{3, 3, 3, 2}}, "")
	// Usage rides on the last content event.
	f("dynamo-chat.sse", "", "stop", "", "Hi.", []int{0, 0}, 4, nil, collector.MissingNotReported)
	// The echo of the prompt is text, but no output.
	f("vllm-chat-echo.sse", "", "stop", "", "Echoed start goon", []int{1, 3}, 3, nil, collector.MissingNotReported)
}
