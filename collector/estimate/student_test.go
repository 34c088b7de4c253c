package estimate

import (
	"math"
	"testing"
)

// Interval and chance are those of the paired t test where all denominators are 1.
func TestStudent(t *testing.T) {
	a := [][]Part{of(2.5, 3.2, 4.3, 3.1, 3.0, 3.6, 2.8, 2.9, 3.5, 3.2, 1.6, 2.1)}
	b := [][]Part{of(2.3, 3.3, 4.1, 3.2, 2.9, 3.5, 2.9, 2.6, 3.4, 3.1, 1.7, 2.0)}
	got, ok := StudentDifference(a, b)
	if !ok {
		t.Fatal("got nothing")
	}
	near(t, "low", got.Interval.Low, -0.020422746901916908, 1e-9) // scipy.stats.ttest_rel(a, b).confidence_interval()
	near(t, "high", got.Interval.High, 0.1537560802352504, 1e-9)
	near(t, "chance", got.Chance, 0.12014460742498047, 1e-9)            // scipy 1.17.1: scipy.stats.ttest_rel(a, b).pvalue
	near(t, "t", StudentChance(-2.5, 4.5), 0.059905686502200545, 1e-12) // 2 * scipy.stats.t.sf(2.5, 4.5)
	q, ok := StudentQuotient(a, b)
	if !ok || q.Chance < got.Chance*0.8 || q.Chance > got.Chance*1.2 || q.Interval.Low > 1 || q.Interval.High < 1 {
		t.Errorf("got %+v of the quotient, want a chance of about %v and an interval around 1", q, got.Chance)
	}
	if _, ok := StudentDifference(a, a); ok {
		t.Error("got a chance where nothing varies")
	}
	if _, ok := StudentDifference([][]Part{of(1)}, [][]Part{of(2)}); ok {
		t.Error("got a chance of one conversation")
	}
}

// Values so small that the squares of their variances are 0 have no degrees of
// freedom, so there is no interval and no chance of them.
func TestStudentWithoutFreedom(t *testing.T) {
	tiny := func(values ...float64) [][]Part {
		for i := range values {
			values[i] *= 1e-100
		}
		return [][]Part{of(values...)}
	}
	a, b := tiny(2.5, 3.2, 4.3, 3.1, 3.0, 3.6), tiny(2.3, 3.3, 4.1, 3.2, 2.9, 3.5)
	f, reason := pooled(difference, a, b)
	if v := variances(f, 0.025, a, b); reason != "" || v.all <= 0 || !math.IsNaN(v.df) {
		t.Fatalf("got %q, variance %v and %v degrees of freedom, want a variance and none", reason, v.all, v.df)
	}
	if got, ok := StudentDifference(a, b); ok {
		t.Errorf("got %+v", got)
	}
}
