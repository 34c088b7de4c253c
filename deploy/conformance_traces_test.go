package deploy

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// A real vLLM that traces hangs its own span below spectap's: each turn is one
// trace in Jaeger, from the sweep's turn to vLLM's llm_request.
func TestConformanceTraces(t *testing.T) {
	k := openKit(t)
	if os.Getenv(jaegerBinary) == "" {
		t.Setenv(jaegerBinary, k.piece(t, "jaeger", "jaeger"))
	}
	j := startJaeger(t)
	server := k.serve(t, "ngram", "--per-request-spec-decode-metrics", "summary", "--otlp-traces-endpoint", "http://"+j.grpc)
	environ := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + j.grpc, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}
	dir := runSweep(t, environ, "--url", server.url, "--mtbench", writeConformanceQuestions(t, 2), "--concurrency", strconv.Itoa(conformanceConcurrency),
		"--output_length", strconv.Itoa(conformanceTokens))
	records := readRecords(t, filepath.Join(dir, conformancePoint, "records.jsonl"))
	if want := 2 * len(conformanceQuestions); len(records) != want {
		t.Fatalf("got %d records, want %d", len(records), want)
	}
	hops := []hop{
		{"spectap", "turn", "client"}, {"spectap", "POST /v1/chat/completions", "server"}, {"spectap", "chat " + servedModel, "client"},
		{"vllm", "llm_request", "server"},
	}
	byID := map[string]jaegerTrace{}
	poll(t, "the spans of all turns", func() bool {
		list, err := j.traces("spectap")
		complete := 0
		for _, trace := range list {
			byID[trace.TraceID] = trace
		}
		for _, r := range records {
			if len(byID[traceID(r)].Spans) >= len(hops) {
				complete++
			}
		}
		return err == nil && complete == len(records)
	})
	spans := 0
	for _, r := range records {
		path := byID[traceID(r)].path()
		if len(path) != len(hops) {
			t.Fatalf("trace %s: got %+v, want a line of %d spans", traceID(r), byID[traceID(r)].Spans, len(hops))
		}
		compareHops(t, byID[traceID(r)], path, hops, r)
		spans += len(path)
	}
	t.Logf("%d turns, each one trace; %d spans, %d of them vLLM's own below our CLIENT span", len(records), spans, len(records))
}
