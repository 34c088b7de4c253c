package telemetry

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"spectap/collector"
)

// The names and types of the CLIENT span are those of the GenAI conventions
// v0.1.0: testdata has the attributes of their span gen_ai.client.inference that
// hold no content. All of them that a Record knows are there, and no other.
func TestConventions(t *testing.T) {
	file, err := os.ReadFile("testdata/gen_ai.client.inference-v0.1.0.tsv")
	if err != nil {
		t.Fatal(err)
	}
	published := map[string]string{}
	for line := range strings.Lines(string(file)) {
		key, kind, _ := strings.Cut(strings.TrimSpace(line), "\t")
		published[key] = kind
	}
	r := grpcReceiver(t, nil)
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	rec := fullRecord()
	rec.SamplingSent["n"] = json.RawMessage("2")
	rec.ErrorKind = collector.ErrTruncated
	one(t, started(t), rec, http.Header{})
	seen := map[string]bool{}
	for key, value := range attributes(r.named(t, "chat asked/model").Attributes) {
		if strings.HasPrefix(key, "spectap.") || strings.HasPrefix(key, "http.") {
			continue
		}
		seen[key] = true
		kind, _, _ := strings.Cut(value, " ")
		if strings.HasPrefix(value, `["string `) {
			kind = "string[]"
		}
		if published[key] != kind {
			t.Errorf("got %s of type %s, the conventions have %q", key, kind, published[key])
		}
	}
	for key := range published {
		switch key {
		case "gen_ai.conversation.id", "gen_ai.output.type", "gen_ai.request.stop_sequences": // no Record says them
		default:
			if !seen[key] {
				t.Errorf("no %s on the span", key)
			}
		}
	}
}

// A route is a known path or none: what a client makes up never is one.
func TestHTTPRoute(t *testing.T) {
	f := func(route, path, want string) {
		t.Helper()
		if got := httpRoute(route, path); got != want {
			t.Errorf("%s %q: got %q, want %q", route, path, got, want)
		}
	}
	f(collector.RouteChat, "/any/prefix/chat/completions/", "/v1/chat/completions")
	f(collector.RouteOther, "/team/v1/embeddings", "/v1/embeddings")
	f("", "/tokenize/", "/tokenize")
	f("", "/", "/")
	f("", "//", "")
	f("", "", "")
	f("", "/v1/models/a-model", "")
	f("", "/v1/responses/resp_1", "")
	f("", "/x?secret", "")
}
