package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// exportCounts are pushes by result.
type exportCounts struct{ ok, failed atomic.Int64 }

// newPushers makes the exporters that the standard variables ask for. What the
// SDK reads itself (endpoint, headers, TLS, interval, temporality) is not read here.
func newPushers(cfg Config, counts *exportCounts) ([]*pusher, error) {
	ways, err := exporters(cfg.Env, signalMetrics)
	s := &settings{env: cfg.Env}
	s.milliseconds("OTEL_METRIC_EXPORT_INTERVAL", time.Minute)
	s.milliseconds("OTEL_METRIC_EXPORT_TIMEOUT", 30*time.Second)
	s.word("OTEL_METRICS_EXEMPLAR_FILTER", "", "trace_based", "always_on", "always_off")
	s.word("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "", "cumulative", "delta", "lowmemory")
	s.word("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "", "explicit_bucket_histogram", "base2_exponential_bucket_histogram")
	if err := errors.Join(append(s.errs, err)...); err != nil {
		return nil, err
	}
	failures := &failures{log: cfg.Log, signal: signalMetrics}
	var out []*pusher
	ways = slices.DeleteFunc(ways, func(e exporter) bool { return e.kind == exportPrometheus }) // always there
	for _, way := range ways {
		e, err := newExporter(way.kind)
		if err != nil {
			return nil, fmt.Errorf("cannot make the exporter of metrics (%s): %w", way, err)
		}
		out = append(out, &pusher{Exporter: e, counts: counts, failures: failures})
	}
	logExporters(cfg.Log, signalMetrics, ways)
	return out, nil
}

// newExporter makes one exporter.
func newExporter(kind exporterKind) (sdk.Exporter, error) {
	switch kind {
	case exportGRPC:
		return otlpmetricgrpc.New(context.Background()) // dials at the first push
	case exportHTTP:
		return otlpmetrichttp.New(context.Background())
	case exportConsole:
		return stdoutmetric.New(stdoutmetric.WithWriter(os.Stderr)) // stdout is for results
	}
	panic("BUG: no exporter of this kind: " + kind)
}

// pusher counts what became of the pushes of an exporter. A failed one is no error
// to the SDK, whose own report may hold secrets. What it held is not lost where
// counters are cumulative, which is the default.
type pusher struct {
	sdk.Exporter
	counts   *exportCounts
	failures *failures
}

// Export implements sdk.Exporter.
func (p *pusher) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	err := guarded(func() error { return p.Exporter.Export(ctx, data) })
	if err == nil {
		p.counts.ok.Add(1)
		return nil
	}
	p.counts.failed.Add(1)
	p.failures.report(err)
	return nil
}

// What the exporters' errors say in their texts alone: the status of an answer.
var (
	grpcCode   = regexp.MustCompile(`^[a-z: ]*rpc error: code = ([A-Za-z]+) desc`)
	httpStatus = regexp.MustCompile(`: ([1-5][0-9][0-9])[^:]* \(body: `)
)

// exportFailure says in words of ours why a push failed. The error's own text can
// hold the collector's answer, or a URL with a key in it.
func exportFailure(err error) string {
	var dial *net.OpError
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &dns):
		return "the collector's name is not known"
	case errors.As(err, &dial) && dial.Err != nil:
		return dial.Op + ": " + dial.Err.Error()
	}
	if found := grpcCode.FindStringSubmatch(err.Error()); found != nil {
		return "gRPC status " + found[1]
	}
	if found := httpStatus.FindStringSubmatch(err.Error()); found != nil {
		return "HTTP status " + found[1]
	}
	return "the push failed"
}
