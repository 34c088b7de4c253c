package estimate

import "math"

// StudentQuantile is the p quantile of Student's t distribution, for p from 0.5 to
// below 1 and any positive degrees of freedom. With x the 2(1-p) quantile of the
// beta distribution with df/2 and 1/2 it is sqrt(df (1-x) / x).
func StudentQuantile(p, df float64) float64 {
	x := betaQuantile(2*(1-p), df/2, 0.5)
	return math.Sqrt(df * (1 - x) / x)
}

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
// variances and degrees of freedom of Difference. It is known for fewer
// conversations, and small chances are sounder than the bootstrap's. It is false
// where nothing varies.
func StudentDifference(a, b [][]Part) (Student, bool) { return student(difference, a, b) }

// StudentQuotient is StudentDifference of the logarithms of the ratios.
func StudentQuotient(a, b [][]Part) (Student, bool) {
	s, ok := student(logOfRatio, a, b)
	s.Interval.Low, s.Interval.High = math.Exp(s.Interval.Low), math.Exp(s.Interval.High)
	return s, ok
}

func student(k kind, a, b [][]Part) (Student, bool) {
	f, reason := pooled(k, a, b)
	if reason != "" {
		return Student{}, false
	}
	v := variances(f, (1-Level)/2, a, b)
	if v.all == 0 { // and no degrees of freedom
		return Student{}, false
	}
	theta := f.value()
	half := float64(StudentQuantile((1+Level)/2, v.df) * math.Sqrt(v.all))
	s := Student{Interval: Interval{Low: theta - half, High: theta + half, Known: true}, Chance: StudentChance(theta/math.Sqrt(v.all), v.df)}
	return s, !math.IsNaN(half) && !math.IsNaN(s.Chance)
}
