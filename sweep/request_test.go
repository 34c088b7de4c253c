package sweep

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"spectap/collector"
)

// Each engine gets the members that it takes.
func TestMembersByEngine(t *testing.T) {
	seed := int64(9)
	base := template{model: "m", topP: 1, maxTokens: 8, cacheSalt: "s", ignoreEOS: true, includeStop: true, countEvents: true, chatArgs: json.RawMessage(`{"x":1}`), seed: &seed}
	f := func(engine, want string, values ...string) {
		t.Helper()
		b := base
		b.engine = engine
		text, err := b.body([]message{{"user", "<hi> & \u2028"}})
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		all := strings.Fields("model messages temperature top_p max_tokens chat_template_kwargs seed stream stream_options " + want)
		slices.Sort(all)
		if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, all) {
			t.Errorf("%s: got members %v, want %v", engine, keys, all)
		}
		for _, v := range values {
			if !strings.Contains(string(text), v) {
				t.Errorf("%s: the body has no %s: %s", engine, v, text)
			}
		}
	}
	open := "top_k min_p repetition_penalty skip_special_tokens ignore_eos include_stop_str_in_output"
	f(engineVLLM, open+" cache_salt", `"top_k":0`, `"cache_salt":"s"`, `"content":"<hi>`)
	f(engineSGLang, open+" return_spec_tokens_details", `"top_k":-1`, `"return_spec_tokens_details":true`)
	f(engineTRTLLM, open, `"continuous_usage_stats":true`)
	f(engineLlamaCPP, "top_k min_p repeat_penalty ignore_eos", `"stream_options":{"include_usage":true}`)
	f("", "", `"stream_options":{"include_usage":true}`)
	base.insist = true
	f("", "", `"continuous_usage_stats":true`)
}

// The baggage header percent-encodes what is not a plain character.
func TestBaggage(t *testing.T) {
	got := baggage(collector.Labels{Run: "r-1", Point: "t0.6_c1", Conversation: "0", Question: "a,b;c=d", Category: "Fußball %", Turn: 0, HasTurn: true})
	want := "spectap.run=r-1,spectap.point=t0.6_c1,spectap.conversation=0,spectap.question=a%2Cb%3Bc%3Dd,spectap.turn=0,spectap.category=Fu%C3%9Fball%20%25"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := baggage(collector.Labels{Run: "r"}); got != "spectap.run=r" {
		t.Errorf("got %s, want the run alone", got)
	}
}
