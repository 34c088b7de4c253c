package estimate

import "testing"

// The chance is that of the paired t test where all denominators are 1.
func TestChances(t *testing.T) {
	a := [][]Part{of(2.5, 3.2, 4.3, 3.1, 3.0, 3.6, 2.8, 2.9, 3.5, 3.2, 1.6, 2.1)}
	b := [][]Part{of(2.3, 3.3, 4.1, 3.2, 2.9, 3.5, 2.9, 2.6, 3.4, 3.1, 1.7, 2.0)}
	got, ok := DifferenceChance(a, b)
	if !ok {
		t.Fatal("no chance")
	}
	near(t, "difference", got, 0.12014460742498047, 1e-9)               // scipy 1.17.1: scipy.stats.ttest_rel(a, b).pvalue
	near(t, "t", StudentChance(-2.5, 4.5), 0.059905686502200545, 1e-12) // 2 * scipy.stats.t.sf(2.5, 4.5)
	q, ok := QuotientChance(a, b)
	if !ok || q < got*0.8 || q > got*1.2 {
		t.Errorf("got %v of the quotient, want about %v", q, got)
	}
	if _, ok := DifferenceChance(a, a); ok {
		t.Error("got a chance where nothing varies")
	}
	if _, ok := DifferenceChance([][]Part{of(1)}, [][]Part{of(2)}); ok {
		t.Error("got a chance of one conversation")
	}
}
