package telemetry

import (
	"context"

	"net/http"
	"net/http/httptest"

	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rs/zerolog"

	"spectap/collector"
)

// testMetrics makes metrics as a proxy has them.
func testMetrics(t testing.TB, change ...func(*Config)) *metrics {
	t.Helper()
	cfg := Config{Provider: "vllm", Models: 32, Version: "v1.2.3", Env: map[string]string{}, Log: zerolog.Nop()}
	for _, f := range change {
		f(&cfg)
	}
	m, err := newMetrics(cfg, noSpans)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

func noSpans() spanCounts { return spanCounts{1, 2, 3} }

// scrape returns the text of /metrics.
func scrape(t testing.TB, m *metrics, accept string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("got status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// exposition is a scrape that was read.
type exposition map[string]*dto.MetricFamily

func read(t testing.TB, text string) exposition {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// series returns those of a name whose labels are all of want ("name=value").
func (e exposition) series(name string, want ...string) []*dto.Metric {
	var out []*dto.Metric
	for _, m := range e[name].GetMetric() {
		have := map[string]bool{}
		for _, l := range m.GetLabel() {
			have[l.GetName()+"="+l.GetValue()] = true
		}
		if !slices.ContainsFunc(want, func(label string) bool { return !have[label] }) {
			out = append(out, m)
		}
	}
	return out
}

// sum is the PromQL sum() of the selected series: values, or observations of a histogram.
func (e exposition) sum(name string, labels ...string) (sum float64) {
	for _, m := range e.series(name, labels...) {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}

// counts are the observations in each bucket of a histogram, +Inf last, and their sum.
func (e exposition) counts(t testing.TB, name string, labels ...string) (counts map[float64]uint64, sum float64) {
	t.Helper()
	found := e.series(name, labels...)
	if len(found) != 1 {
		t.Fatalf("%s %q: got %d series, want 1", name, labels, len(found))
	}
	counts = map[float64]uint64{}
	before := uint64(0)
	for _, b := range found[0].GetHistogram().GetBucket() {
		if n := b.GetCumulativeCount() - before; n > 0 {
			counts[b.GetUpperBound()] = n
		}
		before = b.GetCumulativeCount()
	}
	return counts, found[0].GetHistogram().GetSampleSum()
}

// streamed is a request that succeeded: two verify steps that accepted 2 and 0
// of 3 drafts, and one step without drafts: chunks of 1, 3, 1 and 1 token.
func streamed(change ...func(*collector.Record)) *collector.Record {
	r := &collector.Record{
		Method: "POST", Path: "/v1/chat/completions", Route: collector.RouteChat, Model: "m", Engine: "vllm", Stream: true, Status: 200,
		Labels:      collector.Labels{Point: "t0_c8"},
		FirstOutput: collector.At(30 * time.Millisecond), LastByte: collector.At(55 * time.Millisecond), Done: collector.At(56 * time.Millisecond),
		ResidenceP50: collector.At(15 * time.Microsecond), ResidenceMax: collector.At(300 * time.Microsecond),
		Finish: "length",
		Chunks: []collector.Chunk{{At: 30 * time.Millisecond, Tokens: 1}, {At: 40 * time.Millisecond, Tokens: 3}, {At: 45 * time.Millisecond, Tokens: 1}, {At: 54 * time.Millisecond, Tokens: 1}},
		Usage:  &collector.Usage{PromptTokens: 100, CompletionTokens: 6, CachedTokens: 64},
		Spec:   &collector.Spec{Engine: "vllm", Accepted: []int{1, 0, 1, 0}, Steps: 2, AcceptedTokens: 2, DraftedTokens: 6, DraftLength: 3},
	}
	for _, f := range change {
		f(r)
	}
	return r
}

func observe(m *metrics, recs ...*collector.Record) {
	for _, r := range recs {
		m.observe(context.Background(), r)
	}
}
