package collector

import (
	"cmp"
	"slices"
	"time"
)

// Why Recognise sets a request apart (Record.SetApart).
const (
	ApartForeign    = ReasonForeign   // its first user message is no question of the file
	ApartOtherPoint = "other_point"   // its labels name another point
	ApartOther      = "no_generation" // a call that makes no text that is read here: embeddings, tokenize
	ApartProbe      = "ready_probe"   // asks whether the model answers, before the load
	ApartAskedAgain = "warm_up"       // its question was asked again later, and that counts
	ApartRepeated   = "repeated"      // its question was asked before, and that counts: this time it broke off
	ApartSuperseded = "superseded"    // another try of the same turn counts
)

// ApartPreflight sets a sweep's own short requests apart. A shard keeps them, because
// the server counts them while other shards are measured.
const ApartPreflight = "preflight"

// Recognise finds out which conversation, turn and question each Record of a
// foreign client is. run has the point's name, and the questions with their
// prompts where there is a question file. It returns the Point of labelled copies;
// the Records given stay as they are.
//
//	baggage            the client said it: its word counts
//	X-Correlation-ID,  requests of one value are one conversation as long as
//	X-Session-Affinity their messages go on from one another
//	else               the chain of user messages (Thread) goes on from an earlier turn
//
// A question is told by the label, else by the first user message. One conversation
// of each question counts: the last complete one. So warm-up, which no client tells
// on the wire, is what was asked before it, and first turns alone that had ended
// before the first conversation of several turns began. Of several tries of a turn the last
// complete one counts. Without a question file every conversation counts, under a
// number of its own. See Attribution for what is said about the rest.
func Recognise(run Run, recs []*Record) Point {
	g := &recognition{run: run, open: map[openKey][]*talk{}, last: map[string]*talk{}}
	g.report = Attribution{
		Requests: len(recs), Questions: len(run.Questions),
		By: map[string]int{}, SetApart: map[string]int{}, QuestionsBy: map[string]int{},
	}
	copies := make([]*Record, len(recs))
	for i, r := range recs {
		c := *r
		copies[i] = &c
	}
	g.recs = slices.Clone(copies)
	slices.SortStableFunc(g.recs, func(a, b *Record) int { return a.Start.Compare(b.Start) })
	g.setApart()
	for _, r := range g.recs {
		if r.SetApart == "" {
			g.join(r)
		}
	}
	if len(run.Questions) > 0 {
		g.byQuestion()
	} else {
		g.byNumber()
	}
	g.finish()
	return Point{Run: g.run, Records: copies, Lenient: true}
}

// recognition is one run of Recognise.
type recognition struct {
	run    Run
	recs   []*Record           // copies, by start
	talks  []*talk             // by their first request
	open   map[openKey][]*talk // by what a next turn says came before it
	last   map[string]*talk    // the last one of each name
	report Attribution
}

// openKey is where a next turn looks for its conversation.
type openKey struct{ name, users string }

// talk is a conversation that is put together.
type talk struct {
	name     string // what named it, and how; "" for one that nobody named
	by       string
	turns    []*talkTurn // in the order of their numbers
	question int         // -1: none
}

// talkTurn is a turn with all its tries, by start.
type talkTurn struct {
	number int
	tries  []*Record
}

// best is the try that counts: the last complete one, else the last.
func (t *talkTurn) best() *Record {
	for _, r := range slices.Backward(t.tries) {
		if r.ErrorKind == "" {
			return r
		}
	}
	return t.tries[len(t.tries)-1]
}

func (t *talk) lastTurn() *talkTurn { return t.turns[len(t.turns)-1] }

// complete says that turns 0 to n-1 are there and that each has a complete try.
func (t *talk) complete(n int) bool {
	good := 0
	for _, turn := range t.turns {
		if turn.number < n && turn.best().ErrorKind == "" {
			good++
		}
	}
	return good == n
}

// setApart sets apart what is no turn of anybody's conversation here.
func (g *recognition) setApart() {
	probing := true
	for _, r := range g.recs {
		switch {
		case r.Labels.Point != "" && g.run.Point != "" && r.Labels.Point != g.run.Point:
			r.SetApart = ApartOtherPoint
		case r.Route == RouteOther:
			r.SetApart = ApartOther
		case probing && isProbe(r):
			r.SetApart = ApartProbe
		default:
			probing = false
		}
	}
	if probing { // there is no load behind them: they are it
		for _, r := range g.recs {
			if r.SetApart == ApartProbe {
				r.SetApart = ""
			}
		}
	}
}

// isProbe says that a request is of the kind that clients send to see whether a
// model answers: AIPerf's --wait-for-model-mode asks for one token, not streamed,
// without the headers of its load.
func isProbe(r *Record) bool {
	limit := cmp.Or(string(r.SamplingClient["max_tokens"]), string(r.SamplingClient["max_completion_tokens"]))
	return !r.Stream && limit == "1" && r.RequestID == "" && r.NamedBy == "" && r.Labels.Turn == 0
}

// join adds a request to its conversation, or begins one with it.
func (g *recognition) join(r *Record) {
	name := ""
	if r.NamedBy != "" {
		name = r.NamedBy + ":" + r.Labels.Conversation
	}
	var t *talk
	switch {
	case r.NamedBy == NamedByBaggage:
		t = g.last[name]
	case r.Thread == nil:
		if t = g.last[name]; name == "" || !r.Labels.HasTurn {
			t = nil
		}
	default:
		if g.joinThread(r, name) {
			return
		}
	}
	if t == nil {
		t = &talk{name: name, by: r.NamedBy, question: -1}
		g.talks = append(g.talks, t)
	}
	number := 0
	switch {
	case r.Labels.HasTurn:
		number = r.Labels.Turn
	case len(t.turns) > 0:
		number = t.lastTurn().number + 1
	}
	g.add(t, number, r)
}

// joinThread finds the conversation that a request's messages go on from, or
// whose turn they try again.
func (g *recognition) joinThread(r *Record, name string) bool {
	if r.Thread.Before != "" {
		if t := bestOf(g.open[openKey{name, r.Thread.Before}], r); t != nil {
			g.add(t, max(r.Labels.Turn, t.lastTurn().number+1), r)
			return true
		}
	}
	if t := againOf(g.open[openKey{name, r.Thread.Users}], r); t != nil {
		g.add(t, t.lastTurn().number, r)
		return true
	}
	// A client may shorten or rewrite its history; its header still names the conversation.
	if t := g.last[name]; name != "" && t != nil && r.Labels.Turn > t.lastTurn().number {
		g.add(t, r.Labels.Turn, r)
		return true
	}
	return false
}

// bestOf chooses among conversations with the same user messages: the one whose
// reply the request replays, then one whose last turn had ended, then the oldest.
func bestOf(talks []*talk, r *Record) *talk {
	var best *talk
	most := -1
	for _, t := range talks {
		before, score := t.lastTurn().best(), 0
		if before.endedBy(r.Start) {
			score = 1
		}
		if th := before.Thread; th != nil && (r.Thread.Answer == th.Reply || r.Thread.Answer != "" && r.Thread.Answer == th.Thought) {
			score += 2
		}
		if score > most {
			best, most = t, score
		}
	}
	return best
}

// retryWithin is how much later than its second try a first one may be seen to
// end: a client hangs up and asks again at once.
const retryWithin = 250 * time.Millisecond

// againOf chooses the conversation whose last turn a request tries again: one that
// failed. A complete first turn that is asked again is a conversation of its own, a
// complete later turn is not, because its first turn was not asked again.
func againOf(talks []*talk, r *Record) *talk {
	for _, t := range slices.Backward(talks) {
		tries := t.lastTurn().tries
		before := tries[len(tries)-1]
		if before.ErrorKind != "" && before.endedBy(r.Start.Add(retryWithin)) || before.ErrorKind == "" && r.Thread.Before != "" {
			return t
		}
	}
	return nil
}

// endedBy says that a client had its answer by a time.
func (r *Record) endedBy(at time.Time) bool { return !r.Answered().After(at) }

// add puts a request into its turn.
func (g *recognition) add(t *talk, number int, r *Record) {
	i, found := slices.BinarySearchFunc(t.turns, number, func(turn *talkTurn, n int) int { return cmp.Compare(turn.number, n) })
	if found {
		t.turns[i].tries = append(t.turns[i].tries, r)
	} else {
		t.turns = slices.Insert(t.turns, i, &talkTurn{number: number, tries: []*Record{r}})
	}
	g.last[t.name] = t
	if r.Thread == nil || t.lastTurn().tries[0] != r { // not a turn at the end
		return
	}
	if i > 0 && t.turns[i-1].tries[0].Thread != nil {
		old := openKey{t.name, t.turns[i-1].tries[0].Thread.Users}
		g.open[old] = slices.DeleteFunc(g.open[old], func(o *talk) bool { return o == t })
	}
	key := openKey{t.name, r.Thread.Users}
	g.open[key] = append(g.open[key], t)
}
