package compare

import (
	"math"
	"slices"

	"spectap/collector/estimate"
)

// Figure is one quantity of both sides of a point.
type Figure struct {
	Quantity string `json:"quantity"`
	Scope    string `json:"scope"`
	Key      string `json:"key,omitempty"` // the category; the turn or the position, from 1; the chunk length of a joint rate
	Unit     string `json:"unit"`
	Since    Since  `json:"since,omitempty"` // of TTFT
	Paired   bool   `json:"paired"`          // by question
	N        int    `json:"n"`               // questions behind the figure: pairs, or the smaller side's
	RunsA    int    `json:"runs_a"`
	RunsB    int    `json:"runs_b"`

	A          *float64 `json:"a"`          // null: A has none
	B          *float64 `json:"b"`          // null: B has none
	Difference Estimate `json:"difference"` // B - A
	Ratio      Estimate `json:"ratio"`      // B / A
	// Smallest is the smallest true difference that these questions and runs would
	// have told from none with a chance of 80 %; null where that is not known.
	Smallest *float64 `json:"smallest_difference"`

	Verdict  Verdict  `json:"verdict"`
	P        *float64 `json:"p"`      // the chance of such a difference where there is none; null without an interval
	Adjusted *float64 `json:"p_holm"` // the same among its family

	student *float64 // P by Student's t; nil where that is not known
}

// Estimate is a value with its interval, or the reason why it has none.
type Estimate struct {
	Value *float64 `json:"value"`
	estimate.Interval
	Method string `json:"method,omitempty"`
	Scope  string `json:"holds_for,omitempty"` // "these runs only", or "other runs too"
}

// The methods of an Estimate.
const (
	methodPaired = "paired by question: " + estimate.Method
	methodFew    = methodPaired + "; not narrower than Student's t, as it is of fewer than 40 questions"
	methodWelch  = "two samples of questions: Welch's t of the linearised ratios"
	methodRuns   = "runs as they are: Welch's t, of a ratio of its logarithm"
	methodBlocks = "time blocks of the steady window: Welch's t, of a ratio of its logarithm"
	methodEqual  = "all pairs differ by the same"
	methodSame   = "both sides are the same records"

	theseRuns = "these runs only"
	otherRuns = "other runs too"
)

// figure compares one measure. Conversations that have no part in it on one side
// are left out where they are paired.
func (m measure) figure(p pairs, seed int64) Figure {
	f := Figure{Quantity: m.quantity, Scope: m.scope, Key: m.key, Unit: units[m.quantity], Since: p.since(m.quantity), Paired: p.By != byNone, RunsA: len(p.a), RunsB: len(p.b)}
	a, b := m.parts(p.a), m.parts(p.b)
	if f.Paired {
		a, b = together(a, b)
	} else {
		a, b = m.sample(p.a), m.sample(p.b)
	}
	f.N = min(len(a[0]), len(b[0]))
	f.A, f.B = value(a), value(b)
	if f.A == nil || f.B == nil {
		f.none("one side does not have it")
		return f
	}
	f.points()
	scope := theseRuns
	if len(a) > 1 && len(b) > 1 {
		scope = otherRuns
	}
	if !f.Paired {
		f.welch(a, b)
		return f
	}
	f.made(methodPaired, scope)
	if d, ok := constant(a, b); ok {
		f.equal(d)
		return f
	}
	f.Difference.Interval, f.Ratio.Interval = estimate.Difference(b, a, seed), estimate.Quotient(b, a, seed)
	f.asStudent(a, b)
	f.Difference.Interval, f.Ratio.Interval = finite(f.Difference.Interval), finite(f.Ratio.Interval)
	if f.Unit == "share" {
		f.Difference.Interval = f.Difference.Interval.Within(-1, 1)
	}
	if smallest, ok := estimate.Smallest(b, a, seed); ok {
		f.Smallest = &smallest
	}
	return f
}

// enough are the questions from which on a bootstrap's interval holds what it says.
const enough = 40

// asStudent holds the intervals against Student's t: P is taken from it, and below
// enough questions they reach as far as either of the two says.
func (f *Figure) asStudent(a, b [][]estimate.Part) {
	difference, known := estimate.StudentDifference(b, a)
	ratio, knownRatio := estimate.StudentQuotient(b, a)
	if known && !timing(f.Quantity) {
		f.student = &difference.Chance
	}
	if knownRatio && timing(f.Quantity) {
		f.student = &ratio.Chance
	}
	if f.N >= enough {
		return
	}
	if known {
		f.Difference.widen(difference.Interval)
	}
	if knownRatio {
		f.Ratio.widen(ratio.Interval)
	}
}

// widen makes an interval hold another one too.
func (e *Estimate) widen(other estimate.Interval) {
	if !e.Known {
		return
	}
	e.Low, e.High = min(e.Low, other.Low), max(e.High, other.High)
	e.Method = methodFew
}

// made says how the intervals were made and what they hold for.
func (f *Figure) made(method, scope string) {
	f.Difference.Method, f.Difference.Scope, f.Ratio.Method, f.Ratio.Scope = method, scope, method, scope
}

// welch compares two samples of conversations.
func (f *Figure) welch(a, b [][]estimate.Part) {
	x, y := linearised(b[0]), linearised(a[0])
	f.Difference.Interval, f.Ratio.Interval, f.Smallest = welch(x, y)
	f.student = f.chanceOf(x, y)
	f.Difference.Interval, f.Ratio.Interval = finite(f.Difference.Interval), finite(f.Ratio.Interval)
	f.made(methodWelch, theseRuns)
}

// finite refuses an interval without bounds: the ratio of what may be 0 has none.
func finite(in estimate.Interval) estimate.Interval {
	if in.Known && (math.IsNaN(in.Low-in.Low) || math.IsNaN(in.High-in.High)) {
		return estimate.Interval{Reason: "it has no bounds: the reference may be 0"}
	}
	return in
}

// rounding is how far sums of the same numbers in another order may be apart, for
// their size.
const rounding = 1e-12

// points fills the values of difference and ratio.
func (f *Figure) points() {
	d := *f.B - *f.A
	if math.Abs(d) <= rounding*math.Abs(*f.A) {
		d = 0
	}
	f.Difference.Value = &d
	if *f.A != 0 {
		r := *f.B / *f.A
		if d == 0 {
			r = 1
		}
		f.Ratio.Value = &r
	} else {
		f.Ratio.Reason = "A is 0"
	}
}

// none says why there is no interval.
func (f *Figure) none(reason string) {
	f.Difference.Interval, f.Ratio.Interval = estimate.Interval{Reason: reason}, estimate.Interval{Reason: reason}
}

// equal is an interval of no width: no pair differs otherwise than the others.
func (f *Figure) equal(d float64) {
	f.Difference.Interval, f.Difference.Method = estimate.Interval{Low: d, High: d, Known: true}, methodEqual
	if d == 0 {
		f.Ratio.Interval, f.Ratio.Method = estimate.Interval{Low: 1, High: 1, Known: true}, methodEqual
	} else {
		f.Ratio.Interval = estimate.Interval{Reason: methodEqual}
	}
}

// same is the figure of two sides that are one measurement: whatever it says of other
// runs, it does not differ from itself.
func (f *Figure) same() {
	if f.A == nil || f.B == nil {
		return
	}
	f.equal(0)
	f.made(methodSame, theseRuns)
	f.Smallest, f.student = nil, nil
	if f.Ratio.Value == nil { // A is 0
		f.Ratio.Interval = estimate.Interval{Reason: f.Ratio.Reason}
	}
}

func (m measure) parts(runs [][]conversation) [][]estimate.Part {
	out := make([][]estimate.Part, len(runs))
	for i, convs := range runs {
		out[i] = make([]estimate.Part, len(convs))
		for j, c := range convs {
			out[i][j] = m.part(c)
		}
	}
	return out
}

// together keeps the indices at which all runs of both sides have a denominator.
func together(a, b [][]estimate.Part) (x, y [][]estimate.Part) {
	x, y = make([][]estimate.Part, len(a)), make([][]estimate.Part, len(b))
	for i := range a[0] {
		if slices.ContainsFunc(slices.Concat(a, b), func(run []estimate.Part) bool { return run[i].Den == 0 }) {
			continue
		}
		for r := range a {
			x[r] = append(x[r], a[r][i])
		}
		for r := range b {
			y[r] = append(y[r], b[r][i])
		}
	}
	return x, y
}

// sample is what each conversation gives in all runs together, of those that have a
// part in the measure.
func (m measure) sample(runs [][]conversation) [][]estimate.Part {
	sums := map[string]estimate.Part{}
	var order []string
	for _, run := range runs {
		for _, c := range run {
			p := m.part(c)
			if p.Den == 0 {
				continue
			}
			sum, ok := sums[c.id]
			if !ok {
				order = append(order, c.id)
			}
			sums[c.id] = estimate.Part{Num: sum.Num + p.Num, Den: sum.Den + p.Den}
		}
	}
	list := make([]estimate.Part, len(order))
	for i, id := range order {
		list[i] = sums[id]
	}
	return [][]estimate.Part{list}
}

// value is the ratio of the sums over all runs; nil where there is nothing.
func value(runs [][]estimate.Part) *float64 {
	sum := estimate.Sum(slices.Concat(runs...))
	if sum.Den == 0 {
		return nil
	}
	return pointer(sum.Ratio())
}

// constant says that all pairs of single runs differ by the same, and by what.
func constant(a, b [][]estimate.Part) (float64, bool) {
	first := math.NaN()
	for r := range a {
		for i, p := range a[r] {
			for _, run := range b {
				q := run[i]
				d := q.Num/q.Den - p.Num/p.Den
				if math.Abs(d) <= rounding*math.Abs(p.Num/p.Den) {
					d = 0
				}
				if math.IsNaN(first) {
					first = d
				}
				if math.Abs(d-first) > rounding || q.Den != p.Den && (d != 0 || q != p) {
					return 0, false
				}
			}
		}
	}
	return first, len(a[0]) > 1
}
