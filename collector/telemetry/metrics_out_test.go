package telemetry

import (
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.opentelemetry.io/otel/trace"

	"spectap/collector"
)

// full are metrics with a value in every series that there can be.
func full(t *testing.T) *metrics {
	m := testMetrics(t, func(c *Config) { c.State = func() State { return State{} } })
	observe(m,
		streamed(func(r *collector.Record) { r.Usage.ReasoningTokens = 1 }),
		streamed(func(r *collector.Record) { r.FirstOutput, r.Spec = collector.Moment{}, nil }),
		streamed(func(r *collector.Record) { r.ErrorKind = collector.ErrTruncated }),
	)
	return m
}

// The catalog is what a scrape shows: names, kinds, help and labels, all of it
// and nothing beside Go's and the process's own.
func TestCatalog(t *testing.T) {
	got := read(t, scrape(t, full(t), ""))
	known := map[string]bool{"target_info": true}
	for _, want := range Catalog() {
		known[want.Name] = true
		family := got[want.Name]
		if family == nil {
			t.Errorf("%s is in the catalog and not in a scrape", want.Name)
			continue
		}
		if kind := strings.ToLower(family.GetType().String()); kind != want.Kind || family.GetHelp() != want.Help {
			t.Errorf("%s: got %s with %q, want %s with %q", want.Name, kind, family.GetHelp(), want.Kind, want.Help)
		}
		var labels []string
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if !slices.Contains(labels, l.GetName()) {
					labels = append(labels, l.GetName())
				}
			}
		}
		slices.Sort(labels)
		listed := slices.Sorted(slices.Values(want.Labels))
		if !slices.Equal(labels, listed) {
			t.Errorf("%s: got labels %q, want %q", want.Name, labels, listed)
		}
	}
	for name := range got {
		if !known[name] && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is in a scrape and not in the catalog", name)
		}
	}
}

// Prometheus' own check of names, units and help has nothing to say.
func TestPromtoolIsSilent(t *testing.T) {
	text := scrape(t, full(t), "")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("got %v, %v", problems, err)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		return // promlint is promtool's own check
	}
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: got %v and %s", err, out)
	}
}

const openMetrics = "application/openmetrics-text; version=1.0.0"

// A scraper that asks for OpenMetrics finds the trace of a sampled request at
// the bucket that it fell into; of one that was not sampled, none.
func TestExemplars(t *testing.T) {
	f := func(flags trace.TraceFlags, want bool) {
		t.Helper()
		m := testMetrics(t)
		ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{0xab, 15: 1}, SpanID: trace.SpanID{0xcd, 7: 2}, TraceFlags: flags}))
		m.observe(ctx, streamed())
		text := scrape(t, m, openMetrics)
		for bucket, value := range map[string]string{
			"time_to_first_token_seconds_bucket{.*,le=.0.04.}":    "0.03",
			"time_per_output_token_seconds_bucket{.*,le=.0.005.}": "0.005",
			"request_duration_seconds_bucket{.*,le=.0.08.}":       "0.055",
		} {
			line := regexp.MustCompile("(?m)^gen_ai_server_" + bucket + " 1 # {(.*)} " + value + " ").FindStringSubmatch(text)
			if want == (line == nil) {
				t.Errorf("flags %v: %s has an exemplar: %v, want %v", flags, bucket, line, want)
				continue
			}
			if want && (!strings.Contains(line[1], `trace_id="ab000000000000000000000000000001"`) || !strings.Contains(line[1], `span_id="cd00000000000002"`)) {
				t.Errorf("got exemplar %q, want the ids of the span", line[1])
			}
		}
		if !strings.HasSuffix(text, "# EOF\n") {
			t.Errorf("got no OpenMetrics")
		}
		if plain := scrape(t, m, ""); strings.Contains(plain, "trace_id") {
			t.Errorf("plain text with an exemplar")
		}
	}
	f(trace.FlagsSampled, true)
	f(0, false)
}
