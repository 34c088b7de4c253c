package collector

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestConversationALs: pooled over the turns that the metric reads, in the order given.
func TestConversationALs(t *testing.T) {
	convs := []Conversation{
		{Index: 1, Turns: []Turn{{Lengths: []int{1, 2}}, {Lengths: []int{3}}, {Lengths: []int{6, 6, 6}}}},
		{Index: 0, Turns: []Turn{{}, {Lengths: []int{1}}}},
		{Index: 2},
	}
	f := func(m Metric, want ...float64) {
		t.Helper()
		got := ConversationALs(m, convs)
		if !slices.Equal(got[:2], want) || !math.IsNaN(got[2]) {
			t.Errorf("%s: got %v, want %v and NaN", m, got, want)
		}
	}
	f(MetricMTBench, 2, 1) // the third turn is not read
	f(MetricSpecBench, 4, 1)
	f(MetricAcceptanceRate, 4, 1)
	if got, want := LengthHistogram(MetricMTBench, convs), map[int]int{1: 2, 2: 1, 3: 1}; !maps.Equal(got, want) {
		t.Errorf("got histogram %v, want %v", got, want)
	}
}

// TestAcceptanceOrder: conversations may come in any order, the file has them in
// data-set order.
func TestAcceptanceOrder(t *testing.T) {
	a := Conversation{Index: 0, QuestionID: json.RawMessage("7"), Category: json.RawMessage(`"x"`), Turns: []Turn{{Lengths: []int{1, 2}}, {Lengths: []int{1}}}}
	b := Conversation{Index: 1, QuestionID: json.RawMessage(`"q"`), Category: json.RawMessage(`"y"`), Turns: []Turn{{Lengths: []int{1, 4}}, {Lengths: []int{2}}}}
	for _, m := range []Metric{MetricMTBench, MetricSpecBench, MetricAcceptanceRate} {
		want, err := Acceptance(m, []Conversation{a, b})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Acceptance(m, []Conversation{b, a})
		if err != nil {
			t.Fatal(err)
		}
		if g, w := AppendCompact(nil, got), AppendCompact(nil, want); string(g) != string(w) {
			t.Errorf("%s: got %s, want %s", m, g, w)
		}
	}
	if _, err := Acceptance("EAGLE", []Conversation{a}); err == nil {
		t.Error("unknown metric: got no error")
	}
	if _, err := Acceptance(MetricSpecBench, []Conversation{{Turns: []Turn{{Lengths: []int{1, 0}}}}}); err == nil {
		t.Error("a chunk of 0 tokens: got no error")
	}
}

// TestQuestionIDs: keys are told apart as in a Python dict and written as json.dump does.
func TestQuestionIDs(t *testing.T) {
	f := func(id, identity, key string) {
		t.Helper()
		if got := idIdentity(json.RawMessage(id)); got != identity {
			t.Errorf("%s: got identity %s, want %s", id, got, identity)
		}
		if got := idKey(json.RawMessage(id)); got != key {
			t.Errorf("%s: got key %s, want %s", id, got, key)
		}
	}
	f(`81`, `81`, `81`)
	f(`81.0`, `81`, `81.0`) // the same key as 81
	f(`"81"`, `"81`, `81`)  // another key with the same text
	f(`1.5`, `3/2`, `1.5`)
	f(`true`, `1`, `true`)
	f(`null`, `null`, `null`)
	f(``, `null`, `null`)
	f(`"\u00e9"`, `"é`, `é`)
	f(`"é"`, `"é`, `é`)
	f(`"a b~"`, `"a b~`, `a b~`)
	f(`"a\"b"`, `"a"b`, `a"b`)
	f(`" `, `" `, `"`)
	f(` 81`, `81`, `81`)
	f(`0`, `0`, `0`)
	f(`-0`, `0`, `0`)
	f(`81x`, `81x`, `81x`)
	f(`"a"b"`, `"a"b"`, `"a"b"`)
	f(`12345678901234567890`, `12345678901234567890`, `12345678901234567890`)
}

// benchmarkConversations are 80 conversations of 2 turns with 100 chunks.
func benchmarkConversations() []Conversation {
	convs := make([]Conversation, 80)
	for i := range convs {
		convs[i] = Conversation{Index: i, QuestionID: json.RawMessage("81"), Category: json.RawMessage(`"a"`), Turns: make([]Turn, 2)}
		for j := range convs[i].Turns {
			turn := Turn{Lengths: make([]int, 100), Times: make([]float64, 101)}
			for k := range turn.Lengths {
				turn.Lengths[k] = 1 + (i+j+k)%6
				turn.Tokens += turn.Lengths[k]
				turn.Times[k+1] = float64(i) + 0.02*float64(k+1)
			}
			turn.Times[0] = float64(i)
			convs[i].Turns[j] = turn
		}
	}
	return convs
}

func BenchmarkAcceptance(b *testing.B) {
	convs := benchmarkConversations()
	for _, m := range []Metric{MetricMTBench, MetricSpecBench, MetricAcceptanceRate} {
		b.Run(string(m), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Acceptance(m, convs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTiming(b *testing.B) {
	var turns []Turn
	for _, c := range benchmarkConversations() {
		turns = append(turns, c.Turns...)
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := Timing(turns, 4)
		if err != nil {
			b.Fatal(err)
		}
		r.Object()
	}
}

// TestNoCategory is a data set without categories, which specdec_bench holds as None.
func TestNoCategory(t *testing.T) {
	p := Point{Run: Run{Metric: MetricSpecBench, GPUs: 1, Postprocess: "base", Questions: []Question{{ID: json.RawMessage("1"), Turns: 1}}}}
	p.Records = []*Record{{
		Labels: Labels{Conversation: "0", HasTurn: true}, Start: time.Unix(1, 0), Status: 200, Finish: "length", Stream: true,
		Prompt: "p", Reply: "r", Chunks: []Chunk{{At: 1e9, Tokens: 1}, {At: 2e9, Tokens: 2}},
	}}
	files, _, err := p.Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"specbench_results.json": `"null": 1.5`, "specbench_responses.jsonl": `"category": null`} {
		if !strings.Contains(string(files[name]), want) {
			t.Errorf("%s: got %s, want %s in it", name, files[name], want)
		}
	}
}
