package collector

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var genText = rapid.StringOf(rapid.RuneFrom([]rune("aZ09 \"\\/<>&'\n\t\u00e9\u2028\u4e2d\U0001f600\x00\x7f")))

func genMoment(t *rapid.T, name string) Moment {
	if !rapid.Bool().Draw(t, name+" known") {
		return Moment{}
	}
	return At(time.Duration(rapid.Int64().Draw(t, name)))
}

func genMembers(t *rapid.T, name string) map[string]json.RawMessage {
	value := rapid.SampledFrom([]string{`1`, `1.0`, `0.70`, `1e-3`, `"a<b"`, `null`, `true`, `[1,"x"]`, `{"a":0}`})
	return rapid.MapOf(genText, rapid.Map(value, func(s string) json.RawMessage { return json.RawMessage(s) })).Draw(t, name)
}

func genSpec(t *rapid.T) *Spec {
	if !rapid.Bool().Draw(t, "has spec") {
		return nil
	}
	ints := rapid.SliceOf(rapid.IntRange(0, 1<<40))
	s := &Spec{
		Engine: genText.Draw(t, "spec engine"), Steps: rapid.Int().Draw(t, "steps"),
		AcceptedTokens: rapid.Int().Draw(t, "accepted"), DraftedTokens: rapid.Int().Draw(t, "drafted"),
		DraftLength: rapid.Int().Draw(t, "k"), PerStepAccepted: ints.Draw(t, "per step"),
		PerStepDrafted: ints.Draw(t, "per step drafted"), Derived: rapid.SliceOf(genText).Draw(t, "derived"),
	}
	if rapid.Bool().Draw(t, "has histogram") {
		s.Accepted = append([]int{}, ints.Draw(t, "histogram")...)
	}
	return s
}

func genRecord(t *rapid.T) *Record {
	text := func(name string) string { return genText.Draw(t, name) }
	r := &Record{
		ID: text("id"), RequestID: text("x"), ResponseID: text("r"), Traceparent: text("tp"),
		UpstreamWritten: genMoment(t, "written"), ResponseHead: genMoment(t, "head"), FirstOutput: genMoment(t, "first"),
		LastByte: genMoment(t, "last"), Done: genMoment(t, "done"), Stamps: text("stamps"),
		ResidenceP50: genMoment(t, "p50"), ResidenceMax: genMoment(t, "max"),
		Method: text("method"), Path: text("path"), Model: text("model"), Engine: text("engine"), Stream: rapid.Bool().Draw(t, "stream"),
		SamplingClient: genMembers(t, "client"), SamplingSent: genMembers(t, "sent"), Injected: rapid.SliceOf(genText).Draw(t, "injected"),
		Status: rapid.Int().Draw(t, "status"), ErrorKind: text("kind"), Error: text("error"), Retries: rapid.Int().Draw(t, "retries"),
		SawDone: rapid.Bool().Draw(t, "saw done"), Finish: text("finish"), StopReason: text("stop"), Events: rapid.Int().Draw(t, "events"),
		Spec: genSpec(t), SpecMissing: text("missing"), RequestBytes: rapid.Int().Draw(t, "in"), ResponseBytes: rapid.Int().Draw(t, "out"),
		UserHash: text("hash"), Prompt: text("prompt"), Reply: text("reply"), Reasoning: text("reasoning"),
		Warnings: rapid.SliceOf(genText).Draw(t, "warnings"), Headers: rapid.MapOf(genText, genText).Draw(t, "headers"),
	}
	if rapid.Bool().Draw(t, "has start") {
		r.Start = time.Unix(0, rapid.Int64().Draw(t, "start"))
	}
	r.Labels = Labels{Run: text("run"), Point: text("point"), Conversation: text("conv"), Question: text("q"), Category: text("cat")}
	if r.Labels.HasTurn = rapid.Bool().Draw(t, "has turn"); r.Labels.HasTurn {
		r.Labels.Turn = rapid.Int().Draw(t, "turn")
	}
	if rapid.Bool().Draw(t, "has usage") {
		n := func(name string) int { return rapid.Int().Draw(t, name) }
		r.Usage = &Usage{n("p"), n("c"), n("cached"), n("reasoning tokens")}
	}
	for range rapid.IntRange(0, 5).Draw(t, "chunks") {
		r.Chunks = append(r.Chunks, Chunk{
			At: time.Duration(rapid.Int64().Draw(t, "at")), Tokens: rapid.IntRange(0, 9).Draw(t, "tokens"),
			Choice: rapid.IntRange(0, 2).Draw(t, "choice"), Shared: rapid.Bool().Draw(t, "shared"),
		})
	}
	return r
}

// sameRecord treats nil and empty as one, except for Spec.Accepted, where nil says that there is no histogram.
var sameRecord = cmp.Options{
	cmp.FilterPath(func(p cmp.Path) bool { return !strings.HasSuffix(p.String(), "Spec.Accepted") }, cmpopts.EquateEmpty()),
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genRecord(t)
		line, err := encodeRecord(want, true)
		if err != nil {
			t.Fatal(err)
		}
		got := new(Record)
		if err := json.Unmarshal(line, got); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if diff := cmp.Diff(want, got, sameRecord); diff != "" {
			t.Fatalf("record differs (-want +got):\n%s%s", diff, line)
		}
		if want.Spec != nil && (want.Spec.Accepted == nil) != (got.Spec.Accepted == nil) {
			t.Fatalf("got histogram %v, want %v", got.Spec.Accepted, want.Spec.Accepted)
		}
		if strings.Count(string(line), "\n") != 1 {
			t.Fatalf("got %q, want one line", line)
		}
	})
}

func TestRunRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string { return genText.Draw(t, name) }
		number := rapid.Float64Range(0, 1e15)
		counters := func() *Counters {
			if !rapid.Bool().Draw(t, "counters") {
				return nil
			}
			return &Counters{number.Draw(t, "d"), number.Draw(t, "dt"), number.Draw(t, "a"), rapid.SliceOf(number).Draw(t, "pos"), rapid.Bool().Draw(t, "spec"),
				number.Draw(t, "r"), number.Draw(t, "g"), number.Draw(t, "p"), number.Draw(t, "pre"), number.Draw(t, "q"), number.Draw(t, "h"), rapid.MapOf(genText, genText).Draw(t, "config")}
		}
		want := Run{
			ID: text("id"), Point: text("point"), Dataset: text("data"), Metric: Metric(text("metric")), GPUs: rapid.Int().Draw(t, "gpus"),
			Temperature: number.Draw(t, "temp"), Concurrency: rapid.Int().Draw(t, "c"), Repeat: Repeat(rapid.IntRange(0, maxRepeats-1).Draw(t, "repeat")), Warmup: rapid.IntRange(0, 1000).Draw(t, "warmup"), Acceptance: text("acc"), Measure: text("m"),
			Postprocess: text("post"), IgnoreEOS: rapid.Bool().Draw(t, "eos"), NoSpecStats: rapid.Bool().Draw(t, "nospec"), Seed: rapid.Int64().Draw(t, "seed"),
			Model: text("model"), Engine: text("engine"), EngineVersion: text("version"), Before: counters(), After: counters(),
		}
		if rapid.Bool().Draw(t, "configuration") {
			want.Configuration = json.RawMessage("{\n    \"a\": \"<\\u00e9\"\n}")
		}
		if rapid.Bool().Draw(t, "attribution") {
			want.Attribution = &Attribution{Requests: 9, Attributed: 7, Conversations: 4, By: map[string]int{"history": 4}, SetApart: map[string]int{ApartForeign: 2},
				Questions: 80, Asked: 4, QuestionsBy: map[string]int{"label": 4}}
		}
		for range rapid.IntRange(0, 3).Draw(t, "questions") {
			id := rapid.SampledFrom([]string{`81`, `"a b"`, `null`}).Draw(t, "id")
			want.Questions = append(want.Questions, Question{json.RawMessage(id), text("cat"), text("sys"), rapid.IntRange(0, maxTurns).Draw(t, "turns"), rapid.SliceOf(genText).Draw(t, "prompts"), rapid.Bool().Draw(t, "not asked")})
		}
		line, err := encodeRun(want, true)
		if err != nil {
			t.Fatal(err)
		}
		var got Run
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("run differs (-want +got):\n%s", diff)
		}
	})
}

// TestRecordMembers holds the names that readers outside of this program use.
func TestRecordMembers(t *testing.T) {
	line, err := json.Marshal(&Record{})
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(line, &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"schema", "x_request_id", "start_unix_ns", "ttft_s", "chunk_s", "status", "error_kind", "finish_reason",
		"completion_tokens", "spec", "spec_missing", "sampling_client", "sampling_sent"} {
		if _, ok := members[name]; !ok {
			t.Errorf("an empty Record has no %q: %s", name, line)
		}
	}
}

func TestSeconds(t *testing.T) {
	f := func(d time.Duration, want string) {
		t.Helper()
		if got := string(appendSeconds(nil, d)); got != want {
			t.Errorf("%d ns: got %s, want %s", int64(d), got, want)
		}
		if got, err := parseSeconds(want); got != d || err != nil {
			t.Errorf("%s: got %d ns (%v), want %d", want, got, err, int64(d))
		}
	}
	f(0, "0")
	f(1, "0.000000001")
	f(time.Second+20*time.Millisecond, "1.02")
	f(-1500*time.Millisecond, "-1.5")
	f(math.MaxInt64, "9223372036.854775807")
	f(math.MinInt64, "-9223372036.854775808")
	for text, want := range map[string]time.Duration{"1e-3": time.Millisecond, "0.12345678949": 123456789, "2.5E0": 2500 * time.Millisecond} {
		if got, err := parseSeconds(text); got != want || err != nil {
			t.Errorf("%s: got %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1.2.3", "x", "1e300", "9223372036.854775808", "--1"} {
		if d, err := parseSeconds(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, d)
		}
	}
}

func TestRecordRefused(t *testing.T) {
	f := func(line string) {
		t.Helper()
		if err := new(Record).UnmarshalJSON([]byte(line)); err == nil {
			t.Errorf("%s: no error", line)
		}
	}
	f(`{"schema":"spectap.record/2"}`)
	f(`{"schema":"spectap.record/1","chunk_s":[1],"chunk_tokens":[1,2]}`)
	f(`{"schema":"spectap.record/1","chunk_s":[1],"chunk_shared":[1]}`)
	f(`{"schema":"spectap.record/1","chunk_s":["x"]}`)
}

func BenchmarkRecordEncode(b *testing.B) {
	r := &Record{ID: "1", RequestID: "req-1", Start: time.Unix(1796008942, 5), Usage: &Usage{20, 256, 0, 0}, Reply: "kept out",
		Spec: &Spec{Engine: "vllm", Accepted: []int{11, 7, 7, 4, 39}}, SamplingSent: map[string]json.RawMessage{"temperature": json.RawMessage("0")}}
	for i := range 100 {
		r.Chunks = append(r.Chunks, Chunk{At: time.Duration(i) * 20123456, Tokens: 3})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encodeRecord(r, false); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSecondsList(t *testing.T) {
	f := func(text string, want secondsList, ok bool) {
		t.Helper()
		var got secondsList
		if err := json.Unmarshal([]byte(text), &got); (err == nil) != ok || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	f(`null`, nil, true)
	f(`[]`, nil, true)
	f(`[ ]`, nil, true)
	f("[0.5 ,\t-1,2e-3]", secondsList{5e8, -1e9, 2e6}, true)
	f(`[1,"2"]`, nil, false)
	f(`[[1]]`, nil, false)
	f(`[null]`, nil, false)
	f(`{"a":1}`, nil, false)
	f(`"1,2"`, nil, false)
	f(`7`, nil, false)
}

// A list of numbers is read as encoding/json reads one, however it is spelled.
func TestIntList(t *testing.T) {
	for _, text := range []string{`[]`, `[0]`, `[1,20,333333333]`, `[4444444444]`, `[99999999999999999999]`, `[1, 2]`, `[-1,2]`, `[null,1]`, `null`, `[1.5]`, `[1e2]`, `["1"]`, `{}`, `[1,[2]]`} {
		var got intList
		var want []int
		err, wantErr := json.Unmarshal([]byte(text), &got), json.Unmarshal([]byte(text), &want)
		if (err == nil) != (wantErr == nil) || !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: got %v, %v; want %v, %v", text, got, err, want, wantErr)
		}
	}
}
