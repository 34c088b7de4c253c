package estimate

import "math"

// StudentQuantile is the p quantile of Student's t distribution with df degrees of
// freedom, for p from 0.5 to below 1. It is for intervals that are made elsewhere of
// means and their variances.
func StudentQuantile(p, df float64) float64 { return studentQuantile(p, df) }

// StudentChance is the chance that Student's t with df degrees of freedom is as far
// from 0 as t, on either side.
func StudentChance(t, df float64) float64 { return betaCDF(df/(df+t*t), df/2, 0.5) }

// DifferenceChance is the chance that a Difference as large as this one comes about
// where there is none: Student's t of the difference over its standard error, with
// the variances and degrees of freedom of the interval. At few conversations it is
// sounder than what the bootstrap's interval says about small chances. It is false
// where it is not known.
func DifferenceChance(a, b [][]Part) (float64, bool) { return newDifference(a, b).chance() }

// QuotientChance is DifferenceChance of the logarithm of the ratios' quotient.
func QuotientChance(a, b [][]Part) (float64, bool) {
	f := func(sums []Part) float64 { return math.Log(sums[0].Num / sums[0].Den / (sums[1].Num / sums[1].Den)) }
	return newComparison(f, a, b).chance()
}

func (c comparison) chance() (float64, bool) {
	if c.reason != "" {
		return 0, false
	}
	_, v, df := c.variances()
	p := StudentChance(c.f(c.table.sums())/math.Sqrt(v), df)
	return p, v > 0 && !math.IsNaN(p)
}
