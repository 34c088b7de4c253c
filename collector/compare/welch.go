package compare

import (
	"math"

	"spectap/collector/estimate"
)

// welch gives the intervals of the difference and of the ratio of two ratios whose
// conversations are not the same ones. With r = sum(Num) / sum(Den) of a side and n
// its conversations, the part of each is linearised, u = (Num - r Den) n / sum(Den),
// and the variance of r is that of u over n. Source: Cochran, Sampling Techniques,
// 6.3; Welch 1947. A conversation of several runs is one: how
// runs differ is not in these intervals.
func welch(x, y normal) (difference, ratio estimate.Interval, smallest *float64) {
	if x.n < 2 || y.n < 2 {
		none := estimate.Interval{Reason: "fewer than two conversations on one side"}
		return none, none, nil
	}
	difference, df := x.minus(y)
	if df > 0 {
		s := (estimate.StudentQuantile((1+estimate.Level)/2, df) + estimate.StudentQuantile(estimate.Power, df)) * math.Sqrt(x.variance+y.variance)
		smallest = &s
	}
	if x.mean <= 0 || y.mean <= 0 {
		return difference, estimate.Interval{Reason: "a side is 0"}, smallest
	}
	ratio, _ = x.log().minus(y.log())
	if ratio.Known {
		ratio.Low, ratio.High = math.Exp(ratio.Low), math.Exp(ratio.High)
	}
	return difference, ratio, smallest
}

// normal is an estimate with its variance, from n independent values.
type normal struct {
	mean, variance float64
	n              int
}

// linearised is the ratio of the sums with its variance.
func linearised(parts []estimate.Part) normal {
	sum, out := estimate.Sum(parts), normal{n: len(parts)}
	if len(parts) == 0 || sum.Den == 0 {
		return normal{}
	}
	out.mean = sum.Ratio()
	squares, n := 0.0, float64(len(parts))
	for _, p := range parts {
		u := (p.Num - float64(out.mean*p.Den)) * n / sum.Den
		squares += float64(u * u)
	}
	if out.n > 1 {
		out.variance = squares / (n - 1) / n
	}
	return out
}

// meanOf is the mean of values with its variance.
func meanOf(values []float64) normal {
	parts := make([]estimate.Part, len(values))
	for i, v := range values {
		parts[i] = estimate.Part{Num: v, Den: 1}
	}
	return linearised(parts)
}

// log is the logarithm, by the delta method.
func (x normal) log() normal {
	return normal{math.Log(x.mean), x.variance / (x.mean * x.mean), x.n}
}

// minus is Welch's interval of x - y, and its degrees of freedom.
func (x normal) minus(y normal) (estimate.Interval, float64) {
	v, df := x.together(y)
	if v == 0 {
		return estimate.Interval{Reason: "all values of a side are the same"}, 0
	}
	half := estimate.StudentQuantile((1+estimate.Level)/2, df) * math.Sqrt(v)
	d := x.mean - y.mean
	return estimate.Interval{Low: d - half, High: d + half, Known: true}, df
}

// together is the variance of x - y and its degrees of freedom by Welch and Satterthwaite.
func (x normal) together(y normal) (v, df float64) {
	v = x.variance + y.variance
	return v, v * v / (float64(x.variance*x.variance)/float64(x.n-1) + float64(y.variance*y.variance)/float64(y.n-1))
}

// chanceOf is the chance that x and y are as far apart where they are the same.
func (f *Figure) chanceOf(x, y normal) *float64 {
	if timing(f.Quantity) {
		x, y = x.log(), y.log()
	}
	v, df := x.together(y)
	p := estimate.StudentChance((x.mean-y.mean)/math.Sqrt(v), df)
	if math.IsNaN(p) {
		return nil
	}
	return &p
}
