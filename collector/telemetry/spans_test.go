package telemetry

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"spectap/collector"
)

// Names are few whatever comes: never a path, and no model that the engine does not know.
func TestNames(t *testing.T) {
	f := func(rec *collector.Record, want ...string) {
		t.Helper()
		r := grpcReceiver(t, nil)
		setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
		rec.Start = start
		one(t, started(t), rec, http.Header{})
		var got []string
		for _, s := range r.all() {
			got = append(got, s.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s %s: got %q, want %q", rec.Method, rec.Path, got, want)
		}
	}
	f(&collector.Record{Method: "GET", Path: "/v1/models/secret"}, "GET")
	f(&collector.Record{Method: "BREW", Path: "/x"}, "HTTP")
	f(&collector.Record{Method: "POST", Path: "/team-a/v1/chat/completions", Route: collector.RouteChat, Status: 200}, "POST /v1/chat/completions", "chat asked/model")
	f(&collector.Record{Method: "POST", Path: "/v1/responses/", Route: collector.RouteResponses, Status: 200}, "POST /v1/responses", "chat asked/model")
	f(&collector.Record{Method: "POST", Path: "/v1/messages", Route: collector.RouteMessages, Status: 500}, "POST /v1/messages", "chat asked/model")
	f(&collector.Record{Method: "POST", Path: "/v1/messages", Route: collector.RouteMessages, Status: 404}, "POST /v1/messages", "chat")
	f(&collector.Record{Method: "POST", Path: "/v1/embeddings", Route: collector.RouteOther}, "POST /v1/embeddings", "embeddings asked/model")
	f(&collector.Record{Method: "POST", Path: "/generate", Route: collector.RouteOther}, "POST /generate")
	f(&collector.Record{Method: "POST", Path: "/v1/audio/transcriptions", Route: collector.RouteOther}, "POST /v1/audio/transcriptions")
	f(&collector.Record{Method: "POST", Path: "/v1/unknown", Route: collector.RouteOther}, "POST")
}

// What ended badly, on both sides: 4xx is no error of a server, a client that leaves none at all.
func TestStatus(t *testing.T) {
	const unset, failed = tracepb.Status_STATUS_CODE_UNSET, tracepb.Status_STATUS_CODE_ERROR
	type side struct {
		code      tracepb.Status_StatusCode
		errorType string // "" none
		message   string
	}
	f := func(status int, kind string, server, client side) {
		t.Helper()
		r := grpcReceiver(t, nil)
		setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
		rec := fullRecord()
		rec.Status, rec.ErrorKind, rec.Error = status, kind, "CANARY of the engine"
		one(t, started(t), rec, http.Header{})
		for _, s := range r.all() {
			want := client
			if s.Kind == tracepb.Span_SPAN_KIND_SERVER {
				want = server
			}
			attrs := attributes(s.Attributes)
			got := side{s.Status.GetCode(), strings.TrimPrefix(attrs["error.type"], "string "), s.Status.GetMessage()}
			if got != want {
				t.Errorf("%d %s: %s: got %+v, want %+v", status, kind, s.Name, got, want)
			}
			if gone := attrs["spectap.aborted"] == "bool true"; gone != (kind == collector.ErrClientGone) {
				t.Errorf("%d %s: %s: aborted %v", status, kind, s.Name, gone)
			}
		}
		if len(r.all()) != 2 || strings.Contains(fmt.Sprint(r.all()), "CANARY") {
			t.Errorf("%d %s: got %d spans, or content in one", status, kind, len(r.all()))
		}
	}
	f(200, "", side{}, side{})
	f(400, collector.ErrHTTPStatus, side{}, side{failed, "400", ""})
	f(429, collector.ErrHTTPStatus, side{}, side{failed, "429", ""})
	f(500, collector.ErrHTTPStatus, side{failed, "500", ""}, side{failed, "500", ""})
	f(413, collector.ErrRequestRejected, side{}, side{failed, "request_rejected", "refused by the proxy"})
	f(200, collector.ErrClientGone, side{unset, "client_disconnected", ""}, side{unset, "client_disconnected", ""})
	f(0, collector.ErrClientGone, side{unset, "client_disconnected", ""}, side{unset, "client_disconnected", ""})
	both := func(status int, kind, word, message string) {
		t.Helper()
		f(status, kind, side{failed, word, message}, side{failed, word, message})
	}
	both(502, collector.ErrUpstreamRefused, "connection_refused", "no connection to the engine")
	both(502, collector.ErrUpstreamReset, "connection_reset", "the engine closed the connection before its response head")
	both(504, collector.ErrUpstreamTimeout, "timeout", "the engine did not answer in time")
	both(502, collector.ErrUpstreamProtocol, "protocol_error", "the engine's answer is not HTTP")
	both(200, collector.ErrTruncated, "stream_truncated", "the answer was cut off before its end")
	both(200, collector.ErrStalled, "stream_stalled", "no event within the stall limit")
	both(200, collector.ErrDrained, "proxy_stopped", "the proxy was stopped before the answer's end")
	both(503, collector.ErrDrained, "proxy_stopped", "the proxy was stopped before the answer's end")
	both(200, collector.ErrInBand, "in_band_error", "an error event in the stream")
	both(500, collector.ErrInternal, "internal", "a panic was recovered in the proxy")
	both(0, "a kind of tomorrow", "_OTHER", "")
	f(200, collector.ErrNotFinished, side{}, side{failed, "not_finished", "the answer ended without a finish reason"})
}

// Texts from outside that are no UTF-8, or long, cost neither the batch nor the collector.
func TestTextsFromOutside(t *testing.T) {
	r := grpcReceiver(t, nil)
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	rec := fullRecord()
	rec.Path, rec.Method, rec.Labels.Run, rec.Finish = "/\xff/v1/chat/completions", "\xc3\x28", strings.Repeat("é", 1000), "\xff"
	rec.ResponseID, rec.Injected = strings.Repeat("x", 5000), []string{"\xff"}
	tr := started(t)
	begun := asBegun(rec)
	begun.Model = "m\xff" + strings.Repeat("y", 5000)
	_, end := tr.begin(begun, fields{http.Header{}})
	end(rec)
	if err := tr.shutdown(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if n := tr.counts(); n != (spanCounts{Exported: 2}) {
		t.Fatalf("got %+v (%s), want 2 exported", n, tr.failures.lastKind())
	}
	for _, s := range r.all() {
		if len(s.Name) > 300 {
			t.Errorf("got a name of %d bytes", len(s.Name))
		}
		for key, value := range attributes(s.Attributes) {
			if len(value) > 300 {
				t.Errorf("got %d bytes of %s", len(value), key)
			}
		}
	}
	if got := attributes(r.named(t, "HTTP /v1/chat/completions").Attributes)["url.path"]; got != "string /v1/chat/completions" {
		t.Errorf("got path %q, want the route: what stands before it can be a secret", got)
	}
}
