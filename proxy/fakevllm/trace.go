package fakevllm

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Limits of a tracer: spans that wait, spans of a POST, how long a span waits for
// others, and how long a POST may take.
const (
	traceQueue   = 2048
	traceBatch   = 512
	traceDelay   = 50 * time.Millisecond
	traceTimeout = 2 * time.Second
)

// traceparent is version, trace id, parent id and flags (W3C Trace Context).
var traceparent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$`)

// object is a JSON object.
type object map[string]any

// tracer sends a span of every finished sequence to an OTLP/HTTP collector, as
// JSON. A full queue and a collector that does not answer lose spans and delay
// nothing. A nil tracer sends none.
type tracer struct {
	url, service string
	client       http.Client
	queue        chan object
	ctx          context.Context // of the POSTs
	cancel       context.CancelFunc
	done         chan struct{}
}

func newTracer(endpoint, service string) (*tracer, error) {
	if endpoint == "" {
		return nil, nil
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("cannot use otlp_traces_endpoint %q: want a whole URL, as http://127.0.0.1:4318/v1/traces", endpoint)
	}
	t := &tracer{url: endpoint, service: cmp.Or(service, "vllm"), queue: make(chan object, traceQueue), done: make(chan struct{})}
	t.client = http.Client{Transport: &http.Transport{}, Timeout: traceTimeout}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	go t.run()
	return t, nil
}

// close sends what is queued, as far as one timeout allows. No sequence finishes
// after it, because no generation runs.
func (t *tracer) close() {
	if t == nil || t.ctx.Err() != nil {
		return
	}
	close(t.queue)
	limit := time.AfterFunc(traceTimeout, t.cancel)
	<-t.done
	limit.Stop()
	t.cancel()
	t.client.CloseIdleConnections()
}

// run sends the spans that pile up, until the queue is closed and empty.
func (t *tracer) run() {
	defer close(t.done)
	for span := range t.queue {
		time.Sleep(traceDelay)
		batch := []object{span}
		for len(batch) < traceBatch && len(t.queue) > 0 {
			batch = append(batch, <-t.queue)
		}
		t.post(batch)
	}
}

// post sends one ExportTraceServiceRequest; nobody is told whether it arrived.
func (t *tracer) post(spans []object) {
	scope := object{"scope": object{"name": "vllm.llm_engine", "version": version}, "spans": spans}
	resource := object{"attributes": []object{attribute("service.name", t.service)}}
	body := text(object{"resourceSpans": []object{{"resource": resource, "scopeSpans": []object{scope}}}})
	r, err := http.NewRequestWithContext(t.ctx, "POST", t.url, strings.NewReader(body))
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", "application/json")
	if answer, err := t.client.Do(r); err == nil {
		_ = answer.Body.Close()
	}
}

// finished queues the span of a sequence that has ended. Its parent is the request's
// if that was sampled; a request without one gets a root (parentbased_always_on).
func (t *tracer) finished(g *generation, h http.Header) {
	if t == nil {
		return
	}
	end := time.Now()
	span := object{
		"traceId": fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()|1), "spanId": fmt.Sprintf("%016x", rand.Uint64()|1),
		"name": "llm_request", "kind": 2, // SERVER
		"startTimeUnixNano": strconv.FormatInt(g.arrived.UnixNano(), 10), "endTimeUnixNano": strconv.FormatInt(end.UnixNano(), 10),
		"attributes": g.attributes(end),
	}
	m := traceparent.FindStringSubmatch(strings.TrimSpace(h.Get("Traceparent")))
	if m != nil && m[1] != "ff" && (m[1] != "00" || m[5] == "") && strings.Trim(m[2], "0") != "" && strings.Trim(m[3], "0") != "" {
		if flags, _ := strconv.ParseUint(m[4], 16, 8); flags&1 == 0 {
			return
		}
		span["traceId"], span["parentSpanId"] = m[2], m[3]
		if state := h.Values("Tracestate"); len(state) > 0 {
			span["traceState"] = strings.Join(state, ",")
		}
	}
	select {
	case t.queue <- span:
	default:
	}
}

// attributes are those of vLLM (vllm/v1/engine/output_processor.py), which leaves out
// a parameter of 0. Nothing queues here, so that a prefill begins as its request arrives.
func (g *generation) attributes(end time.Time) []object {
	prefill, decode := g.first.Sub(g.arrived).Seconds(), end.Sub(g.first).Seconds()
	list := []object{
		attribute("gen_ai.latency.time_to_first_token", prefill), attribute("gen_ai.latency.e2e", prefill+decode),
		attribute("gen_ai.latency.time_in_queue", 0.0), attribute("gen_ai.latency.time_in_model_prefill", prefill),
		attribute("gen_ai.latency.time_in_model_decode", decode), attribute("gen_ai.latency.time_in_model_inference", prefill+decode),
		attribute("gen_ai.usage.prompt_tokens", g.q.promptTokens), attribute("gen_ai.usage.completion_tokens", g.t.Completion),
		attribute("gen_ai.request.id", g.id), attribute("gen_ai.request.max_tokens", g.q.MaxTokens), attribute("gen_ai.request.n", g.q.N),
		attribute("gen_ai.response.finish_reasons", text([]string{g.r.finish})),
	}
	for key, value := range map[string]float64{"gen_ai.request.top_p": g.q.TopP, "gen_ai.request.temperature": g.q.Temperature} {
		if value != 0 {
			list = append(list, attribute(key, value))
		}
	}
	return list
}

// attribute is a KeyValue of OTLP's JSON, where a 64-bit integer is a string.
func attribute(key string, value any) object {
	kind := "stringValue"
	switch v := value.(type) {
	case int:
		kind, value = "intValue", strconv.Itoa(v)
	case float64:
		kind = "doubleValue"
	}
	return object{"key": key, "value": object{kind: value}}
}
