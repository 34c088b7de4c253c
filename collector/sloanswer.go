package collector

import (
	"cmp"
	"fmt"
	"slices"
)

// SLOAnswer is the largest load that was measured at which an SLO was met, at one
// temperature: of request rates, of those that the server keeps up with.
type SLOAnswer struct {
	Temperature float64 `json:"temperature"`
	Point       string  `json:"point"`       // "": none
	Concurrency int     `json:"concurrency"` // of that point, 0 where there is none
	RequestRate float64 `json:"request_rate,omitempty"`
	Sentence    string  `json:"sentence"`

	NotJudged []NotJudged `json:"not_judged,omitempty"`
}

// NotJudged is a load of which it cannot be said whether it meets an SLO.
type NotJudged struct {
	Point       string  `json:"point"`
	Concurrency int     `json:"concurrency"`
	RequestRate float64 `json:"request_rate,omitempty"`
	Reason      string  `json:"because"`
}

// SLOAnswers reads the rows of a sweep, one answer for each temperature and SLO in
// the order in which they appear. Rows without a Goodput are not looked at; the runs
// that repeats took together are judged together.
func SLOAnswers(rows []Summary, repeats []Repeats) []SLOAnswer {
	rows = pooledRows(rows, repeats)
	var answers []SLOAnswer
	type group struct {
		temperature float64
		slo         SLO
	}
	var order []group
	groups := map[group][]Summary{}
	for _, r := range rows {
		if r.Goodput == nil {
			continue
		}
		goodput := *r.Goodput // an older row may have been judged without doubt
		goodput.doubt(r.RequestRate, r.OpenLoop)
		r.Goodput = &goodput
		g := group{r.Temperature, r.Goodput.SLO}
		if groups[g] == nil {
			order = append(order, g)
		}
		groups[g] = append(groups[g], r)
	}
	for _, g := range order {
		answers = append(answers, sloAnswer(g.temperature, groups[g]))
	}
	return answers
}

// pooledRows has one row of the runs that were taken together, in the place of the
// first of them.
func pooledRows(rows []Summary, repeats []Repeats) []Summary {
	var list []Summary
	placed := map[string]bool{}
	for _, s := range rows {
		i := slices.IndexFunc(repeats, func(r Repeats) bool { return r.Goodput != nil && slices.Contains(r.Runs, s.Point) })
		switch {
		case i < 0:
			list = append(list, s)
		case !placed[repeats[i].Point]:
			placed[repeats[i].Point] = true
			s.Point, s.Goodput, s.OpenLoop = repeats[i].Point, repeats[i].Goodput, repeats[i].OpenLoop
			list = append(list, s)
		}
	}
	return list
}

// sloAnswer finds the largest load that met the SLO. The next one above it, those
// that were not judged and lighter ones that did not meet it are named after it.
func sloAnswer(temperature float64, rows []Summary) SLOAnswer {
	slices.SortStableFunc(rows, func(a, b Summary) int { return cmp.Compare(a.load(), b.load()) })
	rows = oneALoad(rows)
	answer := SLOAnswer{Temperature: temperature}
	best := -1
	for i, r := range rows {
		switch r.Goodput.Verdict {
		case SLOMet:
			best = i
		case SLONotJudged:
			answer.NotJudged = append(answer.NotJudged, NotJudged{r.Point, r.Concurrency, r.RequestRate, r.Goodput.Reason})
		}
	}
	slo := rows[0].Goodput.SLO
	asked := fmt.Sprintf("temperature %v, %s for %s of the requests: ", temperature, slo, percent(slo.Share))
	if best < 0 {
		answer.Sentence = asked + noLoad(rows)
		return answer
	}
	r := rows[best]
	answer.Point, answer.Concurrency, answer.RequestRate = r.Point, r.Concurrency, r.RequestRate
	answer.Sentence = fmt.Sprintf("%s%s is the largest measured that meets it%s; %s", asked, r.loadName(), r.keepingUp(), r.Goodput.Reason)
	for i, heavier := range rows[best+1:] {
		if i == 0 || heavier.Goodput.Verdict == SLONotJudged {
			answer.Sentence += "; " + heavier.verdict()
		}
	}
	for _, lighter := range rows[:best] {
		if lighter.Goodput.Verdict != SLOMet {
			answer.Sentence += "; the lighter " + lighter.verdict()
		}
	}
	return answer
}

// noLoad says that no load can be named, and why: of the lightest one, and of all
// that were not judged.
func noLoad(rows []Summary) string {
	has := func(verdict string) bool {
		return slices.ContainsFunc(rows, func(r Summary) bool { return r.Goodput.Verdict == verdict })
	}
	text := "met at no load that was measured"
	switch {
	case has(SLONotJudged):
		text = "none of the measured loads can be named that meets it"
	case has(SLONotShown):
		text = "not shown to be met at any load that was measured"
	}
	for i, r := range rows {
		if i == 0 || r.Goodput.Verdict == SLONotJudged {
			text += "; " + r.verdict()
		}
	}
	return text
}

// verdict is what is said of a load that does not meet the SLO.
func (s Summary) verdict() string {
	if s.Goodput.Verdict == SLONotJudged {
		return s.loadName() + " not judged: " + s.Goodput.Reason
	}
	return s.loadName() + ": " + s.Goodput.Reason
}

// keepingUp is what an SLO that is met at a request rate stands on.
func (s Summary) keepingUp() string {
	if s.RequestRate > 0 {
		return " and that the server keeps up with"
	}
	return ""
}

// oneALoad keeps one row of each load, that which speaks most against it.
func oneALoad(rows []Summary) []Summary {
	against := func(s Summary) int {
		return slices.Index([]string{SLOMet, SLONotJudged, SLONotShown, SLOMissed}, s.Goodput.Verdict)
	}
	var kept []Summary
	for _, r := range rows {
		n := len(kept)
		switch {
		case n == 0 || kept[n-1].load() != r.load():
			kept = append(kept, r)
		case against(r) > against(kept[n-1]):
			kept[n-1] = r
		}
	}
	return kept
}

// load orders the points of one temperature.
func (s Summary) load() float64 { return float64(s.Concurrency) + s.RequestRate }

func (s Summary) loadName() string {
	if s.RequestRate > 0 {
		return fmt.Sprintf("rate %v/s", s.RequestRate)
	}
	return fmt.Sprintf("concurrency %d", s.Concurrency)
}
