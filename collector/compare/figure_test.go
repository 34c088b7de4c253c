package compare

import (
	"strings"
	"testing"

	"spectap/collector"
	"spectap/collector/estimate"
)

// Sides that are equal up to rounding do not differ at all.
func TestDifferenceOfRounding(t *testing.T) {
	a, b := 0.30000000000000004, 0.3
	f := Figure{A: &a, B: &b}
	f.points()
	if *f.Difference.Value != 0 || *f.Ratio.Value != 1 {
		t.Errorf("got %v and %v, want 0 and 1", *f.Difference.Value, *f.Ratio.Value)
	}
	one := func(v float64) []estimate.Part { return []estimate.Part{{Num: v, Den: 1}, {Num: 2, Den: 1}} }
	if d, ok := constant([][]estimate.Part{one(a)}, [][]estimate.Part{one(b)}); !ok || d != 0 {
		t.Errorf("got %v, %v, want no difference", d, ok)
	}
}

// What is said of questions and folders is said only where it is so.
func TestOtherDifferences(t *testing.T) {
	side := func(id, folder string) Point {
		return Point{runs: []run{{folder: folder, view: collector.ViewClient, point: &collector.Point{Run: collector.Run{ID: id, Point: "t0_c8"}}}}}
	}
	f := func(p PointComparison, want ...string) {
		t.Helper()
		p.View = collector.ViewClient
		var got []string
		for _, d := range p.otherDifferences() {
			got = append(got, d.What+": "+d.A+" / "+d.B)
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	a, b := side("x", "a"), side("y", "b")
	f(PointComparison{a: a, b: b, Pairing: Pairing{By: byNone, shared: 1}})
	f(PointComparison{a: a, b: b, Pairing: Pairing{By: byNone, shared: 1, OnlyA: 2}}, "questions: 1 and 2 more / the same 1")
	f(PointComparison{a: a, b: b, Pairing: Pairing{By: byQuestion, Pairs: 8, OnlyB: 3}}, "questions: 8 / the same 8 and 3 more")
	f(PointComparison{a: a, b: b, Pairing: Pairing{By: byNone, OnlyA: 2, OnlyB: 3}}, "questions: 2, none of B's / 3, none of A's")
	f(PointComparison{a: a, b: side("x", "copy")}, "folder: a / the same run, copied to copy")
	f(PointComparison{a: a, b: a}, "folder: a / the same folder")
}
