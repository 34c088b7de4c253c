package estimate

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

// coverage is how many seeded samples each case is simulated with; .ci/full says 2000.
var coverage = flag.Int("coverage", 0, "samples of each case whose coverage is simulated")

// simResamples are the resamples of a simulated interval: fewer than Resamples, for
// speed; the bounds differ by less than the simulation can see.
const simResamples = 2000

// tally is what came of many intervals.
type tally struct {
	held, above, below, unknown int // intervals that hold the truth, lie above it, below it, are not known
	width                       float64
}

// share is the part of the known intervals that hold the truth.
func (t tally) share() float64 { return float64(t.held) / float64(t.held+t.above+t.below) }

// holds says that the share is from least to most, but for what the simulation itself
// may be wrong by: two standard deviations of a share of so many known intervals.
func (t tally) holds(least, most float64) bool {
	unsure := func(p float64) float64 { return 2 * math.Sqrt(p*(1-p)/float64(t.held+t.above+t.below)) }
	return t.share() >= least-unsure(least) && t.share() <= most+unsure(most)
}

func (t tally) String() string {
	known := t.held + t.above + t.below
	text := fmt.Sprintf("%5.1f %% (above %.1f, below %.1f) width %.4g", 100*t.share(), 100*float64(t.above)/float64(known), 100*float64(t.below)/float64(known), t.width/float64(known))
	if t.unknown > 0 {
		text += fmt.Sprintf(", %d not known", t.unknown)
	}
	return text
}

// run makes the intervals of samples with seeds 0, 1, ...
func (s study) run(samples, n int) tally {
	var all tally
	var mutex sync.Mutex
	var group sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		group.Go(func() {
			var own tally
			for i := w; i < samples; i += workers {
				own.add(s.trial(seeded(uint64(i), s.salt|uint64(n)), n), s.truth)
			}
			mutex.Lock()
			defer mutex.Unlock()
			all.held, all.above, all.below, all.unknown = all.held+own.held, all.above+own.above, all.below+own.below, all.unknown+own.unknown
			all.width += own.width
		})
	}
	group.Wait()
	return all
}

// seeded gives a generator whose seed is scattered, so that neighbours share nothing.
func seeded(i, of uint64) *rand.Rand {
	scatter := rand.New(rand.NewPCG(i, of))
	scatter.Uint64()
	return rand.New(rand.NewPCG(scatter.Uint64(), scatter.Uint64()))
}

func (t *tally) add(in Interval, truth float64) {
	switch {
	case !in.Known:
		t.unknown++
		return
	case in.Low > truth:
		t.above++
	case in.High < truth:
		t.below++
	default:
		t.held++
	}
	t.width += in.High - in.Low
}

// TestCoverage: at 40 conversations and more 93 to 97 % of the intervals hold the
// true value, as far as so many samples can tell; what happens below is printed, and
// said in the package's comment.
func TestCoverage(t *testing.T) {
	samples, sizes := *coverage, []int{10, 20, 40, 80, 160}
	if samples == 0 {
		t.Skip("-args -coverage 2000 simulates it")
	}
	for _, s := range append(oneRun(), paired()...) {
		for _, n := range sizes {
			got := s.run(samples, n)
			t.Logf("%-36s n = %3d: %v", s.name, n, got)
			if n >= 40 && (!got.holds(0.93, 0.97) || !s.rare && got.unknown > samples/100) {
				t.Errorf("%s, n = %d: %v, want 93 to 97 %%", s.name, n, got)
			}
		}
	}
}

// TestCoverageOfRuns: the same for several runs, from runs that are alike to runs
// that differ by more than their conversations.
func TestCoverageOfRuns(t *testing.T) {
	samples := *coverage
	if samples == 0 {
		t.Skip("-args -coverage 2000 simulates it")
	}
	for _, runs := range []int{2, 3, 5} {
		for _, rho := range []float64{0, 0.1, 0.5, 1, 2, 4, 20} {
			for _, n := range []int{40, 80} {
				got := severalRuns(runs, rho).run(samples, n)
				t.Logf("%d runs, %4g of the conversations' variance, n = %3d: %v", runs, rho, n, got)
				if !got.holds(0.93, 0.97) {
					t.Errorf("%d runs, %g, n = %d: %v, want 93 to 97 %%", runs, rho, n, got)
				}
			}
		}
	}
}
