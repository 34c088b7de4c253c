package proxy

import (
	"errors"
	"time"
)

// cutting is a Cutter and the room for what it lets pass.
type cutting struct {
	Cutter
	out  []byte
	kept []byte // what it held before the call that runs, should that panic
	over bool   // that was too much to keep
}

// keepLimit is the longest unfinished event that a panicking Cutter gives back.
const keepLimit = 1 << 20

var errLost = errors.New("a panic was recovered while cutting, and bytes were lost")

// cut returns what of in goes to the client now. A Cutter that panics is given
// up: what it holds is passed on and the rest as it comes.
func (b *stream) cut(in []byte) (out []byte, err error) {
	if b.cutter == nil {
		return in, nil
	}
	c := b.cutter
	defer func() {
		if r := recover(); r != nil {
			out, err = b.giveUp(c, in)
		}
	}()
	c.keep()
	c.out = c.Feed(c.out[:0], in)
	if !b.cutter.Held() {
		b.heldUntil = time.Time{}
	} else if b.heldUntil.IsZero() {
		b.heldUntil = time.Now().Add(b.s.cfg.Hold)
	}
	return c.out, nil
}

// keep copies what is held back, which is nothing at most reads.
func (c *cutting) keep() {
	c.kept, c.over = c.kept[:0], c.Pending() > keepLimit
	if !c.over {
		c.kept = append(append(c.kept, c.held...), c.part[c.sent:]...)
	}
}

// giveUp goes on without a Cutter that panicked, and returns what it held and in.
func (b *stream) giveUp(c *cutting, in []byte) ([]byte, error) {
	b.measuringFailed("cutting")
	b.cutter, b.heldUntil = nil, time.Time{}
	if c.over {
		return nil, errLost
	}
	return append(c.kept, in...), nil
}

// expire writes an event that was held for long enough.
func (b *stream) expire(w *countingWriter) error { return b.letGo(w, (*Cutter).Expire) }

// rest writes what was held back when the body ended.
func (b *stream) rest(w *countingWriter) error { return b.letGo(w, (*Cutter).Release) }

func (b *stream) letGo(w *countingWriter, take func(*Cutter, []byte) []byte) error {
	b.heldUntil = time.Time{}
	if b.cutter == nil {
		return nil
	}
	out, err := b.taken(take)
	if len(out) > 0 && err == nil {
		err = b.write(w, out)
	}
	return err
}

func (b *stream) taken(take func(*Cutter, []byte) []byte) (out []byte, err error) {
	c := b.cutter
	defer func() {
		if r := recover(); r != nil {
			out, err = b.giveUp(c, nil)
		}
	}()
	c.keep()
	c.out = take(&c.Cutter, c.out[:0])
	return c.out, nil
}

// write writes to the client. The time that the client takes is not the engine's silence.
func (b *stream) write(w *countingWriter, out []byte) error {
	if b.quiet.IsZero() {
		_, err := w.Write(out)
		return err
	}
	began := time.Now()
	_, err := w.Write(out)
	b.quiet = b.quiet.Add(time.Since(began))
	return err
}
