package estimate

import "math"

// StudentQuantile is the p quantile of Student's t distribution with df degrees of
// freedom, for p from 0.5 to below 1. It is for intervals that are made elsewhere of
// means and their variances.
func StudentQuantile(p, df float64) float64 { return studentQuantile(p, df) }

// StudentChance is the chance that Student's t with df degrees of freedom is as far
// from 0 as t, on either side.
func StudentChance(t, df float64) float64 { return betaCDF(df/(df+t*t), df/2, 0.5) }

// Student is what Student's t says of a comparison: its interval, and the chance
// that it is as large as this one where nothing differs.
type Student struct {
	Interval Interval
	Chance   float64
}

// StudentDifference is the difference of two ratios by Student's t, with the
// variances and degrees of freedom of Difference. At few conversations, and for
// small chances, it is sounder than the bootstrap. It is false where nothing varies.
func StudentDifference(a, b [][]Part) (Student, bool) { return newDifference(a, b).student() }

// StudentQuotient is StudentDifference of the logarithms of the ratios.
func StudentQuotient(a, b [][]Part) (Student, bool) {
	f := func(sums []Part) float64 { return math.Log(sums[0].Num / sums[0].Den / (sums[1].Num / sums[1].Den)) }
	s, ok := newComparison(f, a, b).student()
	s.Interval.Low, s.Interval.High = math.Exp(s.Interval.Low), math.Exp(s.Interval.High)
	return s, ok
}

func (c comparison) student() (Student, bool) {
	if c.reason != "" {
		return Student{}, false
	}
	_, v, df := c.variances()
	theta := c.f(c.table.sums())
	half := StudentQuantile((1+Level)/2, df) * math.Sqrt(v)
	s := Student{Interval: Interval{Low: theta - half, High: theta + half, Known: true}, Chance: StudentChance(theta/math.Sqrt(v), df)}
	return s, v > 0 && !math.IsNaN(half) && !math.IsNaN(s.Chance)
}
