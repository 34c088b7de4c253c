package fakevllm

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// Token ids of the simulated tokenizer. Words start at firstWord.
const (
	tokenStart = 1 // "<|im_start|>": a special token that a reply may hold
	tokenEOS   = 2 // "<|im_end|>"
	tokenHalf  = 3 // first half of a multi-byte character: no text of its own
	firstWord  = 100
)

var words = strings.Fields(`the of and to in a is that for it as was with be by on not he his but at are this have from
or had an they which one you were her all she there would their we him been has when who will more no if out so said what up
its about into than them can only other new some could time these two may then do first any my now such like our over man
me even most made after also did many before must through back years where much your way well down should because each just
bread flour water salt oven dough baker morning city river bridge engine measure token window harbour lantern copper garden`)

type token struct {
	id   int
	text string
}

// step is one engine step of one choice, as emitted.
type step struct {
	tokens   []token
	drafted  int // drafts that were verified; 0 for the prefill and for steps without drafts
	accepted int // accepted drafts before the reply's end cut the step
}

// sequence generates one choice, step by step. Its randomness comes from the
// request alone, so that neither time nor other requests change the reply.
type sequence struct {
	cfg  *Config
	req  *request
	text *rand.Rand // which tokens
	luck *rand.Rand // how many of them a step gets
	exp  float64    // an acceptance probability p becomes p^exp

	half       bool // the next token completes a character
	generated  int
	reply      strings.Builder // without special tokens unless they are kept
	stopAt     int             // bytes of reply before the stop string
	finish     string
	stopReason any
	dropped    bool // the statistics block is lost and the last two steps share an event
}

func newSequence(cfg *Config, r *request, choice int) *sequence {
	seed := sha256.Sum256(r.key(cfg.Seed, choice))
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(seed[8*i:]) }
	s := &sequence{cfg: cfg, req: r, text: rand.New(rand.NewPCG(word(0), word(1))), luck: rand.New(rand.NewPCG(word(2), word(3)))}
	s.exp = hardness(r.prompts[choice/r.n]) * (1 + r.temperature())
	s.dropped = s.luck.Float64() < cfg.DropBlocks
	return s
}

// hardness differs between conversations, 0.5 (easy to draft) to 1.5, by the
// first three words of the prompt's text: an exponent of the acceptance probabilities.
func hardness(p prompt) float64 {
	w := strings.Fields(p.first)
	sum := sha256.Sum256([]byte(strings.Join(w[:min(3, len(w))], " ")))
	return 0.5 + float64(sum[0])/255
}

// key is what the reply depends on. Limits and stops cut a reply and do not change it.
func (r *request) key(seed uint64, choice int) []byte {
	k := []any{seed, r.prompts[choice/r.n].text, choice}
	if t := r.temperature(); t > 0 {
		k = append(k, t, r.TopP, r.TopK, r.Seed, r.CacheSalt)
	}
	b, _ := json.Marshal(k) // numbers and strings only
	return b
}

// next returns the next engine step; finish is set when it is the last.
func (s *sequence) next() step {
	var st step
	want := 1
	switch {
	case s.generated == 0: // prefill
	case s.luck.Float64() < s.cfg.Draftless:
	default:
		st.drafted = s.cfg.DraftLength
		st.accepted = s.accept()
		want += st.accepted
	}
	for i := 0; i < want && s.finish == ""; i++ {
		t := s.draw()
		s.generated++
		s.append(t)
		st.tokens = append(st.tokens, t)
	}
	return st
}

// accept draws how many drafts a verify step accepts: position i is looked at
// only if the one before it was accepted.
func (s *sequence) accept() int {
	for i := range s.cfg.DraftLength {
		p := s.cfg.Acceptance[min(i, len(s.cfg.Acceptance)-1)]
		if s.luck.Float64() >= math.Pow(p, s.exp) {
			return i
		}
	}
	return s.cfg.DraftLength
}

// draw returns the model's next token.
func (s *sequence) draw() token {
	if s.half {
		s.half = false
		return token{tokenHalf + 1, " 🍞"}
	}
	p := s.text.Float64()
	n := s.text.IntN(len(words))
	if s.generated == 0 {
		if p < 1.0/3 {
			return token{tokenStart, "<|im_start|>"}
		}
		return token{firstWord + n, words[n]}
	}
	switch {
	case p < s.cfg.EOS:
		return token{tokenEOS, "<|im_end|>"}
	case p > 1-1.0/80:
		s.half = true
		return token{tokenHalf, ""}
	case p > 1-2.0/80:
		return token{tokenStart, "<|im_start|>"}
	}
	return token{firstWord + n, " " + words[n]}
}

// append adds t to the reply and looks for its end, in vLLM's order: EOS, stop
// token, limit; the text of a token that stops is not part of the reply.
func (s *sequence) append(t token) {
	r := s.req
	switch {
	case t.id == tokenEOS && !r.IgnoreEOS:
		s.finish = "stop"
		return
	case r.stopsAt(t.id):
		s.finish, s.stopReason = "stop", t.id
		return
	case s.generated >= r.limit(s.cfg):
		s.finish = "length"
	}
	if (t.id == tokenStart || t.id == tokenEOS) && r.skipSpecial() {
		return
	}
	s.reply.WriteString(t.text)
	s.findStop(len(t.text))
}

// findStop looks for a stop string that the last n bytes of the reply completed.
func (s *sequence) findStop(n int) {
	text := s.reply.String()
	for _, stop := range s.req.stops {
		from := max(0, len(text)-n-len(stop)+1)
		i := strings.Index(text[from:], stop)
		if i < 0 {
			continue
		}
		s.stopAt = from + i
		if s.req.IncludeStop {
			s.stopAt += len(stop)
		}
		s.finish, s.stopReason = "stop", stop
		return
	}
}

// onString says whether a stop string ended the reply: the detokenizer finds it,
// and the engine's finishing output with the statistics never comes.
func (s *sequence) onString() bool {
	_, ok := s.stopReason.(string)
	return ok
}

// visible returns how many bytes of the reply a client may see: while it runs,
// stop strings hold back one character less than the longest of them.
func (s *sequence) visible() int {
	if s.onString() {
		return s.stopAt
	}
	n := s.reply.Len()
	if s.finish != "" || s.req.IncludeStop {
		return n
	}
	text := s.reply.String()
	for range s.req.holdBack {
		_, size := utf8.DecodeLastRuneInString(text[:n])
		n -= size
	}
	return n
}
