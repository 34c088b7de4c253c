package estimate

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// blockDraws is how many draws are made before each figure adds them up: a figure's
// cells stay near the processor while it does, and all figures share the draws.
const blockDraws = 1 << 16

// draw takes as many conversations as there are, with replacement, for each
// resample, and returns the T* of each figure. A resample in which nobody has a
// denominator is left out.
func draw(figures []figure, seed int64, resamples int) [][]float64 {
	n := figures[0].n
	tables, ts := make([]table, len(figures)), make([][]float64, len(figures))
	for i, f := range figures {
		tables[i], ts[i] = newTable(f), make([]float64, 0, resamples)
	}
	pcg := rand.NewPCG(uint64(seed), stream)
	block := max(1, blockDraws/n)
	draws := make([]int32, min(block, resamples)*n)
	var sums [maxSums]float64
	for done := 0; done < resamples; done += block {
		now := draws[:min(block, resamples-done)*n]
		fill(now, pcg, n)
		for i, t := range tables {
			for at := 0; at < len(now); at += n {
				t.sum(now[at:at+n], &sums)
				if v := figures[i].studentized(sums[:]); !math.IsNaN(v) {
					ts[i] = append(ts[i], v)
				}
			}
		}
	}
	return ts
}

// fill draws numbers below n, those that rand.Rand's IntN makes of the source on a
// machine of 64 bits.
func fill(draws []int32, pcg *rand.PCG, n int) {
	most := uint64(n)
	if most&(most-1) == 0 {
		for i := range draws {
			draws[i] = int32(pcg.Uint64() & (most - 1))
		}
		return
	}
	for i := range draws {
		high, low := bits.Mul64(pcg.Uint64(), most)
		for low < most && low < -most%most { // about one in 2^64/n
			high, low = bits.Mul64(pcg.Uint64(), most)
		}
		draws[i] = int32(high)
	}
}

// maxSums is how many sums a figure of two sides needs: e and Den of each, and the
// products of any two of those.
const maxSums = 4 + 10

// table holds what each conversation adds to the sums that a resample needs, a row
// for a conversation. Where every Den is 1, as in a mean, the sums with Den in them
// are known, and a row is e and its square.
type table struct {
	columns int
	mean    bool
	cells   []float64
}

func newTable(f figure) table {
	t := table{columns: 5}
	if len(f.sides) == 1 {
		t.mean = allOnes(f.sides[0].parts)
	} else {
		t.columns = maxSums
	}
	t.cells = make([]float64, 0, f.n*t.columns)
	for i := range f.n {
		if t.mean {
			e := f.sides[0].e[i]
			t.cells = append(t.cells, e, e*e)
			continue
		}
		start := len(t.cells)
		for _, s := range f.sides {
			t.cells = append(t.cells, s.e[i], s.parts[i].Den)
		}
		own := t.cells[start:]
		for a := range own {
			for b := a; b < len(own); b++ {
				t.cells = append(t.cells, own[a]*own[b])
			}
		}
	}
	return t
}

func allOnes(parts []Part) bool {
	for _, p := range parts {
		if p.Den != 1 {
			return false
		}
	}
	return true
}

// sum adds up the rows that were drawn, into the sums that studentized reads.
func (t table) sum(draws []int32, sums *[maxSums]float64) {
	switch {
	case t.mean:
		var e, squares float64
		for _, i := range draws {
			row := t.cells[2*int(i) : 2*int(i)+2 : 2*int(i)+2]
			e, squares = e+row[0], squares+row[1]
		}
		n := float64(len(draws))
		*sums = [maxSums]float64{e, n, squares, e, n}
	case t.columns == 5:
		var a, b, c, d, e float64
		for _, i := range draws {
			row := t.cells[5*int(i) : 5*int(i)+5 : 5*int(i)+5]
			a, b, c, d, e = a+row[0], b+row[1], c+row[2], d+row[3], e+row[4]
		}
		*sums = [maxSums]float64{a, b, c, d, e}
	default:
		*sums = [maxSums]float64{}
		for _, i := range draws {
			row := t.cells[maxSums*int(i) : maxSums*int(i)+maxSums]
			for c := range sums {
				sums[c] += row[c]
			}
		}
	}
}
