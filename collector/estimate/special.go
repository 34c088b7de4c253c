package estimate

import "math"

// normalCDF is Phi, the standard normal distribution's cumulative function.
func normalCDF(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// betaQuantile is the p quantile of the beta distribution, by bisection.
func betaQuantile(p, a, b float64) float64 {
	low, high := 0.0, 1.0
	for {
		x := (low + high) / 2
		if x == low || x == high {
			return x
		}
		if betaCDF(x, a, b) < p {
			low = x
		} else {
			high = x
		}
	}
}

// betaCDF is the regularized incomplete beta function I_x(a, b), by its continued
// fraction. Source: Press and others, Numerical Recipes, 6.4.
func betaCDF(x, a, b float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab - la - lb + a*math.Log(x) + b*math.Log1p(-x))
	if x < (a+1)/(a+b+2) {
		return front * betaFraction(x, a, b) / a
	}
	return 1 - front*betaFraction(1-x, b, a)/b
}

// betaFraction is the continued fraction of betaCDF, by Lentz's method.
func betaFraction(x, a, b float64) float64 {
	const tiny, steps = 1e-300, 10000
	keep := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/keep(1-(a+b)*x/(a+1))
	h := d
	for m := 1.0; m < steps; m++ {
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		d = 1 / keep(1+even*d)
		c = keep(1 + even/c)
		h *= d * c
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d = 1 / keep(1+odd*d)
		c = keep(1 + odd/c)
		step := d * c
		h *= step
		if math.Abs(step-1) < 1e-15 {
			break
		}
	}
	return h
}

// binomialCDF is the chance of at most k successes of n with chance q each.
func binomialCDF(k, n int, q float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n:
		return 1
	}
	return 1 - betaCDF(q, float64(k+1), float64(n-k))
}

// mean is the sum over the count.
func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// variance is the sum of squared distances from the mean over the count less 1.
func variance(xs []float64) float64 {
	m, squares := mean(xs), 0.0
	for _, x := range xs {
		d := x - m
		squares += float64(d * d)
	}
	return squares / float64(len(xs)-1)
}

// quantile is numpy.quantile's default of numbers in ascending order: linear
// between the two numbers around q (n-1).
func quantile(sorted []float64, q float64) float64 {
	v := float64(q * float64(len(sorted)-1))
	lo := int(math.Floor(v))
	g := v - float64(lo)
	a, b := sorted[lo], sorted[min(lo+1, len(sorted)-1)]
	if g >= 0.5 {
		return b - float64((b-a)*(1-g))
	}
	return a + float64((b-a)*g)
}
