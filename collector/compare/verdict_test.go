package compare

import (
	"fmt"
	"testing"

	"spectap/collector/estimate"
)

// withP is a figure whose interval gives it a P.
func withP(d, half float64) *Figure {
	return &Figure{Quantity: QuantityAL, Scope: ScopeOverall, Difference: Estimate{Value: &d, Interval: estimate.Interval{Low: d - half, High: d + half, Known: true}}}
}

// P is that of a normal interval, and below 5 % exactly where 0 is outside.
func TestChance(t *testing.T) {
	f := func(d, half, want float64) {
		t.Helper()
		near(t, fmt.Sprintf("P of %v +- %v", d, half), withP(d, half).chance(), want, 1e-9)
	}
	// scipy 1.17.1: 2 * scipy.stats.norm.sf(scipy.stats.norm.ppf(0.975) * abs(d) / half)
	f(1, 1, 0.05)
	f(-1, 1, 0.05)
	f(2, 1, 8.85754383214038e-05)
	f(0.5, 1, 0.32709500769114075)
	f(0, 1, 1)
	f(1, 0, 0)
	ratio := &Figure{Quantity: QuantityTPS, Ratio: Estimate{Value: pointer(1.1), Interval: estimate.Interval{Low: 1, High: 1.21, Known: true}}}
	near(t, "P of a ratio", ratio.chance(), 0.05, 1e-9)
	if p := (&Figure{Quantity: QuantityAL}).chance(); p != nil {
		t.Errorf("got P %v without an interval, want none", *p)
	}
}

// Four P of 0.01, 0.04, 0.03 and 0.005 become 0.03, 0.06, 0.06 and 0.02.
func TestHolm(t *testing.T) {
	// R 4: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
	figures := []*Figure{}
	for _, p := range []float64{0.01, 0.04, 0.03, 0.005} {
		f := withP(2, 1)
		f.P = pointer(p)
		figures = append(figures, f)
	}
	var family Family
	family.holm(figures)
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		near(t, fmt.Sprintf("adjusted P %d", i), figures[i].Adjusted, want, 1e-12)
	}
	if figures[0].Verdict != Higher || figures[1].Verdict != PerhapsHigher || figures[2].Verdict != PerhapsHigher {
		t.Errorf("got verdicts %q, %q, %q, want higher, perhaps higher, perhaps higher", figures[0].Verdict, figures[1].Verdict, figures[2].Verdict)
	}
	if family.Intervals != 4 || family.Excluding != 4 || family.Holm != 2 {
		t.Errorf("got family %+v, want 4 intervals, 4 excluding, 2 after Holm", family)
	}
}

func TestVerdicts(t *testing.T) {
	f := func(want Verdict, figures ...*Figure) {
		t.Helper()
		judge(figures)
		if figures[0].Verdict != want {
			t.Errorf("got %q, want %q", figures[0].Verdict, want)
		}
	}
	f(Higher, withP(2, 1))
	f(Lower, withP(-2, 1))
	f(NotShown, withP(0.9, 1))
	f(CannotBeTold, &Figure{Quantity: QuantityAL, Difference: Estimate{Value: pointer(1.0)}})
	many := []*Figure{withP(-1.2, 1)} // P = 0.019
	for range 9 {
		many = append(many, withP(0, 1))
	}
	f(PerhapsLower, many...)
	few := withP(-2, 1) // an interval of few questions excludes 0, Student's t is not as sure
	few.student = pointer(0.06)
	f(PerhapsLower, few)
}
