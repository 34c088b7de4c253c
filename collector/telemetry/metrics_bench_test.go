package telemetry

import (
	"context"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"spectap/collector"
)

// What one request costs, with a block of 5 drafts and 100 events.
func BenchmarkObserve(b *testing.B) {
	rec := streamed(func(r *collector.Record) {
		r.Spec = &collector.Spec{Accepted: []int{20, 20, 20, 20, 9, 10}, DraftedTokens: 495, DraftLength: 5}
		r.Chunks = r.Chunks[:1]
		for j, steps := range r.Spec.Accepted {
			for range steps {
				r.Chunks = append(r.Chunks, collector.Chunk{Tokens: j + 1})
			}
		}
		r.Usage.CompletionTokens = 0
		for _, c := range r.Chunks {
			r.Usage.CompletionTokens += c.Tokens
		}
	})
	sampled := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled}))
	for name, ctx := range map[string]context.Context{"not_sampled": context.Background(), "sampled": sampled} {
		b.Run(name, func(b *testing.B) {
			m := testMetrics(b)
			m.observe(ctx, rec)
			if n := read(b, scrape(b, m, "")).sum("spectap_client_view_requests_total", "source=exact"); n != 1 {
				b.Fatal("the record is not exact")
			}
			b.ReportAllocs()
			for b.Loop() {
				m.observe(ctx, rec)
			}
		})
	}
	b.Run("disabled", func(b *testing.B) {
		var m *metrics
		b.ReportAllocs()
		for b.Loop() {
			m.observe(context.Background(), rec)
		}
	})
}

// What a scrape costs by combinations of model and point, up to the most that
// are kept.
func BenchmarkScrape(b *testing.B) {
	for _, points := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("%d_points", points), func(b *testing.B) {
			m := testMetrics(b, func(c *Config) { c.State = func() State { return State{InFlight: 2000} } })
			for model := range min(4, points) {
				for point := range points {
					observe(m, streamed(func(r *collector.Record) {
						r.Model, r.Labels.Point = fmt.Sprint("Qwen/Qwen3-", model), fmt.Sprint("t0_c", point)
					}))
				}
			}
			b.SetBytes(int64(len(scrape(b, m, ""))))
			b.ReportAllocs()
			for b.Loop() {
				scrape(b, m, "")
			}
		})
	}
}
