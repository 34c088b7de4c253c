package estimate

import (
	"math/rand/v2"
	"testing"
)

// The draws are those of math/rand's IntN, powers of two among the numbers.
func TestFill(t *testing.T) {
	for _, n := range []int{1, 2, 5, 64, 80, 4096, 6250, 1<<31 - 1} {
		draws := make([]int32, 500)
		fill(draws, rand.NewPCG(7, stream), n)
		rng := rand.New(rand.NewPCG(7, stream))
		for i, got := range draws {
			if want := rng.IntN(n); int(got) != want {
				t.Fatalf("draw %d below %d: got %d, want %d", i, n, got, want)
			}
		}
	}
}

// A mean's sums are those of any ratio, to the last bit, and so are the draws of
// more resamples than a block has.
func TestSumsOfMeans(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	parts := make([]Part, 300)
	for i := range parts {
		parts[i] = Part{rng.ExpFloat64(), 1}
	}
	f, reason := newFigure(ratio, parts)
	if reason != "" {
		t.Fatal(reason)
	}
	short, long := newTable(f), table{columns: 5}
	if !short.mean {
		t.Fatal("a mean is not taken for one")
	}
	for i := range parts {
		e := f.sides[0].e[i]
		long.cells = append(long.cells, e, 1, e*e, e, 1)
	}
	draws := make([]int32, len(parts))
	pcg := rand.NewPCG(3, 4)
	for range 20 {
		fill(draws, pcg, len(parts))
		var a, b [maxSums]float64
		short.sum(draws, &a)
		long.sum(draws, &b)
		if a != b {
			t.Fatalf("got sums %v, want %v", a, b)
		}
	}
	if n := 3*blockDraws/len(parts) + 1; len(draw([]figure{f}, 1, n)[0]) != n {
		t.Errorf("want %d resamples, whatever a block has", n)
	}
}
