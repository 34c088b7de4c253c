package compare

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Condition is one --fail-if. It speaks of B against A:
//
//	condition = quantity ( "<" | ">" ) bound
//	quantity  = "AL" | "AL[" category "]" | "AL.turn[" n "]" | "acceptance[" position "]" |
//	            "conditional[" position "]" | "ttft" | "tpot" | "tps" | "tps_gpu" | "tps_steady" | "tps_user" |
//	            "tps_request"
//	bound     = number [ "%" ], of ttft and tpot number ( "s" | "ms" | "us" | "%" )
//
// A bound is compared with the difference B - A, with % with the change B / A - 1.
type Condition struct {
	Text     string // as typed
	Quantity string
	Scope    string
	Key      string
	Below    bool    // "<"
	Bound    float64 // in the unit of the quantity; a share where Relative
	Relative bool
}

// The answers of a gate.
const (
	Pass         = "pass"         // the interval lies wholly on the good side of the bound
	Fail         = "fail"         // the interval lies wholly beyond the bound
	Inconclusive = "inconclusive" // the bound is inside the interval, or there is none
)

// Gate is the answer to all conditions at all points.
type Gate struct {
	Answer     string      `json:"answer"` // fail where any is; else inconclusive where any is; else pass
	Judgements []Judgement `json:"judgements"`
}

// Judgement is one condition at one point.
type Judgement struct {
	Condition string   `json:"condition"`
	Input     string   `json:"input"` // "B"
	Point     string   `json:"point"`
	Answer    string   `json:"answer"`
	Bound     float64  `json:"bound"` // as Condition.Bound
	Value     *float64 `json:"value"`
	Low       *float64 `json:"low"`
	High      *float64 `json:"high"`
	Reason    string   `json:"reason,omitempty"` // why it is inconclusive: there is no interval, or a run is missing
}

var conditionText = regexp.MustCompile(`^\s*([A-Za-z_]+)(\.turn)?(?:\[\s*([^\[\]]*?)\s*\])?\s*([<>]=?)\s*([^\s%a-z]+(?:[eE][+-]?[0-9]+)?)\s*([%a-z]*)\s*$`)

// ParseCondition reads one condition.
func ParseCondition(text string) (Condition, error) {
	fail := func(format string, args ...any) (Condition, error) {
		return Condition{}, fmt.Errorf("cannot read --fail-if %q: %s", text, fmt.Sprintf(format, args...))
	}
	m := conditionText.FindStringSubmatch(text)
	if m == nil {
		return fail("want QUANTITY < BOUND or QUANTITY > BOUND, such as 'AL < -0.05', 'ttft > 10%%' or 'acceptance[1] < -0.02'")
	}
	c := Condition{Text: strings.TrimSpace(text), Below: m[4][0] == '<', Scope: ScopeOverall}
	var ok bool
	if c.Quantity, ok = quantityNamed(m[1]); !ok {
		return fail("there is no quantity %q: want AL, acceptance[POSITION], conditional[POSITION], ttft, tpot, tps, tps_gpu, tps_steady, tps_user or tps_request", m[1])
	}
	if problem := c.place(m[2] != "", strings.Contains(m[0], "["), m[3]); problem != "" {
		return fail("%s", problem)
	}
	bound, err := strconv.ParseFloat(m[5], 64)
	if err != nil || math.IsNaN(bound) || math.IsInf(bound, 0) || strings.ContainsAny(m[5], "xX_") {
		return fail("the bound %q is no number", m[5])
	}
	if problem := c.bound(bound, m[6]); problem != "" {
		return fail("%s", problem)
	}
	return c, nil
}

// quantityNamed finds a quantity whatever its case.
func quantityNamed(name string) (string, bool) {
	for _, q := range []string{QuantityAL, QuantityAcceptance, QuantityConditional, QuantityTTFT, QuantityTPOT, QuantityUserTPS, QuantityTPS, QuantityTPSPerGPU, QuantitySteadyTPS, QuantityRequestTPS} {
		if strings.EqualFold(q, name) {
			return q, true
		}
	}
	return "", false
}

// place reads what stands in brackets; it returns what is wrong with it.
func (c *Condition) place(turn, brackets bool, key string) string {
	position := c.Quantity == QuantityAcceptance || c.Quantity == QuantityConditional
	n, err := strconv.Atoi(key)
	counted := err == nil && n >= 1 && n <= 10000
	switch {
	case turn && c.Quantity != QuantityAL:
		return "only AL has turns"
	case turn && !counted:
		return fmt.Sprintf("the turn %q is no whole number from 1, as in AL.turn[2]", key)
	case position && !counted:
		return fmt.Sprintf("the draft position %q is no whole number from 1, as in %s[1]", key, c.Quantity)
	case turn:
		c.Scope, c.Key = ScopeTurn, strconv.Itoa(n)
	case position:
		c.Scope, c.Key = ScopePosition, strconv.Itoa(n)
	case brackets && c.Quantity != QuantityAL:
		return fmt.Sprintf("%s is of all requests: leave [%s] away", c.Quantity, key)
	case brackets && key == "":
		return "the category in [] is empty"
	case brackets:
		c.Scope, c.Key = ScopeCategory, key
	}
	return ""
}

// bound reads the unit; it returns what is wrong with it.
func (c *Condition) bound(value float64, unit string) string {
	scale, ok := map[string]float64{"s": 1, "ms": 1e-3, "us": 1e-6}[unit]
	time := units[c.Quantity] == "s"
	switch {
	case unit == "%":
		c.Bound, c.Relative = value/100, true
		if c.Bound <= -1 {
			return c.beyond(unit)
		}
	case time && ok:
		c.Bound = value * scale
	case time:
		return fmt.Sprintf("%s has a unit: want s, ms, us or %%, as in '%s > 5ms' or '%s > 10%%'", c.Quantity, c.Quantity, c.Quantity)
	case unit != "":
		return fmt.Sprintf("%q is no unit of %s: want a plain number or %%", unit, c.Quantity)
	default:
		c.Bound = value
		if units[c.Quantity] == "share" && math.Abs(value) >= 1 {
			return fmt.Sprintf("shares are from 0 to 1, so that their difference is always between -1 and 1 and the gate has but one answer: want a bound between, as in '%s < -0.02'", c.name())
		}
	}
	return ""
}

// beyond is what is wrong with a bound in % that no B / A - 1 reaches.
func (c *Condition) beyond(unit string) string {
	answer := "never fails"
	if !c.Below {
		answer = "always fails"
	}
	return fmt.Sprintf("B / A - 1 is above -100%s whatever B is, so that the gate %s: want a bound above -100%s, as in '%s < -5%s'", unit, answer, unit, c.name(), unit)
}

// gate judges all conditions at all points. A point of A that has no partner was
// not measured, which is no pass; neither is one of which a run failed or could not
// be read.
func (r *Result) gate(opts Options) error {
	if len(opts.FailIf) == 0 {
		return nil
	}
	g := Gate{Answer: Pass, Judgements: []Judgement{}}
	for _, c := range opts.FailIf {
		if len(r.figures()) > 0 && !r.has(c) { // without any, B has no point at all
			return fmt.Errorf("--fail-if %q: %s", c.Text, r.lacks(c))
		}
		for _, two := range r.Comparisons {
			g.Judgements = append(g.Judgements, two.judgements(c, two.gaps(r.input(two.A), r.input(two.B), opts.Points))...)
		}
	}
	for _, answer := range []string{Inconclusive, Fail} {
		if slices.ContainsFunc(g.Judgements, func(j Judgement) bool { return j.Answer == answer }) {
			g.Answer = answer
		}
	}
	r.Gate = &g
	return nil
}

// judgements are the answers of a condition at all points.
func (c Comparison) judgements(of Condition, missing gaps) []Judgement {
	var list []Judgement
	for i := range c.Points {
		list = append(list, of.judge(c.B, &c.Points[i]).lacking(missing.ofPoints[c.Points[i].Point]))
	}
	none := Judgement{Condition: of.Text, Input: c.B, Answer: Inconclusive, Bound: of.Bound}
	for _, u := range c.Unmatched {
		if u.Input == c.A {
			none.Point, none.Reason = u.Point, "B has no such point; --points leaves it out of the comparison"
			list = append(list, none)
		}
	}
	for _, m := range missing.others {
		none.Point, none.Reason = m.point, m.why
		list = append(list, none)
	}
	return list
}

// judge is the answer of a condition at one point.
func (c Condition) judge(input string, p *PointComparison) Judgement {
	j := Judgement{Condition: c.Text, Input: input, Point: p.Point, Answer: Inconclusive, Bound: c.Bound}
	f := p.find(c)
	if f == nil {
		j.Reason = "this point does not have it"
		return j
	}
	e, less := f.Difference, 0.0
	if c.Relative {
		e, less = f.Ratio, 1
	}
	if e.Value != nil {
		j.Value = pointer(*e.Value - less)
	}
	if !e.Known {
		j.Reason = e.Reason
		return j
	}
	low, high, bound := e.Low-less, e.High-less, c.Bound
	j.Low, j.High = pointer(low), pointer(high)
	if !c.Below { // the same question, seen from the other side
		low, high, bound = -high, -low, -bound
	}
	switch {
	case high < bound:
		j.Answer = Fail
	case low >= bound:
		j.Answer = Pass
	}
	return j
}

// find returns the figure that a condition speaks of; nil where there is none.
func (p *PointComparison) find(c Condition) *Figure {
	for i, f := range p.Figures {
		if f.Quantity == c.Quantity && f.Scope == c.Scope && f.Key == c.Key {
			return &p.Figures[i]
		}
	}
	return nil
}

func (r *Result) has(c Condition) bool {
	return slices.ContainsFunc(r.figures(), func(f *Figure) bool { return f.Quantity == c.Quantity && f.Scope == c.Scope && f.Key == c.Key })
}

// name is the quantity as it is typed.
func (c Condition) name() string { return quantityName(c.Quantity, c.Scope, c.Key) }

func quantityName(quantity, scope, key string) string {
	switch scope {
	case ScopeTurn:
		return quantity + ".turn[" + key + "]"
	case ScopeCategory, ScopePosition:
		return quantity + "[" + key + "]"
	}
	return quantity
}

// lacks says why a condition cannot be judged at any point.
func (r *Result) lacks(c Condition) string {
	var plain []string
	for _, in := range r.Inputs {
		if len(in.Points) > 0 && !slices.ContainsFunc(in.Points, func(p PointInfo) bool { return !p.Baseline }) {
			plain = append(plain, in.Label)
		}
	}
	switch {
	case len(plain) == 0 || timing(c.Quantity):
		return fmt.Sprintf("no point has %s; what there is: %s", c.name(), r.keys(c))
	case len(plain) == 1:
		return fmt.Sprintf("%s is a baseline without speculation, which has no %s; times and throughput (ttft, tpot, tps, tps_user) can be asked for", plain[0], c.name())
	}
	return fmt.Sprintf("%s are baselines without speculation, which have no %s; times and throughput (ttft, tpot, tps, tps_user) can be asked for", join(plain), c.name())
}

// keys lists the names of the quantities of a condition's kind that the points have.
func (r *Result) keys(c Condition) string {
	var list []string
	for _, f := range r.figures() {
		name := quantityName(f.Quantity, f.Scope, f.Key)
		if f.Quantity == c.Quantity && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		return "nothing of " + c.Quantity
	}
	return strings.Join(list, ", ")
}
