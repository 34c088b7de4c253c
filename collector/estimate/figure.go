package estimate

import "math"

// kind says what a figure is made of the ratios of its one or two sides.
type kind int

const (
	ratio      kind = iota // the ratio itself
	difference             // a - b
	logOfRatio             // ln(a / b)
)

// figure is a ratio, or what compares the ratios of two sides, over n
// conversations; index i is the same conversation on both sides.
type figure struct {
	kind  kind
	n     int
	known int // conversations that have a denominator, on the side that has the fewest
	sides []side
}

// side is one ratio: what each conversation gives, and the distance e of its Num
// from what the ratio would make of its Den. The sum of all e is 0.
type side struct {
	parts []Part
	all   Part
	e     []float64
}

func newSide(parts []Part) side {
	s := side{parts: parts, all: Sum(parts), e: make([]float64, len(parts))}
	for i, p := range parts {
		s.e[i] = p.Num - float64(s.all.Ratio()*p.Den)
	}
	return s
}

// newFigure makes a figure of sides of equal length, or the reason why it cannot
// have an interval: each side needs two conversations with a denominator.
func newFigure(k kind, sides ...[]Part) (figure, string) {
	f := figure{kind: k, n: len(sides[0]), known: len(sides[0])}
	for _, parts := range sides {
		known := 0
		for _, p := range parts {
			if p.Den != 0 {
				known++
			}
		}
		if known < 2 {
			return f, tooFew
		}
		f.known = min(f.known, known)
		f.sides = append(f.sides, newSide(parts))
		if r := f.sides[len(f.sides)-1].all.Ratio(); math.IsNaN(r) || math.IsInf(r, 0) {
			return f, noNumber
		}
		if k == logOfRatio && !(f.sides[len(f.sides)-1].all.Ratio() > 0) {
			return f, "a ratio is not above 0"
		}
	}
	return f, ""
}

// value is the figure.
func (f figure) value() float64 {
	a := f.sides[0].all.Ratio()
	switch f.kind {
	case difference:
		return a - f.sides[1].all.Ratio()
	case logOfRatio:
		return math.Log(a / f.sides[1].all.Ratio())
	}
	return a
}

// moved returns how far the figure is from its value where the ratios of its sides
// are r further than they are, and how fast it grows there with each of them.
func (f figure) moved(r [2]float64) (distance float64, slope [2]float64) {
	switch f.kind {
	case difference:
		return r[0] - r[1], [2]float64{1, -1}
	case logOfRatio:
		a, b := f.sides[0].all.Ratio(), f.sides[1].all.Ratio()
		return math.Log1p(r[0]/a) - math.Log1p(r[1]/b), [2]float64{1 / (a + r[0]), -1 / (b + r[1])}
	}
	return r[0], [2]float64{1, 0}
}

// jackknife returns the distance of the figure from its value without each conversation.
func (f figure) jackknife() []float64 {
	without := make([]float64, f.n)
	for i := range without {
		var r [2]float64
		for s, side := range f.sides {
			r[s] = -side.e[i] / (side.all.Den - side.parts[i].Den)
		}
		without[i], _ = f.moved(r)
	}
	return without
}

// ofConversations is the variance of the figure from the choice of conversations,
// by the jackknife: (n-1)/n times the sum of squared distances of theta(i), the
// figure without conversation i, from their mean. It is 0 where conversations
// differ by rounding alone.
func (f figure) ofConversations() float64 {
	n, scale := float64(f.n), 0.0
	for _, s := range f.sides {
		scale = max(scale, math.Abs(s.all.Ratio()))
	}
	if f.kind == logOfRatio {
		scale = 1
	}
	v := (n - 1) * (n - 1) / n * variance(f.jackknife())
	if v <= scale*scale*roundOff*roundOff {
		return 0
	}
	return v
}

// leastFreedom bounds freedom: the kurtosis of few conversations is itself
// uncertain, and fewer than these are believed only where n is as small. It moves t
// by 3 % at 40 conversations and by 6 % at any number.
const leastFreedom = 20

// freedom is the degrees of freedom of ofConversations, by Satterthwaite: those of
// the chi-squared distribution that varies as much. A variance of n values with the
// kurtosis k varies by (k-1)/n of its square, a chi-squared one by 2/df, so df is
// 2n/(k-1): n where k is 3 as of normal values, less where a few conversations make
// up the variance. k is that of the jackknife's distances, and df at most n - 1.
// Source: Satterthwaite, An Approximate Distribution of Estimates of Variance
// Components, 1946; Cramer, Mathematical Methods of Statistics, 1946, 27.4 (how a
// variance varies).
func (f figure) freedom() float64 {
	without, n := f.jackknife(), float64(f.n)
	m, v, fourths := mean(without), variance(without)*(n-1)/n, 0.0
	for _, x := range without {
		d := float64((x-m)*(x-m)) / v
		fourths += float64(d * d)
	}
	if kurtosis := fourths / n; finite(kurtosis) {
		return min(n-1, max(leastFreedom, 2*n/(kurtosis-1)))
	}
	return n - 1
}

// roundOff is how far equal numbers may be from each other, for their size.
const roundOff = 1e-12
