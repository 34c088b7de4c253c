package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// lines is where a test's log goes.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// burst begins and ends n requests.
func burst(tr *traces, n int) {
	for range n {
		_, end := tr.begin(fullRecord(), fields{http.Header{}})
		end(fullRecord())
	}
}

// eventually waits for what another goroutine does; it fails a hanging test only.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatal("it never happened: " + what)
		case <-tick.C:
		}
	}
}

// blackHole accepts connections and says nothing.
func blackHole(t *testing.T) string {
	t.Helper()
	ln := listen(t)
	var mu sync.Mutex
	var conns []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return "http://" + ln.Addr().String()
}

// refused is an address where nobody listens.
func refused(t *testing.T) string {
	t.Helper()
	ln := listen(t)
	_ = ln.Close()
	return "http://" + ln.Addr().String()
}

// A collector that does not answer, or is not there: no request waits, memory is
// bounded, every span is counted, and the end comes when it is told to.
func TestCollectorGone(t *testing.T) {
	const requests = 500 // two spans each
	f := func(name, endpoint, protocol string) {
		t.Helper()
		setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol,
			"OTEL_BSP_MAX_QUEUE_SIZE=64", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=16", "OTEL_BSP_SCHEDULE_DELAY=1")
		log := &lines{}
		tr := started(t, func(c *Config) { c.Log = zerolog.New(log) })
		burst(tr, requests)
		eventually(t, name+": drops are counted while it goes on", func() bool { return tr.counts().Dropped > 0 })
		if n := len(tr.finished) + len(tr.batchers[0].ended); n > 128 {
			t.Errorf("%s: %d spans wait, more than the queues hold", name, n)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if err := tr.shutdown(ctx); err != nil {
			t.Errorf("%s: got %v; lost spans fail nobody", name, err)
		}
		n := tr.counts()
		if n.Exported != 0 || n.Failed == 0 || n.Failed+n.Dropped != 2*requests {
			t.Errorf("%s: got %+v, want %d spans failed or dropped", name, n, 2*requests)
		}
		if !strings.Contains(log.String(), "some spans were lost") || strings.Contains(log.String(), "CANARY") {
			t.Errorf("%s: got log %s", name, log)
		}
		_, end := tr.begin(fullRecord(), fields{http.Header{}}) // a request after the end costs nobody
		end(fullRecord())
	}
	f("black hole, gRPC", blackHole(t), "grpc")
	f("black hole, HTTP", blackHole(t), "http/protobuf")
	f("refused, gRPC", refused(t), "grpc")
	f("refused, HTTP", refused(t), "http/protobuf")
}

// While an export hangs, the next requests only fill the queue: begin and end
// return although nothing leaves.
func TestSlowCollector(t *testing.T) {
	r := grpcReceiver(t, nil)
	gate := make(chan struct{})
	r.hold = func(ctx context.Context) {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_BSP_MAX_QUEUE_SIZE=10", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=4", "OTEL_BSP_SCHEDULE_DELAY=60000")
	tr := started(t)
	burst(tr, 2) // one batch, which hangs
	eventually(t, "an export begins", func() bool { return len(r.all()) == 4 })
	for range 20 {
		burst(tr, 1)
		eventually(t, "the worker is idle", func() bool { return len(tr.finished) == 0 })
	}
	eventually(t, "all but the queue is dropped", func() bool { return tr.counts() == spanCounts{Dropped: 40 - 10} })
	close(gate)
	if err := tr.shutdown(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if n := tr.counts(); n != (spanCounts{Exported: 14, Dropped: 30}) {
		t.Errorf("got %+v, want 4 + 10 exported and 30 dropped", n)
	}
	if len(r.all()) != 14 {
		t.Errorf("the collector got %d spans, want 14", len(r.all()))
	}
}

// The queue of finished requests is bounded too: a worker that is behind loses spans, counted.
func TestWorkerBehind(t *testing.T) {
	tr := &traces{finished: make(chan finished, 3), batchers: []*batcher{{}}}
	r := grpcReceiver(t, nil)
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	live := started(t)
	tr.tracer, tr.propagator = live.tracer, live.propagator
	burst(tr, 5) // nobody works
	if n := tr.counts(); n != (spanCounts{Dropped: 4}) || len(tr.finished) != 3 {
		t.Errorf("got %+v and %d waiting, want 4 spans of 2 requests dropped", n, len(tr.finished))
	}
	if err := live.shutdown(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
}

// The delay sends what is no full batch, and a full one goes at once.
func TestBatches(t *testing.T) {
	r := grpcReceiver(t, nil)
	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE=6", "OTEL_BSP_SCHEDULE_DELAY=60000")
	tr := started(t)
	burst(tr, 3)
	eventually(t, "a full batch goes", func() bool { return tr.counts().Exported == 6 })
	burst(tr, 1)
	if err := tr.shutdown(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if r.exports != 2 || tr.counts() != (spanCounts{Exported: 8}) {
		t.Errorf("got %d exports, %+v; want 2 with 8 spans", r.exports, tr.counts())
	}

	setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_BSP_SCHEDULE_DELAY=5")
	tr = started(t)
	burst(tr, 1)
	eventually(t, "the delay passes", func() bool { return tr.counts().Exported == 2 })
	if err := tr.shutdown(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
}

// What a collector refuses is counted as failed, told once a minute in our
// words, and its own words are nowhere.
func TestRefusals(t *testing.T) {
	f := func(r *receiver, protocol string, want spanCounts, kind string) {
		t.Helper()
		setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+strings.Replace(r.endpoint, "//", "//user:SECRET@", 1)+"/?key=SECRET", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=",
			"OTEL_EXPORTER_OTLP_PROTOCOL="+protocol, "OTEL_EXPORTER_OTLP_HEADERS=authorization=SECRET")
		log := &lines{}
		tr := started(t, func(c *Config) { c.Log = zerolog.New(log) })
		tel := &Telemetry{traces: tr}
		burst(tr, 1)
		_ = tr.shutdown(within(t, 10*time.Second))
		st := tel.Status()
		if tr.counts() != want || st.LastFailure != kind || st.SpansFailed != want.Failed || st.SpansExported != want.Exported {
			t.Errorf("%s: got %+v, %+v; want %+v, %q", protocol, tr.counts(), st, want, kind)
		}
		if !strings.Contains(log.String(), kind) || strings.Contains(log.String()+strings.Join(st.Traces, ""), "SECRET") {
			t.Errorf("%s: got log %s, status %+v", protocol, log, st)
		}
		if len(st.Traces) != 1 || !strings.Contains(st.Traces[0], r.endpoint) {
			t.Errorf("got exporters %q, want %q", st.Traces, r.endpoint)
		}
	}
	part := grpcReceiver(t, nil)
	part.partial = 1
	f(part, "grpc", spanCounts{Exported: 1, Failed: 1}, "the collector refused a part")
	part = httpReceiver(t)
	part.partial = 1
	f(part, "http/protobuf", spanCounts{Exported: 1, Failed: 1}, "the collector refused a part")
	no := grpcReceiver(t, nil)
	no.answer = func() error { return status.Error(codes.Unauthenticated, "SECRET of the collector") }
	f(no, "grpc", spanCounts{Failed: 2}, "gRPC status Unauthenticated")
	no = httpReceiver(t)
	no.answer = func() error { return errors.New("SECRET of the collector") }
	f(no, "http/protobuf", spanCounts{Failed: 2}, "HTTP status 401")
}

// Failures are told once a minute, with their number.
func TestFailuresAreRateLimited(t *testing.T) {
	log := &lines{}
	f := failures{log: zerolog.New(log), signal: signalTraces}
	now := start
	for i, after := range []time.Duration{0, time.Second, 59 * time.Second, 2 * time.Second} {
		now = now.Add(after)
		f.reportAt(io.ErrUnexpectedEOF, now)
		if got, want := strings.Count(log.String(), "\n"), []int{1, 1, 2, 2}[i]; got != want {
			t.Errorf("after %d failures: got %d lines, want %d", i+1, got, want)
		}
	}
	if !strings.Contains(log.String(), `"failures":2`) || f.lastKind() != "the push failed" {
		t.Errorf("got %s, %q", log, f.lastKind())
	}
}
