package report

import (
	"math"
)

// scale turns values into places on an axis.
type scale struct {
	log    bool
	lo, hi float64 // values
	a, b   float64 // their places
}

// at is the place of a value. On a logarithmic scale 0 is at its beginning.
func (s scale) at(v float64) float64 {
	if s.log && v <= 0 {
		return s.a
	}
	if s.log {
		return s.a + (s.b-s.a)*(math.Log(v)-math.Log(s.lo))/(math.Log(s.hi)-math.Log(s.lo))
	}
	return s.a + (s.b-s.a)*(v-s.lo)/(s.hi-s.lo)
}

// tick is a value that an axis names.
type tick struct {
	value float64
	label string
}

// bounds are the least and the greatest of the finite values.
func bounds(values []float64) (lo, hi float64, ok bool) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi, lo <= hi
}

// linear is a scale over the values with about n ticks. zero asks for one that begins there.
func linear(values []float64, zero bool, n int) scale {
	lo, hi, ok := bounds(values)
	if !ok {
		lo, hi = 0, 1
	}
	if zero {
		lo, hi = min(lo, 0), max(hi, 0)
	}
	if hi-lo <= 1e-9*math.Abs(hi) { // the same but for rounding
		pad := max(math.Abs(hi)*0.1, 1e-9)
		if zero {
			lo, hi = 0, max(hi, 1)
		} else {
			lo, hi = lo-pad, hi+pad
		}
	}
	step := niceStep(hi-lo, n)
	s := scale{lo: math.Floor(lo/step+1e-9) * step, hi: math.Ceil(hi/step-1e-9) * step}
	return s
}

// niceStep is 1, 2, 2.5 or 5 times a power of ten, about n of which are in the span.
func niceStep(span float64, n int) float64 {
	raw := span / float64(max(1, n))
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if raw <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// ticks are the values that a linear scale names, about n.
func (s scale) ticks(n int) []float64 {
	step := niceStep(s.hi-s.lo, n)
	var list []float64
	for i := math.Ceil(s.lo/step - 1e-9); i*step <= s.hi+step*1e-9; i++ {
		list = append(list, i*step)
	}
	return list
}

// decimals is how many a linear scale's labels need.
func (s scale) decimals(n int) int {
	step := niceStep(s.hi-s.lo, n)
	for d := range 6 {
		if scaled := step * math.Pow(10, float64(d)); math.Abs(scaled-math.Round(scaled)) < 1e-6*scaled {
			return d
		}
	}
	return 6
}

// logScale is a logarithmic scale over the positive values.
func logScale(values []float64) scale {
	var positive []float64
	for _, v := range values {
		if v > 0 {
			positive = append(positive, v)
		}
	}
	lo, hi, ok := bounds(positive)
	if !ok {
		lo, hi = 1, 10
	}
	if hi < lo*1.5 {
		lo, hi = lo/1.25, hi*1.25
	}
	pad := math.Pow(hi/lo, 0.02)
	return scale{log: true, lo: lo / pad, hi: hi * pad}
}

// logTicks are the round values of a logarithmic scale whose labels fit: many of
// each power of ten, or 1, 2 and 5, or the powers alone.
func (s scale) logTicks(label func(float64) string) []tick {
	if s.hi < 2.5*s.lo { // too little for any of these
		for n := 6; n > 1; n-- {
			if ticks := labelled(s.ticks(n), label); len(thin(ticks, s)) == len(ticks) {
				return ticks
			}
		}
	}
	var ticks []tick
	for _, per := range [][]float64{{1, 1.5, 2, 3, 4, 5, 7}, {1, 2, 3, 5}, {1, 2, 5}, {1, 3}, {1}} {
		var values []float64
		for e := math.Floor(math.Log10(s.lo)); e <= math.Ceil(math.Log10(s.hi)); e++ {
			for _, m := range per {
				if v := m * math.Pow(10, e); v >= s.lo*(1-1e-9) && v <= s.hi*(1+1e-9) {
					values = append(values, v)
				}
			}
		}
		ticks = labelled(values, label)
		if len(thin(ticks, s)) == len(ticks) {
			break
		}
	}
	return ticks
}

func labelled(values []float64, label func(float64) string) []tick {
	ticks := make([]tick, len(values))
	for i, v := range values {
		ticks[i] = tick{v, label(v)}
	}
	return ticks
}
