package collector

import (
	"math"
	"slices"

	"spectap/collector/estimate"
)

// SchemaPerformance is the schema name of performance.json.
const SchemaPerformance = "spectap.performance/1"

// Performance is performance.json: what timing.json does not say about a point.
type Performance struct {
	Schema    string          `json:"schema"`
	Point     string          `json:"point"`
	OutputTPS float64         `json:"output_tokens_per_second"` // as in timing.json, ramp-up and ramp-down in it
	Steady    Steady          `json:"steady_state"`
	Latency   []LatencyFigure `json:"latency"`
	Goodput   *Goodput        `json:"goodput,omitempty"` // only with an SLO
}

// LatencyFigure is one time of all measured requests that have it, in seconds.
type LatencyFigure struct {
	Name         string             `json:"name"`
	Meaning      string             `json:"meaning"`
	Requests     int                `json:"requests"`
	Mean         float64            `json:"mean_s"`
	MeanInterval *estimate.Interval `json:"mean_interval_s,omitempty"` // 95 %, over conversations, of TTFT and TPOT; of this run only
	Quantiles    []QuantileFigure   `json:"quantiles"`
}

// QuantileFigure is a quantile with its interval by order statistics.
type QuantileFigure struct {
	Q        float64           `json:"q"`
	Value    *float64          `json:"value_s"` // null: Interval says why
	Interval estimate.Interval `json:"interval_s"`
}

// latencyQuantiles are the quantiles of performance.json.
var latencyQuantiles = [...]float64{0.5, 0.9, 0.95, 0.99}

// ratio is the interval of a ratio over conversations. It takes ten thousand
// resamples: a Point whose other figures are wanted alone makes none.
func (p Point) ratio(parts []estimate.Part) estimate.Interval {
	if p.quick {
		return estimate.Interval{Reason: "not asked for"}
	}
	return estimate.Ratio(parts, p.Run.Seed)
}

// performance makes the file's content; steady is that of all Records.
func (p Point) performance(s selection, t TimingResult, steady Steady) Performance {
	return Performance{
		Schema: SchemaPerformance, Point: p.Run.Point, OutputTPS: t.OutputTPS, Steady: steady,
		Latency: p.latency(s), Goodput: p.goodput(s),
	}
}

// latency makes the figures of what an SLO limits, by the same definitions.
func (p Point) latency(s selection) []LatencyFigure {
	var figures []LatencyFigure
	for _, f := range []struct {
		name, meaning string
		of            func(requestTimes) (float64, bool)
		interval      bool
	}{
		{"ttft_s", "time to first token: from the request's start to its first event with output", func(t requestTimes) (float64, bool) { return t.ttft, true }, true},
		{"tpot_excl_first_s", "time per output token without the first: (last event - first event) / (tokens - 1)", func(t requestTimes) (float64, bool) { return t.tpot, t.tpot > 0 }, true},
		{"e2e_s", "from the request's start to its last event with output", func(t requestTimes) (float64, bool) { return t.e2e, true }, false},
		{"longest_gap_s", "longest time between two events with output", func(t requestTimes) (float64, bool) { return t.gap, t.gap > 0 }, false},
	} {
		if figure, ok := p.latencyFigure(s, f.of, f.interval); ok {
			figure.Name, figure.Meaning = f.name, f.meaning
			figures = append(figures, figure)
		}
	}
	return figures
}

// latencyFigure is the mean and the quantiles of one time; ok is false where no request has it.
func (p Point) latencyFigure(s selection, of func(requestTimes) (float64, bool), interval bool) (f LatencyFigure, ok bool) {
	late := p.lateness()
	var all []float64
	var parts []estimate.Part
	for _, c := range s.convs {
		var part estimate.Part
		for _, t := range c.turns {
			times, known := t.rec.requestTimes(late[t.rec])
			if v, has := of(times); known && has {
				all = append(all, v)
				part.Num += v
				part.Den++
			}
		}
		if part.Den > 0 {
			parts = append(parts, part)
		}
	}
	if len(all) == 0 {
		return f, false
	}
	f.Requests, f.Mean = len(all), Mean(all)
	if interval {
		f.MeanInterval = new(p.ratio(parts).Possible(0, math.Inf(1)))
	}
	slices.Sort(all)
	for _, q := range latencyQuantiles {
		figure := QuantileFigure{Q: q, Interval: estimate.QuantileBounds(all, q)}
		if figure.Interval.Known {
			v := Quantile(all, q)
			figure.Value = &v
		}
		f.Quantiles = append(f.Quantiles, figure)
	}
	return f, true
}
