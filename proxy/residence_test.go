package proxy

import (
	"testing"
	"time"

	"spectap/collector"
)

func TestResidences(t *testing.T) {
	s := new(Server)
	f := func(p50, most collector.Moment, ds ...time.Duration) {
		t.Helper()
		r := s.residences()
		for _, d := range ds {
			r.add(d)
		}
		if got50, got := r.spread(); got50 != p50 || got != most {
			t.Errorf("of %v: got %v and %v, want %v and %v", ds, got50, got, p50, most)
		}
		s.freeResidences(r)
	}
	f(collector.At(3), collector.At(9), 9, 3, 1)
	f(collector.Moment{}, collector.Moment{}) // nothing is left of the answer before
	f(collector.At(1), collector.At(3), 3, 1) // the lower one of two
	f(collector.At(0), collector.At(0), -5)   // a clock that was stepped
	f(collector.At(7), collector.At(time.Minute), 7, 7, time.Minute)
	f(collector.At(1<<32-1), collector.At(time.Minute), time.Minute, time.Minute, 1)
}
