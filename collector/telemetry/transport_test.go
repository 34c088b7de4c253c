package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// proxied answers as a proxy with telemetry would, so that a turn and its two
// spans make one trace.
func proxied(tr *traces, answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, end := tr.begin(fullRecord(), fields{req.Header}); end != nil {
			defer end(fullRecord())
		}
		answer(w, req)
	})
}

// A turn of a sweep is the root of one trace: turn, SERVER, CLIENT. It ends with
// the answer's body and says who asked.
func TestTurn(t *testing.T) {
	r := grpcReceiver(t, nil)
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	tr := started(t)
	var upstream string
	server := httptest.NewServer(proxied(tr, func(w http.ResponseWriter, req *http.Request) {
		upstream = req.Header.Get("Traceparent")
		if got := req.Header.Get("Baggage"); !strings.HasPrefix(got, "spectap.run=") {
			t.Errorf("got baggage %q", got)
		}
		fmt.Fprint(w, "CANARY")
	}))
	client := &http.Client{Transport: tr.transport(server.Client().Transport)}
	req := request(t, server.URL+"/v1/chat/completions?CANARY")
	req.Header.Set("Baggage", "spectap.run=a%20b,spectap.point=t0_c32;p=1, spectap.conversation=4,spectap.question=81,spectap.turn=1,spectap.category=writing,other=CANARY,spectap.category=%zz,broken")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if got := req.Header.Get("Traceparent"); got != "" {
		t.Errorf("the caller's request was changed: traceparent %q", got)
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // after the end: no second span
	server.Close()
	if err := tr.shutdown(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	turn, inner, call := r.named(t, "turn"), r.named(t, "POST /v1/chat/completions"), r.named(t, "chat answered/model")
	if string(inner.ParentSpanId) != string(turn.SpanId) || string(inner.TraceId) != string(turn.TraceId) || len(turn.ParentSpanId) != 0 || turn.Kind != tracepb.Span_SPAN_KIND_CLIENT {
		t.Errorf("got a turn %x below %x, a server span below %x", turn.SpanId, turn.ParentSpanId, inner.ParentSpanId)
	}
	if want := fmt.Sprintf("00-%x-%x-01", turn.TraceId, call.SpanId); upstream != want {
		t.Errorf("got traceparent %q upstream, want %q", upstream, want)
	}
	equal(t, "turn", attributes(turn.Attributes), map[string]string{
		"http.request.method": "string POST", "url.path": "string /v1/chat/completions", "http.response.status_code": "int 200",
		"spectap.run": "string a b", "spectap.point": "string t0_c32", "spectap.conversation": "string 4",
		"spectap.question": "string 81", "spectap.turn": "int 1", "spectap.category": "string writing",
	})
	if strings.Contains(fmt.Sprint(r.all()), "CANARY") {
		t.Error("content in a span")
	}
}

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("CANARY"))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// roundTrip implements http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// failing is a body that breaks after its first bytes.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
func (f failing) Close() error             { return nil }

// How turns end that do not go well: each has one span, with what it can say.
func TestTurnEnds(t *testing.T) {
	f := func(name string, base roundTrip, use func(*http.Response), cancelled bool, code tracepb.Status_StatusCode, want map[string]string) {
		t.Helper()
		r := grpcReceiver(t, nil)
		setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
		tr := started(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		resp, err := tr.transport(roundTrip(func(req *http.Request) (*http.Response, error) {
			if cancelled {
				cancel()
			}
			return base(req)
		})).RoundTrip(request(t, "http://x/y").WithContext(ctx))
		if err == nil {
			use(resp)
		}
		if err := tr.shutdown(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		turn := r.named(t, "turn")
		want["http.request.method"], want["url.path"] = "string POST", "string /y"
		equal(t, name, attributes(turn.Attributes), want)
		if turn.Status.GetCode() != code {
			t.Errorf("%s: got status %v", name, turn.Status)
		}
	}
	const unset, failed = tracepb.Status_STATUS_CODE_UNSET, tracepb.Status_STATUS_CODE_ERROR
	answer := func(status int, body io.ReadCloser) roundTrip {
		return func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Body: body}, nil
		}
	}
	refuse := func(*http.Request) (*http.Response, error) { return nil, errors.New("CANARY") }
	read := func(resp *http.Response) { _, _ = io.ReadAll(resp.Body); _ = resp.Body.Close() }
	abandon := func(resp *http.Response) { _ = resp.Body.Close() }
	ok, gone := "int 200", "bool true"
	f("refused", refuse, nil, false, failed, map[string]string{"error.type": "string _OTHER"})
	f("given up before the answer", refuse, nil, true, unset, map[string]string{"spectap.aborted": gone})
	f("broken", answer(200, failing{io.ErrUnexpectedEOF}), read, false, failed, map[string]string{"error.type": "string _OTHER", "http.response.status_code": ok})
	f("given up", answer(200, failing{context.Canceled}), read, true, unset, map[string]string{"spectap.aborted": gone, "http.response.status_code": ok})
	f("closed early", answer(200, failing{}), abandon, false, unset, map[string]string{"http.response.status_code": ok})
	f("refused by the engine", answer(404, io.NopCloser(strings.NewReader("CANARY"))), read, false, failed, map[string]string{"error.type": "string 404", "http.response.status_code": "int 404"})
}

// An unsampled turn sends its decision along and keeps the body as it is.
func TestTurnUnsampled(t *testing.T) {
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+refused(t), "OTEL_TRACES_SAMPLER=always_off")
	tr := started(t)
	body := io.NopCloser(strings.NewReader(""))
	resp, err := tr.transport(roundTrip(func(req *http.Request) (*http.Response, error) {
		if got := req.Header.Get("Traceparent"); len(got) != 55 || !strings.HasSuffix(got, "-00") {
			t.Errorf("got traceparent %q, want an unsampled one", got)
		}
		return &http.Response{StatusCode: 200, Body: body}, nil
	})).RoundTrip(request(t, "http://x/y"))
	if err != nil || resp.Body != body {
		t.Errorf("got %v, body %T", err, resp.Body)
	}
	if err := tr.shutdown(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
}

// What a sweep asks about the server is no turn.
func TestOwnName(t *testing.T) {
	for _, c := range [][3]string{
		{"POST", "/v1/chat/completions", "turn"}, {"POST", "/base/v1/completions", "turn"},
		{"GET", "/v1/models", "GET /v1/models"}, {"GET", "/version", "GET /version"}, {"GET", "/tenants/7", "GET"},
	} {
		if got := ownName(httptest.NewRequest(c[0], c[1], nil)); got != c[2] {
			t.Errorf("%s %s: got %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
