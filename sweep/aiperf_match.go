package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"spectap/collector"
)

// place is a turn of a conversation of the plan.
type place struct{ conversation, turn int }

// matcher finds out which turn of which question each Record of another
// program's load is, and labels it. AIPerf says neither, but all turns of a
// conversation have one X-Correlation-ID (the Record's conversation label), the
// turn is the number of user messages, and the first user message is the
// question's. Questions that begin alike are told apart at the end, by the
// session ids in AIPerf's own rows.
type matcher struct {
	load *load
	run  string

	questions []collector.Question
	byHash    map[string][]int // conversations by the hash of their first user text
	places    map[place]*collector.Record
	held      []*collector.Record // of questions that begin alike
	foreign   int                 // of no question of the plan
	failed    map[place]bool
}

func newMatcher(l *load, run string) *matcher {
	m := &matcher{load: l, run: run, questions: l.sweep.Plan.Questions, byHash: map[string][]int{}, places: map[place]*collector.Record{}, failed: map[place]bool{}}
	for i, q := range m.questions {
		if len(q.Prompts) > 0 {
			h := collector.HashText(nil, q.Prompts[0])
			m.byHash[h] = append(m.byHash[h], i)
		}
	}
	return m
}

// expected is the number of requests of the point.
func (m *matcher) expected() int { return m.load.sweep.Plan.Turns() }

// missing counts the turns that have no Record yet.
func (m *matcher) missing() int { return m.expected() - len(m.places) - len(m.held) }

// hangs says why AIPerf, of which nothing was seen for so long, is given up;
// "" where it is not. An answer that takes long is no reason.
func (m *matcher) hangs(quiet time.Duration, limits aiperfLimits) string {
	switch {
	case m.missing() >= m.expected() && quiet > limits.start:
		return fmt.Sprintf("AIPerf sent no request within %v", limits.start)
	case m.missing() <= 0 && quiet > limits.end:
		return fmt.Sprintf("AIPerf did not end within %v after its last answer", limits.end)
	}
	return ""
}

// takeAll labels the Records that have come, and returns how many there were.
func (m *matcher) takeAll(ctx context.Context, from Records) int {
	recs := from.TakeAll()
	slices.SortFunc(recs, func(a, b *collector.Record) int {
		return a.Start.Add(a.Done.Offset).Compare(b.Start.Add(b.Done.Offset))
	})
	for _, r := range recs {
		switch candidates := m.byHash[r.UserHash]; len(candidates) {
		case 0:
			m.foreign++
			foreign := *r
			foreign.Labels, foreign.SetApart = collector.Labels{}, collector.ApartForeign
			foreign.UserHash, foreign.Thread, foreign.NamedBy = "", nil, ""
			m.load.keep(&foreign)
		case 1:
			m.put(ctx, r, candidates[0])
		default:
			m.held = append(m.held, r)
		}
	}
	return len(recs)
}

// put labels a Record as a turn of conversation i and judges it.
func (m *matcher) put(ctx context.Context, r *collector.Record, i int) {
	at := place{i, r.Labels.Turn}
	labelled := *r // others hold r, and a Record is never changed
	labelled.Labels = m.load.labels(i, at.turn)
	labelled.UserHash, labelled.Thread, labelled.NamedBy = "", nil, ""
	m.load.keep(&labelled)
	err := asked{rec: r, status: r.Status}.failure()
	prompts := m.questions[i].Prompts
	switch {
	case m.places[at] != nil:
		err = cmp.Or(err, errors.New("the turn was asked more than once"))
	case at.turn >= len(prompts):
		err = cmp.Or(err, fmt.Errorf("the conversation has %d turns", len(prompts)))
	case r.Prompt != prompts[at.turn]:
		err = cmp.Or(err, errors.New("another text was asked than the question's"))
	}
	m.places[at] = r
	m.load.sweep.progress.counted(err == nil)
	if err != nil {
		m.fail(ctx, at, r, err)
	}
}

func (m *matcher) fail(ctx context.Context, at place, r *collector.Record, err error) {
	if m.failed[at] {
		return
	}
	m.failed[at] = true
	a := asked{rec: r}
	if r != nil {
		a.id, a.status = r.RequestID, r.Status
	}
	m.load.fail(ctx, at.conversation, at.turn, a, err)
}

// settle places the Records that were held, and names the turns that have none.
func (m *matcher) settle(ctx context.Context, export *collector.AIPerf) {
	sessions := map[string]int{} // conversation by correlation id
	if export != nil {
		for _, row := range export.Rows {
			if i, ok := sessionIndex(row.ConversationID); ok && i >= 0 && i < len(m.questions) {
				sessions[row.CorrelationID] = i
			}
		}
	}
	for _, r := range m.held {
		i, ok := sessions[r.Labels.Conversation]
		if !ok || !slices.Contains(m.byHash[r.UserHash], i) {
			i = m.free(r)
			sessions[r.Labels.Conversation] = i
		}
		m.put(ctx, r, i)
	}
	m.held = nil
	for i, q := range m.questions {
		for turn := range q.Prompts {
			if at := (place{i, turn}); m.places[at] == nil {
				m.fail(ctx, at, nil, errors.New("AIPerf did not ask it"))
			}
		}
	}
}

// free is the first conversation that begins as the Record's and is not taken.
func (m *matcher) free(r *collector.Record) int {
	candidates := m.byHash[r.UserHash]
	for _, i := range candidates {
		if m.places[place{i, r.Labels.Turn}] == nil {
			return i
		}
	}
	return candidates[len(candidates)-1]
}

// warnings tells of requests that are in no figure.
func (m *matcher) warnings() []string {
	if m.foreign == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d requests of none of the questions came through the measuring proxy and are in no figure", m.foreign)}
}

// startError is the line by which AIPerf says why it could not start; "" where
// requests were sent: an answer of the server may be in later lines.
func startError(files aiperfFiles, m *matcher) string {
	if m.missing() < m.expected() {
		return ""
	}
	text, err := os.ReadFile(files.output())
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if _, said, ok := strings.Cut(line, " ERROR "); ok {
			said = strings.TrimSpace(said)
			return ": " + said[:min(len(said), 300)]
		}
	}
	return ""
}
