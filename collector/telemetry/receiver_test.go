package telemetry

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is an OTLP collector in this process.
type receiver struct {
	collectortrace.UnimplementedTraceServiceServer
	endpoint string
	answer   func() error          // what an export gets; nil: taken
	partial  int64                 // spans refused of each export
	hold     func(context.Context) // called before the answer

	mu       sync.Mutex
	spans    []*tracepb.Span
	resource *resourcepb.Resource
	headers  []string // "name: value" of the last export
	exports  int
}

// Export implements the gRPC service.
func (r *receiver) Export(ctx context.Context, req *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		r.take(req, map[string][]string(md))
	}
	if r.hold != nil {
		r.hold(ctx)
	}
	if r.answer != nil {
		return nil, r.answer()
	}
	return r.response(), nil
}

func (r *receiver) response() *collectortrace.ExportTraceServiceResponse {
	resp := &collectortrace.ExportTraceServiceResponse{}
	if r.partial > 0 {
		resp.PartialSuccess = &collectortrace.ExportTracePartialSuccess{RejectedSpans: r.partial, ErrorMessage: "SECRET of the collector"}
	}
	return resp
}

// ServeHTTP implements OTLP over HTTP with protobuf.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	text, err := io.ReadAll(body)
	var export collectortrace.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(text, &export)
	}
	if err != nil || req.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(req.URL.Path, err), http.StatusBadRequest)
		return
	}
	r.take(&export, req.Header)
	if r.hold != nil {
		r.hold(req.Context())
	}
	if r.answer != nil {
		http.Error(w, r.answer().Error(), http.StatusUnauthorized)
		return
	}
	answer, err := proto.Marshal(r.response())
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer)
}

func (r *receiver) take(req *collectortrace.ExportTraceServiceRequest, headers map[string][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exports++
	r.headers = nil
	for name, values := range headers {
		r.headers = append(r.headers, strings.ToLower(name)+": "+strings.Join(values, ","))
	}
	for _, rs := range req.ResourceSpans {
		r.resource = rs.Resource
		for _, ss := range rs.ScopeSpans {
			r.spans = append(r.spans, ss.Spans...)
		}
	}
}

// grpcReceiver starts a receiver of OTLP over gRPC.
func grpcReceiver(t testing.TB, config *tls.Config) *receiver {
	t.Helper()
	ln := listen(t)
	r := &receiver{endpoint: "http://" + ln.Addr().String()}
	var options []grpc.ServerOption
	if config != nil {
		r.endpoint = "https://" + ln.Addr().String()
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	server := grpc.NewServer(options...)
	collectortrace.RegisterTraceServiceServer(server, r)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(ln) }()
	t.Cleanup(func() { server.Stop(); <-served })
	return r
}

// httpReceiver starts a receiver of OTLP over HTTP.
func httpReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{}
	server := httptest.NewServer(r)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	r.endpoint = server.URL
	return r
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// all returns the spans that came so far.
func (r *receiver) all() []*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*tracepb.Span(nil), r.spans...)
}

// named returns the one span of a name.
func (r *receiver) named(t *testing.T, name string) *tracepb.Span {
	t.Helper()
	var found *tracepb.Span
	for _, s := range r.all() {
		if s.Name == name {
			if found != nil {
				t.Fatalf("several spans %q", name)
			}
			found = s
		}
	}
	if found == nil {
		var names []string
		for _, s := range r.all() {
			names = append(names, s.Name)
		}
		t.Fatalf("no span %q among %q", name, names)
	}
	return found
}

// attributes returns what a span, an event or a resource says, as "type value".
func attributes(list []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range list {
		if _, twice := out[kv.Key]; twice {
			panic("twice: " + kv.Key)
		}
		out[kv.Key] = value(kv.Value)
	}
	return out
}

func value(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return "string " + v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint("int ", v.IntValue)
	case *common.AnyValue_DoubleValue:
		return fmt.Sprint("double ", v.DoubleValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint("bool ", v.BoolValue)
	case *common.AnyValue_ArrayValue:
		var items []string
		for _, item := range v.ArrayValue.Values {
			items = append(items, value(item))
		}
		return fmt.Sprintf("%q", items)
	}
	return "?"
}

// setenv sets variables of OpenTelemetry for this test, and clears all others.
// The SDK reads the process's environment, so does what Config.Env is made of.
func setenv(t testing.TB, pairs ...string) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "OTEL_") && value != "" {
			t.Setenv(name, "")
		}
	}
	for name, value := range environment(pairs) {
		t.Setenv(name, value)
	}
}

// within returns a context that is long enough for all but a hanging test.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
