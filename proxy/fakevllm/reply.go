package fakevllm

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Token ids of the simulated tokenizer. Words start at firstWord.
const (
	tokenStart = 1 // "<|im_start|>": a special token that a reply may hold
	tokenEOS   = 2 // "<|im_end|>"
	tokenHalf  = 3 // part of a character: no text of its own
	firstWord  = 100
)

var words = strings.Fields(`the of and to in a is that for it as was with be by on not he his but at are this have from
or had an they which one you were her all she there would their we him been has when who will more no if out so said what up
its about into than them can only other new some could time these two may then do first any my now such like our over man
me even most made after also did many before must through back years where much your way well down should because each just
bread flour water salt oven dough baker morning city river bridge engine measure token window harbour lantern copper garden`)

// step is one engine step of one choice, as emitted.
type step struct {
	ids      []int
	text     string // what the detokenizer lets out with it
	drafted  bool   // it verified drafts: neither the prefill nor a step without drafts
	accepted int    // accepted drafts before the reply's end cut the step
}

// reply is one choice: all of its steps, made before any of it is sent, and how
// far it was sent. Time decides when a step is sent, never what it holds.
type reply struct {
	steps      []step
	finish     string
	stopReason any    // a stop token or a stop string
	text       []byte // without special tokens unless they are kept
	visible    int    // bytes of text that a client may see
	dropped    bool   // no statistics block; the last two steps come in one event

	next int  // the next step to execute
	held step // executed, not yet in an event
	sent int  // tokens in events
}

// maker draws one reply. Its randomness comes from the request alone, so that
// neither time nor other requests change the reply.
type maker struct {
	*reply
	cfg       *Config
	q         *request
	draws     *rand.Rand // which tokens
	luck      *rand.Rand // how many of them a step gets
	hardness  float64    // an acceptance probability p becomes p^hardness
	generated int
}

// newReply makes choice n. Limits and stops cut a reply and do not change it;
// sampling parameters change it at a temperature above 0 only.
func newReply(cfg *Config, q *request, n int) *reply {
	key := fmt.Appendf(nil, "%d %d %s", cfg.Seed, n, q.text)
	if q.Temperature > 0 {
		key = fmt.Appendf(key, "\x00%v %v %v %v %q", q.Temperature, q.TopP, q.TopK, q.Seed, q.CacheSalt)
	}
	seed := sha256.Sum256(key)
	m := &maker{reply: &reply{}, cfg: cfg, q: q, draws: rand.New(rand.NewChaCha8(seed)), luck: rand.New(rand.NewChaCha8(sha256.Sum256(seed[:])))}
	// Conversations are easy (0.5) or hard (1.5) to draft by their first three words.
	w := strings.Fields(q.first)
	topic := sha256.Sum256([]byte(strings.Join(w[:min(3, len(w))], " ")))
	m.hardness = (0.5 + float64(topic[0])/255) * (1 + q.Temperature)
	lost := m.luck.Float64() < cfg.DropBlocks
	for m.finish == "" {
		m.steps = append(m.steps, m.step())
	}
	m.text = m.text[:m.visible]
	m.dropped = lost && !m.onString() && len(m.steps) > 2
	return m.reply
}

// step makes the next engine step; finish is set when it is the last.
func (m *maker) step() step {
	var st step
	want := 1
	if m.generated > 0 && m.luck.Float64() >= m.cfg.Draftless {
		st.drafted, st.accepted = true, m.accept()
		want += st.accepted
	}
	for ; want > 0 && m.finish == ""; want-- {
		id, text := m.draw()
		st.ids = append(st.ids, id)
		m.add(id, text)
	}
	from := m.visible
	m.visible = max(from, m.releasable())
	st.text = string(m.text[from:m.visible])
	return st
}

// accept draws how many drafts a verify step accepts: position i is looked at
// only if the one before it was accepted.
func (m *maker) accept() int {
	for i := range m.cfg.DraftLength {
		p := m.cfg.Acceptance[min(i, len(m.cfg.Acceptance)-1)]
		if m.luck.Float64() >= math.Pow(p, m.hardness) {
			return i
		}
	}
	return m.cfg.DraftLength
}

// draw returns the model's next token; a third of the replies begin with a special one.
func (m *maker) draw() (id int, text string) {
	p, n := m.draws.Float64(), m.draws.IntN(len(words))
	first := m.generated == 0
	m.generated++
	switch {
	case first && p < 1.0/3, !first && p > 1-1.0/80:
		return tokenStart, "<|im_start|>"
	case first:
		return firstWord + n, words[n]
	case p < m.cfg.EOS:
		return tokenEOS, "<|im_end|>"
	case p > 1-2.0/80:
		return tokenHalf, ""
	}
	return firstWord + n, " " + words[n]
}

// add appends a token and looks for the reply's end, in vLLM's order: EOS, stop
// token, limit, stop string; the text of a token that stops is not part of the reply.
func (m *maker) add(id int, text string) {
	switch {
	case id == tokenEOS && !m.q.IgnoreEOS:
		m.finish = "stop"
		return
	case slices.Contains(m.q.StopTokens, id):
		m.finish, m.stopReason = "stop", id
		return
	case m.generated >= min(m.q.MaxTokens, m.cfg.MaxModelLen-m.q.promptTokens):
		m.finish = "length"
	}
	if id < firstWord && m.q.SkipSpecial {
		return
	}
	old := len(m.text)
	m.text = append(m.text, text...)
	for _, stop := range m.q.stops {
		from := max(0, old-len(stop)+1)
		if i := bytes.Index(m.text[from:], []byte(stop)); i >= 0 && stop != "" {
			m.finish, m.stopReason, m.text = "stop", stop, m.text[:from+i]
			return
		}
	}
}

// onString says whether a stop string ended the reply: the detokenizer finds it,
// and the engine's finishing output with the statistics never comes.
func (r *reply) onString() bool {
	_, ok := r.stopReason.(string)
	return ok
}

// onEOS says whether the last token is an EOS that ended the reply.
func (r *reply) onEOS() bool { return r.finish == "stop" && r.stopReason == nil }

// releasable returns how many bytes may be seen: while a reply runs, stop strings
// hold back one byte less than the longest of them.
func (m *maker) releasable() int {
	n := len(m.text)
	if m.finish != "" {
		return n
	}
	hold := 0
	for _, stop := range m.q.stops {
		hold = max(hold, len(stop)-1)
	}
	return n - hold
}
