package telemetry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"spectap/collector"
)

// BenchmarkTraces is the cost of a request's traces. path is what the request
// itself waits for, begin and end; whole has the worker, the batches and the
// OTLP export over loopback HTTP to a sink that throws them away, all in one
// process.
func BenchmarkTraces(b *testing.B) {
	f := func(name string, env ...string) {
		b.Run(name, func(b *testing.B) {
			setenv(b, env...)
			tr := started(b)
			if tr != nil {
				tr.once.Do(func() { close(tr.stop) }) // nobody works
				<-tr.done
			}
			rec, h := fullRecord(), sampledHeaders()
			b.ReportAllocs()
			for b.Loop() {
				if _, end := tr.begin(rec, h); end != nil {
					end(rec)
				}
				if tr != nil && len(tr.finished) == cap(tr.finished) {
					b.StopTimer()
					for len(tr.finished) > 0 {
						<-tr.finished
					}
					b.StartTimer()
				}
			}
			if err := tr.shutdown(within(b, 1e11)); err != nil || tr.counts() != (spanCounts{}) {
				b.Fatalf("got %v, %+v", err, tr.counts())
			}
		})
	}
	f("path/off")
	f("path/unsampled", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_TRACES_SAMPLER=always_off")
	f("path/on", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1")
	b.Run("whole/on", func(b *testing.B) { benchmarkWhole(b, 0) })
	b.Run("whole/127chunks", func(b *testing.B) { benchmarkWhole(b, 127) })
}

func benchmarkWhole(b *testing.B, chunks int) {
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { _, _ = io.Copy(io.Discard, req.Body) }))
	defer sink.Close()
	setenv(b, "OTEL_EXPORTER_OTLP_ENDPOINT="+sink.URL, "OTEL_BSP_MAX_QUEUE_SIZE=4096")
	tr := started(b, func(c *Config) { c.ChunkEvents = chunks })
	rec, h := fullRecord(), sampledHeaders()
	for len(rec.Chunks) < chunks {
		rec.Chunks = append(rec.Chunks, collector.Chunk{At: 1e9, Tokens: 3})
	}
	b.ReportAllocs()
	requests := uint64(0)
	for b.Loop() {
		_, end := tr.begin(rec, h)
		end(rec)
		for requests++; len(tr.finished) > 64 || len(tr.batchers[0].ended) > 3000; {
			runtime.Gosched()
		}
	}
	if err := tr.shutdown(within(b, 1e11)); err != nil || tr.counts() != (spanCounts{Exported: 2 * requests}) {
		b.Fatalf("got %v, %+v of %d requests", err, tr.counts(), requests)
	}
}

func sampledHeaders() fields {
	return fields{http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}
}
