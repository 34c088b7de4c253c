package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"spectap/collector"
)

// started begins a telemetry with the process's environment, and ends it with the test.
func started(t testing.TB, change ...func(*Config)) *traces {
	t.Helper()
	cfg := Config{Provider: "vllm", Upstream: "http://engine.example:8001", Version: "v1.2.3", Env: processEnv(), Log: zerolog.Nop()}
	for _, f := range change {
		f(&cfg)
	}
	tr, err := newTraces(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func processEnv() map[string]string { return environment(os.Environ()) }

// one runs one request through tr and exports its spans.
func one(t testing.TB, tr *traces, rec *collector.Record, h http.Header) {
	t.Helper()
	_, end := tr.begin(asBegun(rec), fields{h})
	if end != nil {
		end(rec)
	}
	if err := tr.shutdown(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
}

// asBegun is the part of a Record that is there at the beginning.
func asBegun(rec *collector.Record) *collector.Record {
	return &collector.Record{
		ID: rec.ID, Start: rec.Start, Method: rec.Method, Path: rec.Path, Route: rec.Route, Model: "asked/model",
		Stream: rec.Stream, Labels: rec.Labels, SamplingSent: rec.SamplingSent, Headers: rec.Headers,
	}
}

var start = time.Unix(1_790_000_000, 123_456_789)

// fullRecord is a streamed chat with everything that a Record can say.
func fullRecord() *collector.Record {
	return &collector.Record{
		ID: "r-1", RequestID: "CANARY-request-id", ResponseID: "chatcmpl-7",
		Labels: collector.Labels{Run: "run 1", Point: "t0_c32", Conversation: "4", Question: "81", Category: "writing", Turn: 0, HasTurn: true},
		Start:  start, UpstreamWritten: collector.At(40 * time.Microsecond), ResponseHead: collector.At(3 * time.Millisecond),
		FirstOutput: collector.At(12_345_678), LastByte: collector.At(987_654_321), Done: collector.At(987_700_001),
		ResidenceP50: collector.At(15 * time.Microsecond), ResidenceMax: collector.At(250 * time.Microsecond),
		Method: "POST", Path: "/v1/chat/completions", Route: collector.RouteChat, Model: "answered/model", Engine: "vllm", Stream: true,
		SamplingSent: map[string]json.RawMessage{
			"temperature": json.RawMessage("0"), "top_p": json.RawMessage("0.95"), "top_k": json.RawMessage("40"),
			"max_tokens": json.RawMessage("1e3"), "seed": json.RawMessage("-5"), "n": json.RawMessage("1"),
			"frequency_penalty": json.RawMessage(`"0.5"`), "presence_penalty": json.RawMessage("-1.5"),
			"min_p": json.RawMessage("0.0"), "repetition_penalty": json.RawMessage("1.1"), "stream": json.RawMessage("true"),
		},
		Injected: []string{"seed", "temperature"},
		Status:   200, Retries: 1, SawDone: true, Finish: "stop", StopReason: "token:151643",
		Chunks: []collector.Chunk{{At: 12_345_678, Tokens: 1}, {At: 20_000_001, Tokens: 4}, {At: 20_000_001, Tokens: 3, Shared: true}, {At: 30_000_000}},
		Events: 6,
		Usage:  &collector.Usage{PromptTokens: 100, CompletionTokens: 8, CachedTokens: 64, ReasoningTokens: 2},
		Spec:   &collector.Spec{Engine: "vllm", Accepted: []int{1, 0, 2, 1}, Steps: 4, AcceptedTokens: 7, DraftedTokens: 12, DraftLength: 3},
		Prompt: "CANARY-prompt", Reply: "CANARY-reply", Reasoning: "CANARY-reasoning", UserHash: "CANARY-hash", Warnings: []string{"CANARY-warning"},
	}
}

// Every value of a measured request's two spans, by both protocols.
func TestSpans(t *testing.T) {
	f := func(r *receiver, env ...string) {
		t.Helper()
		setenv(t, append(env, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20s3cret")...)
		rec := fullRecord()
		rec.Headers = map[string]string{"x-tenant": strings.Repeat("a€", 100)} // longer than a label
		one(t, started(t), rec, http.Header{})
		server, client := r.named(t, "POST /v1/chat/completions"), r.named(t, "chat asked/model")
		if len(r.all()) != 2 {
			t.Errorf("got %d spans, want 2", len(r.all()))
		}
		if server.Kind != tracepb.Span_SPAN_KIND_SERVER || client.Kind != tracepb.Span_SPAN_KIND_CLIENT {
			t.Errorf("got kinds %v and %v", server.Kind, client.Kind)
		}
		if len(server.ParentSpanId) != 0 || !bytes.Equal(client.ParentSpanId, server.SpanId) || !bytes.Equal(client.TraceId, server.TraceId) {
			t.Errorf("got server %x below %x, client %x below %x", server.SpanId, server.ParentSpanId, client.SpanId, client.ParentSpanId)
		}
		checkTimes(t, server, 0, 987_700_001)
		checkTimes(t, client, 0, 987_654_321)
		equal(t, "server", attributes(server.Attributes), map[string]string{
			"http.request.method": "string POST", "http.route": "string /v1/chat/completions", "url.path": "string /v1/chat/completions",
			"url.scheme": "string http", "http.response.status_code": "int 200",
			"http.request.header.x-tenant": `["string ` + rec.Headers["x-tenant"] + `"]`,
		})
		equal(t, "client", attributes(client.Attributes), map[string]string{
			"gen_ai.operation.name": "string chat", "gen_ai.provider.name": "string vllm",
			"gen_ai.request.model": "string asked/model", "gen_ai.response.model": "string answered/model",
			"gen_ai.request.stream": "bool true", "server.address": "string engine.example", "server.port": "int 8001",
			"gen_ai.request.temperature": "double 0", "gen_ai.request.top_p": "double 0.95", "gen_ai.request.top_k": "int 40",
			"gen_ai.request.max_tokens": "int 1000", "gen_ai.request.seed": "int -5",
			"gen_ai.request.frequency_penalty": "double 0.5", "gen_ai.request.presence_penalty": "double -1.5",
			"spectap.request.min_p": "double 0", "spectap.request.repetition_penalty": "double 1.1",
			"spectap.injected":   `["string seed" "string temperature"]`,
			"gen_ai.response.id": "string chatcmpl-7", "gen_ai.response.finish_reasons": `["string stop"]`, "spectap.stop_reason": "string token:151643",
			"gen_ai.response.time_to_first_chunk": "double 0.012345678",
			"gen_ai.usage.input_tokens":           "int 100", "gen_ai.usage.output_tokens": "int 8",
			"gen_ai.usage.cache_read.input_tokens": "int 64", "gen_ai.usage.reasoning.output_tokens": "int 2",
			"spectap.step.count": "int 4", "spectap.draft.token.count": "int 12", "spectap.draft.accepted_token.count": "int 7",
			"spectap.draft.max_length": "int 3", "spectap.acceptance.length": "double 2.75", "spectap.acceptance.rate": "double 0.5833333333333334",
			"spectap.acceptance.histogram": `["int 1" "int 0" "int 2" "int 1"]`,
			"spectap.run":                  "string run 1", "spectap.point": "string t0_c32", "spectap.conversation": "string 4", "spectap.question": "string 81",
			"spectap.category": "string writing", "spectap.turn": "int 0", "spectap.id": "string r-1", "spectap.engine": "string vllm",
			"spectap.chunk.count": "int 4", "spectap.retries": "int 1", "spectap.residence.p50": "double 1.5e-05", "spectap.residence.max": "double 0.00025",
			"http.response.status_code": "int 200",
		})
		if len(client.Events) != 1 || client.Events[0].Name != "spectap.first_output" || client.Events[0].TimeUnixNano != uint64(start.UnixNano())+12_345_678 {
			t.Errorf("got events %v, want the first output alone", client.Events)
		}
		for _, s := range r.all() {
			if s.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET || len(s.Events)+len(s.Links) != len(client.Events) && s != server {
				t.Errorf("%s: got status %v, links %v", s.Name, s.Status, s.Links)
			}
		}
		if !slices.Contains(r.headers, "authorization: Bearer s3cret") {
			t.Errorf("the collector got no authorization: %q", r.headers)
		}
		if strings.Contains(fmt.Sprint(r.all(), r.resource), "CANARY") {
			t.Error("content in a span")
		}
	}
	f(grpcReceiver(t, nil), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	f(httpReceiver(t))
	f(httpReceiver(t), "OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_TRACES_EXPORTER=otlp")
	f(grpcReceiver(t, nil), "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=gzip", "OTEL_SDK_DISABLED=false")
}

func checkTimes(t *testing.T, s *tracepb.Span, from, to uint64) {
	t.Helper()
	base := uint64(start.UnixNano())
	if s.StartTimeUnixNano != base+from || s.EndTimeUnixNano != base+to {
		t.Errorf("%s: got %d to %d ns after the start, want %d to %d", s.Name, s.StartTimeUnixNano-base, s.EndTimeUnixNano-base, from, to)
	}
}

func equal(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: want -, got +:\n%s", what, diff)
	}
}

// Chunk events are opt-in and capped; the first output is there beside them.
func TestChunkEvents(t *testing.T) {
	r := grpcReceiver(t, nil)
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	one(t, started(t, func(c *Config) { c.ChunkEvents = 3 }), fullRecord(), http.Header{})
	var got []string
	for _, e := range r.named(t, "chat asked/model").Events {
		got = append(got, fmt.Sprint(e.Name, " ", e.TimeUnixNano-uint64(start.UnixNano()), " ", attributes(e.Attributes)))
	}
	want := []string{
		"spectap.first_output 12345678 map[]",
		"spectap.chunk 12345678 map[spectap.chunk.tokens:int 1]",
		"spectap.chunk 20000001 map[spectap.chunk.tokens:int 4]",
		"spectap.chunk 20000001 map[spectap.chunk.shared:bool true spectap.chunk.tokens:int 3]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// What a request without answer, statistics or labels leaves out.
func TestSpansOfLittle(t *testing.T) {
	r := grpcReceiver(t, nil)
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	rec := &collector.Record{
		ID: "r-2", Start: start, Done: collector.At(5), Method: "POST", Path: "/v1/completions", Route: collector.RouteCompletions,
		Status: 502, ErrorKind: collector.ErrUpstreamRefused, Error: "CANARY", SpecMissing: collector.MissingError,
		SamplingSent: map[string]json.RawMessage{"n": json.RawMessage("4"), "max_tokens": json.RawMessage("7"), "max_completion_tokens": json.RawMessage("9"), "temperature": json.RawMessage(`"on"`), "top_k": json.RawMessage("1.5"), "seed": json.RawMessage("99999999999999999999")},
	}
	one(t, started(t, func(c *Config) { c.Upstream = "unix:/run/vllm.sock" }), rec, http.Header{})
	equal(t, "client", attributes(r.named(t, "text_completion asked/model").Attributes), map[string]string{
		"gen_ai.operation.name": "string text_completion", "gen_ai.provider.name": "string vllm", "gen_ai.request.model": "string asked/model",
		"server.address": "string /run/vllm.sock", "gen_ai.request.max_tokens": "int 9", "gen_ai.request.choice.count": "int 4",
		"spectap.id": "string r-2", "spectap.unmeasured": "string error", "error.type": "string connection_refused", "http.response.status_code": "int 502",
	})
	checkTimes(t, r.named(t, "text_completion asked/model"), 0, 5)
}

// The context that came, the one that goes upstream, and what a sampler makes of them.
func TestContext(t *testing.T) {
	const (
		traceID = "0af7651916cd43dd8448eb211c80319c"
		spanID  = "b7ad6b7169203331"
	)
	type want struct{ spans, flags, parent, tracestate string }
	f := func(name string, env []string, h http.Header, w want) {
		t.Helper()
		r := grpcReceiver(t, nil)
		setenv(t, append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, env...)...)
		h.Set("Baggage", "a=b;c, broken,,spectap.run=x%zz")
		one(t, started(t), fullRecord(), h)
		if got := fmt.Sprint(len(r.all())); got != w.spans {
			t.Errorf("%s: got %s spans, want %s", name, got, w.spans)
		}
		got := strings.Split(h.Get("Traceparent"), "-")
		if len(h.Values("Traceparent")) != 1 || len(got) != 4 || got[3] != w.flags || got[2] == spanID {
			t.Errorf("%s: got traceparent %q upstream, want one of ours with flags %s", name, h.Values("Traceparent"), w.flags)
			return
		}
		if (got[1] == traceID) != (w.parent != "") {
			t.Errorf("%s: got trace %s, parent %q", name, got[1], w.parent)
		}
		if got := strings.Join(h.Values("Tracestate"), "|"); got != w.tracestate {
			t.Errorf("%s: got tracestate %q, want %q", name, got, w.tracestate)
		}
		if got := h.Values("Baggage"); !slices.Equal(got, []string{"a=b;c, broken,,spectap.run=x%zz"}) {
			t.Errorf("%s: got baggage %q", name, got)
		}
		if w.spans == "0" {
			return
		}
		server, client := r.named(t, "POST /v1/chat/completions"), r.named(t, "chat asked/model")
		if fmt.Sprintf("%x", server.ParentSpanId) != w.parent || fmt.Sprintf("%x", server.TraceId) != got[1] {
			t.Errorf("%s: got parent %x in trace %x, want %q in %s", name, server.ParentSpanId, server.TraceId, w.parent, got[1])
		}
		if server.TraceState+client.TraceState != "" {
			t.Errorf("%s: got tracestate %q and %q on spans, want none", name, server.TraceState, client.TraceState)
		}
		if fmt.Sprintf("%x", client.SpanId) != got[2] {
			t.Errorf("%s: got span %s upstream, want the CLIENT's %x", name, got[2], client.SpanId)
		}
	}
	parent := func(flags string, more ...string) http.Header {
		h := http.Header{"Traceparent": {"00-" + traceID + "-" + spanID + "-" + flags}}
		if len(more) > 0 {
			h["Tracestate"] = more
		}
		return h
	}
	f("root", nil, http.Header{}, want{"2", "01", "", ""})
	f("sampled", nil, parent("01", "v=1", "w=2"), want{"2", "01", spanID, "v=1|w=2"})
	f("random flag", nil, parent("03"), want{"2", "03", spanID, ""})
	f("unsampled", nil, parent("00", "v=1"), want{"0", "00", spanID, "v=1"})
	f("invalid tracestate", nil, parent("01", "v=1,v=1,="), want{"2", "01", spanID, "v=1,v=1,="})
	f("always off", []string{"OTEL_TRACES_SAMPLER=always_off"}, parent("01"), want{"0", "00", spanID, ""})
	f("always on", []string{"OTEL_TRACES_SAMPLER=always_on"}, parent("00"), want{"2", "01", spanID, ""})
	f("ratio 0, root", []string{"OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0"}, http.Header{}, want{"0", "00", "", ""})
	f("ratio 0, sampled parent", []string{"OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0"}, parent("01"), want{"2", "01", spanID, ""})
	f("ratio 1", []string{"OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=1.0"}, parent("00"), want{"2", "01", spanID, ""})
	f("two fields", nil, http.Header{"Traceparent": {parent("01").Get("Traceparent"), parent("01").Get("Traceparent")}, "Tracestate": {"v=1"}}, want{"2", "01", "", ""})
	f("two fields of a later version", nil, http.Header{"Traceparent": {"cc-" + traceID + "-" + spanID + "-01-x", "x"}, "Tracestate": {"v=1"}}, want{"2", "01", "", ""})
	f("upper case", nil, http.Header{"Traceparent": {strings.ToUpper(parent("01").Get("Traceparent"))}, "Tracestate": {"v=1"}}, want{"2", "01", "", ""})
	f("all zeros", nil, http.Header{"Traceparent": {"00-00000000000000000000000000000000-0000000000000000-01"}}, want{"2", "01", "", ""})
	f("no context allowed", []string{"OTEL_PROPAGATORS=baggage,tracecontext"}, parent("01"), want{"2", "01", spanID, ""})
}

// Where tracing is off nothing is touched and nothing is allocated.
func TestTracesOff(t *testing.T) {
	f := func(env ...string) {
		t.Helper()
		setenv(t, env...)
		tr := started(t)
		if tr != nil {
			t.Fatalf("%q: tracing is on", env)
		}
		h := http.Header{"Traceparent": {"anything", "00-x"}, "Tracestate": {"", "="}, "Baggage": {"\x00"}}
		same := h.Clone()
		rec := fullRecord()
		if n := testing.AllocsPerRun(100, func() {
			if ctx, end := tr.begin(rec, fields{h}); ctx != context.Background() || end != nil {
				t.Error("begin did something")
			}
		}); n != 0 {
			t.Errorf("%q: got %v allocations, want 0", env, n)
		}
		if diff := cmp.Diff(same, h); diff != "" {
			t.Errorf("%q: headers changed:\n%s", env, diff)
		}
		if tr.transport(http.DefaultTransport) != http.DefaultTransport || tr.shutdown(context.Background()) != nil || tr.counts() != (spanCounts{}) {
			t.Errorf("%q: a tracing that is off does something", env)
		}
	}
	f()
	f("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://c:4318")
	f("OTEL_TRACES_EXPORTER=none", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317")
	f("OTEL_SDK_DISABLED=true", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317", "OTEL_TRACES_SAMPLER=nonsense")
}

// Whoever watches the engine leaves no trace.
func TestProbesHaveNoSpans(t *testing.T) {
	r := httpReceiver(t)
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint)
	tr := started(t)
	for _, path := range []string{"/health", "/metrics", "/ping"} {
		h := http.Header{"Traceparent": {"x"}}
		if _, end := tr.begin(&collector.Record{Method: "GET", Path: path, Start: start}, fields{h}); end != nil || h.Get("Traceparent") != "x" {
			t.Errorf("%s: got a span", path)
		}
	}
	one(t, tr, &collector.Record{Method: "GET", Path: "/v1/models", Start: start, Status: 200, Done: collector.At(9)}, http.Header{})
	equal(t, "models", attributes(r.named(t, "GET /v1/models").Attributes), map[string]string{
		"http.request.method": "string GET", "http.route": "string /v1/models", "url.path": "string /v1/models",
		"url.scheme": "string http", "http.response.status_code": "int 200",
	})
	if len(r.all()) != 1 {
		t.Errorf("got %d spans, want 1", len(r.all()))
	}
}

// All variables that cannot be used are told at once, with their values.
func TestTracesRefuse(t *testing.T) {
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317", "OTEL_TRACES_SAMPLER=jaeger_remote", "OTEL_PROPAGATORS=tracecontext,xray",
		"OTEL_BSP_MAX_QUEUE_SIZE=0", "OTEL_BSP_SCHEDULE_DELAY=5s", "OTEL_SPAN_EVENT_COUNT_LIMIT=many", "OTEL_RESOURCE_ATTRIBUTES=a=b,c",
		"OTEL_EXPORTER_OTLP_PROTOCOL=thrift")
	tr, err := New(Config{Env: processEnv(), Log: zerolog.Nop()})
	if err == nil {
		t.Fatalf("got %v, want an error", tr)
	}
	for _, want := range []string{
		`OTEL_TRACES_SAMPLER "jaeger_remote": want one of always_on, `, `OTEL_PROPAGATORS "xray": want one of tracecontext, baggage, b3, b3multi, none`,
		`OTEL_BSP_MAX_QUEUE_SIZE "0": want a whole number from 1`, `OTEL_BSP_SCHEDULE_DELAY "5s"`, `OTEL_SPAN_EVENT_COUNT_LIMIT "many"`,
		`OTEL_RESOURCE_ATTRIBUTES "a=b,c"`, `OTEL_EXPORTER_OTLP_PROTOCOL "thrift"`,
	} {
		if strings.Count(err.Error(), want) != 1 {
			t.Errorf("got %q, want %q once in it", err, want)
		}
	}
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317", "OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=NaN")
	if _, err := newTraces(Config{Env: processEnv()}); err == nil || !strings.Contains(err.Error(), `OTEL_TRACES_SAMPLER_ARG "NaN": want a number from 0 to 1`) {
		t.Errorf("got %v", err)
	}
}

// Who this process is: the environment first.
func TestResource(t *testing.T) {
	f := func(env []string, want map[string]string) {
		t.Helper()
		r := grpcReceiver(t, nil)
		setenv(t, append(env, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")...)
		one(t, started(t), fullRecord(), http.Header{})
		got := attributes(r.resource.Attributes)
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%q: got %s = %q, want %q", env, key, got[key], value)
			}
		}
		for _, key := range []string{"process.command_args", "process.command_line", "process.owner"} {
			if got[key] != "" {
				t.Errorf("got %s, which can be private", key)
			}
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	f(nil, map[string]string{
		"service.name": "string spectap", "service.version": "string v1.2.3", "telemetry.sdk.language": "string go",
		"host.name": "string " + host, "process.pid": fmt.Sprint("int ", os.Getpid()), "k8s.pod.name": "",
	})
	f([]string{"OTEL_SERVICE_NAME=mine", "OTEL_RESOURCE_ATTRIBUTES=service.name=other,deployment.environment.name=a%20b,k8s.pod.name=said", "POD_NAME=found", "POD_NAMESPACE=ns", "NODE_NAME=n1"},
		map[string]string{
			"service.name": "string mine", "deployment.environment.name": "string a b", "k8s.pod.name": "string said",
			"k8s.namespace.name": "string ns", "k8s.node.name": "string n1",
		})
}
