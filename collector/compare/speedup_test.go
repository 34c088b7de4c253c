package compare

import (
	"slices"
	"testing"

	"spectap/collector/estimate"
)

// speedAt is a point with a baseline as A and a ratio of throughput.
func speedAt(point string, value, low, high float64) PointComparison {
	e := Estimate{Value: &value, Interval: estimate.Interval{Low: low, High: high, Known: low > 0}}
	if !e.Known {
		e.Reason = "no interval: one run each"
	}
	return PointComparison{
		Point: point, a: Point{runs: []run{{baseline: true}}}, b: Point{runs: []run{{}}},
		Figures: []Figure{{Quantity: QuantityTPS, Scope: ScopeOverall, Ratio: e}},
	}
}

func TestCrossover(t *testing.T) {
	f := func(want string, points ...PointComparison) {
		t.Helper()
		s := speedUp(points)
		if len(s) != 1 || s[0].Throughput.Text != want {
			t.Errorf("got %+v, want %q", s, want)
		}
	}
	pays, stops, open := [3]float64{1.5, 1.3, 1.7}, [3]float64{0.8, 0.7, 0.9}, [3]float64{1.02, 0.9, 1.1}
	at := func(name string, e [3]float64) PointComparison { return speedAt(name, e[0], e[1], e[2]) }
	f("between concurrency 16 and 32", at("t0_c1", pays), at("t0_c16", pays), at("t0_c32", stops), at("t0_c64", stops))
	f("between concurrency 8 and 32 (16 cannot be told from 1)", at("t0_c32", stops), at("t0_c16", open), at("t0_c8", pays))
	f("between concurrency 1 and 64 (8 and 16 cannot be told from 1)", at("t0_c1", pays), at("t0_c8", open), at("t0_c16", open), at("t0_c64", stops))
	f("not reached up to concurrency 64", at("t0_c1", pays), at("t0_c64", pays))
	f("not reached up to concurrency 64", at("t0_c1", open), at("t0_c64", pays))
	f("above concurrency 8: what is measured above it (up to 64) cannot be told from 1", at("t0_c8", pays), at("t0_c16", open), at("t0_c64", open))
	f("it pays at no concurrency measured, from 4 on", at("t0_c4", stops), at("t0_c8", stops))
	f("below concurrency 8: what is measured below it cannot be told from 1", at("t0_c4", open), at("t0_c8", stops))
	f("cannot be told: every interval holds 1; the values alone are above 1 up to concurrency 4", at("t0_c4", open))
	f("cannot be told: it pays up to concurrency 16, and does not at 8", at("t0_c8", stops), at("t0_c16", pays))
	f("cannot be told: no speed-up has an interval; by the values alone between concurrency 16 and 32",
		speedAt("t0_c8", 1.4, 0, 0), speedAt("t0_c16", 1.1, 0, 0), speedAt("t0_c32", 0.9, 0, 0))
	none := [3]float64{3.449, 0, 0} // no interval: nothing says that it holds 1
	f("cannot be told above concurrency 8: 32 has no interval (3.449, one run each)", at("t0_c8", pays), at("t0_c32", none))
	f("cannot be told above concurrency 8: 16 cannot be told from 1, 32 has no interval (3.449, one run each)", at("t0_c8", pays), at("t0_c16", open), at("t0_c32", none))
	f("above concurrency 8: what is measured above it (up to 16) cannot be told from 1", at("t0_c4", none), at("t0_c8", pays), at("t0_c16", open))
	f("between concurrency 8 and 32 (16 has no interval (3.449, one run each))", at("t0_c8", pays), at("t0_c16", none), at("t0_c32", stops))
	f("cannot be told below concurrency 8: 4 has no interval (3.449, one run each)", at("t0_c4", none), at("t0_c8", stops))
	f("it does not pay at concurrency 4, the lowest measured; 8 has no interval (3.449, one run each)", at("t0_c4", stops), at("t0_c8", none))
	f("cannot be told: 4 cannot be told from 1, 8 has no interval (3.449, one run each); the values alone are above 1 up to concurrency 8", at("t0_c4", open), at("t0_c8", none))
	f("between requests per second 2.5 and 20", at("t0.6_q2.5", pays), at("t0.6_q20", stops))
}

// Which side is the baseline makes no difference to what is said of speculation.
func TestSpeedUpEitherWay(t *testing.T) {
	p := speedAt("t0_c8", 0.5, 0.4, 0.8)
	p.a, p.b = p.b, p.a
	s := speedUp([]PointComparison{p})
	e := s[0].Points[0].Throughput
	near(t, "speed-up", e.Value, 2, 1e-12)
	near(t, "low", e.low(), 1.25, 1e-12)
	near(t, "high", e.high(), 2.5, 1e-12)
	if s[0].Baseline != "B" {
		t.Errorf("got baseline %q, want B", s[0].Baseline)
	}
	p.a = p.b
	if s := speedUp([]PointComparison{p}); len(s) != 0 {
		t.Errorf("got %+v of two baselines, want no speed-up", s)
	}
}

// The loads about which nothing is shown are told apart in JSON too.
func TestCrossoverNamesOpenLoads(t *testing.T) {
	s := speedUp([]PointComparison{speedAt("t0_c8", 1.5, 1.3, 1.7), speedAt("t0_c16", 1.02, 0.9, 1.1), speedAt("t0_c32", 3.4, 0, 0)})
	c := s[0].Throughput
	if *c.Pays != 8 || c.Stops != nil || !slices.Equal(c.HoldOne, []float64{16}) || !slices.Equal(c.Without, []float64{32}) {
		t.Errorf("got %+v, want 8 that pays, 16 whose interval holds 1, and 32 without one", c)
	}
}

// The throughput of all loads of a kind is one quantity, and the text says which.
func TestSpeedUpIsOfOneQuantity(t *testing.T) {
	at := func(point string, whole, steady [3]float64) PointComparison {
		p := speedAt(point, whole[0], whole[1], whole[2])
		if steady[0] > 0 {
			s := speedAt(point, steady[0], steady[1], steady[2]).Figures[0]
			s.Quantity = QuantitySteadyTPS
			p.Figures = append(p.Figures, s)
		}
		return p
	}
	f := func(of string, values []float64, say string, points ...PointComparison) {
		t.Helper()
		s := speedUp(points)
		for i, p := range s[0].Points {
			if p.Of != of || *p.Throughput.Value != values[i] {
				t.Errorf("got %s of %v at %v, want %s of %v", p.Of, *p.Throughput.Value, p.Load, of, values[i])
			}
		}
		lines := Comparison{SpeedUp: s}.speedUpBlocks()[0].lines
		if got := lines[len(lines)-1]; got != say {
			t.Errorf("got %q, want %q", got, say)
		}
	}
	whole, open, steady := [3]float64{1.5, 1.3, 1.7}, [3]float64{1.5, 0, 0}, [3]float64{1.6, 1.5, 1.8}
	never, shaky := [3]float64{}, [3]float64{1.6, 0, 0}
	f(QuantitySteadyTPS, []float64{1.6, 1.6}, "Throughput: output tok/s of the steady window.", at("t0_c1", open, steady), at("t0_c8", whole, steady))
	f(QuantityTPS, []float64{1.5, 1.5}, "Throughput: output tok/s of the whole run.", at("t0_c1", whole, steady), at("t0_c8", whole, never))
	some := "Throughput: output tok/s of the whole run. That of the steady window has an interval at some loads, but not at all: see steady tok/s of the points."
	f(QuantityTPS, []float64{1.5, 1.5}, some, at("t0_c1", open, steady), at("t0_c8", open, never))
	f(QuantityTPS, []float64{1.5, 1.5}, some, at("t0_c1", open, steady), at("t0_c8", open, shaky))
	// lines of one chart: the steady window of all temperatures, or of none; another kind of load is by itself
	s := speedUp([]PointComparison{at("t0_c8", open, steady), at("t1_c8", open, never), at("t0_q5", open, steady)})
	if got := []string{s[0].Points[0].Of, s[1].Points[0].Of, s[2].Points[0].Of}; !slices.Equal(got, []string{QuantityTPS, QuantityTPS, QuantitySteadyTPS}) {
		t.Errorf("got %q", got)
	}
}
