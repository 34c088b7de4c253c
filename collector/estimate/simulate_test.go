package estimate

import (
	"math"
	"math/rand/v2"
)

// simulated is a conversation of two turns with a drafter of 8 tokens. Each draft
// is accepted with a chance that belongs to the conversation, most of them low and
// a few near 1, so that acceptance lengths have a long tail as with n-gram drafting
// on MT-Bench; the steps of a turn are log-normal, so that a few conversations have
// most of the steps.
type simulated struct {
	tokens, steps     float64
	seconds           float64    // of all steps: the server is faster on some conversations
	reached, accepted [8]float64 // verify steps by draft position
}

func simulate(rng *rand.Rand, acceptance float64) simulated {
	var c simulated
	for range 2 {
		chance := min(0.98, max(0.01, acceptance+0.05*rng.NormFloat64()))
		steps := min(2048, int(math.Ceil(30*logNormal(rng, 1))))
		c.tokens, c.steps = c.tokens+1, c.steps+1
		for range steps {
			length := 0
			for length < len(c.reached) {
				c.reached[length]++
				if rng.Float64() >= chance {
					break
				}
				c.accepted[length]++
				length++
			}
			c.tokens, c.steps = c.tokens+float64(1+length), c.steps+1
		}
	}
	c.seconds = c.steps * 0.02 * logNormal(rng, 0.2)
	return c
}

// acceptance of a conversation: skewed, mean 0.32.
func acceptance(rng *rand.Rand) float64 { return beta(rng, 1.2, 2.5) }

// logNormal has the mean 1.
func logNormal(rng *rand.Rand, sigma float64) float64 {
	return math.Exp(float64(sigma*rng.NormFloat64()) - sigma*sigma/2)
}

func beta(rng *rand.Rand, a, b float64) float64 {
	x, y := gamma(rng, a), gamma(rng, b)
	return x / (x + y)
}

// gamma draws from the gamma distribution of shape k >= 1. Source: Marsaglia and
// Tsang, A Simple Method for Generating Gamma Variables, 2000.
func gamma(rng *rand.Rand, k float64) float64 {
	d := k - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// trial is one simulated sample of n conversations: it makes an interval.
type trial func(rng *rand.Rand, n int) Interval

// study is a figure whose true value is known.
type study struct {
	name  string
	truth float64
	trial trial
	rare  bool   // few conversations add anything: some samples of 40 have no interval
	salt  uint64 // of the samples' seeds
}

// figures of one side, by what a conversation gives.
var figures = []struct {
	name string
	rare bool
	part func(*rand.Rand) Part
}{
	{"mean, normal", false, func(rng *rand.Rand) Part { return Part{5 + rng.NormFloat64(), 1} }},
	{"mean, exponential", false, func(rng *rand.Rand) Part { return Part{rng.ExpFloat64(), 1} }},
	{"mean, log-normal (sigma 1)", false, func(rng *rand.Rand) Part { return Part{logNormal(rng, 1), 1} }},
	{"AL, mean over conversations", false, func(rng *rand.Rand) Part {
		c := simulate(rng, acceptance(rng))
		return Part{c.tokens / c.steps, 1}
	}},
	{"AL, pooled", false, func(rng *rand.Rand) Part {
		c := simulate(rng, acceptance(rng))
		return Part{c.tokens, c.steps}
	}},
	{"acceptance at position 1", false, func(rng *rand.Rand) Part { return perPosition(rng, 0) }},
	{"acceptance at position 3", false, func(rng *rand.Rand) Part { return perPosition(rng, 2) }},
	{"acceptance at position 8 (1.6 %)", true, func(rng *rand.Rand) Part { return perPosition(rng, 7) }},
	{"the same, conditional, 3", false, func(rng *rand.Rand) Part { return conditional(rng, 2) }},
	{"time per output token, pooled", false, func(rng *rand.Rand) Part {
		c := simulate(rng, acceptance(rng))
		return Part{c.seconds, c.tokens}
	}},
}

func perPosition(rng *rand.Rand, i int) Part {
	c := simulate(rng, acceptance(rng))
	return Part{c.accepted[i], c.steps - 2}
}

func conditional(rng *rand.Rand, i int) Part {
	c := simulate(rng, acceptance(rng))
	return Part{c.accepted[i], c.reached[i]}
}

// oneRun are the studies of Ratio.
func oneRun() []study {
	var studies []study
	for _, f := range figures {
		studies = append(studies, study{name: f.name, truth: trueRatio(f.part), rare: f.rare, trial: func(rng *rand.Rand, n int) Interval {
			parts := make([]Part, n)
			for i := range parts {
				parts[i] = f.part(rng)
			}
			return ratios([][]Part{parts}, rng.Int64(), simResamples)[0]
		}})
	}
	return studies
}

// trueRatio is the ratio of so many conversations that its error is small beside
// that of 160.
func trueRatio(part func(*rand.Rand) Part) float64 {
	rng := rand.New(rand.NewPCG(1, 99))
	var s Part
	for range 400000 {
		p := part(rng)
		s.Num, s.Den = s.Num+p.Num, s.Den+p.Den
	}
	return s.Ratio()
}

// paired are the studies of Difference and Quotient: b's drafter is better by a
// different amount on each conversation, and each side's answers differ.
func paired() []study {
	al := func(c simulated) Part { return Part{c.tokens / c.steps, 1} }
	tpot := func(c simulated) Part { return Part{c.seconds, c.tokens} }
	sides := func(rng *rand.Rand) (a, b simulated) {
		chance := acceptance(rng)
		better := min(0.97, chance+0.15*rng.Float64())
		return simulate(rng, better), simulate(rng, chance)
	}
	side := func(of func(simulated) Part, first bool) func(*rand.Rand) Part {
		return func(rng *rand.Rand) Part {
			a, b := sides(rng)
			if first {
				return of(a)
			}
			return of(b)
		}
	}
	try := func(k kind, of func(simulated) Part) trial {
		return func(rng *rand.Rand, n int) Interval {
			a, b := make([]Part, n), make([]Part, n)
			for i := range a {
				x, y := sides(rng)
				a[i], b[i] = of(x), of(y)
			}
			return compared(k, rng.Int64(), simResamples, [][]Part{a}, [][]Part{b})
		}
	}
	alA, alB, tA, tB := trueRatio(side(al, true)), trueRatio(side(al, false)), trueRatio(side(tpot, true)), trueRatio(side(tpot, false))
	return []study{
		{name: "difference of AL, paired", truth: alA - alB, trial: try(difference, al)},
		{name: "quotient of AL, paired", truth: math.Log(alA / alB), trial: try(logOfRatio, al)},
		{name: "quotient of time per token, paired", truth: math.Log(tA / tB), trial: try(logOfRatio, tpot)},
	}
}

// severalRuns is a study of RatioOfRuns: the variance of the mean of all runs
// that is from runs is rho times that from conversations (exponential, as many
// questions are); each answer differs between runs as well.
func severalRuns(runs int, rho float64) study {
	return study{truth: 1, salt: uint64(runs)<<40 | uint64(10*rho)<<16, trial: func(rng *rand.Rand, n int) Interval {
		sigma := math.Sqrt(rho * float64(runs) / float64(n))
		list := make([][]Part, runs)
		shift := make([]float64, runs)
		for r := range list {
			list[r], shift[r] = make([]Part, n), sigma*rng.NormFloat64()
		}
		for i := range n {
			own := rng.ExpFloat64()
			for r := range list {
				list[r][i] = Part{own + shift[r] + 0.3*rng.NormFloat64(), 1}
			}
		}
		return compared(ratio, rng.Int64(), simResamples, list)
	}}
}
