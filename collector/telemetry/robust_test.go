package telemetry

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// brokenSpan panics when it gets its attributes.
type brokenSpan struct{ noop.Span }

func (brokenSpan) SpanContext() trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})
}

func (brokenSpan) SetAttributes(...attribute.KeyValue) { panic("CANARY") }

// brokenExporter panics at every export, of spans and of metrics.
type brokenExporter struct{ sdk.Exporter }

func (brokenExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { panic("CANARY") }
func (brokenExporter) Export(context.Context, *metricdata.ResourceMetrics) error  { panic("CANARY") }
func (brokenExporter) Shutdown(context.Context) error                             { return nil }

// A panic on one of telemetry's own goroutines ends no process; what it cost is
// counted, and what it said is nowhere.
func TestPanicsEndNothing(t *testing.T) {
	tr := &traces{batchers: []*batcher{{}}}
	tr.end(finished{server: brokenSpan{}, client: noop.Span{}, rec: fullRecord()})
	tr.end(finished{server: noop.Span{}, client: brokenSpan{}, rec: fullRecord()})
	if n := tr.counts(); n != (spanCounts{Dropped: 2}) {
		t.Errorf("got %+v, want the spans that panicked, dropped", n)
	}

	var log bytes.Buffer
	told := &failures{log: zerolog.New(&log), signal: signalTraces}
	b := newBatcher(brokenExporter{}, batching{queue: 8, batch: 2, delay: time.Hour, timeout: time.Second}, told.report)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(b))
	for range 3 {
		_, span := provider.Tracer("").Start(context.Background(), "x")
		span.End()
	}
	if err := b.Shutdown(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if b.failed.Load() != 3 || b.exported.Load()+b.dropped.Load() != 0 || told.lastKind() != "the exporter panicked" {
		t.Errorf("got %d failed, %d exported, %d dropped, %q; want 3 failed", b.failed.Load(), b.exported.Load(), b.dropped.Load(), told.lastKind())
	}

	var counts exportCounts
	p := &pusher{Exporter: brokenExporter{}, counts: &counts, failures: told}
	if err := p.Export(context.Background(), nil); err != nil || counts.failed.Load() != 1 {
		t.Errorf("got %v and %d failed pushes, want none and 1", err, counts.failed.Load())
	}
	if strings.Contains(log.String(), "CANARY") {
		t.Errorf("got log %s", &log)
	}
}

// A collector of traces that does not answer takes no time from the last push of
// metrics, which tells what became of the spans.
func TestLastPushHasItsTime(t *testing.T) {
	setenv(t)
	var receiver metricReceiver
	receiver.listen(t, "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", blackHole(t)+"/v1/traces")
	tel, err := New(Config{Provider: "vllm", Models: 32, Env: environment(os.Environ()), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	end := tel.Begin(fullRecord(), fields{http.Header{}})
	end(fullRecord())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := tel.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	got := receiver.values()
	if got["spectap.spans[result=failed]"] != 2 {
		t.Errorf("got %q, want a push with two failed spans", slices.Sorted(maps.Keys(got)))
	}
}

// A number that no time limit can have is refused like any other value.
func TestHugeNumbers(t *testing.T) {
	setenv(t, "OTEL_TRACES_EXPORTER=otlp", "OTEL_BSP_SCHEDULE_DELAY=9300000000000", "OTEL_METRIC_EXPORT_INTERVAL=2147483648")
	_, err := New(Config{Models: 1, Env: processEnv(), Log: zerolog.Nop()})
	for _, want := range []string{`OTEL_BSP_SCHEDULE_DELAY "9300000000000": want a whole number from 1 to 2147483647`, `OTEL_METRIC_EXPORT_INTERVAL "2147483648"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
}

// deadlined is a recorder that keeps its write limit.
type deadlined struct {
	*httptest.ResponseRecorder
	limit time.Time
}

// SetWriteDeadline is found by http.ResponseController.
func (d *deadlined) SetWriteDeadline(limit time.Time) error {
	d.limit = limit
	return nil
}

// A scraper that does not read gives its place back.
func TestScrapeIsLimited(t *testing.T) {
	before := time.Now()
	w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
	testMetrics(t).handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK || w.limit.Before(before.Add(scrapeLimit)) {
		t.Errorf("got status %d and a limit %v after the start, want 200 and %v", w.Code, w.limit.Sub(before), scrapeLimit)
	}
}

// Spans and metrics of a process have one instance, another process another one;
// what the environment says wins.
func TestInstance(t *testing.T) {
	f := func(environ ...string) string {
		t.Helper()
		setenv(t, environ...)
		var metrics metricReceiver
		metrics.listen(t, "http/protobuf")
		spans := httpReceiver(t)
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", spans.endpoint+"/v1/traces")
		tel, err := New(Config{Provider: "vllm", Models: 32, Env: processEnv(), Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		tel.Begin(fullRecord(), fields{http.Header{}})(fullRecord())
		if err := tel.Shutdown(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		const key = "service.instance.id"
		id, other := attributes(spans.resource.GetAttributes())[key], attributes(metrics.got[0].GetResource().GetAttributes())[key]
		if id != other {
			t.Errorf("got %q of spans and %q of metrics, want one instance", id, other)
		}
		return id
	}
	one, two := f(), f()
	if one == two || !regexp.MustCompile(`^string [0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(one) {
		t.Errorf("got instances %q and %q, want two UUIDs", one, two)
	}
	if got := f("OTEL_RESOURCE_ATTRIBUTES=service.instance.id=mine"); got != "string mine" {
		t.Errorf("got %q, want mine", got)
	}
}

// A value that cannot be used is told at once: nothing is pushed before, and no
// collector is waited for.
func TestWrongValueIsToldAtOnce(t *testing.T) {
	for _, wrong := range []string{"OTEL_TRACES_SAMPLER=often", "OTEL_PROPAGATORS=jaeger"} {
		var pushes atomic.Int32
		collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { pushes.Add(1) }))
		setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, wrong)
		_, err := New(Config{Provider: "vllm", Models: 32, Env: processEnv(), Log: zerolog.Nop()})
		collector.Close()
		name, _, _ := strings.Cut(wrong, "=")
		if err == nil || !strings.HasPrefix(err.Error(), "cannot use "+name) || strings.Contains(err.Error(), "context canceled") {
			t.Errorf("%s: got %v", wrong, err)
		}
		if n := pushes.Load(); n != 0 {
			t.Errorf("%s: %d pushes of metrics before the error", wrong, n)
		}
	}
}
