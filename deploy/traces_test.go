package deploy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// record is what the test reads of a line of records.jsonl.
type record struct {
	Traceparent string `json:"traceparent"`
	ResponseID  string `json:"response_id"`
	Prompt      int    `json:"prompt_tokens"`
	Completion  int    `json:"completion_tokens"`
	Labels      struct {
		Conversation string `json:"conversation"`
		Turn         *int   `json:"turn"`
	} `json:"labels"`
	Spec *struct {
		Steps     int   `json:"num_steps"`
		Accepted  int   `json:"accepted_tokens"`
		Drafted   int   `json:"drafted_tokens"`
		Histogram []int `json:"accepted_histogram"`
	} `json:"spec"`
}

func readRecords(t *testing.T, path string) (out []record) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	lines.Scan() // the run
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// hop is a span that a turn's trace must have, from the root down.
type hop struct{ service, name, kind string }

// The hops of a request through one proxy.
var throughProxy = []hop{{"spectap", "POST /v1/chat/completions", "server"}, {"spectap", "chat fake-model", "client"}}

// In a real Jaeger every turn of a sweep is one trace, from the client through
// the proxy to the engine, with the Record's figures.
func TestTracesInJaeger(t *testing.T) {
	t.Parallel()
	f := func(protocol string, proxied bool) {
		t.Helper()
		name := protocol + ", the sweep's own proxy"
		if proxied {
			name = protocol + ", and a proxy between"
		}
		t.Run(name, func(t *testing.T) {
			j := startJaeger(t)
			environ := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + j.grpc, "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol}
			if protocol == "http/protobuf" {
				environ[0] = "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + j.http
			}
			target := startEngine(t, "--step", "1ms", "--prefill", "5ms", "--eos", "0", "--otlp_traces_endpoint", "http://"+j.http+"/v1/traces")
			hops := append([]hop{{"spectap", "turn", "client"}}, throughProxy...)
			if proxied {
				hops = append(hops, throughProxy...)
				target = startProxy(t, environ, target).URL
			}
			dir := runSweep(t, environ, "--url", target, "--mtbench", writeQuestions(t, 8), "--temperature", "0", "0.7", "--concurrency", "4", "--output_length", "48")
			hops = append(hops, hop{"vllm", "llm_request", "server"})
			for _, point := range []string{"t0_c4", "t0.7_c4"} {
				compareTraces(t, j, hops, readRecords(t, filepath.Join(dir, point, "records.jsonl")))
			}
		})
	}
	f("grpc", false)
	f("http/protobuf", false)
	f("grpc", true)
}

// compareTraces waits for the trace of every record and looks at its spans.
func compareTraces(t *testing.T, j jaeger, hops []hop, records []record) {
	t.Helper()
	if len(records) != 16 {
		t.Fatalf("got %d records, want 16", len(records))
	}
	byID := map[string]jaegerTrace{}
	poll(t, "the spans of all turns", func() bool {
		list, err := j.traces("spectap")
		for _, trace := range list {
			byID[trace.TraceID] = trace
		}
		complete := 0
		for _, r := range records {
			if len(byID[traceID(r)].Spans) >= len(hops) {
				complete++
			}
		}
		return err == nil && complete == len(records)
	})
	for _, r := range records {
		compareTrace(t, byID[traceID(r)], hops, r)
	}
	t.Logf("%d records, each one trace of %d spans", len(records), len(hops))
}

// traceID is the trace of a record's traceparent.
func traceID(r record) string { return strings.Split(r.Traceparent+"--", "-")[1] }

func compareTrace(t *testing.T, trace jaegerTrace, hops []hop, r record) {
	t.Helper()
	path := trace.path()
	if len(path) != len(hops) {
		t.Fatalf("trace %s: got %d spans %+v, want a line of %d", trace.TraceID, len(trace.Spans), trace.Spans, len(hops))
	}
	compareHops(t, trace, path, hops, r)
	for i := own; i < len(path); i += 2 {
		if path[i].OperationName == "chat fake-model" {
			compareSpan(t, path[i], r)
		}
	}
}

const own = 2 // the hop that a record is of: the CLIENT span of the sweep's own proxy

// compareHops holds the spans of a trace, from the root down, against the hops and
// the record.
func compareHops(t *testing.T, trace jaegerTrace, path []jaegerSpan, hops []hop, r record) {
	t.Helper()
	for i, s := range path {
		got := hop{trace.Processes[s.ProcessID].ServiceName, s.OperationName, s.tag("span.kind")}
		if got != hops[i] {
			t.Errorf("span %d: got %+v, want %+v", i, got, hops[i])
		}
		if above := path[max(0, i-1)]; s.StartTime < above.StartTime {
			t.Errorf("%s began at %d µs, before %s at %d", s.OperationName, s.StartTime, above.OperationName, above.StartTime)
		}
	}
	if span := strings.Split(r.Traceparent, "-")[2]; path[own].SpanID != span {
		t.Errorf("got span %s, the record went upstream with %s", path[own].SpanID, span)
	}
	if engine := path[len(path)-1]; engine.tag("gen_ai.usage.completion_tokens") != fmt.Sprint(r.Completion) {
		t.Errorf("the engine's span has %s output tokens, the record %d", engine.tag("gen_ai.usage.completion_tokens"), r.Completion)
	}
}

// compareSpan holds the attributes of a CLIENT span against the record.
func compareSpan(t *testing.T, s jaegerSpan, r record) {
	t.Helper()
	histogram, err := json.Marshal(r.Spec.Histogram)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"gen_ai.operation.name":              "chat",
		"gen_ai.provider.name":               "vllm",
		"gen_ai.request.model":               "fake-model",
		"gen_ai.request.max_tokens":          48,
		"gen_ai.response.id":                 r.ResponseID,
		"gen_ai.response.finish_reasons":     `["length"]`,
		"gen_ai.usage.input_tokens":          r.Prompt,
		"gen_ai.usage.output_tokens":         r.Completion,
		"spectap.step.count":                 r.Spec.Steps,
		"spectap.draft.token.count":          r.Spec.Drafted,
		"spectap.draft.accepted_token.count": r.Spec.Accepted,
		"spectap.acceptance.length":          1 + float64(r.Spec.Accepted)/float64(r.Spec.Steps),
		"spectap.acceptance.histogram":       string(histogram),
		"spectap.conversation":               r.Labels.Conversation,
		"spectap.turn":                       *r.Labels.Turn,
		"http.response.status_code":          200,
	} {
		if got := s.tag(key); got != fmt.Sprint(want) {
			t.Errorf("%s: got %q, the record says %v", key, got, want)
		}
	}
	if len(s.Logs) == 0 || s.tag("gen_ai.response.time_to_first_chunk") == "" {
		t.Errorf("got %d events and a time to first chunk of %q, want both", len(s.Logs), s.tag("gen_ai.response.time_to_first_chunk"))
	}
}
