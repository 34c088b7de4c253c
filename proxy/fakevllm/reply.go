package fakevllm

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
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
bread flour water salt oven dough baker morning city river bridge engine measure token window harbour lantern copper garden`)

// step is one engine step of one choice, as emitted.
type step struct {
	ids      []int
	text     string // what the detokenizer lets out with it
	drafted  bool   // it verified drafts: neither the prefill nor a step without drafts
	accepted int    // accepted drafts before the reply's end cut the step
}

// reply is what a request is answered: all of its steps, made before any of it is
// sent. Its randomness comes from the request alone; time decides when a step is
// sent, never what it holds.
type reply struct {
	steps   []step
	finish  string
	stop    string // the stop string that ended it: the detokenizer finds it, and the engine's finishing output with the statistics never comes
	dropped bool   // no statistics block; the last two steps come in one event

	cfg       *Config
	q         *request
	draws     *rand.Rand // which tokens
	luck      *rand.Rand // how many of them a step gets
	hardness  float64    // an acceptance probability p becomes p^hardness
	generated int
	text      []byte // without special tokens unless they are kept
	visible   int    // bytes of text that a client may see
}

// newReply makes a reply. Limits and stops cut it and do not change it; sampling
// parameters change it at a temperature above 0 only.
func newReply(cfg *Config, q *request) *reply {
	key := fmt.Appendf(nil, "%d %s", cfg.Seed, q.text)
	if q.Temperature > 0 {
		key = fmt.Appendf(key, "\x00%v %v %q", q.Temperature, q.Seed, q.CacheSalt)
	}
	seed := sha256.Sum256(key)
	r := &reply{cfg: cfg, q: q, draws: rand.New(rand.NewChaCha8(seed)), luck: rand.New(rand.NewChaCha8(sha256.Sum256(seed[:])))}
	// Conversations are easy (0.5) or hard (1.5) to draft by their first three words.
	w := strings.Fields(q.text)
	topic := sha256.Sum256([]byte(strings.Join(w[:min(3, len(w))], " ")))
	r.hardness = (0.5 + float64(topic[0])/255) * (1 + q.Temperature)
	lost := r.luck.Float64() < cfg.DropBlocks
	for r.finish == "" {
		r.steps = append(r.steps, r.step())
	}
	r.dropped = lost && r.stop == "" && len(r.steps) > 2
	return r
}

// step makes the next engine step; finish is set when it is the last. While a
// reply runs, stop strings hold back one byte less than the longest of ther.
func (r *reply) step() step {
	var st step
	want, hold := 1, 0
	if r.generated > 0 && r.luck.Float64() >= r.cfg.Draftless {
		st.drafted, st.accepted = true, r.accept()
		want += st.accepted
	}
	for ; want > 0 && r.finish == ""; want-- {
		st.ids = append(st.ids, r.token())
	}
	for _, stop := range r.q.stops {
		if r.finish == "" {
			hold = max(hold, len(stop)-1)
		}
	}
	from := r.visible
	r.visible = max(from, len(r.text)-hold)
	st.text = string(r.text[from:r.visible])
	return st
}

// accept draws how many drafts a verify step accepts: position i is looked at
// only if the one before it was accepted.
func (r *reply) accept() int {
	for i := range r.cfg.DraftLength {
		p := r.cfg.Acceptance[min(i, len(r.cfg.Acceptance)-1)]
		if r.luck.Float64() >= math.Pow(p, r.hardness) {
			return i
		}
	}
	return r.cfg.DraftLength
}

// draw returns the model's next token; a third of the replies begin with a special one.
func (r *reply) draw() (id int, text string) {
	p, n := r.draws.Float64(), r.draws.IntN(len(words))
	first := r.generated == 0
	r.generated++
	switch {
	case first && p < 1.0/3, !first && p > 1-1.0/80:
		return tokenStart, "<|im_start|>"
	case first:
		return firstWord + n, words[n]
	case p < r.cfg.EOS:
		return tokenEOS, "<|im_end|>"
	case p > 1-2.0/80:
		return tokenHalf, ""
	}
	return firstWord + n, " " + words[n]
}

// token appends the next token and looks for the reply's end, in vLLM's order:
// EOS (not part of the text), limit, stop string.
func (r *reply) token() int {
	id, text := r.draw()
	switch {
	case id == tokenEOS && !r.q.IgnoreEOS:
		r.finish = "stop"
		return id
	case r.generated >= min(r.q.MaxTokens, r.cfg.MaxModelLen-r.q.promptTokens):
		r.finish = "length"
	}
	if id < firstWord && r.q.SkipSpecial {
		return id
	}
	r.text = append(r.text, text...)
	for _, stop := range r.q.stops {
		from := max(0, len(r.text)-len(text)-len(stop)+1)
		if i := bytes.Index(r.text[from:], []byte(stop)); i >= 0 && stop != "" && r.stop == "" {
			r.finish, r.stop, r.text = "stop", stop, r.text[:from+i]
		}
	}
	return id
}
