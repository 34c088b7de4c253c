package collector

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// asked is one request of a foreign client, times in milliseconds.
type asked struct {
	at, end int
	users   string // user messages, separated by |
	answer  string // assistant message between the last two; what the client replays
	reply   string
	named   string // "c:x" X-Correlation-ID x, "s:x" X-Session-Affinity x, "b:x" baggage with conversation x
	failed  string // ErrorKind
	change  func(*Record)
}

func (a asked) record() *Record {
	start := time.Unix(1000, 0).Add(time.Duration(a.at) * time.Millisecond)
	r := &Record{
		ID: fmt.Sprint("r", a.at), Start: start, Done: At(time.Duration(a.end-a.at) * time.Millisecond), Route: RouteChat, Stream: true,
		ErrorKind: a.failed, Thread: &Thread{Answer: ReplyHash(nil, a.answer), Reply: ReplyHash(nil, a.reply)},
	}
	users := strings.Split(a.users, "|")
	for _, u := range users {
		r.Thread.Before = r.Thread.Users
		r.Thread.Users = ChainHash(nil, r.Thread.Before, u)
	}
	r.UserHash = HashText(nil, users[0])
	kind, value, _ := strings.Cut(a.named, ":")
	r.NamedBy = map[string]string{"c": NamedByCorrelation, "s": NamedByAffinity, "b": NamedByBaggage}[kind]
	r.Labels = Labels{Conversation: value, Question: r.UserHash, Turn: len(users) - 1, HasTurn: true}
	if a.change != nil {
		a.change(r)
	}
	return r
}

// recognised shows what became of requests: "conversation/turn", "!reason" where set apart.
func recognised(t *testing.T, run Run, requests []asked) (Point, string) {
	t.Helper()
	var recs []*Record
	var before []Record
	for _, a := range requests {
		r := a.record()
		recs, before = append(recs, r), append(before, *r)
	}
	p := Recognise(run, recs)
	var parts []string
	for i, r := range p.Records {
		if r.ID != recs[i].ID || r == recs[i] || !reflect.DeepEqual(*recs[i], before[i]) {
			t.Errorf("record %d was changed or moved", i)
		}
		text := r.Labels.Conversation + "/" + fmt.Sprint(r.Labels.Turn)
		if r.SetApart != "" {
			text = "!" + r.SetApart
		}
		parts = append(parts, text)
	}
	return p, strings.Join(parts, " ")
}

// Without a question file every conversation counts.
func TestRecogniseConversations(t *testing.T) {
	f := func(name, want, by string, requests ...asked) {
		t.Helper()
		p, got := recognised(t, Run{Point: "t0_c1", Metric: MetricAcceptanceRate}, requests)
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if got := fmt.Sprint(p.Run.Attribution.By); got != "map["+by+"]" {
			t.Errorf("%s: got %s, want map[%s]", name, got, by)
		}
		for _, r := range p.Records {
			if r.UserHash != "" || r.Thread != nil || r.Labels.Question != "" && strings.Contains(r.Labels.Question, HashText(nil, "a")) {
				t.Errorf("%s: a hash is kept without a question file: %+v", name, r)
			}
		}
	}
	f("history", "0/0 0/1", "history:1", asked{at: 0, end: 10, users: "a", reply: "r"}, asked{at: 20, end: 30, users: "a|b", answer: "r"})
	f("a history that was changed", "0/0 0/1", "history:1", asked{at: 0, end: 10, users: "a", reply: "r"}, asked{at: 20, end: 30, users: "a|b", answer: "other"})
	f("a failed turn, and on", "0/0 0/1", "history:1", asked{at: 0, end: 10, users: "a", failed: ErrHTTPStatus}, asked{at: 20, end: 30, users: "a|b"})
	f("records in order of end", "1/0 0/0 1/1", "alone:1 history:1", asked{at: 5, end: 10, users: "b"}, asked{at: 0, end: 20, users: "a"}, asked{at: 30, end: 40, users: "b|c"})
	f("equal conversations at a time, told by the reply", "0/0 1/0 1/1 0/1", "history:2",
		asked{at: 0, end: 10, users: "a", reply: "r1"}, asked{at: 1, end: 10, users: "a", reply: "r2"},
		asked{at: 20, end: 30, users: "a|b", answer: "r2"}, asked{at: 21, end: 30, users: "a|b", answer: "r1"})
	f("equal conversations, told by the reasoning", "0/0 1/0 1/1", "alone:1 history:1",
		asked{at: 0, end: 10, users: "a", reply: "r"}, asked{at: 1, end: 10, users: "a", reply: "r", change: func(r *Record) { r.Thread.Thought = ReplyHash(nil, "t r") }},
		asked{at: 20, end: 30, users: "a|b", answer: "t r"})
	f("equal conversations, one still running", "0/0 1/0 1/1 0/1", "history:2",
		asked{at: 0, end: 50, users: "a"}, asked{at: 1, end: 10, users: "a"}, asked{at: 20, end: 30, users: "a|b", answer: "x"}, asked{at: 60, end: 70, users: "a|b", answer: "y"})
	f("a retry", "!superseded 0/0 0/1", "history:1",
		asked{at: 0, end: 10, users: "a", failed: ErrHTTPStatus}, asked{at: 20, end: 30, users: "a"}, asked{at: 40, end: 50, users: "a|b"})
	f("a retry that fails too: the last", "!superseded 0/0", "alone:1", asked{at: 0, end: 10, users: "a", failed: ErrHTTPStatus}, asked{at: 20, end: 30, users: "a", failed: ErrTruncated})
	f("a retry of a client that hung up, seen a little later", "!superseded 0/0", "alone:1", asked{at: 0, end: 105, users: "a", failed: ErrClientGone}, asked{at: 100, end: 130, users: "a"})
	f("no retry: both at a time", "0/0 1/0", "alone:2", asked{at: 0, end: 900, users: "a", failed: ErrTruncated}, asked{at: 10, end: 30, users: "a"})
	f("a later turn asked again", "0/0 !superseded 0/1", "history:1", asked{at: 0, end: 10, users: "a"}, asked{at: 20, end: 30, users: "a|b"}, asked{at: 40, end: 50, users: "a|b"})
	f("a complete later turn wins over one that failed after it", "0/0 0/1 !superseded", "history:1",
		asked{at: 0, end: 10, users: "a"}, asked{at: 20, end: 30, users: "a|b"}, asked{at: 40, end: 50, users: "a|b", failed: ErrClientGone})
	f("a question asked again counts twice", "0/0 1/0", "alone:2", asked{at: 0, end: 10, users: "a"}, asked{at: 20, end: 30, users: "a"})
	f("a history that nobody asked here", "0/0 0/1", "history:1", asked{at: 0, end: 10, users: "a|b|c"}, asked{at: 20, end: 30, users: "a|b|c|d"})

	f("a header tells equal conversations apart", "0/0 1/0 0/1 1/1", "x-correlation-id:2",
		asked{at: 0, end: 10, users: "a", named: "c:1"}, asked{at: 1, end: 10, users: "a", named: "c:2"},
		asked{at: 20, end: 30, users: "a|b", named: "c:1"}, asked{at: 21, end: 30, users: "a|b", named: "c:2"})
	f("a header names a user, not a conversation", "0/0 1/0", "x-session-affinity:2", asked{at: 0, end: 10, users: "a", named: "s:1"}, asked{at: 20, end: 30, users: "b", named: "s:1"})
	f("a header and a rewritten history", "0/0 0/1", "x-correlation-id:1", asked{at: 0, end: 10, users: "a", named: "c:1"}, asked{at: 20, end: 30, users: "A|b", named: "c:1"})
	f("no header and a rewritten history", "0/0 1/0", "alone:2", asked{at: 0, end: 10, users: "a"}, asked{at: 20, end: 30, users: "A|b"})
	f("baggage says it", "0/0 0/1", "baggage:1", asked{at: 0, end: 10, users: "a", named: "b:x"}, asked{at: 20, end: 30, users: "z", named: "b:x", change: func(r *Record) { r.Labels.Turn = 1 }})
	f("no hashes, no header", "0/0 1/0", "alone:2", asked{at: 0, end: 10, users: "a", change: unread}, asked{at: 20, end: 30, users: "a", change: unread})
	f("no hashes, a header", "0/0 0/1", "x-correlation-id:1", asked{at: 0, end: 10, users: "a", named: "c:1", change: func(r *Record) { r.Thread, r.UserHash, r.Labels.Question = nil, "", "" }},
		asked{at: 20, end: 30, users: "a|b", named: "c:1", change: func(r *Record) { r.Thread, r.UserHash, r.Labels.Question = nil, "", "" }})
	f("another point", "!other_point 0/0", "baggage:1", asked{at: 0, end: 10, users: "a", named: "b:0", change: func(r *Record) { r.Labels.Point = "preflight" }}, asked{at: 20, end: 30, users: "a", named: "b:0"})
	f("no generation", "!no_generation 0/0", "alone:1", asked{at: 0, end: 10, users: "a", change: func(r *Record) { r.Route = RouteOther }}, asked{at: 20, end: 30, users: "a"})
	f("a probe before the load", "!ready_probe 0/0 1/0", "alone:2", asked{at: 0, end: 10, users: "Lo", change: probe}, asked{at: 20, end: 30, users: "a"}, asked{at: 40, end: 50, users: "Lo", change: probe})
	f("a load that looks like probes", "0/0 1/0", "alone:2", asked{at: 0, end: 10, users: "a", change: probe}, asked{at: 20, end: 30, users: "b", change: probe})
	f("one token, streamed", "0/0 1/0", "alone:2", asked{at: 0, end: 10, users: "a", change: func(r *Record) { probe(r); r.Stream = true }}, asked{at: 20, end: 30, users: "b"})
	f("nothing", "", "")
}

// unread is a request whose messages were not read, as of /v1/responses.
func unread(r *Record) { r.Thread, r.UserHash, r.Labels = nil, "", Labels{} }

func probe(r *Record) {
	r.Stream, r.SamplingClient = false, map[string]json.RawMessage{"max_tokens": json.RawMessage("1")}
}

// With a question file, one conversation of each question counts.
func TestRecogniseQuestions(t *testing.T) {
	file := []Question{
		{ID: json.RawMessage("81"), Category: "writing", Turns: 2, Prompts: []string{"a", "b"}},
		{ID: json.RawMessage(`"x"`), Category: "math", Turns: 2, Prompts: []string{" c\n", "d"}},
		{ID: json.RawMessage("83"), Category: "math", Turns: 2, Prompts: []string{"e", "f"}},
		{ID: json.RawMessage("84"), Category: "math", Turns: 2, Prompts: []string{"e", "g"}}, // begins as the one before
	}
	f := func(name, want, missing string, incomplete bool, requests ...asked) {
		t.Helper()
		p, got := recognised(t, Run{ID: "run", Point: "t0_c1", Metric: MetricSpecBench, Questions: file}, requests)
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		var notAsked []string
		for _, q := range p.Run.Questions {
			if q.NotAsked {
				notAsked = append(notAsked, idKey(q.ID))
			}
		}
		if got := strings.Join(notAsked, " "); got != missing {
			t.Errorf("%s: got %q not asked, want %q", name, got, missing)
		}
		sel := p.selected()
		faults := len(sel.failures) + sel.apart[ApartForeign] + sel.apart[ApartOtherPoint]
		for _, fail := range sel.failures {
			if fail.Reason == "no_statistics" || strings.Contains(fail.Detail, "neither") { // these Records have none
				faults--
			}
		}
		if (faults > 0) != incomplete {
			t.Errorf("%s: got %d faults (%v), incomplete %v", name, faults, sel.failures, incomplete)
		}
	}
	f("in any order", "1/0 0/0 1/1 0/1", "83 84", false, asked{at: 0, end: 9, users: " c\n"}, asked{at: 1, end: 10, users: "a"}, asked{at: 20, end: 30, users: " c\n|d"}, asked{at: 40, end: 50, users: "a|b"})
	f("a client that takes white space off", "1/0 1/1", "81 83 84", false, asked{at: 0, end: 9, users: "c"}, asked{at: 20, end: 30, users: "c|d"})
	f("foreign", "!foreign 0/0 0/1", "x 83 84", true, asked{at: 0, end: 9, users: "hello"}, asked{at: 10, end: 19, users: "a"}, asked{at: 20, end: 30, users: "a|b"})
	f("a turn is missing", "0/0", "x 83 84", true, asked{at: 0, end: 9, users: "a"})
	f("warm-up of first turns", "!warm_up 0/0 0/1", "x 83 84", false, asked{at: 0, end: 9, users: "a"}, asked{at: 10, end: 19, users: "a", reply: "r"}, asked{at: 20, end: 30, users: "a|b", answer: "r"})
	f("warm-up, by session", "!warm_up 0/0 0/1", "x 83 84", false, asked{at: 0, end: 9, users: "a", named: "c:w"}, asked{at: 10, end: 19, users: "a", named: "c:1"}, asked{at: 20, end: 30, users: "a|b", named: "c:1"})
	f("warm-up of questions that are not asked again", "!warm_up 1/0 1/1", "81 83 84", false, asked{at: 0, end: 9, users: "a"}, asked{at: 10, end: 19, users: " c\n"}, asked{at: 20, end: 30, users: " c\n|d"})
	f("warm-up whose end was on its way when the load began", "!warm_up 1/0 1/1", "81 83 84", false,
		asked{at: 0, end: 12, users: "a", change: func(r *Record) { r.SawDone, r.Chunks = true, []Chunk{{At: 9 * time.Millisecond}} }},
		asked{at: 10, end: 19, users: " c\n"}, asked{at: 20, end: 30, users: " c\n|d"})
	f("a first turn alone during the load", "1/0 0/0 1/1", "83 84", true, asked{at: 0, end: 9, users: " c\n"}, asked{at: 5, end: 8, users: "a"}, asked{at: 20, end: 30, users: " c\n|d"})
	f("a first turn that failed is no warm-up", "0/0 1/0 1/1", "83 84", true, asked{at: 0, end: 9, users: "a", failed: ErrHTTPStatus}, asked{at: 10, end: 19, users: " c\n"}, asked{at: 20, end: 30, users: " c\n|d"})
	f("first turns alone, no load behind them", "0/0 1/0", "83 84", true, asked{at: 0, end: 9, users: "a"}, asked{at: 20, end: 29, users: " c\n"})
	f("a second run that broke off", "0/0 0/1 !repeated", "x 83 84", false, asked{at: 0, end: 9, users: "a"}, asked{at: 10, end: 19, users: "a|b"}, asked{at: 20, end: 30, users: "a"})
	f("equal first turns, told by the second", "3/0 3/1 2/0 2/1", "81 x", false,
		asked{at: 0, end: 9, users: "e"}, asked{at: 10, end: 19, users: "e|g"}, asked{at: 20, end: 30, users: "e"}, asked{at: 40, end: 50, users: "e|f"})
	f("equal first turns that tell nothing", "2/0 3/0", "81 x", true, asked{at: 0, end: 9, users: "e"}, asked{at: 20, end: 30, users: "e"})
	label := func(question string, turn int) func(*Record) {
		return func(r *Record) { r.Labels.Question, r.Labels.Turn = question, turn }
	}
	f("baggage names a question", "1/0 1/1", "81 83 84", false, asked{at: 0, end: 9, users: "z", named: "b:q", change: label("x", 0)}, asked{at: 10, end: 19, users: "z|y", named: "b:q", change: label("x", 1)})
	f("baggage names a place in the file", "2/0 2/1", "81 x 84", false, asked{at: 0, end: 9, users: "z", named: "b:2"}, asked{at: 10, end: 19, users: "z|y", named: "b:2"})
	f("baggage names a question of another file", "!foreign", "81 x 83 84", true, asked{at: 0, end: 9, users: "z", named: "b:2", change: label("900", 0)})
	f("a probe with a question's text", "!ready_probe 0/0 0/1", "x 83 84", false, asked{at: 0, end: 2, users: "a", change: probe}, asked{at: 10, end: 19, users: "a"}, asked{at: 20, end: 30, users: "a|b"})
}

// What was kept to recognise questions stays with them alone, and the report adds up.
func TestRecogniseKeepsNoForeignHash(t *testing.T) {
	run := Run{ID: "run", Point: "t0_c1", Questions: []Question{{ID: json.RawMessage("81"), Category: "writing", Turns: 1, Prompts: []string{"a"}}, {ID: json.RawMessage("82"), Turns: 1, Prompts: []string{"b"}}}}
	p, _ := recognised(t, run, []asked{{at: 0, end: 5, users: "private"}, {at: 10, end: 15, users: "a", failed: ErrTruncated}, {at: 20, end: 25, users: "a"}})
	foreign, ours := p.Records[0], p.Records[2]
	if text := fmt.Sprintf("%+v", *foreign); foreign.Thread != nil || strings.Contains(text, HashText(nil, "private")) {
		t.Errorf("a hash of a foreign text is kept: %s", text)
	}
	if want := (Labels{Run: "run", Point: "t0_c1", Conversation: "0", Question: "81", Category: "writing", HasTurn: true}); ours.Labels != want || ours.UserHash == "" {
		t.Errorf("got %+v, want %+v and the hash", ours.Labels, want)
	}
	want := Attribution{Requests: 3, Attributed: 1, Conversations: 1, By: map[string]int{"alone": 1}, SetApart: map[string]int{ApartForeign: 1, ApartSuperseded: 1},
		Questions: 2, Asked: 1, QuestionsBy: map[string]int{"first_message": 1}}
	if !reflect.DeepEqual(*p.Run.Attribution, want) {
		t.Errorf("got %+v, want %+v", *p.Run.Attribution, want)
	}
	if run.Questions[1].NotAsked {
		t.Error("the run's own questions were changed")
	}
}

// A label that counts turns from 1 is told from where they count.
func TestTurnBeyondTheQuestion(t *testing.T) {
	p := Point{Run: Run{Questions: []Question{{ID: []byte("81"), Turns: 2}}}}
	for turn := 1; turn <= 2; turn++ {
		p.Records = append(p.Records, &Record{Labels: Labels{Conversation: "0", Turn: turn, HasTurn: true}})
	}
	want := `labels say turn 2 of conversation "0": want 0 to 1`
	if failures := p.selected().failures; !slices.ContainsFunc(failures, func(f Failure) bool { return f.Turn == 2 && f.Detail == want }) {
		t.Errorf("got %v, want %q", failures, want)
	}
}
