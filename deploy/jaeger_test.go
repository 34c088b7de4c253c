package deploy

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"testing"
)

// jaegerBinary is the variable that names a Jaeger (v2, one binary). jaeger.sh
// builds one.
const jaegerBinary = "SPECTAP_JAEGER"

// jaeger is a running Jaeger that keeps traces in memory.
type jaeger struct {
	query      string // URL of its API
	grpc, http string // addresses for OTLP
}

// startJaeger starts a real Jaeger on free ports of loopback.
func startJaeger(t *testing.T) jaeger {
	t.Helper()
	path := os.Getenv(jaegerBinary)
	if path == "" {
		t.Skipf("%s names no Jaeger", jaegerBinary)
	}
	j := jaeger{query: refused(t), grpc: refused(t), http: refused(t)}
	p := start(t, []string{
		"JAEGER_QUERY=" + j.query, "JAEGER_GRPC=" + j.grpc, "JAEGER_HTTP=" + j.http,
		"OTEL_TRACES_SAMPLER=always_off", // of its own traces, which it sends to port 4317
	}, path, "--config", "testdata/jaeger.yaml")
	p.printed(t, `(Everything is ready)`)
	j.query = "http://" + j.query
	poll(t, "Jaeger's API", func() bool { _, err := j.traces("none"); return err == nil })
	return j
}

// jaegerTrace is a trace as Jaeger's API returns it.
type jaegerTrace struct {
	TraceID   string
	Spans     []jaegerSpan
	Processes map[string]struct{ ServiceName string }
}

type jaegerSpan struct {
	SpanID, OperationName, ProcessID string
	References                       []struct{ RefType, TraceID, SpanID string }
	StartTime, Duration              int64 // µs
	Tags                             []jaegerTag
	Logs                             []struct{ Fields []jaegerTag }
}

type jaegerTag struct {
	Key   string
	Value any
}

// traces lists the traces in which a service took part.
func (j jaeger) traces(service string) ([]jaegerTrace, error) {
	text, err := fetch(j.query + "/api/traces?" + url.Values{"service": {service}, "limit": {"5000"}}.Encode())
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data   []jaegerTrace
		Errors []any
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("cannot read Jaeger's answer %q: %w", text, err)
	}
	if len(answer.Errors) > 0 {
		return nil, fmt.Errorf("cannot read traces: Jaeger says %v", answer.Errors)
	}
	return answer.Data, nil
}

// tag returns the value of a tag as text; empty where there is none.
func (s jaegerSpan) tag(key string) string {
	for _, t := range s.Tags {
		if t.Key == key {
			return fmt.Sprint(t.Value)
		}
	}
	return ""
}

// parent is the id of the span above; empty for a root.
func (s jaegerSpan) parent() string {
	for _, r := range s.References {
		if r.RefType == "CHILD_OF" {
			return r.SpanID
		}
	}
	return ""
}

// path lists the spans from the root down; nil if they are no single line.
func (t jaegerTrace) path() []jaegerSpan {
	below := map[string][]jaegerSpan{}
	for _, s := range t.Spans {
		below[s.parent()] = append(below[s.parent()], s)
	}
	var out []jaegerSpan
	for at := ""; len(below[at]) == 1; at = out[len(out)-1].SpanID {
		out = append(out, below[at][0])
	}
	if len(out) != len(t.Spans) {
		return nil
	}
	return out
}
