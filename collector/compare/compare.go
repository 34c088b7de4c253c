// Package compare lays measurements of two or more settings beside each other: it
// matches their points and questions and says what differs, with intervals, how
// small a difference could have been seen, and what keeps the numbers from being
// comparable. It reads folders and computes; it prints nothing and asks nobody.
//
//	Open ─▶ Input ─┐
//	Open ─▶ Input ─┴▶ Compare ─▶ Result ─▶ Text, Markdown, CSV, JSON
//
// Start with Compare. The first input is the reference, A: all differences are
// B - A, all ratios B / A.
package compare

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"spectap/collector/estimate"
)

// Schema is the schema name of a Result as JSON.
const Schema = "spectap.compare/1"

// Options say how inputs are compared. The zero Options are the usual ones.
type Options struct {
	Match  []Match     // points of different names that belong together
	Points []string    // names of A's points to compare; none: all
	Force  bool        // compare what would be refused
	Seed   int64       // of the resamples
	FailIf []Condition // the gate
}

// Match joins a point of A with one of the other inputs.
type Match struct{ A, B string }

// Result is what a comparison brought.
type Result struct {
	Schema      string       `json:"schema"`
	Level       float64      `json:"level"`
	Resamples   int          `json:"resamples"`
	Seed        int64        `json:"seed"`
	Inputs      []InputInfo  `json:"inputs"`
	Comparisons []Comparison `json:"comparisons"` // of each other input with A
	Families    []Family     `json:"families"`
	Gate        *Gate        `json:"gate,omitempty"`
}

// InputInfo is an input as a Result names it.
type InputInfo struct {
	Label  string      `json:"label"` // "A", "B", ...
	Path   string      `json:"path"`
	Points []PointInfo `json:"points"`
	Failed []Problem   `json:"failed"`     // points that were set aside
	Broken []Problem   `json:"unreadable"` // folders and files that could not be read
}

// PointInfo is a point of an input.
type PointInfo struct {
	Name          string   `json:"point"`
	Folders       []string `json:"folders"` // one for each run
	Conversations []int    `json:"conversations"`
	LeftOut       []int    `json:"conversations_left_out"`
	Source        string   `json:"source"` // "records", or "files" of specdec_bench's
	Baseline      bool     `json:"baseline"`
}

// Comparison is one input held against A.
type Comparison struct {
	A           string            `json:"a"`
	B           string            `json:"b"`
	Differences []Difference      `json:"differences"`
	Refused     bool              `json:"refused"` // a Difference of the level "refuse" stands against it: no figures
	Forced      bool              `json:"forced"`  // the same, and it was compared all the same
	Unmatched   []Unmatched       `json:"unmatched"`
	Points      []PointComparison `json:"points"`
	SpeedUp     []SpeedUp         `json:"speed_up,omitempty"` // where one side is a baseline
}

// Unmatched is a point that has no partner.
type Unmatched struct {
	Input string `json:"input"`
	Point string `json:"point"`
}

// PointComparison is one point of both sides.
type PointComparison struct {
	Point   string   `json:"point"` // A's name
	PointB  string   `json:"point_b"`
	View    string   `json:"acceptance_view"` // of AL: "client" or "server"; "" where there is no common one
	Pairing Pairing  `json:"pairing"`
	Figures []Figure `json:"figures"`

	pairs pairs
	a, b  Point
}

// ErrRefused is what Compare returns, with a Result, where numbers mean different things.
var ErrRefused = errors.New("cannot compare")

// Compare compares every other input with the first. An error that is ErrRefused
// comes with a Result that names the differences.
func Compare(inputs []Input, opts Options) (Result, error) {
	r := Result{Schema: Schema, Level: estimate.Level, Resamples: estimate.Resamples, Seed: opts.Seed, Comparisons: []Comparison{}, Families: []Family{}}
	if len(inputs) < 2 {
		return r, fmt.Errorf("cannot compare %d inputs: want two or more", len(inputs))
	}
	for i, in := range inputs {
		r.Inputs = append(r.Inputs, in.info(label(i)))
	}
	if err := checkMatches(inputs, opts.Match); err != nil {
		return r, err
	}
	var errs []error
	for i, in := range inputs[1:] {
		c, err := compareTwo(inputs[0], in, label(i+1), opts)
		errs = append(errs, err)
		r.Comparisons = append(r.Comparisons, c)
	}
	r.Families = append(r.Families, judge(r.figures())...)
	if err := errors.Join(errs...); err != nil {
		return r, err
	}
	return r, r.gate(opts)
}

// label is the letter of an input; after Z they go on with numbers.
func label(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return fmt.Sprintf("Z%d", i-25)
}

// figures are all figures of a Result.
func (r *Result) figures() []*Figure {
	var list []*Figure
	for i := range r.Comparisons {
		for j := range r.Comparisons[i].Points {
			p := &r.Comparisons[i].Points[j]
			for k := range p.Figures {
				list = append(list, &p.Figures[k])
			}
		}
	}
	return list
}

func (in Input) info(label string) InputInfo {
	info := InputInfo{Label: label, Path: in.Path, Points: []PointInfo{}, Failed: append([]Problem{}, in.Failed...), Broken: append([]Problem{}, in.Broken...)}
	for _, p := range in.Points {
		one := PointInfo{Name: p.Name, Folders: p.Folders(), Source: "records", Baseline: p.baseline()}
		for _, r := range p.runs {
			one.Conversations, one.LeftOut = append(one.Conversations, len(r.convs)), append(one.LeftOut, r.leftOut)
			if r.point == nil {
				one.Source = "files"
			}
		}
		info.Points = append(info.Points, one)
	}
	return info
}

// compareTwo matches the points of two inputs and compares each pair.
func compareTwo(a, b Input, name string, opts Options) (Comparison, error) {
	c := Comparison{A: label(0), B: name, Differences: []Difference{}, Unmatched: []Unmatched{}, Points: []PointComparison{}}
	matched, unmatched, err := match(a, b, name, opts)
	c.Unmatched = append(c.Unmatched, unmatched...)
	if err != nil {
		return c, err
	}
	for _, m := range matched {
		c.Points = append(c.Points, newPoint(m.a, m.b))
	}
	c.Differences = append(c.Differences, differences(c.Points)...)
	if i := slices.IndexFunc(c.Differences, func(d Difference) bool { return d.Level == refuse }); i >= 0 {
		c.Refused, c.Forced = !opts.Force, opts.Force
		if !opts.Force {
			return c, fmt.Errorf("%w %s with %s: %s; --force compares them all the same", ErrRefused, c.A, c.B, c.refusals())
		}
	}
	for i := range c.Points {
		c.Points[i].compare(opts.Seed)
	}
	c.SpeedUp = speedUp(c.Points)
	return c, nil
}

// refusals names what stands against a comparison.
func (c Comparison) refusals() string {
	var list []string
	for _, d := range c.Differences {
		if d.Level == refuse {
			list = append(list, fmt.Sprintf("%s (%s and %s)", d.What, d.A, d.B))
		}
	}
	return "they differ in " + strings.Join(list, ", ")
}

func newPoint(a, b Point) PointComparison {
	p := pairUp(a, b)
	return PointComparison{Point: a.Name, PointB: b.Name, View: commonView(a, b), Pairing: p.Pairing, Figures: []Figure{}, pairs: p, a: a, b: b}
}

// compare computes the figures.
func (p *PointComparison) compare(seed int64) {
	have := map[string]bool{}
	positions := false
	for _, m := range measures(p.a, p.b, p.pairs, p.View) {
		f := m.figure(p.pairs, seed)
		if f.A == nil && f.B == nil {
			continue
		}
		if timing(m.quantity) && (f.A == nil || f.B == nil) {
			continue // whole runs may have it
		}
		have[m.quantity], positions = true, positions || m.quantity == QuantityAcceptance
		p.Figures = append(p.Figures, f)
	}
	if !positions && !p.a.baseline() && !p.b.baseline() {
		p.Figures = append(p.Figures, jointFigures(p.a, p.b)...)
	}
	p.Figures = append(p.Figures, wholeRuns(p.a, p.b, have)...)
	if sameRecords(p.a, p.b) {
		for i := range p.Figures {
			p.Figures[i].same()
		}
	}
}
