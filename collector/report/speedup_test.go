package report

import (
	"testing"

	"spectap/collector/compare"
)

// A chart of speed-ups names the quantity that its ratios are of, and where kinds
// of load differ in it, that of each.
func TestThroughputOfSpeedUps(t *testing.T) {
	u := func(load, of string) compare.SpeedUp {
		return compare.SpeedUp{Load: load, Points: []compare.SpeedUpPoint{{Of: of}}}
	}
	f := func(want string, list ...compare.SpeedUp) {
		t.Helper()
		if got := throughputOf(list); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	closed, open := u("concurrency", compare.QuantitySteadyTPS), u("requests per second", compare.QuantityTPS)
	f("output tok/s of the steady window", closed, closed)
	f("output tok/s of the whole run", open)
	f("output tok/s of the steady window by concurrency, output tok/s of the whole run by requests per second", closed, closed, open)
}
