package fakevllm_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spectap/proxy/fakevllm"
)

// export is OTLP's ExportTraceServiceRequest in JSON, of what an engine sends.
type export struct {
	ResourceSpans []struct {
		Resource   struct{ Attributes []keyValue }
		ScopeSpans []struct {
			Scope struct{ Name, Version string }
			Spans []span
		}
	}
}

type span struct {
	TraceID    string `json:"traceId"`
	SpanID     string `json:"spanId"`
	ParentID   string `json:"parentSpanId"`
	TraceState string `json:"traceState"`
	Name       string
	Kind       int
	Start      string `json:"startTimeUnixNano"`
	End        string `json:"endTimeUnixNano"`
	Attributes []keyValue
}

type keyValue struct {
	Key   string
	Value struct {
		String string   `json:"stringValue"`
		Int    string   `json:"intValue"`
		Double *float64 `json:"doubleValue"`
	}
}

// flat has the attributes as text: a string, the digits of an integer, or "number".
func flat(list []keyValue) map[string]string {
	m := map[string]string{}
	for _, a := range list {
		m[a.Key] = a.Value.String + a.Value.Int
		if a.Value.Double != nil {
			m[a.Key] = "number"
		}
	}
	return m
}

// receiver is an OTLP/HTTP collector that takes JSON and nothing that it does not know.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	spans    []span
	services []string
	posts    int
}

func receive(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var e export
		d := json.NewDecoder(q.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil || q.Method != "POST" || q.URL.Path != "/v1/traces" || q.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %v", q.Method, q.URL, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.posts++
		for _, rs := range e.ResourceSpans {
			r.services = append(r.services, flat(rs.Resource.Attributes)["service.name"])
			for _, ss := range rs.ScopeSpans {
				r.spans = append(r.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	caller  = "b7ad6b7169203331"
)

// TestTraceContinues: a finished request is a child span of its traceparent, with
// vLLM's attributes, and its times are those of the request.
func TestTraceContinues(t *testing.T) {
	r := receive(t)
	e, addr := start(t, fakevllm.Config{TracesEndpoint: r.URL + "/v1/traces"})
	before := time.Now()
	_, err := send(t, addr, post("/v1/chat/completions", strings.Replace(streamed, `"temperature":0`, `"temperature":0.5,"top_p":0.9`, 1),
		"X-Request-Id: q1", "traceparent: 00-"+traceID+"-"+caller+"-01", "tracestate: a=1", "tracestate: b=2"))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	after := time.Now()
	if len(r.spans) != 1 || r.services[0] != "vllm" {
		t.Fatalf("got %d spans of %q", len(r.spans), r.services)
	}
	s, tr := r.spans[0], e.Truth()[0]
	if s.TraceID != traceID || s.ParentID != caller || len(s.SpanID) != 16 || s.SpanID == caller || s.TraceState != "a=1,b=2" || s.Name != "llm_request" || s.Kind != 2 {
		t.Errorf("got %+v", s)
	}
	from, _ := strconv.ParseInt(s.Start, 10, 64)
	to, _ := strconv.ParseInt(s.End, 10, 64)
	if from < before.UnixNano() || to < from || to > after.UnixNano() {
		t.Errorf("from %s to %s, the request ran from %d to %d", s.Start, s.End, before.UnixNano(), after.UnixNano())
	}
	want := map[string]string{
		"gen_ai.usage.prompt_tokens": strconv.Itoa(tr.PromptTokens), "gen_ai.usage.completion_tokens": strconv.Itoa(tr.Completion),
		"gen_ai.latency.time_to_first_token": "number", "gen_ai.latency.e2e": "number", "gen_ai.latency.time_in_queue": "number",
		"gen_ai.latency.time_in_model_prefill": "number", "gen_ai.latency.time_in_model_decode": "number", "gen_ai.latency.time_in_model_inference": "number",
		"gen_ai.request.id": "chatcmpl-q1", "gen_ai.request.n": "1", "gen_ai.request.max_tokens": "30",
		"gen_ai.request.temperature": "number", "gen_ai.request.top_p": "number", "gen_ai.response.finish_reasons": `["length"]`,
	}
	if got := flat(s.Attributes); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if tr.Traceparent != "00-"+traceID+"-"+caller+"-01" {
		t.Errorf("truth says %q", tr.Traceparent)
	}
}

// TestTraceSampling: what the caller did not sample makes no span; what has no valid
// traceparent is a root; what did not finish makes none.
func TestTraceSampling(t *testing.T) {
	r := receive(t)
	e, addr := start(t, fakevllm.Config{TracesEndpoint: r.URL + "/v1/traces", ServiceName: "engine"})
	const child, root, none = traceID + "/" + caller, "root", "none"
	cases := []struct{ header, want string }{
		{"X-Nothing: 1", root},
		{"traceparent: 00-" + traceID + "-" + caller + "-01", child},
		{"traceparent: 00-" + traceID + "-" + caller + "-03", child}, // with the random flag
		{"traceparent: 00-" + traceID + "-" + caller + "-00", none},
		{"traceparent: 00-" + traceID + "-" + caller + "-02", none},
		{"traceparent: 01-" + traceID + "-" + caller + "-01-more", child}, // a later version
		{"traceparent: 00-" + traceID + "-" + caller + "-01-more", root},
		{"traceparent: ff-" + traceID + "-" + caller + "-01", root},
		{"traceparent: 00-" + strings.Repeat("0", 32) + "-" + caller + "-01", root},
		{"traceparent: 00-" + traceID + "-" + strings.Repeat("0", 16) + "-01", root},
		{"traceparent: 00-" + strings.ToUpper(traceID) + "-" + caller + "-01", root},
		{"X-Fake-Fault: cut@3", none},     // never finished
		{"X-Fake-Fault: status500", none}, // never began
	}
	for i, c := range cases {
		if _, err := send(t, addr, post("/v1/chat/completions", streamed, c.header, fmt.Sprintf("X-Request-Id: %d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range r.spans {
		id := strings.TrimPrefix(flat(s.Attributes)["gen_ai.request.id"], "chatcmpl-")
		if got[id] = s.TraceID + "/" + s.ParentID; s.ParentID == "" && s.TraceID != traceID {
			got[id] = root
		}
	}
	for i, c := range cases {
		if got := cmp.Or(got[strconv.Itoa(i)], none); got != c.want {
			t.Errorf("%s: got %s, want %s", c.header, got, c.want)
		}
	}
	if r.services[0] != "engine" {
		t.Errorf("service %q", r.services[0])
	}
}

// TestTraceBatches: all spans of a busy engine arrive by the end of Close, in fewer POSTs.
func TestTraceBatches(t *testing.T) {
	r := receive(t)
	e, addr := start(t, fakevllm.Config{TracesEndpoint: r.URL + "/v1/traces"})
	for i := range 40 {
		if _, err := send(t, addr, ask(i, "")); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if len(r.spans) != 40 || r.posts >= 40 {
		t.Errorf("%d spans in %d posts", len(r.spans), r.posts)
	}
}

// TestTraceDeadCollector: one that refuses and one that never answers lose the
// spans and nothing else; Close does not wait for them for ever.
func TestTraceDeadCollector(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() // accepts nothing
	for _, to := range []string{"127.0.0.1:1", ln.Addr().String()} {
		e, addr := start(t, fakevllm.Config{TracesEndpoint: "http://" + to + "/v1/traces"})
		for i := range 20 {
			raw, err := send(t, addr, ask(i, ""))
			if err != nil || !bytes.Contains(raw, []byte("[DONE]")) {
				t.Fatalf("%v in %q", err, raw)
			}
		}
		if err := e.Close(); err != nil || len(e.Truth()) != 20 {
			t.Errorf("%v after %d requests", err, len(e.Truth()))
		}
	}
	if _, err := fakevllm.New(fakevllm.Config{TracesEndpoint: "localhost:4317"}); err == nil || !strings.Contains(err.Error(), "localhost:4317") {
		t.Errorf("an endpoint that is no URL: %v", err)
	}
}

// TestHead: /metrics answers HEAD, because it is an application of its own in vLLM; a
// route answers 405.
func TestHead(t *testing.T) {
	_, addr := start(t, fakevllm.Config{})
	for path, want := range map[string]string{"/metrics": "200 OK", "/health": "405 Method Not Allowed", "/v1/models": "405 Method Not Allowed", "/nothing": "404 Not Found"} {
		raw, err := send(t, addr, fmt.Appendf(nil, "HEAD %s HTTP/1.1\r\nHost: x\r\n\r\n", path))
		head, body, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
		if err != nil || !strings.HasPrefix(string(head), "HTTP/1.1 "+want) || len(body) > 0 {
			t.Errorf("HEAD %s: %v, %q", path, err, raw)
		}
		if path == "/metrics" && (!bytes.Contains(head, []byte("text/plain")) || bytes.Contains(head, []byte("Content-Length")) || bytes.Contains(head, []byte("chunked"))) {
			t.Errorf("HEAD %s: %q", path, head)
		}
	}
	c, err := net.Dial("tcp", addr) // and the connection goes on with a GET, as AIPerf does
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	raw, err := io.ReadAll(c)
	if err != nil || bytes.Count(raw, []byte("HTTP/1.1 200 OK")) != 2 || bytes.Count(raw, []byte("vllm:generation_tokens_total{")) != 1 {
		t.Errorf("%v, %q", err, raw)
	}
}
