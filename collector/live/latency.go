package live

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of a latency in microseconds, and the digits that are kept: a
// quantile is at most 1 % above the value that was measured.
const (
	latencyUnit    = time.Microsecond
	latencyHighest = int64(time.Hour / latencyUnit)
	latencyDigits  = 2
)

// latency keeps the durations of the last minute, one histogram a step. The
// minute's own histogram is kept beside them, so that reading it merges nothing.
type latency struct {
	steps  [minuteSteps]*hdrhistogram.Histogram // step n is at n % minuteSteps
	minute *hdrhistogram.Histogram              // the sum of steps
}

func newLatency() *latency {
	l := &latency{minute: newHistogram()}
	for i := range l.steps {
		l.steps[i] = newHistogram()
	}
	return l
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, latencyHighest, latencyDigits)
}

// add counts a duration in step n, which must be the current one. What is
// longer than an hour counts as an hour.
func (l *latency) add(n int64, d time.Duration) {
	v := min(max(int64(d/latencyUnit), 0), latencyHighest)
	_ = l.steps[n%minuteSteps].RecordValue(v) // it is in range
	_ = l.minute.RecordValue(v)
}

// begin makes n the current step: what was a minute before it is forgotten.
func (l *latency) begin(n int64) {
	oldest := l.steps[n%minuteSteps]
	if oldest.TotalCount() == 0 {
		return
	}
	oldest.Reset()
	l.minute.Reset()
	for _, h := range l.steps {
		if h.TotalCount() > 0 {
			l.minute.Merge(h)
		}
	}
}

// reset forgets everything.
func (l *latency) reset() {
	for _, h := range l.steps {
		h.Reset()
	}
	l.minute.Reset()
}

// quantiles are p50 and p99 in seconds; NaN where nothing was measured.
type quantiles struct{ p50, p99 float64 }

// last are the quantiles of the last minute.
func (l *latency) last() quantiles {
	if l.minute.TotalCount() == 0 {
		return quantiles{math.NaN(), math.NaN()}
	}
	at := func(percent float64) float64 {
		return (time.Duration(l.minute.ValueAtPercentile(percent)) * latencyUnit).Seconds()
	}
	return quantiles{at(50), at(99)}
}
