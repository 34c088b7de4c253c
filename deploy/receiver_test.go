package deploy

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// receiver is an OTLP collector over gRPC that counts what it gets.
type receiver struct {
	tracepb.UnimplementedTraceServiceServer
	address string
	delay   time.Duration // before each answer
	spans   atomic.Int64
}

// startReceiver serves a collector on loopback until the test ends.
func startReceiver(t testing.TB, delay time.Duration) *receiver {
	t.Helper()
	listener := listen(t)
	r := &receiver{address: listener.Addr().String(), delay: delay}
	server := grpc.NewServer()
	tracepb.RegisterTraceServiceServer(server, r)
	metricspb.RegisterMetricsServiceServer(server, metricsReceiver{delay: delay})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return r
}

// Export implements the trace service.
func (r *receiver) Export(ctx context.Context, request *tracepb.ExportTraceServiceRequest) (*tracepb.ExportTraceServiceResponse, error) {
	if err := pause(ctx, r.delay); err != nil {
		return nil, err
	}
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			r.spans.Add(int64(len(scope.Spans)))
		}
	}
	return &tracepb.ExportTraceServiceResponse{}, nil
}

// metricsReceiver takes pushed metrics.
type metricsReceiver struct {
	metricspb.UnimplementedMetricsServiceServer
	delay time.Duration
}

// Export implements the metrics service.
func (r metricsReceiver) Export(ctx context.Context, _ *metricspb.ExportMetricsServiceRequest) (*metricspb.ExportMetricsServiceResponse, error) {
	return &metricspb.ExportMetricsServiceResponse{}, pause(ctx, r.delay)
}

// pause waits, unless the caller gives up before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// refused returns an address on which nothing listens.
func refused(t testing.TB) string {
	t.Helper()
	listener := listen(t)
	defer listener.Close()
	return listener.Addr().String()
}

// blackHole returns an address that takes connections and never answers.
func blackHole(t testing.TB) string {
	t.Helper()
	listener := listen(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var open []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			open = append(open, conn)
		}
		for _, conn := range open {
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-ended
	})
	return listener.Addr().String()
}
