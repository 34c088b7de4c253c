package estimate

import (
	"math"
	"strings"
	"testing"
)

// Bounds are held to what is possible; an interval that says nothing is none.
func TestPossible(t *testing.T) {
	f := func(low, high, least, most, wantLow, wantHigh float64, reason string) {
		t.Helper()
		got := Interval{Low: low, High: high, Known: true}.Possible(least, most)
		if want := (Interval{Low: wantLow, High: wantHigh, Known: reason == "", Reason: reason}); got != want {
			t.Errorf("%v to %v of %v to %v: got %+v, want %+v", low, high, least, most, got, want)
		}
	}
	f(1.5, 2.5, 1, 4, 1.5, 2.5, "")
	f(0.5, 2.5, 1, 4, 1, 2.5, "")
	f(2.5, 4.5, 1, 4, 2.5, 4, "")
	f(-144.05, 3.39, 1, 4, 0, 0, mostlyImpossible)
	f(-0.337, 0.321, 0, 1, 0, 0, mostlyImpossible)
	f(-0.1, 0.321, 0, 1, 0, 0.321, "")
	f(0.9, 4.1, 1, 4, 0, 0, allPossible)
	f(-0.1, 2, 0, math.Inf(1), 0, 2, "")
	f(-3, 2, 0, math.Inf(1), 0, 0, mostlyImpossible)
	if got := unknown("why").Possible(0, 1); got != unknown("why") {
		t.Errorf("got %+v, want the reason that it had", got)
	}
}

// A bound that resamples of hardly any spread make is none: of ten pairs all but one
// of which differ by nearly the same, and of 40 the interval stays.
func TestNoBoundFarFromStudent(t *testing.T) {
	differences := func(n int) []Part {
		parts := make([]Part, n)
		for i := range parts {
			parts[i] = Part{0.0001 * float64(i%3), 1}
		}
		parts[0].Num = 0.5
		return parts
	}
	if in := Ratio(differences(10), 1); in.Known || !strings.Contains(in.Reason, "n = 10 conversations are too few") {
		t.Errorf("got %+v of ten, want none", in)
	}
	for _, n := range []int{40, 80} {
		in := Ratio(differences(n), 1)
		if !in.Known && in.Reason != fewOther {
			t.Errorf("got %+v of %d, want what it was", in, n)
		}
	}
	spread := make([]Part, 10)
	for i := range spread {
		spread[i] = Part{float64(i * i), 1}
	}
	if in := Ratio(spread, 1); !in.Known {
		t.Errorf("got %+v of ten that differ, want an interval", in)
	}
}
