package compare

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	"spectap/collector"
)

// Pairing says which conversations of two sides are the same question.
type Pairing struct {
	By      string `json:"by"`      // "question": the text of the first user message; "id": its place or id in the data set; "none"
	Pairs   int    `json:"pairs"`   // questions that all runs of both sides measured
	OnlyA   int    `json:"only_a"`  // questions that lack a partner
	OnlyB   int    `json:"only_b"`  // the same of B
	Changed int    `json:"changed"` // questions of one id whose text differs; they are no pairs
	Reason  string `json:"reason,omitempty"`

	shared int // questions that both sides measured, too few to be pairs
}

// The values of Pairing.By.
const (
	byQuestion = "question"
	byID       = "id"
	byNone     = "none"
)

// pairs are the conversations of both sides, run by run. Where they are paired,
// index i is the same question in all runs of both.
type pairs struct {
	Pairing
	open bool // both sides are open loops
	a, b [][]conversation
}

// pairUp finds the questions that all runs of both sides measured, in A's order.
func pairUp(a, b Point) pairs {
	p := pairs{Pairing: Pairing{By: byID}, open: a.open() && b.open()}
	key := func(c conversation) string { return c.id }
	if hashed(a) && hashed(b) {
		p.By, key = byQuestion, func(c conversation) string { return c.hash }
	}
	sideA, sideB := index(a, key), index(b, key)
	var common []string
	for _, c := range a.runs[0].convs {
		k := key(c)
		first, ok := everywhere(sideB, k)
		if _, all := everywhere(sideA, k); !ok || !all {
			continue
		}
		if c.hash != "" && first.hash != "" && c.hash != first.hash {
			p.Changed++
			continue
		}
		common = append(common, k)
	}
	p.Pairs, p.OnlyA, p.OnlyB = len(common), a.questions(key)-len(common), b.questions(key)-len(common)
	if p.Pairs < 2 {
		p.By, p.Pairs, p.shared = byNone, 0, p.Pairs
		p.Reason = "fewer than two questions were measured on both sides: the sides are compared as two samples, which shows less"
		p.a, p.b = all(a), all(b)
		return p
	}
	if p.OnlyA+p.OnlyB > 0 {
		p.Reason = fmt.Sprintf("%d questions were measured on both sides; %d of A and %d of B have no partner and are in no figure", p.Pairs, p.OnlyA, p.OnlyB)
	}
	p.a, p.b = pick(sideA, common), pick(sideB, common)
	return p
}

// hashed says that the text of every question is known, and each is there once.
func hashed(p Point) bool {
	for _, r := range p.runs {
		seen := map[string]bool{}
		for _, c := range r.convs {
			if c.hash == "" || seen[c.hash] {
				return false
			}
			seen[c.hash] = true
		}
	}
	return true
}

// index maps the conversations of each run by their keys.
func index(p Point, key func(conversation) string) []map[string]conversation {
	var runs []map[string]conversation
	for _, r := range p.runs {
		m := map[string]conversation{}
		for _, c := range r.convs {
			m[key(c)] = c
		}
		runs = append(runs, m)
	}
	return runs
}

// everywhere returns the first run's conversation if all runs have it.
func everywhere(runs []map[string]conversation, key string) (conversation, bool) {
	for _, r := range runs {
		if _, ok := r[key]; !ok {
			return conversation{}, false
		}
	}
	return runs[0][key], true
}

// questions counts the questions that any run of the point measured.
func (p Point) questions(key func(conversation) string) int {
	seen := map[string]bool{}
	for _, r := range p.runs {
		for _, c := range r.convs {
			seen[key(c)] = true
		}
	}
	return len(seen)
}

func pick(runs []map[string]conversation, keys []string) [][]conversation {
	var out [][]conversation
	for _, r := range runs {
		var list []conversation
		for _, k := range keys {
			list = append(list, r[k])
		}
		out = append(out, list)
	}
	return out
}

func all(p Point) [][]conversation {
	var out [][]conversation
	for _, r := range p.runs {
		out = append(out, slices.Clone(r.convs))
	}
	return out
}

// sameRecords says that both sides are the same measurement, run by run: of one
// folder, or of a copy of its records.
func sameRecords(a, b Point) bool {
	return slices.EqualFunc(a.runs, b.runs, func(r, s run) bool {
		if filepath.Clean(r.folder) == filepath.Clean(s.folder) {
			return true
		}
		return sameRun(r, s) && r.tps == s.tps && reflect.DeepEqual(r.convs, s.convs)
	})
}

// sameRun says that the records of both are of one run, wherever they lie.
func sameRun(r, s run) bool {
	return r.point != nil && s.point != nil && r.point.Run.ID == s.point.Run.ID && r.point.Run.Point == s.point.Run.Point
}

// view is the view of AL that both sides can be counted in: A's own where both
// have it; "" where there is none.
func commonView(a, b Point) string {
	for _, view := range []string{a.runs[0].view, collector.ViewClient, collector.ViewServer} {
		if view != "" && a.hasView(view) && b.hasView(view) {
			return view
		}
	}
	return ""
}

func (p Point) hasView(view string) bool {
	for _, r := range p.runs {
		if r.point == nil && r.view != view {
			return false
		}
	}
	return true
}
