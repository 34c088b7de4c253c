// Package telemetry makes OpenTelemetry spans and metrics of Records. It is the
// only package that knows the OpenTelemetry SDK. No call of it stands on the
// path of a token: spans are opened before a request goes upstream, because
// their ids must exist by then, and ended from the complete Record.
//
//	proxy ── Begin ──▶ spans opened, traceparent set
//	      ── end(Record) ──┬──▶ metrics ──▶ /metrics, OTLP
//	                       └──▶ queue ──▶ spans with the Record's times ──▶ OTLP
//
// Start with New.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"spectap/collector"
)

// Config is what the standard variables of OpenTelemetry do not say.
type Config struct {
	Provider    string `env:"SPECTAP_GENAI_PROVIDER" envDefault:"vllm" unit:"name" help:"gen_ai.provider.name of spans and metrics"`
	ChunkEvents int    `env:"SPECTAP_TRACE_CHUNKS" envDefault:"0" unit:"events" help:"most chunk events on a span, beside the first output; costs time and space with each"`
	Models      int    `env:"SPECTAP_METRIC_MODELS" envDefault:"32" unit:"models" help:"most values of the label model in metrics; a model counts once the engine has served it, the rest is other"`

	Upstream string            // the engine's URL, for server.address and server.port
	Version  string            // of spectap
	Env      map[string]string // the process's environment: the OTEL_ variables that the SDK does not read itself
	State    func() State      // of the proxy, at the time of a scrape; nil is none
	Log      zerolog.Logger

	instance string // service.instance.id of spans and metrics, made by New
}

// MaxChunkEvents is the largest Config.ChunkEvents: tracing backends keep 128 events a span.
const MaxChunkEvents = 127

// MaxModels is the largest Config.Models: every model has some hundred series.
const MaxModels = 256

// Validate returns all problems of the settings at once.
func (c Config) Validate() error {
	var errs []error
	if c.ChunkEvents < 0 || c.ChunkEvents > MaxChunkEvents {
		errs = append(errs, fmt.Errorf("cannot use SPECTAP_TRACE_CHUNKS (--trace_chunks) %q: want 0 to %d", strconv.Itoa(c.ChunkEvents), MaxChunkEvents))
	}
	if c.Models < 1 || c.Models > MaxModels {
		errs = append(errs, fmt.Errorf("cannot use SPECTAP_METRIC_MODELS (--metric_models) %q: want 1 to %d", strconv.Itoa(c.Models), MaxModels))
	}
	return errors.Join(errs...)
}

// State is what a proxy knows beside Records.
type State struct {
	InFlight, ClientConnections, IdleUpstream int
	Retries, Refused, Panics, SinkDrops       uint64 // since the start
}

// Telemetry turns Records into spans and metrics. It implements
// collector.Observer.
type Telemetry struct {
	traces  *traces // nil where tracing is off
	metrics *metrics
}

// New reads the standard variables and starts the exporters that they ask for.
// The error names every variable whose value cannot be used.
func New(cfg Config) (*Telemetry, error) {
	cfg.instance = newInstance()
	traces, tracesErr := newTraces(cfg)
	metrics, metricsErr := newMetrics(cfg, traces.counts)
	t := &Telemetry{traces: traces, metrics: metrics}
	if err := distinct(tracesErr, metricsErr); err != nil {
		over, cancel := context.WithCancel(context.Background())
		cancel() // nothing was measured: a collector that does not answer must not delay the message
		_ = t.Shutdown(over)
		return nil, err
	}
	return t, nil
}

// Begin implements collector.Observer.
func (t *Telemetry) Begin(rec *collector.Record, h collector.Headers) func(*collector.Record) {
	ctx, end := t.traces.begin(rec, h)
	return func(rec *collector.Record) {
		t.metrics.observe(ctx, rec)
		if end != nil {
			end(rec)
		}
	}
}

// Transport returns a transport that opens a span around every request of a
// client of ours and sends its context along; base itself where tracing is off.
func (t *Telemetry) Transport(base http.RoundTripper) http.RoundTripper {
	return t.traces.transport(base)
}

// Metrics returns the handler of /metrics: Prometheus text.
func (t *Telemetry) Metrics() http.Handler { return t.metrics.handler() }

// Shutdown exports what is queued, until ctx ends: spans first, so that the last
// push of metrics counts them. A third of the time is left for that push, or a
// collector of traces that does not answer would lose the metrics, too.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	forSpans, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		forSpans, cancel = context.WithTimeout(ctx, time.Until(end)*2/3)
	}
	defer cancel()
	return errors.Join(t.traces.shutdown(forSpans), t.metrics.shutdown(ctx))
}
