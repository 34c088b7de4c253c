package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"spectap/collector"
)

// traces makes the spans of requests. A nil *traces makes none.
//
//	begin: SERVER ─▶ CLIENT ─▶ traceparent       on the request's goroutine
//	end ──▶ finished ──▶ worker: attributes, end ──▶ batchers ──▶ collector
type traces struct {
	tracer      trace.Tracer
	propagator  propagation.TextMapPropagator
	provider    string
	engine      []attribute.KeyValue // server.address and server.port of the engine
	chunkEvents int
	ways        []exporter
	batchers    []*batcher
	failures    *failures

	finished chan finished
	stop     chan struct{}
	done     chan struct{}
	once     sync.Once
	dropped  atomic.Uint64 // spans that found finished full, or whose end panicked
}

// Options of every span; each call that makes one allocates.
var (
	serverKind = trace.WithSpanKind(trace.SpanKindServer)
	clientKind = trace.WithSpanKind(trace.SpanKindClient)
)

// finished are the spans of a request that is over. client is nil where there is none.
type finished struct {
	server, client trace.Span
	rec            *collector.Record
}

func newTraces(cfg Config) (*traces, error) {
	ways, waysErr := exporters(cfg.Env, signalTraces)
	s := &settings{env: cfg.Env}
	propagator, batching := s.propagators(), s.batching()
	s.checkSDK()
	res, resErr := newResource(cfg)
	if err := errors.Join(waysErr, resErr, errors.Join(s.errs...)); err != nil || len(ways) == 0 {
		if sdkDisabled(cfg.Env) {
			return nil, nil
		}
		return nil, err
	}
	t := &traces{
		propagator: propagator, provider: cfg.Provider, engine: engineAddress(cfg.Upstream), chunkEvents: cfg.ChunkEvents,
		ways: ways, failures: &failures{log: cfg.Log, signal: signalTraces},
		finished: make(chan finished, batching.queue), stop: make(chan struct{}), done: make(chan struct{}),
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(res)}
	var errs []error
	for _, way := range ways {
		e, err := newSpanExporter(way)
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot start the exporter of traces (%s): %w", way.kind, err))
			continue
		}
		b := newBatcher(e, batching, t.failures.report)
		t.batchers = append(t.batchers, b)
		options = append(options, sdktrace.WithSpanProcessor(b))
	}
	t.tracer = sdktrace.NewTracerProvider(options...).Tracer(instrumentationLib, trace.WithInstrumentationVersion(cfg.Version))
	go t.work()
	if len(errs) > 0 {
		return nil, errors.Join(errors.Join(errs...), t.shutdown(context.Background()))
	}
	logExporters(cfg.Log, signalTraces, ways)
	return t, nil
}

// newSpanExporter makes an exporter. The SDK reads endpoint, headers, TLS,
// timeout and compression itself. None dials before the first export.
func newSpanExporter(way exporter) (sdktrace.SpanExporter, error) {
	switch way.kind {
	case exportGRPC:
		return otlptracegrpc.New(context.Background())
	case exportHTTP:
		return otlptracehttp.New(context.Background())
	}
	return stdouttrace.New(stdouttrace.WithWriter(os.Stderr)) // stdout is for results
}

// checkSDK refuses values that the SDK would replace by a default.
func (s *settings) checkSDK() {
	const arg = "OTEL_TRACES_SAMPLER_ARG"
	sampler := s.word("OTEL_TRACES_SAMPLER", "", "always_on", "always_off", "traceidratio",
		"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio")
	if value := s.get(arg); value != "" && strings.HasSuffix(sampler, "traceidratio") {
		if ratio, err := strconv.ParseFloat(value, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
			s.refuse(arg, value, "a number from 0 to 1")
		}
	}
	for _, name := range []string{
		"OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
		"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
		"OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT",
		"OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
	} {
		s.count(name, 0, -1) // below 0 is no limit
	}
}

// engineAddress returns server.address and server.port of the engine's URL.
func engineAddress(upstream string) []attribute.KeyValue {
	if path, ok := strings.CutPrefix(upstream, "unix:"); ok {
		return []attribute.KeyValue{attribute.String(attrServerAddress, strings.TrimPrefix(path, "//"))}
	}
	u, err := url.Parse(upstream)
	if err != nil || u.Hostname() == "" {
		return nil
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	attrs := []attribute.KeyValue{attribute.String(attrServerAddress, u.Hostname())}
	if n, err := net.LookupPort("tcp", port); err == nil && port != "" {
		attrs = append(attrs, attribute.Int(attrServerPort, n))
	}
	return attrs
}

// begin opens the spans of a request and puts their context into h. The returned
// context carries the CLIENT span for exemplars; end is nil where nothing is sampled.
func (t *traces) begin(rec *collector.Record, h collector.Headers) (ctx context.Context, end func(*collector.Record)) {
	if t == nil || probePath(rec.Path) {
		return context.Background(), nil
	}
	f, at := finished{}, trace.WithTimestamp(rec.Start)
	ctx, f.server = t.tracer.Start(t.propagator.Extract(context.Background(), h), serverName(rec),
		serverKind, at, trace.WithAttributes(serverStart(rec)...))
	if call := operation(rec); call != "" {
		ctx, f.client = t.tracer.Start(ctx, clientName(call, rec.Model),
			clientKind, at, trace.WithAttributes(t.clientStart(call, rec)...))
	}
	t.propagator.Inject(ctx, h)
	if !f.server.IsRecording() && (f.client == nil || !f.client.IsRecording()) {
		return ctx, nil
	}
	return ctx, func(rec *collector.Record) {
		f.rec = rec
		t.finish(f)
	}
}

// finish leaves the spans to the worker. It never waits.
func (t *traces) finish(f finished) {
	select {
	case t.finished <- f:
	default:
		t.dropped.Add(f.spans())
	}
}

// spans counts the spans that would be exported.
func (f finished) spans() (n uint64) {
	if f.server.SpanContext().IsSampled() {
		n++
	}
	if f.client != nil && f.client.SpanContext().IsSampled() {
		n++
	}
	return n
}

// work ends the spans of finished requests until stop is closed, and then of what is left.
func (t *traces) work() {
	defer close(t.done)
	for {
		select {
		case f := <-t.finished:
			t.end(f)
		case <-t.stop:
			for {
				select {
				case f := <-t.finished:
					t.end(f)
				default:
					return
				}
			}
		}
	}
}

// end ends the spans of a request.
func (t *traces) end(f finished) {
	if f.client != nil {
		t.endOne(f.client, func() { t.endClient(f.client, f.rec) })
	}
	t.endOne(f.server, func() { endServer(f.server, f.rec) })
}

// endOne ends a span. A panic costs this span: on the worker's goroutine it would
// end the process.
func (t *traces) endOne(span trace.Span, end func()) {
	defer func() {
		if recover() != nil && span.SpanContext().IsSampled() {
			t.dropped.Add(1)
		}
	}()
	end()
}

// shutdown exports what there is, until ctx ends. It is called when no request
// is left. Spans that are lost are counted and told, and are no error: the
// requests went well.
func (t *traces) shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.once.Do(func() { close(t.stop) })
	<-t.done // short: it does no I/O
	var ending sync.WaitGroup
	for _, b := range t.batchers {
		ending.Go(func() { _ = b.Shutdown(ctx) }) // counts what it loses
	}
	ending.Wait()
	if n := t.counts(); n.Failed+n.Dropped > 0 {
		t.failures.log.Warn().Uint64("exported", n.Exported).Uint64("failed", n.Failed).Uint64("dropped", n.Dropped).
			Str("kind", t.failures.lastKind()).Msg("some spans were lost")
	}
	return nil
}

// spanCounts are totals since the start.
type spanCounts struct {
	Exported uint64 // the collector took them
	Failed   uint64 // an export was tried and failed, or the collector refused them
	Dropped  uint64 // a queue was full, or there was no time left at the end
}

// counts returns what became of the spans that were sampled and ended.
func (t *traces) counts() (n spanCounts) {
	if t == nil {
		return n
	}
	n.Dropped = t.dropped.Load() * uint64(len(t.batchers))
	for _, b := range t.batchers {
		n.Exported += b.exported.Load()
		n.Failed += b.failed.Load()
		n.Dropped += b.dropped.Load()
	}
	return n
}
