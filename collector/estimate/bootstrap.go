package estimate

import (
	"math"
	"math/rand/v2"
	"slices"
)

// stream separates the resamples from other uses of a run's seed.
const stream = 0x53504543

// Ratio gives the BCa interval of sum(Num) / sum(Den) over conversations, each of
// which is drawn as a whole. With theta the ratio, theta* of B resamples, theta(i)
// without conversation i and m the mean of those:
//
//	z0 = Phi^-1( (#{theta* < theta} + #{theta* = theta}/2) / B )
//	a  = sum (m - theta(i))^3 / (6 (sum (m - theta(i))^2)^1.5)
//	alpha' = Phi( z0 + (z0 + z) / (1 - a (z0 + z)) ),  z = Phi^-1(alpha)
//
// The bounds are the alpha' quantiles of theta* at alpha = 0.025 and 0.975.
// Source: Efron and Tibshirani, An Introduction to the Bootstrap, 14.3.
func Ratio(parts []Part, seed int64) Interval { return Ratios([][]Part{parts}, seed)[0] }

// Ratios gives Ratio of several figures over the same conversations. They share
// their draws, which is faster; each interval is the one that Ratio gives.
func Ratios(figures [][]Part, seed int64) []Interval {
	intervals := make([]Interval, len(figures))
	byLength := map[int][]int{}
	for i, parts := range figures {
		byLength[len(parts)] = append(byLength[len(parts)], i)
	}
	for n, list := range byLength {
		table := newTable(n, len(list))
		stats := make([]statistic, len(list))
		for j, i := range list {
			table.set(j, figures[i])
			stats[j] = func(sums []Part) float64 { return sums[j].Num / sums[j].Den }
		}
		resamples := table.resample(stats, seed)
		for j, i := range list {
			intervals[i] = table.bca(stats[j], []int{j}, resamples[j])
		}
	}
	return intervals
}

// statistic is a figure of the sums over conversations, one Part for each column of a table.
type statistic func(sums []Part) float64

// table holds what each conversation gives to several sums: a row for a conversation.
type table struct {
	rows, columns int
	cells         []Part
}

func newTable(rows, columns int) table {
	return table{rows: rows, columns: columns, cells: make([]Part, rows*columns)}
}

// set fills a column.
func (t table) set(column int, parts []Part) {
	for i, p := range parts {
		t.cells[i*t.columns+column] = p
	}
}

// row is what conversation i gives.
func (t table) row(i int) []Part { return t.cells[i*t.columns : (i+1)*t.columns] }

// sums adds all conversations.
func (t table) sums() []Part {
	sums := make([]Part, t.columns)
	for i := range t.rows {
		add(sums, t.row(i))
	}
	return sums
}

func add(sums, row []Part) {
	for c, p := range row {
		sums[c].Num += p.Num
		sums[c].Den += p.Den
	}
}

// resample draws as many conversations as there are, with replacement, for each
// resample, and returns each statistic of them. What is not finite (nobody that was
// drawn has a denominator) is left out.
func (t table) resample(stats []statistic, seed int64) [][]float64 {
	values := make([][]float64, len(stats))
	for s := range values {
		values[s] = make([]float64, 0, Resamples)
	}
	rng := rand.New(rand.NewPCG(uint64(seed), stream))
	sums := make([]Part, t.columns)
	for range Resamples {
		clear(sums)
		for range t.rows {
			add(sums, t.row(rng.IntN(t.rows)))
		}
		for s, f := range stats {
			if v := f(sums); !math.IsNaN(v) && !math.IsInf(v, 0) {
				values[s] = append(values[s], v)
			}
		}
	}
	return values
}

// bca makes the interval of a statistic of the given columns. It sorts the resamples.
func (t table) bca(f statistic, columns []int, resamples []float64) Interval {
	if reason := t.refuse(columns); reason != "" {
		return unknown(reason)
	}
	sums := t.sums()
	theta := f(sums)
	without := t.jackknife(f, sums)
	if same(without) {
		return unknown(allEqual)
	}
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
		return unknown(oneSided)
	}
	z0 := normalQuantile(below / float64(len(resamples)))
	a := acceleration(without)
	slices.Sort(resamples)
	bound := func(alpha float64) float64 {
		z := z0 + normalQuantile(alpha)
		return quantile(resamples, normalCDF(z0+z/(1-float64(a*z))))
	}
	return Interval{Low: bound((1 - Level) / 2), High: bound((1 + Level) / 2), Known: true}
}

// refuse says why there is no interval of the given columns: each needs two
// conversations with a denominator.
func (t table) refuse(columns []int) string {
	for _, c := range columns {
		n := 0
		for i := range t.rows {
			if t.row(i)[c].Den != 0 {
				n++
			}
		}
		if n < 2 {
			return tooFew
		}
	}
	return ""
}

// jackknife returns the statistic without each conversation.
func (t table) jackknife(f statistic, sums []Part) []float64 {
	without, left := make([]float64, t.rows), make([]Part, t.columns)
	for i := range without {
		for c, p := range t.row(i) {
			left[c] = Part{sums[c].Num - p.Num, sums[c].Den - p.Den}
		}
		without[i] = f(left)
	}
	return without
}

// equalWithin is how far numbers may differ, for their size, by rounding alone.
const equalWithin = 1e-12

// same says that numbers differ by rounding alone.
func same(xs []float64) bool {
	if len(xs) == 0 {
		return true
	}
	low, high := slices.Min(xs), slices.Max(xs)
	return high-low <= equalWithin*max(math.Abs(low), math.Abs(high))
}

// acceleration is a above.
func acceleration(without []float64) float64 {
	m := mean(without)
	squares, cubes := 0.0, 0.0
	for _, w := range without {
		d := m - w
		squares += float64(d * d)
		cubes += float64(d * d * d)
	}
	if squares == 0 {
		return 0
	}
	return cubes / (6 * math.Pow(squares, 1.5))
}
