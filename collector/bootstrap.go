package collector

import (
	"math"
	"math/rand/v2"
	"slices"
)

// What the intervals of speculation.json are made with.
const (
	bootstrapMethod    = "bca bootstrap over conversations, jackknife acceleration"
	bootstrapResamples = 10000
	bootstrapLevel     = 0.95
)

// bootstrapStream separates the resamples from other uses of a run's seed.
const bootstrapStream = 0x53504543

// BootstrapMean gives the BCa interval of a weighted mean sum(w v) / sum(w) over
// conversations, each of which is drawn as a whole. It is the same for the same
// seed. With theta the mean, theta* of B resamples, theta(i) without conversation
// i and m the mean of those:
//
//	z0 = Phi^-1( (#{theta* < theta} + #{theta* = theta}/2) / B )
//	a  = sum (m - theta(i))^3 / (6 (sum (m - theta(i))^2)^1.5)
//	alpha' = Phi( z0 + (z0 + z) / (1 - a (z0 + z)) ),  z = Phi^-1(alpha)
//
// The bounds are the alpha' quantiles of theta* at alpha = 0.025 and 0.975.
// Source: Efron and Tibshirani, An Introduction to the Bootstrap, 14.3.
func BootstrapMean(values, weights []float64, seed int64) Interval {
	n := len(values)
	if n < 2 {
		return Interval{Reason: "fewer than two conversations"}
	}
	if slices.Min(values) == slices.Max(values) {
		return Interval{Reason: "all conversations have the same value"}
	}
	theta := weightedMean(values, weights)
	resamples := resampledMeans(values, weights, seed)
	below := 0.0
	for _, r := range resamples {
		switch {
		case r < theta:
			below++
		case r == theta:
			below += 0.5
		}
	}
	if below == 0 || below == float64(len(resamples)) {
		return Interval{Reason: "all resamples lie on one side of the mean"}
	}
	z0 := normalQuantile(below / float64(len(resamples)))
	a := acceleration(values, weights)
	slices.Sort(resamples)
	bound := func(alpha float64) float64 {
		z := z0 + normalQuantile(alpha)
		return Quantile(resamples, normalCDF(z0+z/(1-a*z)))
	}
	return Interval{Low: bound((1 - bootstrapLevel) / 2), High: bound((1 + bootstrapLevel) / 2), Known: true}
}

func weightedMean(values, weights []float64) float64 {
	sum, weight := 0.0, 0.0
	for i, v := range values {
		sum += float64(v * weights[i])
		weight += weights[i]
	}
	return sum / weight
}

// resampledMeans draws as many conversations as there are, with replacement, for each resample.
func resampledMeans(values, weights []float64, seed int64) []float64 {
	products := make([]float64, len(values))
	for i, v := range values {
		products[i] = v * weights[i]
	}
	rng := rand.New(rand.NewPCG(uint64(seed), bootstrapStream))
	means := make([]float64, bootstrapResamples)
	for b := range means {
		sum, weight := 0.0, 0.0
		for range values {
			i := rng.IntN(len(values))
			sum += products[i]
			weight += weights[i]
		}
		means[b] = sum / weight
	}
	return means
}

// acceleration is a above, from the jackknife.
func acceleration(values, weights []float64) float64 {
	sum, weight := 0.0, 0.0
	for i, v := range values {
		sum += float64(v * weights[i])
		weight += weights[i]
	}
	without := make([]float64, len(values))
	for i, v := range values {
		without[i] = (sum - float64(v*weights[i])) / (weight - weights[i])
	}
	mean := Mean(without)
	squares, cubes := 0.0, 0.0
	for _, w := range without {
		d := mean - w
		squares += float64(d * d)
		cubes += float64(d * d * d)
	}
	if squares == 0 {
		return 0
	}
	return cubes / (6 * math.Pow(squares, 1.5))
}

// normalCDF is Phi, the standard normal distribution's cumulative function.
func normalCDF(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// normalQuantile is the inverse of normalCDF, for p between 0 and 1.
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }
