package compare

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// matchedPoints are a point of A and its partner.
type matchedPoints struct{ a, b Point }

// match joins the points of two inputs: as Options.Match says, else by name. Inputs
// of one point each are joined whatever their names. None of a b without points is.
func match(a, b Input, name string, opts Options) ([]matchedPoints, []Unmatched, error) {
	listA, err := chosen(a, opts.Points)
	if err != nil {
		return nil, nil, err
	}
	var matched []matchedPoints
	var unmatched []Unmatched
	taken := map[string]bool{}
	for _, p := range listA {
		i := slices.IndexFunc(b.Points, func(q Point) bool { return q.Name == partner(p.Name, b, opts.Match) })
		if i < 0 && len(listA) == 1 && len(b.Points) == 1 && len(opts.Match) == 0 {
			i = 0
		}
		if i < 0 {
			unmatched = append(unmatched, Unmatched{label(0), p.Name})
			continue
		}
		taken[b.Points[i].Name] = true
		matched = append(matched, matchedPoints{p, b.Points[i]})
	}
	for _, p := range b.Points {
		if !taken[p.Name] && len(opts.Points) == 0 {
			unmatched = append(unmatched, Unmatched{name, p.Name})
		}
	}
	if len(matched) == 0 && len(b.Points) > 0 {
		return nil, unmatched, fmt.Errorf("%s and %s have no point in common: %s has %s, %s has %s; say which belong together with --match POINT_OF_A=POINT_OF_B",
			a.Path, b.Path, a.Path, names(listA), b.Path, names(b.Points))
	}
	return matched, unmatched, nil
}

// partner is the name that a point of A has in b.
func partner(name string, b Input, list []Match) string {
	for _, m := range list {
		if m.A == name && slices.ContainsFunc(b.Points, func(p Point) bool { return p.Name == m.B }) {
			return m.B
		}
	}
	return name
}

// chosen are the points of A that were asked for.
func chosen(a Input, points []string) ([]Point, error) {
	if len(points) == 0 {
		return a.Points, nil
	}
	var list []Point
	for _, name := range points {
		i := slices.IndexFunc(a.Points, func(p Point) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%s has no point %q: --points may name %s", a.Path, name, names(a.Points))
		}
		list = append(list, a.Points[i])
	}
	return list, nil
}

// checkMatches refuses what names no point: A's, or those of all others.
func checkMatches(inputs []Input, list []Match) error {
	var errs []error
	var others []Point
	for _, in := range inputs[1:] {
		others = append(others, in.Points...)
	}
	check := func(m Match, name string, points []Point, path string) {
		if !slices.ContainsFunc(points, func(p Point) bool { return p.Name == name }) {
			errs = append(errs, fmt.Errorf("cannot use --match %s=%s: %s has no point %q, it has %s", m.A, m.B, path, name, names(points)))
		}
	}
	for _, m := range list {
		check(m, m.A, inputs[0].Points, inputs[0].Path)
		check(m, m.B, others, inputs[1].Path)
	}
	return errors.Join(errs...)
}

func names(points []Point) string {
	var list []string
	for _, p := range points {
		list = append(list, p.Name)
	}
	return strings.Join(list, ", ")
}

// differences lists what differs at any of the points, the gravest first. A
// difference of the same values at several points is one.
func differences(points []PointComparison) []Difference {
	var list []Difference
	add := func(point string, d Difference) {
		i := slices.IndexFunc(list, func(o Difference) bool { return o.What == d.What && o.A == d.A && o.B == d.B })
		if i < 0 {
			list, i = append(list, d), len(list)
		}
		list[i].Points = append(list[i].Points, point)
	}
	for _, p := range points {
		for _, d := range factsDiffer(p.a, p.b) {
			add(p.Point, d)
		}
		for _, d := range p.otherDifferences() {
			add(p.Point, d)
		}
	}
	order := []Level{refuse, warn, note}
	slices.SortStableFunc(list, func(x, y Difference) int { return slices.Index(order, x.Level) - slices.Index(order, y.Level) })
	return list
}

// otherDifferences are those that no single fact shows.
func (p PointComparison) otherDifferences() []Difference {
	var list []Difference
	add := func(what string, level Level, a, b string) {
		list = append(list, Difference{What: what, Level: level, A: a, B: b})
	}
	if p.View == "" {
		add("acceptance view", refuse, p.a.runs[0].view, p.b.runs[0].view)
	}
	if a, b, differ := p.loops(); differ {
		add("loop", warn, a, b)
	}
	if n := p.Pairing.Changed; n > 0 {
		level := warn
		if p.Pairing.By == byNone {
			level = refuse
		}
		add("questions", level, fmt.Sprintf("%d of another text", n), fmt.Sprintf("the same %d", n))
	}
	switch n := p.Pairing.Pairs + p.Pairing.shared; {
	case p.Pairing.OnlyA+p.Pairing.OnlyB == 0: // the same on both sides
	case n == 0:
		add("questions", warn, fmt.Sprintf("%d, none of B's", p.Pairing.OnlyA), fmt.Sprintf("%d, none of A's", p.Pairing.OnlyB))
	default:
		add("questions", warn, andMore(n, p.Pairing.OnlyA), "the same "+andMore(n, p.Pairing.OnlyB))
	}
	if a, b := p.a.lost(), p.b.lost(); a+b > 0 {
		add("conversations left out", warn, fmt.Sprint(a), fmt.Sprint(b))
	}
	for _, path := range p.a.Folders() {
		if slices.Contains(p.b.Folders(), path) {
			add("folder", warn, path, "the same folder")
		}
	}
	for _, r := range p.a.runs {
		for _, copied := range p.b.runs {
			if r.folder != copied.folder && sameRun(r, copied) && r.point.Run.ID != "" {
				add("folder", warn, r.folder, "the same run, copied to "+copied.folder)
			}
		}
	}
	return list
}

// andMore is a number of questions that both sides have, and of those of one alone.
func andMore(both, alone int) string {
	if alone == 0 {
		return fmt.Sprint(both)
	}
	return fmt.Sprintf("%d and %d more", both, alone)
}

// lost counts the conversations that could not be measured.
func (p Point) lost() int {
	n := 0
	for _, r := range p.runs {
		n += r.leftOut
	}
	return n
}
