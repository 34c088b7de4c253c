package tap

import (
	"time"

	"spectap/collector"
)

// seen is a collector.Chunk in half of its room: each open stream keeps its own.
type seen struct {
	at   time.Duration
	what uint64 // tokens<<11 | place in Tap.choices<<1 | shared
}

const (
	mostTokens = 1<<53 - 1      // of an event; no greater count is read
	placeMask  = maxChoices - 1 // ten bits
)

func (t *Tap) addChunk(tokens, choice int) {
	if t.chunks == nil {
		t.chunks = make([]seen, 0, 64)
	}
	s := seen{t.at, uint64(min(tokens, mostTokens))<<11 | uint64(t.place(choice))<<1}
	if t.chunkRead == t.read {
		s.what |= 1
	}
	t.chunks = append(t.chunks, s)
	t.chunkRead = t.read
}

// place returns where a choice stands among the choices; 0 on routes without.
func (t *Tap) place(choice int) int {
	for i := range t.choices {
		if t.choices[i].index == choice {
			return i
		}
	}
	return 0
}

// chunkList returns the chunks, and nothing of the Tap; nil for none.
func (t *Tap) chunkList() []collector.Chunk {
	if len(t.chunks) == 0 {
		return nil
	}
	list := make([]collector.Chunk, len(t.chunks))
	for i, s := range t.chunks {
		list[i] = collector.Chunk{At: s.at, Tokens: int(s.what >> 11), Shared: s.what&1 == 1}
		if place := int(s.what >> 1 & placeMask); place < len(t.choices) {
			list[i].Choice = t.choices[place].index
		}
	}
	return list
}

// keepChunks empties the chunks for reuse, unless an unusual answer made them many.
func keepChunks(c []seen) []seen {
	if cap(c) > 1<<15 {
		return nil
	}
	return c[:0]
}
