package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"spectap/collector"
)

// metricReceiver is an OTLP receiver of metrics, over gRPC and HTTP.
type metricReceiver struct {
	collectorpb.UnimplementedMetricsServiceServer
	refuse bool // answers with an error that repeats a secret

	mu   sync.Mutex
	got  []*metricspb.ResourceMetrics
	keys []string // header x-key of each request
}

const secret = "CANARY-91ce"

func (r *metricReceiver) take(in *collectorpb.ExportMetricsServiceRequest, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got, r.keys = append(r.got, in.GetResourceMetrics()...), append(r.keys, key)
}

// Export implements collectorpb.MetricsServiceServer.
func (r *metricReceiver) Export(ctx context.Context, in *collectorpb.ExportMetricsServiceRequest) (*collectorpb.ExportMetricsServiceResponse, error) {
	if r.refuse {
		return nil, status.Error(codes.PermissionDenied, "no entry for "+secret)
	}
	md, _ := metadata.FromIncomingContext(ctx)
	r.take(in, strings.Join(md.Get("x-key"), ","))
	return &collectorpb.ExportMetricsServiceResponse{}, nil
}

// ServeHTTP implements http.Handler.
func (r *metricReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	var in collectorpb.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &in); err != nil || req.URL.Path != "/v1/metrics" {
		http.Error(w, "no OTLP", http.StatusBadRequest)
		return
	}
	if r.refuse {
		http.Error(w, "no entry for "+secret, http.StatusForbidden)
		return
	}
	r.take(&in, req.Header.Get("x-key"))
	out, _ := proto.Marshal(&collectorpb.ExportMetricsServiceResponse{})
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(out)
}

// listen starts the receiver and returns the variables that point to it.
func (r *metricReceiver) listen(t *testing.T, protocol string) map[string]string {
	t.Helper()
	env := map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_HEADERS": "x-key=" + secret, "OTEL_METRIC_EXPORT_INTERVAL": "3600000"}
	if protocol == "grpc" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		collectorpb.RegisterMetricsServiceServer(server, r)
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		t.Cleanup(func() { server.Stop(); <-served })
		env["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://" + l.Addr().String()
	} else {
		server := httptest.NewServer(r)
		t.Cleanup(server.Close)
		env["OTEL_EXPORTER_OTLP_ENDPOINT"] = server.URL
	}
	for name, value := range env { // the SDK reads its own
		t.Setenv(name, value)
	}
	return env
}

// values are the pushed values in the way of a scrape: name and labels to value.
func (r *metricReceiver) values() map[string]float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]float64{}
	for _, rm := range r.got {
		for _, sm := range rm.GetScopeMetrics() {
			for _, m := range sm.GetMetrics() {
				for _, p := range m.GetSum().GetDataPoints() {
					out[m.GetName()+labelsOf(p)] = float64(p.GetAsInt())
				}
				for _, p := range m.GetHistogram().GetDataPoints() {
					out[m.GetName()+labelsOf(p)+" sum"] = p.GetSum()
					for i, n := range p.GetBucketCounts() {
						if n > 0 {
							out[fmt.Sprintf("%s%s bucket %d", m.GetName(), labelsOf(p), i)] = float64(n)
						}
					}
				}
			}
		}
	}
	return out
}

// labelsOf spells the attributes of a data point in order of their names.
func labelsOf[P interface{ GetAttributes() []*commonpb.KeyValue }](p P) string {
	var all []string
	for _, a := range p.GetAttributes() {
		all = append(all, a.GetKey()+"="+a.GetValue().GetStringValue())
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

// What is pushed are the values of a scrape, whole at the end, over both
// protocols, with the configured headers.
func TestPush(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			var receiver metricReceiver
			env := receiver.listen(t, protocol)
			m, err := newMetrics(Config{Provider: "vllm", Models: 32, Env: env, Log: zerolog.Nop()}, noSpans)
			if err != nil {
				t.Fatal(err)
			}
			observe(m, streamed(), streamed(), streamed(func(r *collector.Record) { r.Spec, r.SpecMissing = nil, collector.MissingNotReported }))
			if err := m.shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
			const group, call = "[engine=vllm model=m point=t0_c8]", "[gen_ai.operation.name=chat gen_ai.provider.name=vllm gen_ai.request.model=m point=t0_c8]"
			got := receiver.values()
			for name, want := range map[string]float64{
				"spectap.verify.steps" + group:    4,
				"spectap.draft.tokens" + group:    12,
				"spectap.accepted.tokens" + group: 4,
				"spectap.accepted.tokens.per_position[engine=vllm model=m point=t0_c8 position=1]":                  2,
				"spectap.requests[engine=vllm model=m outcome=ok path=/v1/chat/completions point=t0_c8 status=2xx]": 3,
				"spectap.unmeasured.requests[engine=vllm model=m point=t0_c8 reason=not_reported]":                  1,
				"gen_ai.client.inference.usage.input_tokens" + call:                                                 300,
				"gen_ai.server.time_to_first_token" + call + " bucket 4":                                            3,
				"gen_ai.server.time_to_first_token" + call + " sum":                                                 0.09,
			} {
				if got[name] != want {
					t.Errorf("%s: got %v, want %v of %q", name, got[name], want, slices.Sorted(maps.Keys(got)))
				}
			}
			if len(receiver.keys) != 1 || receiver.keys[0] != secret {
				t.Errorf("got pushes with keys %q, want one with the configured header", receiver.keys)
			}
			if n := m.exports.ok.Load(); n != 1 {
				t.Errorf("got %d counted pushes, want 1", n)
			}
		})
	}
}

// Backends that want deltas and exponential histograms get them by the standard
// variables; /metrics stays as it is.
func TestPushPreferences(t *testing.T) {
	var receiver metricReceiver
	env := receiver.listen(t, "http/protobuf")
	for name, value := range map[string]string{"TEMPORALITY_PREFERENCE": "delta", "DEFAULT_HISTOGRAM_AGGREGATION": "base2_exponential_bucket_histogram"} {
		env["OTEL_EXPORTER_OTLP_METRICS_"+name] = value
		t.Setenv("OTEL_EXPORTER_OTLP_METRICS_"+name, value)
	}
	m := testMetrics(t, func(c *Config) { c.Env = env })
	for range 2 {
		observe(m, streamed())
		if err := m.provider.ForceFlush(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	deltas, exponential := 0, 0
	for _, rm := range receiver.got {
		for _, metric := range rm.GetScopeMetrics()[0].GetMetrics() {
			switch metric.GetName() {
			case "spectap.verify.steps":
				if s := metric.GetSum(); s.GetAggregationTemporality() == metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA && s.GetDataPoints()[0].GetAsInt() == 2 {
					deltas++
				}
			case "gen_ai.server.time_to_first_token":
				if h := metric.GetExponentialHistogram(); h != nil && h.GetDataPoints()[0].GetCount() == 1 {
					exponential++
				}
			}
		}
	}
	if deltas != 2 || exponential != 2 {
		t.Errorf("got %d deltas and %d exponential histograms, want 2 of each", deltas, exponential)
	}
	got := read(t, scrape(t, m, ""))
	if n := got.sum("spectap_verify_steps_total"); n != 4 {
		t.Errorf("got %v verify steps at /metrics, want 4", n)
	}
	if counts, _ := got.counts(t, "gen_ai_server_time_to_first_token_seconds"); counts[0.04] != 2 {
		t.Errorf("got %v at /metrics, want 2 up to 0.04", counts)
	}
}

// A push that fails is counted, told once, and tells no secret; requests notice
// nothing.
func TestPushFails(t *testing.T) {
	f := func(name string, env map[string]string, want string) {
		t.Run(name, func(t *testing.T) {
			for key, value := range env {
				t.Setenv(key, value)
			}
			var log bytes.Buffer
			m, err := newMetrics(Config{Env: env, Log: zerolog.New(&log)}, noSpans)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				observe(m, streamed())
				_ = m.provider.ForceFlush(context.Background())
			}
			_ = m.shutdown(context.Background())
			if n := m.exports.failed.Load(); n != 4 {
				t.Errorf("got %d failed pushes, want 4", n)
			}
			if n := strings.Count(log.String(), "cannot export telemetry"); n != 1 || !strings.Contains(log.String(), want) {
				t.Errorf("got %d lines, want one with %q:\n%s", n, want, &log)
			}
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log holds the secret:\n%s", &log)
			}
		})
	}
	for protocol, want := range map[string]string{"grpc": "gRPC status PermissionDenied", "http/protobuf": "HTTP status 403"} {
		t.Run(protocol, func(t *testing.T) {
			receiver := metricReceiver{refuse: true}
			f("refused", receiver.listen(t, protocol), want)
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := l.Addr().String()
	l.Close()
	timeout := map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "300", "OTEL_METRIC_EXPORT_INTERVAL": "3600000"}
	for protocol, want := range map[string]string{"grpc": "", "http/protobuf": ""} {
		env := maps.Clone(timeout)
		env["OTEL_EXPORTER_OTLP_PROTOCOL"], env["OTEL_EXPORTER_OTLP_ENDPOINT"] = protocol, "http://user:"+secret+"@"+dead+"/?key="+secret
		f("nobody there "+protocol, env, want)
	}
}

// Values of the standard variables that cannot be used are told at the start.
func TestPushRefuses(t *testing.T) {
	_, err := newMetrics(Config{Env: map[string]string{"OTEL_METRICS_EXPORTER": "otpl", "OTEL_METRIC_EXPORT_INTERVAL": "60s",
		"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "monthly", "OTEL_METRICS_EXEMPLAR_FILTER": "all"}}, noSpans)
	for _, want := range []string{`OTEL_METRICS_EXPORTER "otpl"`, `OTEL_METRIC_EXPORT_INTERVAL "60s"`, `TEMPORALITY_PREFERENCE "monthly"`, `OTEL_METRICS_EXEMPLAR_FILTER "all"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
}
