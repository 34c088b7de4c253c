package collector

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// byQuestion gives each conversation its question of the file, and chooses the one
// that counts for each question. Questions that nobody asked are marked.
func (g *recognition) byQuestion() {
	g.run.Questions = slices.Clone(g.run.Questions)
	f := newQuestionFinder(g.run.Questions)
	asked := make([][]*talk, len(g.run.Questions))
	by := make([]string, len(g.run.Questions))
	for _, t := range g.talks {
		how := ""
		if t.question, how = f.find(t); t.question < 0 {
			setTalkApart(t, ApartForeign)
			continue
		}
		asked[t.question] = append(asked[t.question], t)
		by[t.question] = how
	}
	load := g.loadBegan()
	for i, talks := range asked {
		q := &g.run.Questions[i]
		if q.Turns > 1 && !slices.ContainsFunc(talks, func(t *talk) bool { return !t.isWarmUp(load) }) {
			for _, t := range talks {
				setTalkApart(t, ApartAskedAgain)
			}
			talks = nil
		}
		if q.NotAsked = len(talks) == 0; q.NotAsked {
			continue
		}
		g.report.Asked++
		g.report.QuestionsBy[by[i]]++
		counts := chosen(talks, q.Turns)
		for n, t := range talks {
			switch {
			case n < counts:
				setTalkApart(t, ApartAskedAgain)
			case n > counts:
				setTalkApart(t, ApartRepeated)
			}
		}
	}
}

// loadBegan is when the first conversation began that has a second turn; the zero
// time where none has.
func (g *recognition) loadBegan() time.Time {
	for _, t := range g.talks { // by their first request
		if t.lastTurn().number > 0 {
			return t.turns[0].tries[0].Start
		}
	}
	return time.Time{}
}

// isWarmUp says that a conversation is a complete first turn alone that had ended
// before the load began: AIPerf asks first turns to warm a server up, and goes on
// with other questions.
func (t *talk) isWarmUp(load time.Time) bool {
	first := t.turns[0].best()
	return len(t.turns) == 1 && t.turns[0].number == 0 && first.ErrorKind == "" && first.endedBy(load)
}

// chosen is the index of the conversation that counts: the last complete one, else the last.
func chosen(talks []*talk, turns int) int {
	for i, t := range slices.Backward(talks) {
		if t.complete(turns) {
			return i
		}
	}
	return len(talks) - 1
}

func setTalkApart(t *talk, reason string) {
	for _, turn := range t.turns {
		for _, r := range turn.tries {
			r.SetApart = reason
		}
	}
}

// questionFinder finds the question of a conversation.
type questionFinder struct {
	questions []Question
	byID      map[string]int   // the first question of an id
	byHash    map[string][]int // by the first user message
	given     map[string]int   // how many conversations a hash of several questions had
}

func newQuestionFinder(questions []Question) *questionFinder {
	f := &questionFinder{questions: questions, byID: map[string]int{}, byHash: map[string][]int{}, given: map[string]int{}}
	for i, q := range questions {
		if _, ok := f.byID[idKey(q.ID)]; !ok {
			f.byID[idKey(q.ID)] = i
		}
		if len(q.Prompts) == 0 {
			continue
		}
		exact, trimmed := HashText(nil, q.Prompts[0]), HashText(nil, strings.TrimSpace(q.Prompts[0]))
		f.byHash[exact] = append(f.byHash[exact], i)
		if trimmed != exact {
			f.byHash[trimmed] = append(f.byHash[trimmed], i)
		}
	}
	return f
}

// find returns the index of a conversation's question and what told it; -1 where
// nothing does.
func (f *questionFinder) find(t *talk) (index int, by string) {
	r := t.turns[0].best()
	label := r.Labels.Question
	if label == r.UserHash {
		label = "" // the proxy filled it in
	}
	if i, ok := f.byID[label]; ok && label != "" {
		return i, "label"
	}
	if list := f.byHash[r.UserHash]; len(list) > 0 && r.UserHash != "" {
		return f.among(list, t), "first_message"
	}
	if t.by == NamedByBaggage && label == "" { // spectap.conversation is a place in the data set
		if i, err := strconv.Atoi(r.Labels.Conversation); err == nil && i >= 0 && i < len(f.questions) {
			return i, "label"
		}
	}
	return -1, ""
}

// among chooses between questions that begin with one text: by the later turns
// where they tell, else one after another.
func (f *questionFinder) among(list []int, t *talk) int {
	if len(list) == 1 {
		return list[0]
	}
	if last := t.lastTurn(); last.best().Thread != nil && last.number > 0 {
		for _, i := range list {
			if f.chain(i, last.number) == last.best().Thread.Users {
				return i
			}
		}
	}
	hash := t.turns[0].best().UserHash
	i := list[f.given[hash]%len(list)]
	f.given[hash]++
	return i
}

// chain is the chain of a question's user messages up to a turn; "" where it has no such turn.
func (f *questionFinder) chain(question, turn int) string {
	prompts, chain := f.questions[question].Prompts, ""
	if turn >= len(prompts) {
		return ""
	}
	for _, text := range prompts[:turn+1] {
		chain = ChainHash(nil, chain, text)
	}
	return chain
}
