package compare

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// gaps are what a gate misses of two inputs: runs of compared points, by A's name
// of the point, and what could not be read and belongs to none of these.
type gaps struct {
	ofPoints map[string][]string // in words
	others   []gap
}

// gap is a folder or file of no compared point.
type gap struct{ point, why string }

var repeatSuffix = regexp.MustCompile(`_r[0-9]+$`)

// gaps lists the runs that were set aside and not measured again, and what could not
// be read. A failed point without any run is no gap of A's, and Unmatched of B's.
// What --points leaves out is none.
func (c Comparison) gaps(a, b InputInfo, only []string) gaps {
	g := gaps{ofPoints: map[string][]string{}}
	for _, in := range []InputInfo{a, b} {
		nameOf := func(p PointComparison) string { return p.PointB }
		if in.Label == c.A {
			nameOf = func(p PointComparison) string { return p.Point }
		}
		for _, p := range in.Failed {
			if !in.measured(p) {
				g.add(c.compared(p, nameOf), fmt.Sprintf("%s of %s failed: %s", p.Point, in.Label, oneLine(p.Reason)))
			}
		}
		for _, p := range in.Broken {
			why, at := fmt.Sprintf("%s of %s cannot be read: %s", p.Point, in.Label, oneLine(p.Reason)), c.compared(p, nameOf)
			g.add(at, why)
			if at == "" && !c.judgedAlone(p) && !leftOut(p, only) {
				g.others = append(g.others, gap{p.Point, why})
			}
		}
	}
	return g
}

// add notes a gap of a compared point.
func (g gaps) add(point, why string) {
	if point != "" {
		g.ofPoints[point] = append(g.ofPoints[point], why)
	}
}

// base is the name of the point that a folder is a run of.
func (p Problem) base() string { return repeatSuffix.ReplaceAllString(p.Point, "") }

// compared is A's name of the point that a problem is a run of; "" where it is of none.
func (c Comparison) compared(p Problem, nameOf func(PointComparison) string) string {
	i := slices.IndexFunc(c.Points, func(one PointComparison) bool { return nameOf(one) == p.base() })
	if i < 0 {
		return ""
	}
	return c.Points[i].Point
}

// judgedAlone says that the gate cannot tell at the problem's point anyway, as B lacks it.
func (c Comparison) judgedAlone(p Problem) bool {
	return slices.Contains(c.Unmatched, Unmatched{c.A, p.base()})
}

// leftOut says that --points does not name a problem's point.
func leftOut(p Problem, only []string) bool {
	return len(only) > 0 && loadName.MatchString(p.base()) && !slices.Contains(only, p.base())
}

// measured says that the run that was set aside was measured later on.
func (in InputInfo) measured(p Problem) bool {
	run := filepath.Join(filepath.Dir(p.Folder), p.Point)
	return slices.ContainsFunc(in.Points, func(one PointInfo) bool {
		return slices.ContainsFunc(one.Folders, func(folder string) bool {
			return slices.ContainsFunc(strings.Split(folder, " + "), func(part string) bool { return filepath.Clean(part) == run })
		})
	})
}

// input is the input of a label.
func (r *Result) input(label string) InputInfo {
	i := slices.IndexFunc(r.Inputs, func(in InputInfo) bool { return in.Label == label })
	return r.Inputs[i]
}

// lacking is a judgement that misses something: it is no pass.
func (j Judgement) lacking(why []string) Judgement {
	if len(why) > 0 && j.Answer != Fail {
		j.Answer = Inconclusive
		if j.Reason != "" {
			why = append([]string{j.Reason}, why...)
		}
		j.Reason = strings.Join(why, "; ")
	}
	return j
}
