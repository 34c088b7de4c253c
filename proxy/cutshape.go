package proxy

import "bytes"

const (
	longestText  = 256     // of an event that shape reads
	longestShape = 4 << 10 // of an event that shape keeps

	triesInARow = 4  // of events that the next one does not fit
	triesApart  = 32 // after that, one in so many
)

// shape is the last event of a stream without its text. Most events of an answer
// differ from the one before in nothing but the text and numbers behind it, and
// comparing costs a tenth of parsing. The zero shape knows no event.
type shape struct {
	rest  []byte // what stands before the text and what stands behind it
	at    int    // where the text belongs
	event event  // what look says of it; its indices are those in rest
	tries uint   // events learnt or left out since one was known
}

// read returns what look says of unit, where unit is that event with another
// text and other numbers behind it. A text without quotes and backslashes ends
// where the next quote stands, so what stands around it means what it did.
func (s *shape) read(unit []byte) (e event, ok bool) {
	if len(s.rest) == 0 || !bytes.HasPrefix(unit, s.rest[:s.at]) {
		return e, false
	}
	text := textLength(unit[s.at:])
	if text < 0 {
		return e, false
	}
	e = s.event
	if !e.hasUsage {
		e.usageFrom = len(s.rest)
		e.usageTo = e.usageFrom
	}
	from := matched(unit, s.at+text, s.rest[s.at:e.usageFrom])
	to := matched(unit, from, s.rest[e.usageFrom:e.usageTo])
	if to < 0 || !bytes.Equal(unit[to:], s.rest[e.usageTo:]) {
		return e, false
	}
	s.tries = 0
	e.close += to - e.usageTo
	e.usageValue += from - e.usageFrom
	e.usageFrom, e.usageTo, e.usageValueEnd = from, to, to
	return e, true
}

// textLength returns the length of the string's content that b starts with; -1
// where it is not simple.
func textLength(b []byte) int {
	for i, c := range b[:min(len(b), longestText)] {
		switch {
		case c == '"':
			return i
		case c == '\\', c < ' ':
			return -1
		}
	}
	return -1
}

// matched returns where in unit, from at on, the JSON was ends, where unit may
// have other whole numbers; -1 where it does not stand there. was has no backslash.
func matched(unit []byte, at int, was []byte) (end int) {
	if at < 0 {
		return -1
	}
	if bytes.HasPrefix(unit[at:], was) && (at+len(was) == len(unit) || !isDigit(unit[at+len(was)])) {
		return at + len(was)
	}
	for len(was) > 0 && at < len(unit) {
		now := unit[at:]
		if !isDigit(now[0]) || !isDigit(was[0]) {
			if now[0] != was[0] {
				return -1
			}
			at, was = at+1, was[1:]
			continue
		}
		n := digits(now)
		if n > 1 && now[0] == '0' { // no number, unless behind a point
			return -1
		}
		at, was = at+n, was[digits(was):]
	}
	if len(was) > 0 {
		return -1
	}
	return at
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// digits returns how many digits b starts with.
func digits(b []byte) (n int) {
	for n < len(b) && isDigit(b[n]) {
		n++
	}
	return n
}

// learn keeps unit, of which look says e, without the first text in it that a
// model writes to. Events that end a choice or carry more are not worth it, and a
// stream whose events are all different is tried now and then only.
func (s *shape) learn(unit []byte, e event) {
	s.rest = s.rest[:0]
	if s.tries++; s.tries > triesInARow && s.tries%triesApart != 0 || !e.filled || e.finish || e.fingerprint != nil || e.timings != nil || len(unit) > longestShape {
		return
	}
	from := textStart(unit)
	if from < 0 {
		return
	}
	to := from
	for to < len(unit) && unit[to] != '"' {
		if unit[to] == '\\' {
			to++
		}
		to++
	}
	if to >= len(unit) || bytes.IndexByte(unit[to:], '\\') >= 0 {
		return
	}
	if e.hasUsage {
		if e.usageFrom <= to || e.usageTo != e.usageValueEnd {
			return
		}
		for _, at := range [...]*int{&e.usageFrom, &e.usageTo, &e.usageValue, &e.usageValueEnd, &e.close} {
			*at -= to - from
		}
	}
	s.rest, s.at, s.event = append(append(s.rest, unit[:from]...), unit[to:]...), from, e
}

// textStart returns where the first text of a choice starts in unit; -1 where
// none is found. The searched words cannot stand in a string: their quotes would
// be escaped.
func textStart(unit []byte) int {
	for _, member := range [...]string{`"content":"`, `"text":"`, `"reasoning":"`, `"reasoning_content":"`, `"arguments":"`} {
		if i := bytes.Index(unit, []byte(member)); i >= 0 {
			return i + len(member)
		}
	}
	return -1
}
