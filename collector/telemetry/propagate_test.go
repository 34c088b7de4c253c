package telemetry

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/propagation"
)

// What OTEL_PROPAGATORS reads and writes. In the wanted headers T is the trace's
// id and S the CLIENT span's.
func TestPropagators(t *testing.T) {
	const (
		trace64 = "463ac35c9f6413ad"
		trace   = "0000000000000000463ac35c9f6413ad"
		span    = "a2fb4a1d1a96d312"
	)
	f := func(propagators string, came, want map[string]string, parent string, spans int) {
		t.Helper()
		r := grpcReceiver(t, nil)
		setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_PROPAGATORS="+propagators)
		h := http.Header{}
		for name, value := range came {
			h.Set(name, value)
		}
		tr := started(t)
		_, end := tr.begin(fullRecord(), fields{h})
		if end != nil {
			end(fullRecord())
		}
		if err := tr.shutdown(within(t, 1e10)); err != nil {
			t.Fatal(err)
		}
		if len(r.all()) != spans {
			t.Errorf("%s %q: got %d spans, want %d", propagators, came, len(r.all()), spans)
		}
		T, S := trace, ""
		if spans > 0 {
			client, server := r.named(t, "chat answered/model"), r.named(t, "POST /v1/chat/completions")
			T, S = fmt.Sprintf("%x", client.TraceId), fmt.Sprintf("%x", client.SpanId)
			if got := fmt.Sprintf("%x", server.ParentSpanId); got != parent {
				t.Errorf("%s %q: got parent %q, want %q", propagators, came, got, parent)
			}
			if (T == trace) != (parent != "") {
				t.Errorf("%s %q: got trace %s", propagators, came, T)
			}
		}
		got := map[string]string{}
		for name := range h {
			value := strings.Join(h.Values(name), "|")
			if S != "" {
				value = strings.ReplaceAll(value, S, "S")
			}
			got[strings.ToLower(name)] = strings.ReplaceAll(value, T, "T")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %q: want -, got +:\n%s", propagators, came, diff)
		}
	}
	w3cParent := "00-" + trace + "-" + span + "-01"
	single := trace + "-" + span + "-1"
	multi := map[string]string{"x-b3-traceid": trace, "x-b3-spanid": span, "x-b3-sampled": "1", "x-b3-parentspanid": "0020000000000001"}

	f("tracecontext", map[string]string{"traceparent": w3cParent, "b3": "as it came"}, map[string]string{"traceparent": "00-T-S-01", "b3": "as it came"}, span, 2)
	f("none", map[string]string{"traceparent": w3cParent, "tracestate": "a=b"}, map[string]string{"traceparent": "00-" + trace + "-" + span + "-01", "tracestate": "a=b"}, "", 2)
	f("baggage", map[string]string{"baggage": "a"}, map[string]string{"baggage": "a"}, "", 2)
	f("b3", map[string]string{"b3": single, "traceparent": "as it came"}, map[string]string{"b3": "T-S-1", "traceparent": "as it came"}, span, 2)
	f("b3", map[string]string{"b3": trace64 + "-" + span}, map[string]string{"b3": "T-S-1"}, span, 2) // short id, no state
	f("b3", map[string]string{"b3": single + "-0020000000000001"}, map[string]string{"b3": "T-S-1"}, span, 2)
	f("b3", map[string]string{"b3": trace + "-" + span + "-d"}, map[string]string{"b3": "T-S-1"}, span, 2)
	f("b3", map[string]string{"b3": "nonsense-" + span + "-1"}, map[string]string{"b3": "T-S-1"}, "", 2)
	f("b3", map[string]string{"b3": trace[:31] + "g-" + span + "-1"}, map[string]string{"b3": "T-S-1"}, "", 2)
	f("b3", map[string]string{"b3": trace + "-" + strings.Repeat("0", 16) + "-1"}, map[string]string{"b3": "T-S-1"}, "", 2)
	f("b3", multi, map[string]string{"b3": "T-S-1"}, span, 2)
	f("b3multi", multi, map[string]string{"x-b3-traceid": "T", "x-b3-spanid": "S", "x-b3-sampled": "1"}, span, 2)
	f("b3multi", map[string]string{"b3": single}, map[string]string{"x-b3-traceid": "T", "x-b3-spanid": "S", "x-b3-sampled": "1"}, span, 2)
	f("b3multi", map[string]string{"x-b3-traceid": trace, "x-b3-spanid": span, "x-b3-flags": "1"}, map[string]string{"x-b3-traceid": "T", "x-b3-spanid": "S", "x-b3-sampled": "1"}, span, 2)
	f("tracecontext,b3", map[string]string{"b3": single, "tracestate": "of=another"}, map[string]string{"traceparent": "00-T-S-01", "b3": "T-S-1"}, span, 2)
	f("baggage, TraceContext", map[string]string{"traceparent": w3cParent, "tracestate": "a=b"}, map[string]string{"traceparent": "00-T-S-01", "tracestate": "a=b"}, span, 2)
}

// An unsampled B3 context stays unsampled on its way upstream.
func TestB3Unsampled(t *testing.T) {
	const came = "463ac35c9f6413ad463ac35c9f6413ad-a2fb4a1d1a96d312-0"
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+refused(t), "OTEL_PROPAGATORS=b3")
	h := http.Header{}
	h.Set("b3", came)
	tr := started(t)
	if _, end := tr.begin(fullRecord(), fields{h}); end != nil {
		t.Error("got a recorded span below an unsampled parent")
	}
	if got := h.Get("b3"); !strings.HasPrefix(got, came[:33]) || !strings.HasSuffix(got, "-0") || got == came {
		t.Errorf("got %q upstream, want the trace with a span of ours, unsampled", got)
	}
	if err := tr.shutdown(within(t, 1e10)); err != nil {
		t.Fatal(err)
	}
}

// A context without a trace is not written.
func TestInjectNothing(t *testing.T) {
	for _, p := range []propagation.TextMapPropagator{w3c{}, b3{}, b3{multi: true}} {
		h := http.Header{"Traceparent": {"x"}, "Tracestate": {"y"}, "B3": {"z"}}
		same := h.Clone()
		p.Inject(t.Context(), fields{h})
		if diff := cmp.Diff(same, h); diff != "" {
			t.Errorf("%T changed headers:\n%s", p, diff)
		}
		if len(p.Fields()) == 0 {
			t.Errorf("%T names no fields", p)
		}
	}
}
