package collector

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever was asked, in whatever order it ended: every request is a turn or is set
// apart, no turn counts twice, and whole conversations are found whole.
func TestRecogniseProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		var requests []asked
		for range rapid.IntRange(0, 12).Draw(rt, "n") {
			at := rapid.IntRange(0, 50).Draw(rt, "at")
			a := asked{
				at: at, end: at + rapid.IntRange(0, 20).Draw(rt, "for"),
				users:  strings.Join(rapid.SliceOfN(words, 1, 3).Draw(rt, "users"), "|"),
				answer: rapid.SampledFrom([]string{"", "r", "s"}).Draw(rt, "answer"), reply: rapid.SampledFrom([]string{"", "r", "s"}).Draw(rt, "reply"),
				named:  rapid.SampledFrom([]string{"", "", "c:1", "c:2", "s:1", "b:0", "b:x"}).Draw(rt, "named"),
				failed: rapid.SampledFrom([]string{"", "", ErrHTTPStatus, ErrClientGone}).Draw(rt, "failed"),
				change: rapid.SampledFrom([]func(*Record){nil, nil, nil, unread, probe}).Draw(rt, "change"),
			}
			requests = append(requests, a)
		}
		run := Run{ID: "run", Point: "p", Metric: MetricAcceptanceRate}
		if rapid.Bool().Draw(rt, "file") {
			run.Questions = []Question{{ID: json.RawMessage("1"), Turns: 2, Prompts: []string{"a", "b"}}, {ID: json.RawMessage("2"), Turns: 1, Prompts: []string{"c"}}}
		}
		p, text := recognised(t, run, requests)
		a := p.Run.Attribution
		apart := 0
		for _, n := range a.SetApart {
			apart += n
		}
		by := 0
		for _, n := range a.By {
			by += n
		}
		if a.Requests != len(requests) || a.Attributed+apart != a.Requests || by != a.Conversations {
			rt.Fatalf("the report does not add up: %+v", a)
		}
		sel := p.selected()
		if sel.foreign > 0 {
			rt.Fatalf("%d requests are neither a turn nor set apart: %s", sel.foreign, text)
		}
		for _, f := range sel.failures {
			if f.Reason == ReasonDuplicate || f.Reason == ReasonMissing && len(run.Questions) == 0 || f.Conversation < 0 {
				rt.Fatalf("%s: got %v", text, f)
			}
		}
		if again, same := recognised(t, run, requests); same != text || again.Run.Attribution.Conversations != a.Conversations {
			rt.Fatalf("got %s, then %s", text, same)
		}
	})
}
