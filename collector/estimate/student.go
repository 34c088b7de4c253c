package estimate

// StudentQuantile is the p quantile of Student's t distribution with df degrees of
// freedom, for p from 0.5 to below 1. It is for intervals that are made elsewhere of
// means and their variances.
func StudentQuantile(p, df float64) float64 { return studentQuantile(p, df) }
