package collector

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// Attribution is what Recognise found out about the requests of a foreign client.
type Attribution struct {
	Requests      int            `json:"requests"`                     // all that were seen
	Attributed    int            `json:"requests_attributed"`          // those that are turns of the conversations below
	Conversations int            `json:"conversations"`                // that count
	By            map[string]int `json:"conversations_by"`             // what joined their turns: a header's name, "history", or "alone" for one turn that nobody named
	SetApart      map[string]int `json:"requests_set_apart_by_reason"` // the rest of the requests
	Questions     int            `json:"questions"`                    // of the question file; 0 without one
	Asked         int            `json:"questions_asked"`
	QuestionsBy   map[string]int `json:"questions_by"` // what told the question: "label" or "first_message"
}

// byNumber gives every conversation a number, where there is no question file.
// Its turns are counted as they were asked: a first request may bring a history
// that nobody asked here.
func (g *recognition) byNumber() {
	for i, t := range g.talks {
		q := Question{ID: number(i), Turns: len(t.turns)}
		for n, turn := range t.turns {
			turn.number = n
			q.Category = cmp.Or(q.Category, turn.best().Labels.Category)
		}
		t.question = i
		g.run.Questions = append(g.run.Questions, q)
	}
}

func number(i int) []byte { return []byte(strconv.Itoa(i)) }

// finish writes labels and reasons into the Records and counts them. What was
// kept to recognise a question file goes where there is none, and with requests
// that are not of it.
func (g *recognition) finish() {
	for _, t := range g.talks {
		g.label(t)
	}
	for _, r := range g.recs {
		r.Labels.Run, r.Labels.Point = g.run.ID, cmp.Or(r.Labels.Point, g.run.Point)
		if r.SetApart == ApartOtherPoint || r.SetApart == ApartForeign || g.report.Questions == 0 {
			if r.Labels.Question == r.UserHash {
				r.Labels.Question = ""
			}
			r.UserHash, r.Thread = "", nil
		}
		if r.SetApart != "" {
			g.report.SetApart[r.SetApart]++
			continue
		}
		g.report.Attributed++
	}
	g.run.Attribution = &g.report
}

// label labels the Records of a conversation, and sets tries apart that do not count.
func (g *recognition) label(t *talk) {
	if t.question < 0 {
		return
	}
	q := g.run.Questions[t.question]
	counts := false
	for _, turn := range t.turns {
		best := turn.best()
		for _, r := range turn.tries {
			r.Labels = Labels{
				Point: g.run.Point, Conversation: strconv.Itoa(t.question), Question: idKey(q.ID),
				Category: q.Category, Turn: turn.number, HasTurn: true,
			}
			counts = counts || r.SetApart == ""
			if r.SetApart == "" && r != best {
				r.SetApart = ApartSuperseded
			}
		}
	}
	if !counts {
		return
	}
	g.report.Conversations++
	switch {
	case t.by != "":
		g.report.By[t.by]++
	case len(t.turns) > 1:
		g.report.By["history"]++
	default:
		g.report.By["alone"]++
	}
}

// Reasons lists why requests were set apart, sorted.
func (a Attribution) Reasons() []string { return slices.Sorted(maps.Keys(a.SetApart)) }
