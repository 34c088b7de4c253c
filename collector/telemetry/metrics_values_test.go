package telemetry

import (
	"context"
	"maps"
	"math"
	"testing"
	"time"

	"spectap/collector"
)

// Every counter holds what the Records say, and every histogram its buckets.
func TestMetricValues(t *testing.T) {
	m := testMetrics(t, func(c *Config) {
		c.State = func() State {
			return State{InFlight: 3, ClientConnections: 4, IdleUpstream: 5, Retries: 6, Refused: 7, Panics: 8, SinkDrops: 9}
		}
	})
	observe(m,
		streamed(), streamed(),
		streamed(func(r *collector.Record) { // a slow one, whose prompt was not cached and whose reply was thought about
			r.FirstOutput, r.LastByte = collector.At(12*time.Second), collector.At(70*time.Second)
			r.ResidenceMax = collector.At(time.Second)
			r.Usage = &collector.Usage{PromptTokens: 7, CompletionTokens: 6, ReasoningTokens: 4}
		}),
		streamed(func(r *collector.Record) { // left before anything came
			r.ErrorKind, r.SpecMissing, r.Status = collector.ErrClientGone, collector.MissingClientGone, 0
			r.FirstOutput, r.LastByte, r.ResidenceP50, r.ResidenceMax = collector.Moment{}, collector.Moment{}, collector.Moment{}, collector.Moment{}
			r.Chunks, r.Usage, r.Spec = nil, nil, nil
			r.Done = collector.At(2 * time.Second)
		}),
		&collector.Record{Method: "GET", Path: "/v1/models", Status: 200, Done: collector.At(time.Millisecond)},
		&collector.Record{Method: "GET", Path: "/admin/../secret", Status: 404, Done: collector.At(time.Millisecond), ErrorKind: collector.ErrHTTPStatus},
		&collector.Record{Method: "POST", Path: "/v1/embeddings", Route: collector.RouteOther, Model: "m", Status: 200, Done: collector.At(20 * time.Millisecond), SpecMissing: collector.MissingNotMeasured},
	)
	got := read(t, scrape(t, m, ""))
	f := func(want float64, name string, labels ...string) {
		t.Helper()
		if sum := got.sum(name, labels...); sum != want {
			t.Errorf("%s %q: got %v, want %v", name, labels, sum, want)
		}
	}
	common := []string{"model=m", "engine=vllm", "point=t0_c8"}
	f(3, "spectap_requests_total", append(common, "path=/v1/chat/completions", "status=2xx", "outcome=ok")...)
	f(1, "spectap_requests_total", append(common, "path=/v1/chat/completions", "status=none", "outcome=client_gone")...)
	f(1, "spectap_requests_total", "path=/v1/models", "status=2xx", "outcome=ok")
	f(1, "spectap_requests_total", "path=other", "status=4xx", "outcome=http_status")
	f(1, "spectap_requests_total", "path=/v1/embeddings", "model=m")
	f(7, "spectap_requests_total")
	f(6, "spectap_verify_steps_total", common...)
	f(18, "spectap_draft_tokens_total", common...)
	f(6, "spectap_accepted_tokens_total", common...)
	f(3, "spectap_accepted_tokens_per_position_total", append(common, "position=0")...)
	f(3, "spectap_accepted_tokens_per_position_total", append(common, "position=1")...)
	f(0, "spectap_accepted_tokens_per_position_total", append(common, "position=2")...)
	if n := len(got.series("spectap_accepted_tokens_per_position_total")); n != 3 {
		t.Errorf("got %d positions, want 3: one without a hit shows 0", n)
	}
	f(3*4, "spectap_client_steps_total", common...)
	f(3*6, "spectap_client_step_tokens_total", common...)
	f(3, "spectap_client_view_requests_total", append(common, "source=exact")...)
	f(2, "spectap_client_view_requests_total", "source=none")
	f(3, "spectap_measured_requests_total", common...)
	f(1, "spectap_unmeasured_requests_total", append(common, "reason=client_gone")...)
	f(1, "spectap_unmeasured_requests_total", "reason=not_measured")
	f(2, "spectap_unmeasured_requests_total")
	f(12, "spectap_output_chunks_total", common...)
	f(1, "spectap_streams_without_output_total", common...)
	chat := []string{"gen_ai_operation_name=chat", "gen_ai_provider_name=vllm", "gen_ai_request_model=m", "point=t0_c8"}
	f(207, "gen_ai_client_inference_usage_input_tokens_total", chat...)
	f(18, "gen_ai_client_inference_usage_output_tokens_total", chat...)
	f(128, "gen_ai_client_inference_usage_cache_read_input_tokens_total", chat...)
	f(4, "gen_ai_client_inference_usage_reasoning_output_tokens_total", chat...)
	for i, name := range []string{"requests_in_flight", "client_connections", "idle_upstream_connections", "upstream_retries_total",
		"refused_requests_total", "recovered_panics_total", "dropped_records_total"} {
		f(float64(3+i), "spectap_"+name)
	}
	for i, result := range []string{"exported", "failed", "dropped"} {
		f(float64(1+i), "spectap_spans_total", "result="+result)
	}
	f(1, "spectap_build_info", "version=v1.2.3")
	f(1, "target_info", "service_name=spectap")

	h := func(name string, buckets map[float64]uint64, sum float64, labels ...string) {
		t.Helper()
		counts, s := got.counts(t, name, labels...)
		if !maps.Equal(counts, buckets) || math.Abs(s-sum) > 1e-9 {
			t.Errorf("%s %q: got %v and sum %v, want %v and %v", name, labels, counts, s, buckets, sum)
		}
	}
	h("gen_ai_server_time_to_first_token_seconds", map[float64]uint64{0.04: 2, 15: 1}, 12.06, chat...)
	h("gen_ai_server_time_per_output_token_seconds", map[float64]uint64{0.005: 2, math.Inf(1): 1}, 2*0.005+58./5, chat...)
	h("gen_ai_server_request_duration_seconds", map[float64]uint64{2.56: 1}, 2, append(chat, "error_type=client_disconnected")...)
	h("gen_ai_server_request_duration_seconds", map[float64]uint64{0.02: 1}, 0.02, "gen_ai_operation_name=embeddings")
	if n := got.sum("gen_ai_server_request_duration_seconds", chat...); n != 4 {
		t.Errorf("got %v chat requests with a duration, want 4", n)
	}
	h("spectap_residence_median_seconds", map[float64]uint64{2e-5: 3}, 45e-6)
	h("spectap_residence_max_seconds", map[float64]uint64{5e-4: 2, math.Inf(1): 1}, 1.0006)
}

// What is no measurement is in no histogram.
func TestNotObserved(t *testing.T) {
	f := func(name string, ttft, tpot float64, change func(*collector.Record)) {
		t.Helper()
		m := testMetrics(t)
		observe(m, streamed(change))
		got := read(t, scrape(t, m, ""))
		if n := got.sum("gen_ai_server_time_to_first_token_seconds"); n != ttft {
			t.Errorf("%s: got %v times to first token, want %v", name, n, ttft)
		}
		if n := got.sum("gen_ai_server_time_per_output_token_seconds"); n != tpot {
			t.Errorf("%s: got %v times per output token, want %v", name, n, tpot)
		}
		if n := got.sum("gen_ai_server_request_duration_seconds"); n != 1 {
			t.Errorf("%s: got %v durations, want 1", name, n)
		}
	}
	f("nothing changed", 1, 1, func(*collector.Record) {})
	f("no stream", 0, 0, func(r *collector.Record) { r.Stream = false })
	f("no output", 0, 0, func(r *collector.Record) { r.FirstOutput = collector.Moment{} })
	f("no usage", 1, 0, func(r *collector.Record) { r.Usage = nil })
	f("one token", 1, 0, func(r *collector.Record) { r.Usage.CompletionTokens = 1 })
	f("several choices", 1, 0, func(r *collector.Record) { r.Spec, r.SpecMissing = nil, collector.MissingSeveralChoices })
	f("broken off after the first output", 1, 0, func(r *collector.Record) { r.ErrorKind = collector.ErrTruncated })
}

// A block that cannot be counts as none, and says so.
func TestUnbelievedBlock(t *testing.T) {
	f := func(spec collector.Spec) {
		t.Helper()
		m := testMetrics(t)
		observe(m, streamed(func(r *collector.Record) { r.Spec = &spec }))
		got := read(t, scrape(t, m, ""))
		for _, name := range []string{"verify_steps", "accepted_tokens", "draft_tokens", "measured_requests"} {
			if n := got.sum("spectap_" + name + "_total"); n != 0 {
				t.Errorf("%+v: got %v %s, want 0", spec, n, name)
			}
		}
		if n := got.sum("spectap_unmeasured_requests_total", "reason=unbelieved"); n != 1 {
			t.Errorf("%+v: got %v unbelieved blocks, want 1", spec, n)
		}
	}
	f(collector.Spec{Accepted: []int{-1, 2}})
	f(collector.Spec{Accepted: []int{1 << 40}})
	f(collector.Spec{Steps: -1})
	f(collector.Spec{Steps: 3, AcceptedTokens: 1 << 50})
	f(collector.Spec{Accepted: []int{1}, DraftedTokens: 1 << 50})
}

// The client's view of events alone, of merged ones, and of what is no measurement.
func TestClientViewSources(t *testing.T) {
	m := testMetrics(t)
	noBlock := func(r *collector.Record) { r.Spec, r.SpecMissing = nil, collector.MissingNotReported }
	f := func(source string, steps, tokens float64, change ...func(*collector.Record)) {
		t.Helper()
		before := read(t, scrape(t, m, ""))
		observe(m, streamed(change...))
		got := read(t, scrape(t, m, ""))
		for name, want := range map[string]float64{"client_steps": steps, "client_step_tokens": tokens} {
			if n := got.sum("spectap_"+name+"_total") - before.sum("spectap_"+name+"_total"); n != want {
				t.Errorf("%s: got %v %s, want %v", source, n, name, want)
			}
		}
		const views = "spectap_client_view_requests_total"
		if n := got.sum(views, "source="+source) - before.sum(views, "source="+source); n != 1 {
			t.Errorf("got %v of source %s, want 1", n, source)
		}
	}
	f("events", 4, 6, noBlock) // no block was ever seen
	f("exact", 4, 6)
	f("exact", 3, 5, func(r *collector.Record) { r.Finish = "stop" }) // the last chunk was EOS
	f("events", 4, 6, noBlock)                                        // the last event cannot be split
	f("events_split", 0, 0, noBlock, func(r *collector.Record) { r.Chunks[3].Tokens = 2; r.Usage.CompletionTokens = 7 })
	f("events_merged", 0, 0, noBlock, func(r *collector.Record) { r.Usage.CompletionTokens = 9 })
	f("block_sums", 0, 0, func(r *collector.Record) {
		for i := range r.Chunks {
			r.Chunks[i].Tokens = 0
		}
	})
	f("none", 0, 0, func(r *collector.Record) { r.ErrorKind = collector.ErrTruncated })
	f("none", 0, 0, func(r *collector.Record) { r.Stream = false })
}

// A Record that went through observe is in the next scrape, whatever else happens.
func TestNilMetricsMeasureNothing(t *testing.T) {
	m, err := newMetrics(Config{Env: map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_METRICS_EXPORTER": "otlp"}}, noSpans)
	if err != nil || m != nil {
		t.Fatalf("got %v, %v, want no metrics", m, err)
	}
	observe(m, streamed())
	if got := scrape(t, m, ""); got != disabled || len(read(t, got)) != 0 {
		t.Errorf("got %q, want %q", got, disabled)
	}
	if err := m.shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}
