package compare

import (
	"fmt"
	"slices"
	"strconv"
)

// speedUpBlocks have what speculation brings by load.
func (c Comparison) speedUpBlocks() []block {
	var list []block
	for _, s := range c.SpeedUp {
		t := &table{head: []string{s.Load, "throughput", "95 % interval", "user tok/s", "95 % interval", "TTFT", "95 % interval"}}
		hidden := false // an interval of the steady window
		for _, p := range s.Points {
			hidden = hidden || p.steady.Known && !p.Throughput.Known
			t.add(strconv.FormatFloat(p.Load, 'g', -1, 64), ratio(p.Throughput.Value), interval(p.Throughput, ratioNumber),
				ratio(p.PerUser.Value), interval(p.PerUser, ratioNumber), ratio(p.TTFT.Value), interval(p.TTFT, ratioNumber))
		}
		lines := []string{
			"Throughput stops being raised: " + s.Throughput.Text + ".",
			"A user's decode speed stops being raised: " + s.PerUser.Text + ".",
		}
		of := "Throughput: " + s.ThroughputOf() + "."
		if hidden {
			of += " That of the steady window has an interval at some loads, but not at all: see steady tok/s of the points."
		}
		lines = append(lines, of)
		list = append(list, block{
			heading: fmt.Sprintf("Speed-up at temperature %s: speculation over the baseline, which is %s", s.Temperature, s.Baseline),
			lines:   lines, table: t,
		})
	}
	return list
}

// familyBlock says how far the verdicts can be trusted.
func (r Result) familyBlock() block {
	if len(r.Families) == 0 {
		return block{}
	}
	t := &table{head: []string{"figure", "intervals", "exclude no difference", "by chance alone", "after Holm"}}
	for _, f := range r.Families {
		if f.Intervals > 1 {
			t.add(familyName(f), strconv.Itoa(f.Intervals), strconv.Itoa(f.Excluding), "about "+strconv.FormatFloat(f.ByChance, 'g', 2, 64), strconv.Itoa(f.Holm))
		}
	}
	b := block{heading: "How to read the verdicts", lines: []string{r.scope()}, table: t}
	if len(t.rows) > 0 {
		b.lines = append(b.lines, "Each interval by itself misses the truth in 5 % of the cases, so of many some do: higher and lower hold for all intervals of one figure together (Holm's adjustment), perhaps for one interval looked at alone.")
	}
	if !r.showsSmallest() {
		return b
	}
	b.lines = append(b.lines, "seen from: the smallest true difference that these questions would have told from none with a chance of 80 %.")
	return b
}

// showsSmallest says that a table has a column of smallest differences.
func (r Result) showsSmallest() bool {
	return slices.ContainsFunc(r.Families, func(f Family) bool { return !timing(f.Quantity) })
}

func familyName(f Family) string {
	name := f.Quantity
	if f.Scope != ScopeOverall {
		name += " by " + f.Scope
	}
	return name
}

// scope says what the intervals hold for.
func (r Result) scope() string {
	these, other := 0, 0
	for _, f := range r.figures() {
		e, _ := f.shown()
		switch {
		case !e.Known:
		case e.Scope == otherRuns:
			other++
		default:
			these++
		}
	}
	switch {
	case these == 0:
		return "The intervals hold for other questions of the same kind and for other runs."
	case other == 0:
		return "The intervals hold for other questions of the same kind in these runs only: how far another run would differ takes --repeats."
	}
	return fmt.Sprintf("%d intervals hold for other runs too, %d for these runs only (JSON: holds_for).", other, these)
}

// gateBlock has the answers of the gate.
func (r Result) gateBlock() block {
	if r.Gate == nil {
		return block{}
	}
	t := &table{head: []string{"--fail-if", "input", "point", "value", "95 % interval", "answer"}, left: []bool{1: true, 2: true, 5: true}}
	var reasons []string
	for _, j := range r.Gate.Judgements {
		relative := j.Condition != "" && j.Condition[len(j.Condition)-1] == '%'
		number := func(v float64) string {
			if relative {
				return fmt.Sprintf("%+.2f%%", 100*v)
			}
			return fmt.Sprintf("%+.4g", v)
		}
		value, in := "-", "-"
		if j.Value != nil {
			value = number(*j.Value)
		}
		if j.Low != nil {
			in = number(*j.Low) + " .. " + number(*j.High)
		}
		t.add(j.Condition, j.Input, j.Point, value, in, j.Answer)
		if j.Reason != "" {
			reasons = append(reasons, fmt.Sprintf("%s at %s: %s.", j.Condition, j.Point, j.Reason))
		}
	}
	return block{heading: "Gate: " + r.Gate.Answer, lines: reasons, table: t}
}
