package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"spectap/collector"
)

// metrics are the instruments and their two ways out. A nil *metrics measures
// nothing.
//
// Everything is counted while the proxy hands over a Record, which is before the
// client sees the end of its answer: whoever scrapes after an answer finds it.
type metrics struct {
	instruments *instruments
	series      *series
	provider    *sdk.MeterProvider
	pull        *pull
	exports     exportCounts
}

// scope is the name of the instrumentation.
const scope = "spectap"

// maxPoints bounds the values of label point: a sweep has one for each temperature and concurrency.
const maxPoints = 64

// newMetrics starts the two ways out. Prometheus' is always there: it costs
// nothing until somebody comes and reads. spans tells what became of the spans.
func newMetrics(cfg Config, spans func() spanCounts) (*metrics, error) {
	if sdkDisabled(cfg.Env) {
		return nil, nil
	}
	m := &metrics{series: newSeries(clean(cfg.Provider), cfg.Models, maxPoints)}
	pushers, pushErr := newPushers(cfg, &m.exports)
	res, resErr := newResource(cfg)
	pull, pullErr := newPull(cfg.Log)
	if err := errors.Join(pushErr, resErr, pullErr); err != nil {
		return nil, err
	}
	m.pull = pull
	// The labels are bounded in series; the SDK's own limit would fold without telling.
	options := []sdk.Option{sdk.WithReader(pull.reader), sdk.WithResource(res), sdk.WithCardinalityLimit(0)}
	for _, p := range pushers {
		options = append(options, sdk.WithReader(sdk.NewPeriodicReader(p)))
	}
	m.provider = sdk.NewMeterProvider(options...)
	meter := m.provider.Meter(scope, metric.WithInstrumentationVersion(cfg.Version))
	b := builder{meter: meter}
	m.instruments = newInstruments(&b)
	if err := errors.Join(b.err(), m.register(meter, cfg, spans)); err != nil {
		return nil, fmt.Errorf("cannot make the instruments of metrics: %w", err)
	}
	return m, nil
}

// shutdown pushes what was measured since the last push, until ctx ends.
func (m *metrics) shutdown(ctx context.Context) error {
	if m == nil {
		return nil
	}
	_ = m.provider.Shutdown(ctx) // a pusher counts and logs what it loses
	return nil
}

// observe counts one request. ctx carries its CLIENT span, whose ids become the
// exemplars of the histograms of gen_ai.
func (m *metrics) observe(ctx context.Context, rec *collector.Record) {
	if m == nil {
		return
	}
	g := m.series.group(rec)
	m.instruments.requests.Add(context.Background(), 1, m.series.request(g.key, rec).add...)
	m.observeResidence(rec)
	if rec.Route == "" {
		return
	}
	if name := operation(rec); name != "" {
		m.observeCall(ctx, rec, g.key, name)
	}
	m.observeOutput(rec, g)
	m.observeSpec(rec, g)
	m.observeClientView(rec, g)
}

func (m *metrics) observeResidence(rec *collector.Record) {
	if rec.ResidenceP50.Known {
		m.instruments.residenceMedian.Record(context.Background(), rec.ResidenceP50.Offset.Seconds())
	}
	if rec.ResidenceMax.Known {
		m.instruments.residenceLimits.Record(context.Background(), rec.ResidenceMax.Offset.Seconds())
	}
}

// observeCall fills the metrics of the GenAI conventions.
func (m *metrics) observeCall(ctx context.Context, rec *collector.Record, g groupKey, operation string) {
	i := m.instruments
	ok := m.series.call(g, operation, "")
	end := rec.Ended()
	if rec.ErrorKind == "" {
		i.duration.Record(ctx, end.Seconds(), ok.record...)
	} else {
		i.duration.Record(ctx, end.Seconds(), m.series.call(g, operation, errorType(rec)).record...)
	}
	if rec.Stream && rec.FirstOutput.Known {
		i.ttft.Record(ctx, rec.FirstOutput.Offset.Seconds(), ok.record...)
	}
	if per, known := rec.TimePerOutputToken(); known {
		i.tpot.Record(ctx, per.Seconds(), ok.record...)
	}
	if rec.Usage == nil {
		return
	}
	add(i.inputTokens, rec.Usage.PromptTokens, ok)
	add(i.outputTokens, rec.Usage.CompletionTokens, ok)
	add(i.cachedTokens, rec.Usage.CachedTokens, ok)
	add(i.thoughts, rec.Usage.ReasoningTokens, ok)
}

// maxCount is the largest count of one request that is believed: one damaged
// number would spoil a counter for as long as the process lives.
const maxCount = math.MaxInt32

// add adds a count that others said. One of 0 makes no series.
func add(c metric.Int64Counter, n int, o *options) {
	if n > 0 && n <= maxCount {
		c.Add(context.Background(), int64(n), o.add...)
	}
}

func (m *metrics) observeOutput(rec *collector.Record, g *group) {
	if !rec.Stream {
		return
	}
	if !rec.FirstOutput.Known {
		m.instruments.silent.Add(context.Background(), 1, g.options.add...)
	}
	add(m.instruments.chunks, len(rec.Chunks), g.options)
}

// observeSpec fills the counters of the server's view.
func (m *metrics) observeSpec(rec *collector.Record, g *group) {
	i := m.instruments
	v, ok := verified(rec)
	if !ok {
		i.unmeasured.Add(context.Background(), 1, m.series.detail(g.key, "reason", missing(rec)).add...)
		return
	}
	i.measured.Add(context.Background(), 1, g.options.add...)
	add(i.verifySteps, v.steps, g.options)
	add(i.acceptedTokens, v.accepted, g.options)
	add(i.draftTokens, rec.Spec.DraftedTokens, g.options)
	if v.hist != nil {
		m.observePositions(v.hist, g)
		g.learn(rec, v.hist)
	}
}

// observePositions counts at position j the steps that accepted more than j
// drafts, as vLLM's own counters do. A position without any shows 0.
func (m *metrics) observePositions(hist []int, g *group) {
	reached, beyond := 0, 0
	for j := len(hist) - 2; j >= 0; j-- {
		reached += hist[j+1]
		if j >= maxPosition {
			beyond = min(beyond+reached, maxCount)
			continue
		}
		o := m.series.detail(g.key, "position", positionNames[j])
		m.instruments.acceptedPerPosition.Add(context.Background(), int64(reached), o.add...)
	}
	if beyond > 0 {
		o := m.series.detail(g.key, "position", labelOther)
		m.instruments.acceptedPerPosition.Add(context.Background(), int64(beyond), o.add...)
	}
}

// verification is what a statistics block says, in counts that fit each other.
type verification struct {
	hist            []int // nil where the engine has no histogram
	steps, accepted int
}

// verified reads a Record's block. ok is false where there is none, or one that cannot be.
func verified(rec *collector.Record) (v verification, ok bool) {
	switch {
	case rec.Spec == nil:
		return v, false
	case rec.Spec.Accepted == nil:
		v.steps, v.accepted = rec.Spec.Steps, rec.Spec.AcceptedTokens
	default:
		if v.hist = rec.Histogram(); v.hist == nil {
			return v, false
		}
		for j, n := range v.hist {
			v.steps += n
			v.accepted += j * n
		}
	}
	sane := func(n int) bool { return n >= 0 && n <= maxCount }
	return v, sane(v.steps) && sane(v.accepted) && sane(rec.Spec.DraftedTokens)
}

// observeClientView fills the counters of the client's view. Only what is
// measured counts: block and events that agree, or events alone where none of
// them merged steps. Lengths that were made of sums, or whose last event was
// split by likelihood, are left to the files, which say so.
func (m *metrics) observeClientView(rec *collector.Record, g *group) {
	i := m.instruments
	source := "none"
	if rec.ErrorKind == "" && rec.Stream {
		t, err := g.rules().ClientLengths(rec)
		if err == nil {
			source = t.Source
		}
		if exact := t.Source == collector.SourceExact || t.Source == collector.SourceEvents && !t.Merged; err == nil && exact {
			tokens := 0
			for _, n := range t.Lengths {
				tokens += n
			}
			add(i.clientSteps, len(t.Lengths), g.options)
			add(i.clientStepTokens, tokens, g.options)
		} else if source == collector.SourceEvents {
			source = "events_merged"
		}
	}
	i.clientViews.Add(context.Background(), 1, m.series.detail(g.key, "source", source).add...)
}
