package compare

import (
	"cmp"
	"math"
	"slices"

	"spectap/collector/estimate"
)

// Verdict is what a figure shows of B against A, its family considered.
type Verdict string

// The verdicts. Perhaps means that the interval excludes no difference, but that
// among so many intervals one that does is no surprise.
const (
	Higher        Verdict = "higher"
	Lower         Verdict = "lower"
	PerhapsHigher Verdict = "perhaps higher"
	PerhapsLower  Verdict = "perhaps lower"
	NotShown      Verdict = "no difference shown"
	CannotBeTold  Verdict = "cannot be told" // there is no interval
)

// Family is a set of intervals that answer one question at several points or for
// several categories: the chance that one of them is wrong grows with their number.
type Family struct {
	Quantity  string  `json:"quantity"`
	Scope     string  `json:"scope"`
	Intervals int     `json:"intervals"`
	Excluding int     `json:"excluding_no_difference"`           // intervals that exclude no difference
	ByChance  float64 `json:"excluding_no_difference_by_chance"` // how many would, if nothing differed: 5 % of them; somewhat more where an interval has fewer than 40 questions behind it
	Holm      int     `json:"after_holm"`                        // how many still do after Holm's adjustment
}

// chance is how often an interval excludes the truth.
const chance = 1 - estimate.Level

// judge gives each figure its verdict. Figures of one quantity and scope, of all
// points and all comparisons, are one family. Of m values of P in ascending order
// the i-th, from 0, is adjusted to the largest of (m - j) P(j) up to j = i, at most 1.
// Source: Holm 1979.
func judge(figures []*Figure) []Family {
	var families []Family
	members := map[[2]string][]*Figure{}
	for _, f := range figures {
		f.P, f.Verdict = f.chance(), CannotBeTold
		key := [2]string{f.Quantity, f.Scope}
		if members[key] == nil {
			families = append(families, Family{Quantity: f.Quantity, Scope: f.Scope})
			members[key] = []*Figure{}
		}
		if f.P != nil {
			members[key] = append(members[key], f)
		}
	}
	for i := range families {
		families[i].holm(members[[2]string{families[i].Quantity, families[i].Scope}])
	}
	return slices.DeleteFunc(families, func(f Family) bool { return f.Intervals == 0 })
}

func (f *Family) holm(list []*Figure) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *Figure) int { return cmp.Compare(*a.P, *b.P) })
	f.Intervals, f.ByChance = len(list), float64(len(list))*chance
	least := 0.0
	for i, one := range list {
		least = max(least, min(1, float64(len(list)-i)**one.P))
		one.Adjusted = pointer(least)
		excludes := one.excludes()
		one.Verdict = one.word(excludes, excludes && least < chance)
		if excludes {
			f.Excluding++
		}
		if excludes && least < chance {
			f.Holm++
		}
	}
}

// word is the verdict of an interval that excludes no difference or not, before and
// after the adjustment.
func (f *Figure) word(excludes, holds bool) Verdict {
	up := *f.Difference.Value > 0
	switch {
	case !excludes:
		return NotShown
	case holds && up:
		return Higher
	case holds:
		return Lower
	case up:
		return PerhapsHigher
	}
	return PerhapsLower
}

// shown is the estimate that is judged, and where it says no difference: the ratio
// of times, the difference of everything else.
func (f *Figure) shown() (Estimate, float64) {
	if timing(f.Quantity) {
		return f.Ratio, 1
	}
	return f.Difference, 0
}

// excludes says that the interval holds no value that means no difference.
func (f *Figure) excludes() bool {
	e, nothing := f.shown()
	return e.Known && (e.Low > nothing || e.High < nothing)
}

// chance is P, the larger one of two. The interval's own, with d the distance of
// the value from no difference and w that of its bound on that side, is
// 2 (1 - Phi(1.96 d / w)): below 5 % exactly where the interval excludes no
// difference. Student's t has heavier tails, which is where the least of many P
// are, and knows how few conversations there are. nil where there is no interval. An
// interval of no width has 0, or 1 where it says that nothing differs.
func (f *Figure) chance() *float64 {
	e, nothing := f.shown()
	if !e.Known || e.Value == nil {
		return nil
	}
	value, low, high := *e.Value, e.Low, e.High
	if timing(f.Quantity) && low > 0 {
		value, low, high, nothing = math.Log(value), math.Log(low), math.Log(high), 0
	}
	d, w := value-nothing, value-low
	if d < 0 {
		d, w = -d, high-value
	}
	p := 1.0
	switch {
	case d == 0:
	case w <= 0:
		p = 0
	default:
		z := -math.Sqrt2 * math.Erfinv(chance-1) * d / w
		p = math.Erfc(z / math.Sqrt2)
	}
	if f.student != nil {
		p = max(p, *f.student)
	}
	return &p
}
