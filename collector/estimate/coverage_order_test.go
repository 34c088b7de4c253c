package estimate

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestQuantileBoundsAreExact: whatever the distribution, each bound is on the wrong
// side of the quantile with a chance of at most 0.025, and the next value inwards
// would not do. The chances are sums of the binomial distribution's terms.
func TestQuantileBoundsAreExact(t *testing.T) {
	const tail = 0.025 * (1 + 1e-9)
	for _, n := range []int{1, 2, 5, 6, 10, 37, 72, 73, 160, 368, 369, 1000} {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i + 1)
		}
		for _, q := range []float64{0.1, 0.5, 0.9, 0.95, 0.99} {
			below := make([]float64, n+2) // chance that fewer than k values are below the quantile
			for k := range n + 1 {
				lc, _ := math.Lgamma(float64(n + 1))
				la, _ := math.Lgamma(float64(k + 1))
				lb, _ := math.Lgamma(float64(n - k + 1))
				below[k+1] = below[k] + math.Exp(lc-la-lb+float64(k)*math.Log(q)+float64(n-k)*math.Log1p(-q))
			}
			in := QuantileBounds(values, q)
			if !in.Known {
				if below[1] <= tail && 1-below[n] <= tail {
					t.Errorf("n = %d, q = %v: got %q, the least and greatest value would do", n, q, in.Reason)
				}
				continue
			}
			low, high := int(in.Low), int(in.High)
			if below[low] > tail || 1-below[high] > tail {
				t.Errorf("n = %d, q = %v: ranks %d and %d are wrong with chances %v and %v", n, q, low, high, below[low], 1-below[high])
			}
			if below[low+1] <= tail || 1-below[high-1] <= tail {
				t.Errorf("n = %d, q = %v: ranks %d and %d are wider than they need to be", n, q, low, high)
			}
		}
	}
}

// sharing draws conversations of two requests: both have the same answer with the
// chance alike, else each its own.
func sharing(rng *rand.Rand, n int, p, alike float64) []Part {
	hit := func() float64 {
		if rng.Float64() < p {
			return 1
		}
		return 0
	}
	parts := make([]Part, n)
	for i := range parts {
		first := hit()
		second := first
		if rng.Float64() >= alike {
			second = hit()
		}
		parts[i] = Part{first + second, 2}
	}
	return parts
}

// TestCoverageOfShare: at least 93 % of the intervals of a share hold it at any
// number of conversations, also where nearly all requests or none are hits, and
// where the two requests of a conversation go the same way.
func TestCoverageOfShare(t *testing.T) {
	samples, least := *coverage, 0.93
	shares, sizes := []float64{0, 0.001, 0.01, 0.05, 0.5, 0.9, 0.95, 0.99, 0.999, 1}, []int{10, 20, 40, 80, 160}
	if samples == 0 {
		samples, least, shares, sizes = 50, 0.88, []float64{0, 0.95, 1}, []int{40}
	}
	for _, p := range shares {
		for _, alike := range []float64{0, 0.3, 1} {
			for _, n := range sizes {
				both := study{truth: p, trial: func(rng *rand.Rand, n int) Interval { return ShareOfRuns([][]Part{sharing(rng, n, p, alike)}) }}.run(samples, n)
				lower := study{truth: p, trial: func(rng *rand.Rand, n int) Interval { return ShareOfRunsAtLeast([][]Part{sharing(rng, n, p, alike)}) }}.run(samples, n)
				if *coverage > 0 {
					t.Logf("share %5v, alike %3v, n = %3d: %v; at least: %v", p, alike, n, both, lower)
				}
				if both.share() < least || lower.share() < least || both.unknown+lower.unknown > 0 || both.width <= 0 {
					t.Errorf("share %v, alike %v, n = %d: %v; at least: %v", p, alike, n, both, lower)
				}
			}
		}
	}
}

// sharingRuns draws runs of the same conversations of two requests. The share of a
// run is uniform around p with the standard deviation apart; a request goes as in
// the other runs with the chance alike.
func sharingRuns(rng *rand.Rand, runs, n int, p, apart, alike float64) [][]Part {
	list := make([][]Part, runs)
	shares := make([]float64, runs)
	for r := range list {
		list[r], shares[r] = make([]Part, n), p+apart*math.Sqrt(3)*(2*rng.Float64()-1)
	}
	for i := range n {
		own := [2]float64{rng.Float64(), rng.Float64()}
		for r := range list {
			list[r][i].Den = 2
			for _, u := range own {
				if rng.Float64() >= alike {
					u = rng.Float64()
				}
				if u < shares[r] {
					list[r][i].Num++
				}
			}
		}
	}
	return list
}

// TestCoverageOfShareOfRuns: the same for several runs that are alike or not far
// apart. Where they are farther apart than chance makes them by much, few of them
// cannot tell: two hold 79 % or more, three 85 %, five 91 %.
func TestCoverageOfShareOfRuns(t *testing.T) {
	samples, least := *coverage, 0.93
	cases := [][2]float64{{1, 0}, {0.99, 0}, {0.95, 0}, {0.95, 0.02}, {0.9, 0.05}, {0.5, 0}, {0.5, 0.1}, {0.5, 0.25}}
	sizes := []int{40, 80}
	if samples == 0 {
		samples, least, cases, sizes = 50, 0.93, [][2]float64{{1, 0}, {0.95, 0.02}}, []int{40}
	}
	for _, c := range cases {
		for _, runs := range []int{2, 3, 5} {
			for _, n := range sizes {
				for _, alike := range []float64{0, 0.8} {
					s := func(of func([][]Part) Interval) study {
						return study{truth: c[0], salt: uint64(runs) << 40, trial: func(rng *rand.Rand, n int) Interval { return of(sharingRuns(rng, runs, n, c[0], c[1], alike)) }}
					}
					both, lower := s(ShareOfRuns).run(samples, n), s(ShareOfRunsAtLeast).run(samples, n)
					if *coverage > 0 {
						t.Logf("share %v ± %v, alike %v, %d runs, n = %d: %v; at least: %v", c[0], c[1], alike, runs, n, both, lower)
					}
					least := least
					if far := c[1] > 0.02; far && *coverage > 0 {
						least = map[int]float64{2: 0.77, 3: 0.83, 5: 0.90}[runs]
					}
					least -= 2 * math.Sqrt(least*(1-least)/float64(samples)) // what the simulation cannot tell from it
					if both.share() < least || lower.share() < least || both.unknown+lower.unknown > 0 || both.width <= 0 {
						t.Errorf("share %v ± %v, alike %v, %d runs, n = %d: %v; at least: %v", c[0], c[1], alike, runs, n, both, lower)
					}
				}
			}
		}
	}
}

// TestPowerOfSmallest: a true difference of the size that Smallest names is told
// from none by 75 to 85 % of the samples, at 40 conversations or more.
func TestPowerOfSmallest(t *testing.T) {
	samples := *coverage / 2
	if samples == 0 {
		t.Skip("-args -coverage 2000 simulates it")
	}
	for _, c := range []struct {
		name    string
		n, runs int
		shift   float64 // standard deviation of a run
		noise   func(*rand.Rand) float64
	}{
		{"normal", 20, 1, 0, func(rng *rand.Rand) float64 { return rng.NormFloat64() }},
		{"normal", 80, 1, 0, func(rng *rand.Rand) float64 { return rng.NormFloat64() }},
		{"exponential", 40, 1, 0, func(rng *rand.Rand) float64 { return rng.ExpFloat64() }},
		{"exponential", 160, 1, 0, func(rng *rand.Rand) float64 { return rng.ExpFloat64() }},
		{"normal, 5 runs", 80, 5, 0.1, func(rng *rand.Rand) float64 { return rng.NormFloat64() }},
	} {
		side := func(rng *rand.Rand, base []float64, more float64) [][]Part {
			runs := make([][]Part, c.runs)
			for r := range runs {
				shift := c.shift * rng.NormFloat64()
				for _, b := range base {
					runs[r] = append(runs[r], Part{b + more + shift + c.noise(rng), 1})
				}
			}
			return runs
		}
		pair := func(i int, more float64) (a, b [][]Part) {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(c.n)))
			base := make([]float64, c.n)
			for i := range base {
				base[i] = 3 + rng.ExpFloat64()
			}
			return side(rng, base, more), side(rng, base, 0)
		}
		smallest := 0.0
		for i := range samples {
			a, b := pair(i, 0)
			s, _ := Smallest(a, b, 1)
			smallest += s / float64(samples)
		}
		told := study{truth: 0, trial: func(rng *rand.Rand, n int) Interval {
			a, b := pair(int(rng.Uint64()>>1), smallest)
			return compared(difference, 1, simResamples, a, b)
		}}.run(samples, c.n)
		power := float64(told.above) / float64(samples)
		fuzzy := 2 * math.Sqrt(0.75*0.25/float64(samples)) // of the simulation
		t.Logf("%s, n = %d: smallest %.3f, told by %.1f %%", c.name, c.n, smallest, 100*power)
		if c.n >= 40 && (power < 0.75-fuzzy || power > 0.85+fuzzy) {
			t.Errorf("%s, n = %d: told by %.1f %%, want 75 to 85 %%", c.name, c.n, 100*power)
		}
	}
}
