package proxy

import (
	"bytes"

	"spectap/proxy/tap"
)

// Cutter takes out of an event stream what only the proxy asked for, so that
// the client gets the bytes that the server would have sent without asking,
// however the network splits them:
//
//	upstream ──▶ Feed ──▶ client
//	              │ usage event          dropped
//	              │ usage members        cut (Asked.Continuous)
//	              └ finish event         held until the next event: system_fingerprint, which vLLM moves
//	                                     to the usage event, goes back as its last member
//
// Everything else passes unchanged and in order. A Cutter is for bodies of
// type text/event-stream; one goroutine uses it. The zero Cutter passes all.
type Cutter struct {
	asked Asked
	own   bool // the server sends usage unasked, so nothing is ours to cut
	plain bool // an event with choices and without usage came, so usage on the finish event alone is no sign of that

	part    []byte // the event whose end has not come
	sent    int    // bytes of part that have gone on
	line    int    // where part's last line starts
	scan    int    // where the search for that line's end goes on
	tried   int    // length of part when its choices were last looked for
	passing bool   // part is not the usage event

	held  []byte // a finish event, and the comments after it
	brace int    // index in held of the finish event's closing brace
	lacks lacks  // what can be put back into it

	shape shape // of the last event

	cr   bool // the last unit ended in a CR at the end of a read: an LF belongs to it
	gone bool // that unit was dropped
}

// Reset makes the Cutter ready for another stream. It keeps its buffers unless an unusual event made them large.
func (c *Cutter) Reset(asked Asked) {
	*c = Cutter{asked: asked, part: reuse(c.part), held: reuse(c.held), shape: shape{rest: reuse(c.shape.rest)}}
}

func reuse(b []byte) []byte {
	if cap(b) > 1<<20 {
		return nil
	}
	return b[:0]
}

// Feed takes what came from upstream and appends to dst what may go on to the
// client; that can be nothing. in is not kept and must not overlap dst.
func (c *Cutter) Feed(dst, in []byte) []byte {
	if c.own || !c.asked.Usage && !c.asked.Continuous {
		return append(dst, in...)
	}
	dst, in = c.lineFeed(dst, in)
	b := in
	if len(c.part) > 0 {
		c.part = append(c.part, in...)
		b = c.part
	}
	at := 0
	for at < len(b) {
		n := c.unit(b[at:])
		if n == 0 {
			break
		}
		dst = c.whole(dst, b[at:at+n])
		c.cr = b[at+n-1] == '\r' && at+n == len(b)
		at += n
		c.sent, c.line, c.scan, c.tried, c.passing = 0, 0, 0, 0, false
	}
	if at > 0 || len(c.part) == 0 { // else b is part, and moving it at each read would make long events quadratic
		c.part = append(c.part[:0], b[at:]...)
	}
	return c.early(dst)
}

// lineFeed deals with an LF that belongs to the CR at the end of the read before.
func (c *Cutter) lineFeed(dst, in []byte) (out, rest []byte) {
	if !c.cr || len(in) == 0 {
		return dst, in
	}
	c.cr = false
	if in[0] != '\n' {
		return dst, in
	}
	if !c.gone {
		dst = c.pass(dst, in[:1])
	}
	return dst, in[1:]
}

// unit returns the length of what b starts with: a comment line, a blank line,
// or an event with the blank line that ends it. 0 means that its end has not come.
func (c *Cutter) unit(b []byte) int {
	for {
		end, next := lineEnd(b, c.scan)
		if end < 0 {
			c.scan = len(b)
			return 0
		}
		if end == c.line || c.line == 0 && b[0] == ':' {
			return next
		}
		if next == len(b) && b[next-1] == '\r' {
			c.scan = end // an LF may still belong to it
			return 0
		}
		c.line, c.scan = next, next
	}
}

// lineEnd returns the index of the next line's end (LF, CRLF or CR) at or after from, and the index after it; -1 where there is none.
func lineEnd(b []byte, from int) (end, next int) {
	lf := bytes.IndexByte(b[from:], '\n')
	line := b[from:]
	if lf >= 0 {
		line = b[from : from+lf]
	}
	if cr := bytes.IndexByte(line, '\r'); cr >= 0 {
		end = from + cr
		if end+1 < len(b) && b[end+1] == '\n' {
			return end, end + 2
		}
		return end, end + 1
	}
	if lf < 0 {
		return -1, 0
	}
	return from + lf, from + lf + 1
}

// whole takes a complete unit, of which c.sent bytes have gone on.
func (c *Cutter) whole(dst, unit []byte) []byte {
	c.gone = false
	if unit[0] == ':' || unit[0] == '\n' || unit[0] == '\r' || c.own {
		return c.pass(dst, unit[c.sent:])
	}
	e := c.read(unit)
	switch {
	case e.isUsage() && c.asked.Usage && c.sent == 0:
		c.gone = true
		return c.settle(dst, e)
	case e.hasUsage && e.filled && (!e.finish || !c.plain) && !c.asked.Continuous && !c.asked.KeepEvents:
		c.own = true
	}
	c.plain = c.plain || e.filled && !e.hasUsage
	dst = c.flush(dst)
	if e.hasUsage && e.filled && c.asked.Continuous {
		return c.cutMember(dst, unit, e)
	}
	if e.finish && c.asked.Usage && !c.own {
		return c.hold(dst, unit[c.sent:], e, e.close-c.sent)
	}
	return append(dst, unit[c.sent:]...)
}

// read returns what look says of an event, mostly without parsing it.
func (c *Cutter) read(unit []byte) event {
	e, ok := c.shape.read(unit)
	if ok {
		return e
	}
	if e = (event{filled: true}); !surelyPlain(unit) {
		e = look(unit)
	}
	c.shape.learn(unit, e)
	return e
}

// pass hands a comment or a blank line on, behind the finish event where that is held.
func (c *Cutter) pass(dst, b []byte) []byte {
	if len(c.held) > 0 {
		c.held = append(c.held, b...)
		return dst
	}
	return append(dst, b...)
}

// cutMember hands on an event without its usage member, in a stream where we asked for one on every event.
func (c *Cutter) cutMember(dst, unit []byte, e event) []byte {
	start := len(dst)
	from, to, null := e.usageFrom, e.usageTo, ""
	if c.asked.NullUsage {
		from, to, null = e.usageValue, e.usageValueEnd, "null"
	}
	dst = append(append(append(dst, unit[:from]...), null...), unit[to:]...)
	if !e.finish || !c.asked.Usage {
		return dst
	}
	c.held = append(c.held[:0], dst[start:]...)
	c.brace, c.lacks = e.close-(to-from)+len(null), e.lacks
	return dst[:start]
}

// hold keeps a finish event, or what has not gone on of it, until the event after it.
func (c *Cutter) hold(dst, rest []byte, e event, brace int) []byte {
	if brace < 0 {
		return append(dst, rest...)
	}
	c.held = append(c.held[:0], rest...)
	c.brace, c.lacks = brace, e.lacks
	return dst
}

// settle drops the usage event and gives the held finish event what asking for usage has moved out of it.
func (c *Cutter) settle(dst []byte, usage event) []byte {
	if len(c.held) == 0 {
		return dst
	}
	dst = append(dst, c.held[:c.brace]...)
	if c.lacks.fingerprint && len(usage.fingerprint) > 0 {
		dst = append(append(dst, `,"system_fingerprint":`...), usage.fingerprint...)
	}
	if c.lacks.timings && len(usage.timings) > 0 { // llama.cpp puts them on its last event
		dst = append(append(dst, `,"timings":`...), usage.timings...)
	}
	dst = append(dst, c.held[c.brace:]...)
	c.held = c.held[:0]
	return dst
}

// flush hands on the held finish event as it is.
func (c *Cutter) flush(dst []byte) []byte {
	dst = append(dst, c.held...)
	c.held = c.held[:0]
	return dst
}

// early hands on the beginning of an event whose end has not come, once its
// choices shows that it is not the usage event. The closing brace is kept back:
// should it be a finish event, a member goes before it.
func (c *Cutter) early(dst []byte) []byte {
	if len(c.part) == 0 {
		return dst
	}
	if len(c.part) > tap.DefaultMaxEvent && !c.own { // nobody reads it, so nobody can cut it
		dst, c.own = c.flush(dst), true
	}
	if c.own {
		dst = append(dst, c.part[c.sent:]...)
		c.part = c.part[:0]
		return dst
	}
	if c.asked.Continuous || !c.passing && !c.decide() {
		return dst
	}
	dst = c.flush(dst)
	safe := len(bytes.TrimRight(c.part, " \t\r\n"))
	if safe > 0 && c.part[safe-1] == '}' {
		safe--
	}
	if safe > c.sent {
		dst = append(dst, c.part[c.sent:safe]...)
		c.sent = safe
	}
	return dst
}

// decide looks whether part is surely not the usage event. Large parts are
// looked at again only after they have doubled, so that the work stays linear.
func (c *Cutter) decide() bool {
	if c.tried > 64<<10 && len(c.part) < 2*c.tried {
		return false
	}
	c.tried = len(c.part)
	c.passing = choicesFilled(c.part)
	return c.passing
}

// Pending returns how many bytes are held back.
func (c *Cutter) Pending() int { return len(c.held) + len(c.part) - c.sent }

// Held reports whether a complete event is held back: start the timer that calls Expire.
func (c *Cutter) Held() bool { return len(c.held) > 0 }

// Expire appends the complete events that are held to dst. An event whose end
// has not come stays: the client could do nothing with half of it.
func (c *Cutter) Expire(dst []byte) []byte { return c.flush(dst) }

// Release appends everything that is held to dst: the stream has ended, or the
// upstream has died. A last event without its blank line is cut like the others
// where it is complete.
func (c *Cutter) Release(dst []byte) []byte {
	if len(c.part) > 0 {
		part := c.part
		c.part = c.part[:0]
		dst = c.whole(dst, part)
	}
	c.sent, c.line, c.scan, c.tried, c.passing = 0, 0, 0, 0, false
	return c.flush(dst)
}
