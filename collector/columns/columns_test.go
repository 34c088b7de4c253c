package columns

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"spectap/collector"
)

var update = flag.Bool("update", false, "rewrite testdata/schema.txt")

// The schema is stable: whoever changes testdata/schema.txt changes what readers of
// old and new files see, and Schema with it where a column goes or means another thing.
func TestSchema(t *testing.T) {
	path := filepath.Join("testdata", "schema.txt")
	got := Schema + "\n" + parquet.SchemaOf(Row{}).String() + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the schema differs from %s; run go test ./collector/columns -update if that is meant\n%s", path, diff)
	}
}

// fullRecord has every field that has a column.
func fullRecord() *collector.Record {
	return &collector.Record{
		ID: "a", RequestID: "b", ResponseID: "c", NamedBy: "baggage", SetApart: "warm_up", Traceparent: "00-d-e-01",
		Labels:          collector.Labels{Run: "r", Point: "t0_c8", Conversation: "3", Question: "84", Category: "math", Turn: 0, HasTurn: true},
		Start:           time.Date(2026, 11, 30, 23, 59, 59, 999999500, time.FixedZone("", -3600)), // the next day in UTC
		UpstreamWritten: collector.At(time.Millisecond), ResponseHead: collector.At(2 * time.Millisecond), FirstOutput: collector.At(3 * time.Millisecond),
		LastByte: collector.At(9 * time.Millisecond), Done: collector.At(10 * time.Millisecond), Stamps: "kernel",
		ResidenceP50: collector.At(0), ResidenceMax: collector.At(time.Microsecond),
		Method: "POST", Path: "/v1/chat/completions", Route: "chat", Model: "m", Engine: "vllm", Stream: true,
		SamplingClient: map[string]json.RawMessage{"temperature": json.RawMessage("1e0")},
		SamplingSent: map[string]json.RawMessage{
			"temperature": json.RawMessage("1e0"), "top_p": json.RawMessage(`"0.5"`), "top_k": json.RawMessage("20.0"), "min_p": json.RawMessage("0"),
			"repetition_penalty": json.RawMessage("1.1"), "presence_penalty": json.RawMessage("-1"), "frequency_penalty": json.RawMessage("0.25"),
			"seed": json.RawMessage("9007199254740993"), "max_tokens": json.RawMessage("7"), "max_completion_tokens": json.RawMessage("8"),
			"min_tokens": json.RawMessage("1"), "n": json.RawMessage("1"), "ignore_eos": json.RawMessage("false"),
		},
		Injected: []string{"seed"}, Status: 200, Error: "note", Retries: 1, SawDone: true, Finish: "length", StopReason: "token:2", Events: 4,
		Chunks: []collector.Chunk{{At: 3 * time.Millisecond, Tokens: 1}, {At: 6 * time.Millisecond, Tokens: 3, Shared: true}, {At: 9 * time.Millisecond, Tokens: 1}},
		Usage:  &collector.Usage{PromptTokens: 5, CompletionTokens: 5, CachedTokens: 0, ReasoningTokens: 2},
		Spec: &collector.Spec{Engine: "vllm", Accepted: []int{1, 0, 1}, Steps: 2, AcceptedTokens: 2, DraftedTokens: 4, DraftLength: 2,
			PerStepAccepted: []int{2, 0}, PerStepDrafted: []int{2, 2}, Derived: []string{"steps"}},
		SpecMissing: "", RequestBytes: 11, ResponseBytes: 12, UserHash: "h", Headers: map[string]string{"x-b": "2", "x-a": "1"},
		Prompt: "p", Reply: "q", Reasoning: "o", Warnings: []string{"w"},
	}
}

func ptr[T any](x T) *T { return &x }

// rewrite writes rows and reads them again, as another program would.
func rewrite(t *testing.T, rows ...Row) (*parquet.File, []Row) {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, "v1.2.3")
	for _, row := range rows {
		if err := w.Write(row, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Rows() != int64(len(rows)) {
		t.Errorf("got %d rows, want %d", w.Rows(), len(rows))
	}
	file, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := parquet.Read[Row](bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return file, got
}

// A record of an open loop has its rate and, if it is a conversation's first turn,
// the moment when that was to begin.
func TestOpenLoop(t *testing.T) {
	start := time.Unix(1700000000, 0)
	run := &collector.Run{ID: "r", Point: "t0_q2.5", Repeat: 1, Schedule: &collector.Schedule{Rate: 2.5, Arrivals: collector.ArrivalsPoisson, Start: start,
		Offsets: []time.Duration{0, time.Second, 1500 * time.Millisecond}}}
	f := func(run *collector.Run, conversation string, turn int, apart string, want *float64) {
		t.Helper()
		r := &collector.Record{ID: "a", SetApart: apart, Start: start.Add(1750 * time.Millisecond), Labels: collector.Labels{Conversation: conversation, Turn: turn, HasTurn: true}}
		row, err := Of(Origin{Run: run}, r)
		if err != nil {
			t.Fatal(err)
		}
		_, rows := rewrite(t, row)
		got := rows[0]
		if diff := cmp.Diff(want, got.Intended); diff != "" {
			t.Errorf("conversation %q turn %d %s:\n%s", conversation, turn, apart, diff)
		}
		if got.RequestRate == nil || *got.RequestRate != 2.5 || got.Arrivals != "poisson" || got.Concurrency != nil || *got.Repeat != 2 {
			t.Errorf("got rate %v, arrivals %q, concurrency %v, repeat %v", got.RequestRate, got.Arrivals, got.Concurrency, got.Repeat)
		}
	}
	f(run, "2", 0, "", ptr(-0.25))
	f(run, "2", 1, "", nil)
	f(run, "3", 0, "", nil)
	f(run, "x", 0, "", nil)
	f(run, "2", 0, collector.ApartWarmup, nil)
	never := *run
	never.Schedule = &collector.Schedule{Rate: 2.5, Arrivals: collector.ArrivalsPoisson, Offsets: run.Schedule.Offsets}
	f(&never, "2", 0, "", nil)
}

// Every column holds what the Record says, in its unit, after a round trip.
func TestOf(t *testing.T) {
	run := &collector.Run{ID: "other", Point: "t1_c1", Dataset: "mtbench", Concurrency: 8, EngineVersion: "0.32.0",
		Schedule: &collector.Schedule{Rate: 20, Arrivals: collector.ArrivalsConstant, Start: time.Date(2026, 12, 1, 0, 59, 59, 0, time.UTC), Offsets: make([]time.Duration, 4)}}
	row, err := Of(Origin{File: "x.jsonl", Line: 4, Run: run, Rules: collector.LengthRules{DraftLength: 2}}, fullRecord())
	if err != nil {
		t.Fatal(err)
	}
	want := Row{
		ID: "a", RequestID: "b", ResponseID: "c", Traceparent: "00-d-e-01",
		Run: "r", Point: "t0_c8", Dataset: "mtbench", Concurrency: ptr(int64(8)), Conversation: "3", Question: "84", Category: "math", Turn: ptr(int64(0)),
		NamedBy: "baggage", SetApart: "warm_up", RequestRate: ptr(20.0), Arrivals: "constant", Intended: ptr(-0.9999995), Repeat: ptr(int64(1)),
		StartTime: ptr(time.Date(2026, 12, 1, 0, 59, 59, 999999000, time.UTC).UnixMicro()), StartDay: ptr(int32(20788)), // 2026-12-01
		UpstreamWritten: ptr(0.001), ResponseHead: ptr(0.002), TTFT: ptr(0.003), LastByte: ptr(0.009), Done: ptr(0.01),
		TimePerOutputToken: ptr(0.0015), ResidenceP50: ptr(0.0), ResidenceMax: ptr(0.000001), Stamps: "kernel",
		Method: "POST", Path: "/v1/chat/completions", Route: "chat", Model: "m", Engine: "vllm", EngineVersion: "0.32.0", Stream: true,
		Status: ptr(int64(200)), Error: "note", Retries: 1, SawDone: true, FinishReason: "length", StopReason: "token:2", Events: 4, RequestBytes: 11, ResponseBytes: 12,
		PromptTokens: ptr(int64(5)), CompletionTokens: ptr(int64(5)), CachedTokens: ptr(int64(0)), ReasoningTokens: ptr(int64(2)),
		VerifySteps: ptr(int64(2)), AcceptedTokens: ptr(int64(2)), DraftedTokens: ptr(int64(4)), DraftLength: ptr(int64(2)),
		Accepted: []int64{1, 0, 1}, PerStepAccepted: []int64{2, 0}, PerStepDrafted: []int64{2, 2}, SpecDerived: []string{"steps"},
		ClientChunks: ptr(int64(3)), ClientTokens: ptr(int64(5)), ClientAL: ptr(5.0 / 3), ClientSource: "exact",
		ServerChunks: ptr(int64(3)), ServerTokens: ptr(int64(5)), ServerAL: ptr(5.0 / 3), DraftlessSteps: ptr(int64(0)), CutTokens: ptr(int64(0)),
		Temperature: ptr(1.0), TopP: ptr(0.5), TopK: ptr(int64(20)), MinP: ptr(0.0), RepetitionPenalty: ptr(1.1), PresencePenalty: ptr(-1.0), FrequencyPenalty: ptr(0.25),
		Seed: ptr(int64(9007199254740993)), MaxTokens: ptr(int64(8)), MinTokens: ptr(int64(1)), Choices: ptr(int64(1)), IgnoreEOS: ptr(false),
		SamplingSent:   `{"frequency_penalty":0.25,"ignore_eos":false,"max_completion_tokens":8,"max_tokens":7,"min_p":0,"min_tokens":1,"n":1,"presence_penalty":-1,"repetition_penalty":1.1,"seed":9007199254740993,"temperature":1e0,"top_k":20.0,"top_p":"0.5"}`,
		SamplingClient: `{"temperature":1e0}`, Injected: []string{"seed"},
		ChunkTimes: []float64{0.003, 0.006, 0.009}, ChunkTokens: []int64{1, 3, 1}, ChunkShared: []bool{false, true, false},
		UserHash: "h", Headers: `{"x-a":"1","x-b":"2"}`, Prompt: "p", Reply: "q", Reasoning: "o", Warnings: []string{"w"}, SourceFile: "x.jsonl", SourceLine: 4,
	}
	_, got := rewrite(t, row)
	if diff := cmp.Diff([]Row{want}, got); diff != "" {
		t.Error(diff)
	}
	value := reflect.ValueOf(want)
	for i := range value.NumField() { // two columns are null in a Record of one choice that succeeded
		switch name := value.Type().Field(i).Name; name {
		case "ErrorKind", "SpecMissing", "ChunkChoices":
		default:
			if value.Field(i).IsZero() {
				t.Errorf("%s is not tested: it has no value", name)
			}
		}
	}
}

// What the Record does not know is null, not zero.
func TestOfNulls(t *testing.T) {
	f := func(name string, r *collector.Record, notNull string) {
		t.Helper()
		row, err := Of(Origin{File: "f", Line: 1}, r)
		if err != nil {
			t.Fatal(err)
		}
		file, _ := rewrite(t, row)
		if got := strings.Join(valued(t, file), " "); got != notNull {
			t.Errorf("%s: got values in %q, want %q", name, got, notNull)
		}
	}
	const always = "id stream retries saw_done events request_bytes response_bytes source_file source_line"
	f("nothing", &collector.Record{ID: "x"}, always)
	f("a failure", &collector.Record{ID: "x", ErrorKind: collector.ErrTruncated, Stream: true, SpecMissing: collector.MissingTruncated,
		Chunks: []collector.Chunk{{Tokens: 1, Choice: 1}}}, // chunks, and no acceptance length
		"id stream error_kind retries saw_done events request_bytes response_bytes spec_missing chunk_s chunk_tokens chunk_choice source_file source_line")
	f("llama.cpp", &collector.Record{ID: "x", Spec: &collector.Spec{}}, // no histogram, so no length
		"id stream retries saw_done events request_bytes response_bytes verify_steps accepted_tokens drafted_tokens source_file source_line")
	f("EOS alone", &collector.Record{ID: "x", Stream: true, Finish: "stop", Chunks: []collector.Chunk{{Tokens: 1}}}, // no chunk, so no mean
		"id stream retries saw_done finish_reason events request_bytes response_bytes client_chunks client_chunk_tokens client_source"+
			" server_chunks server_chunk_tokens server_al draftless_steps cut_tokens chunk_s chunk_tokens source_file source_line")
}

// valued are the columns of a file of one row that are not null.
func valued(t *testing.T, file *parquet.File) []string {
	t.Helper()
	var names []string
	for i, chunk := range file.RowGroups()[0].ColumnChunks() {
		pages := chunk.Pages()
		page, err := pages.ReadPage()
		if err != nil {
			t.Fatal(err)
		}
		if page.NumNulls() == 0 {
			names = append(names, file.Schema().Columns()[i][0])
		}
		if err := pages.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// Numbers are read as engines read them; what has no room is null, not wrong.
func TestNumbers(t *testing.T) {
	f := func(raw, wantNumber, wantWhole string) {
		t.Helper()
		show := func(v any) string {
			if reflect.ValueOf(v).IsNil() {
				return "null"
			}
			return fmt.Sprint(reflect.ValueOf(v).Elem())
		}
		if got := show(number(json.RawMessage(raw))); got != wantNumber {
			t.Errorf("%s as a number: got %s, want %s", raw, got, wantNumber)
		}
		if got := show(whole(json.RawMessage(raw))); got != wantWhole {
			t.Errorf("%s as a whole number: got %s, want %s", raw, got, wantWhole)
		}
	}
	f("", "null", "null")
	f("7", "7", "7")
	f("7.0", "7", "7")
	f("7.5", "7.5", "null")
	f(`"-1"`, "-1", "-1")
	f("9223372036854775807", "9.223372036854776e+18", "9223372036854775807")
	f("9223372036854775808", "9.223372036854776e+18", "null")
	f("1e400", "null", "null")
	f("true", "null", "null")
	f(`"nan"`, "null", "null")
}

// A file says what wrote it and the version of its columns; its row groups end by
// the bytes of the lines; the same rows are the same bytes.
func TestWriter(t *testing.T) {
	row, err := Of(Origin{File: "f", Line: 1}, fullRecord())
	if err != nil {
		t.Fatal(err)
	}
	write := func() []byte {
		var b bytes.Buffer
		w := NewWriter(&b, "v1.2.3")
		for range 5 {
			if err := w.Write(row, groupBytes/2); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	text := write()
	if !bytes.Equal(text, write()) {
		t.Error("the same rows give other bytes")
	}
	file, err := parquet.OpenFile(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := file.Lookup("spectap.schema"); got != "spectap.columns/1" {
		t.Errorf("got schema %q", got)
	}
	if got, want := file.Metadata().CreatedBy, "spectap version v1.2.3"; !strings.HasPrefix(got, want) {
		t.Errorf("got created_by %q, want %q", got, want)
	}
	var groups []int64
	for _, g := range file.RowGroups() {
		groups = append(groups, g.NumRows())
	}
	if diff := cmp.Diff([]int64{2, 2, 1}, groups); diff != "" {
		t.Errorf("rows of the row groups: %s", diff)
	}
}
