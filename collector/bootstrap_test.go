package collector

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func ones(n int) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = 1
	}
	return w
}

func TestBootstrapMean(t *testing.T) {
	values := []float64{1, 1.1, 1.2, 1.2, 1.3, 1.4, 1.6, 1.9, 2.6, 4}
	got := BootstrapMean(values, ones(10), 7)
	if again := BootstrapMean(values, ones(10), 7); got != again {
		t.Errorf("got %+v and %+v with one seed", got, again)
	}
	if other := BootstrapMean(values, ones(10), 8); got == other {
		t.Errorf("got %+v with two seeds, want different resamples", got)
	}
	if !got.Known || got.Low >= 1.73 || got.High <= 1.73 || got.High-1.73 <= 1.73-got.Low {
		t.Errorf("got %+v, want an interval around 1.73 that leans to the long tail", got)
	}
	// The corrections move both bounds of a right-skewed sample to the right of the plain percentiles.
	resamples := resampledMeans(values, ones(10), 7)
	slices.Sort(resamples)
	if low, high := Quantile(resamples, 0.025), Quantile(resamples, 0.975); got.Low <= low || got.High <= high {
		t.Errorf("got %+v, percentiles %v to %v", got, low, high)
	}
	// A conversation of weight 0 has no influence on the mean.
	if got := weightedMean([]float64{1, 2, 9}, []float64{1, 3, 0}); got != 1.75 {
		t.Errorf("got weighted mean %v, want 1.75", got)
	}
}

// TestBootstrapCoverage: of 60 samples of a skewed distribution the interval holds the true mean in most.
func TestBootstrapCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	covered := 0
	for range 60 {
		values := make([]float64, 40)
		for i := range values {
			values[i] = rng.ExpFloat64()
		}
		if in := BootstrapMean(values, ones(40), 3); in.Low < 1 && 1 < in.High {
			covered++
		}
	}
	if covered < 50 {
		t.Errorf("got the true mean in %d of 60 intervals, want about 56", covered)
	}
}

func TestBootstrapDegenerate(t *testing.T) {
	for _, values := range [][]float64{nil, {2}, {2, 2, 2}} {
		if got := BootstrapMean(values, ones(len(values)), 1); got.Known || got.Reason == "" {
			t.Errorf("%v: got %+v, want no interval and a reason", values, got)
		}
	}
}

// TestAcceleration: for a mean it is the skewness of the data over 6 sqrt(n).
func TestAcceleration(t *testing.T) {
	values := []float64{1, 1, 1, 2, 5, 9}
	mean, m2, m3 := Mean(values), 0.0, 0.0
	for _, v := range values {
		m2 += (v - mean) * (v - mean)
		m3 += (v - mean) * (v - mean) * (v - mean)
	}
	if got, want := acceleration(values, ones(6)), m3/(6*math.Pow(m2, 1.5)); math.Abs(got-want) > 1e-12 {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := normalQuantile(0.975); math.Abs(got-1.959963984540054) > 1e-9 || math.Abs(normalCDF(got)-0.975) > 1e-12 {
		t.Errorf("got quantile %v, want 1.95996", got)
	}
}

func BenchmarkBootstrapMean(b *testing.B) {
	values := make([]float64, 80)
	for i := range values {
		values[i] = 2 + float64(i%7)/3
	}
	weights := ones(80)
	b.ReportAllocs()
	for b.Loop() {
		BootstrapMean(values, weights, 1)
	}
}

// TestIntervalOfRepeatedIDs: a repeated id counts once in Average_AL, so once in its interval.
func TestIntervalOfRepeatedIDs(t *testing.T) {
	conv := func(id string, lengths ...int) Conversation {
		return Conversation{QuestionID: json.RawMessage(id), Turns: []Turn{{Lengths: lengths}}}
	}
	p := Point{Run: Run{Metric: MetricSpecBench, Seed: 3}}
	want, err := p.viewAL([]Conversation{conv("1", 1, 2), conv("2", 1, 5), conv("3", 1, 3)})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.viewAL([]Conversation{conv("1", 9, 9), conv("1", 1, 2), conv("2", 8), conv("2", 1, 5), conv("3", 1, 3)})
	if err != nil {
		t.Fatal(err)
	}
	if *got.Interval != *want.Interval || got.AverageAL != want.AverageAL {
		t.Errorf("got %v in %+v, want %v in %+v", got.AverageAL, *got.Interval, want.AverageAL, *want.Interval)
	}
}
