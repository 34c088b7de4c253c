package collector

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The reasons, besides an ErrorKind, why a request or conversation is in no figure.
const (
	ReasonForeign   = "foreign"   // a request of nobody's conversation, or of another point
	ReasonMissing   = "not_run"   // a turn that has no Record
	ReasonDuplicate = "duplicate" // two Records of one turn
	ReasonUnknown   = "unknown"   // a conversation that the run does not list
)

// Failure is a turn that cannot be measured. It takes its conversation with it.
type Failure struct {
	Conversation int // position in the data set, from 0; -1 for a request without one
	Turn         int
	Reason       string
	Detail       string
}

// Error implements error.
func (f Failure) Error() string {
	text := fmt.Sprintf("conversation %d turn %d: %s", f.Conversation, f.Turn, f.Reason)
	if f.Detail != "" {
		text += " (" + f.Detail + ")"
	}
	return text
}

// Conversations makes specdec_bench's view of a Point from its Records, in the
// order of the data set, with chunk lengths of the given view. A conversation
// with a failed, missing or doubled turn is left out and listed.
func (p Point) Conversations(view string) ([]Conversation, []Failure) {
	s := p.selected()
	return s.conversations(p, view), s.failures
}

// measuredTurn is a turn with its Record and both views.
type measuredTurn struct {
	rec            *Record
	client, server TurnLengths
	times          []float64
	intended       float64 // when it was to begin, on the axis of times; times[0] in a closed loop
}

type measuredConversation struct {
	index    int
	question Question
	turns    []measuredTurn
}

// selection is what of a Point can be measured, and what cannot.
type selection struct {
	convs    []measuredConversation
	failures []Failure
	foreign  int
	apart    map[string]int // requests that were set apart, by reason
}

// maxTurns bounds the turns of a conversation, so that a damaged label or run
// line does not list millions of missing ones.
const maxTurns = 10000

// turnKey is the place of a Record in its Point.
type turnKey struct{ conversation, turn int }

// unknownPlace says what is wrong with labels that name no turn of the Point.
func unknownPlace(l Labels, known bool, questions []Question, index int) string {
	if !known {
		return fmt.Sprintf("labels say conversation %q", l.Conversation)
	}
	return fmt.Sprintf("labels say turn %d of conversation %q: want 0 to %d", l.Turn, l.Conversation, questions[index].Turns-1)
}

// selected sorts the Records into conversations and measures them.
func (p Point) selected() selection {
	s := selection{apart: map[string]int{}}
	byTurn := map[turnKey][]*Record{}
	indexes, questions := p.questions()
	for _, r := range p.Records {
		if r.SetApart == ApartWarmup {
			continue
		}
		if r.SetApart != "" {
			s.apart[r.SetApart]++
			continue
		}
		index, known := indexes[r.Labels.Conversation]
		if r.Labels.Conversation == "" || !r.Labels.HasTurn || p.elsewhere(r) {
			s.foreign++
			continue
		}
		if !known || r.Labels.Turn < 0 || r.Labels.Turn >= questions[index].Turns {
			s.failures = append(s.failures, Failure{index, r.Labels.Turn, ReasonUnknown, unknownPlace(r.Labels, known, questions, index)})
			if !known {
				s.failures[len(s.failures)-1].Conversation = -1
			}
			continue
		}
		key := turnKey{index, r.Labels.Turn}
		byTurn[key] = append(byTurn[key], r)
	}
	rules, epoch := p.ownRules(), p.epoch()
	for i, q := range questions {
		if q.NotAsked {
			continue
		}
		c := measuredConversation{index: i, question: q}
		before := len(s.failures)
		for t := range q.Turns {
			turn, failure := measureTurn(rules, epoch, byTurn[turnKey{i, t}])
			if failure != nil {
				failure.Conversation, failure.Turn = i, t
				s.failures = append(s.failures, *failure)
				continue
			}
			turn.intended = p.intended(i, c.turns, turn, epoch)
			c.turns = append(c.turns, turn)
		}
		if len(s.failures) == before {
			s.convs = append(s.convs, c)
		}
	}
	return s
}

// ownRules are the LengthRules without what a sweep asked before the point, so that
// a merged point is measured as an undivided one.
func (p Point) ownRules() LengthRules {
	p.Records = slices.DeleteFunc(slices.Clone(p.Records), func(r *Record) bool {
		return r.SetApart == ApartPreflight || r.SetApart == ApartWarmup
	})
	return p.LengthRules()
}

// Whole says that every request is either in a figure or needs to be in none: no
// turn failed or is missing, and none is of nobody's conversation.
func (p Point) Whole() bool {
	s := p.selected()
	return len(s.convs) > 0 && s.whole()
}

func (s selection) whole() bool {
	return len(s.failures)+s.apart[ApartForeign]+s.apart[ApartOtherPoint] == 0
}

// counted are the Records that were not set apart.
func (p Point) counted() []*Record {
	return slices.DeleteFunc(slices.Clone(p.Records), func(r *Record) bool { return r.SetApart != "" })
}

// elsewhere says that a Record's labels name another point or run.
func (p Point) elsewhere(r *Record) bool {
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	return differ(r.Labels.Point, p.Run.Point) || differ(r.Labels.Run, p.Run.ID) && !p.Run.isRun(r.Labels.Run)
}

// questions returns the run's questions, and the index that each conversation
// label means. Without questions they are taken from the labels, in the order of
// the numbers where labels are numbers.
func (p Point) questions() (map[string]int, []Question) {
	indexes := map[string]int{}
	if len(p.Run.Questions) > 0 {
		for i := range p.Run.Questions {
			indexes[strconv.Itoa(i)] = i
		}
		return indexes, p.Run.Questions
	}
	found := map[string]Question{}
	for _, r := range p.Records {
		l := r.Labels
		if l.Conversation == "" || !l.HasTurn || r.SetApart != "" || p.elsewhere(r) || l.Turn >= maxTurns {
			continue
		}
		q := found[l.Conversation]
		q.Turns = max(q.Turns, l.Turn+1)
		q.Category = cmp.Or(q.Category, l.Category)
		if q.ID == nil {
			q.ID = questionID(cmp.Or(l.Question, l.Conversation))
		}
		found[l.Conversation] = q
	}
	labels := slices.SortedFunc(maps.Keys(found), compareLabels)
	questions := make([]Question, len(labels))
	for i, label := range labels {
		indexes[label], questions[i] = i, found[label]
	}
	return indexes, questions
}

// compareLabels puts numbers first, by value, then texts.
func compareLabels(a, b string) int {
	x, errA := strconv.Atoi(a)
	y, errB := strconv.Atoi(b)
	switch {
	case errA == nil && errB == nil:
		return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return strings.Compare(a, b)
}

// questionID is a label as JSON: a whole number in its usual spelling stays one.
func questionID(label string) json.RawMessage {
	if n, err := strconv.ParseInt(label, 10, 64); err == nil && strconv.FormatInt(n, 10) == label {
		return json.RawMessage(label)
	}
	return textID(label)
}

// categoryID is a category as JSON. A question without one has null, Python's None.
func categoryID(category string) json.RawMessage {
	if category == "" {
		return nil
	}
	return textID(category)
}

// textID is a text as JSON; one that is not UTF-8 loses its wrong bytes to U+FFFD.
func textID(s string) json.RawMessage {
	text, err := marshalPlain(s)
	if err != nil {
		return nil
	}
	return text
}

// epoch is the earliest start, so that the doubles of Turn.Times keep
// nanoseconds. It and times use the wall clock alone: a Record that was read
// from a file has no monotonic reading, and its figures must be the same.
func (p Point) epoch() time.Time {
	var first time.Time
	for _, r := range p.Records {
		start := r.Start.Round(0)
		if !start.IsZero() && (first.IsZero() || start.Before(first)) {
			first = start
		}
	}
	return first
}

// measureTurn measures a turn from the Records that claim to be it.
func measureTurn(rules LengthRules, epoch time.Time, recs []*Record) (measuredTurn, *Failure) {
	switch {
	case len(recs) == 0:
		return measuredTurn{}, &Failure{Reason: ReasonMissing}
	case len(recs) > 1:
		return measuredTurn{}, &Failure{Reason: ReasonDuplicate, Detail: fmt.Sprintf("%d records", len(recs))}
	case recs[0].ErrorKind != "":
		return measuredTurn{}, &Failure{Reason: recs[0].ErrorKind, Detail: recs[0].Error}
	}
	t := measuredTurn{rec: recs[0], times: times(recs[0], epoch)}
	if rules.Baseline {
		return t, baselineFailure(t)
	}
	var err error
	if t.client, err = rules.ClientLengths(t.rec); err != nil {
		return t, &Failure{Reason: reason(err), Detail: err.Error()}
	}
	if t.server, err = rules.ServerLengths(t.rec); err != nil {
		return t, &Failure{Reason: reason(err), Detail: err.Error()}
	}
	return t, nil
}

// times are timing.json's times of a turn, in seconds from epoch: the moment the
// request was written upstream (its start where that is not known), then each
// event with tokens. Source: metric-parity 5.4.
func times(r *Record, epoch time.Time) []float64 {
	start := r.Start.Round(0).Sub(epoch)
	list := make([]float64, 0, len(r.Chunks)+1)
	list = append(list, (start + r.UpstreamWritten.Offset).Seconds())
	for _, c := range r.Chunks {
		list = append(list, (start + c.At).Seconds())
	}
	return list
}

// completion is a turn's number of tokens for timing.json, EOS included.
func (t measuredTurn) completion() int {
	if t.rec.Usage != nil {
		return t.rec.Usage.CompletionTokens
	}
	tokens := 0
	for _, c := range t.rec.Chunks {
		tokens += c.Tokens
	}
	return tokens
}

// conversations gives the measured conversations the lengths of a view.
func (s selection) conversations(p Point, view string) []Conversation {
	convs := make([]Conversation, 0, len(s.convs))
	for _, m := range s.convs {
		c := Conversation{Index: m.index, QuestionID: m.question.ID, Category: categoryID(m.question.Category)}
		if m.question.System != "" {
			c.System = &m.question.System
		}
		for i, t := range m.turns {
			lengths := t.client.Lengths
			if view == ViewServer {
				lengths = t.server.Lengths
			}
			prompt := t.rec.Prompt
			if i < len(m.question.Prompts) {
				prompt = m.question.Prompts[i]
			}
			c.Turns = append(c.Turns, Turn{Lengths: lengths, Tokens: t.completion(), Times: t.times, Intended: t.intended, Prompt: prompt, Reply: t.rec.ReplyText(), Record: t.rec})
		}
		convs = append(convs, c)
	}
	return convs
}

// inOrderOfEnd returns the measured turns in the order in which they ended, as timing.json lists them.
func (s selection) inOrderOfEnd() []measuredTurn {
	var turns []measuredTurn
	for _, c := range s.convs {
		turns = append(turns, c.turns...)
	}
	slices.SortStableFunc(turns, func(a, b measuredTurn) int {
		return cmp.Compare(a.times[len(a.times)-1], b.times[len(b.times)-1])
	})
	return turns
}
