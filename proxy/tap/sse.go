package tap

import "bytes"

// sse splits a byte stream into the data of its events, by the grammar of
// https://html.spec.whatwg.org/multipage/server-sent-events.html: lines end in
// LF, CRLF or CR, a blank line ends an event, several data lines are joined
// with LF. It keeps copies of what is not complete, never the caller's bytes.
//
//	bytes ──▶ line ──▶ data ──▶ event
type sse struct {
	limit int // longest data of an event that is kept

	line    []byte // start of a line whose end has not come
	long    bool   // line was cut at the limit
	afterCR bool   // the last byte was a CR that ended a line: an LF belongs to it
	begun   bool   // the first line was read, so no BOM can follow

	data    []byte // data of the event so far
	hasData bool
	named   bool // the event has a name other than "message"
	tooLong bool // the event is over the limit
}

func (s *sse) reset(limit int) {
	*s = sse{limit: limit, line: keep(s.line), data: keep(s.data)}
}

// keep empties a buffer for reuse, unless an unusual event made it large.
func keep(b []byte) []byte {
	if cap(b) > 1<<20 {
		return nil
	}
	return b[:0]
}

// read calls event at the end of each event that has data. data is valid during the call only.
func (s *sse) read(b []byte, event func(data []byte)) {
	if s.afterCR && len(b) > 0 {
		s.afterCR = false
		if b[0] == '\n' {
			b = b[1:]
		}
	}
	lf := -2 // index of the next LF in b, -1 where there is none, -2 where nobody looked
	for at := 0; at < len(b); {
		if lf != -1 && lf < at {
			if lf = bytes.IndexByte(b[at:], '\n'); lf >= 0 {
				lf += at
			}
		}
		end := lf
		if end < 0 {
			end = len(b)
		}
		if cr := bytes.IndexByte(b[at:end], '\r'); cr >= 0 {
			end = at + cr
		}
		if end == len(b) {
			s.carry(b[at:])
			return
		}
		s.finishLine(b[at:end], event)
		at = end + 1
		if b[end] == '\r' {
			if at == len(b) {
				s.afterCR = true
			} else if b[at] == '\n' {
				at++
			}
		}
	}
}

// end processes what has come of a last line and a last event that lack their ends.
func (s *sse) end(event func(data []byte)) {
	if len(s.line) > 0 {
		s.finishLine(nil, event)
	}
	s.dispatch(event)
}

// carry keeps the start of a line. Beyond the limit only so much is kept as tells the field.
func (s *sse) carry(b []byte) {
	if s.long {
		return
	}
	s.line = append(s.line, b...)
	if len(s.line) > s.limit+16 { // a BOM and the field name may stand before the data
		s.long, s.line = true, s.line[:min(len(s.line), 16)]
	}
}

func (s *sse) finishLine(rest []byte, event func(data []byte)) {
	line := rest
	if len(s.line) > 0 {
		s.carry(rest)
		line, s.line = s.line, s.line[:0]
	}
	if !s.begun {
		s.begun, line = true, bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if len(line) == 0 {
		s.dispatch(event)
		return
	}
	s.field(line)
	s.long = false
}

// field takes one line. Comments and the fields id and retry say nothing about the answer.
func (s *sse) field(line []byte) {
	name, value := line, []byte(nil)
	if colon := bytes.IndexByte(line, ':'); colon >= 0 {
		name, value = line[:colon], line[colon+1:]
	}
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		if s.hasData {
			s.data = append(s.data, '\n')
		}
		s.hasData = true
		if s.tooLong = s.tooLong || s.long || len(s.data)+len(value) > s.limit; s.tooLong {
			s.data = s.data[:0]
			return
		}
		s.data = append(s.data, value...)
	case "event":
		s.named = len(value) > 0 && string(value) != "message"
	}
}

func (s *sse) dispatch(event func(data []byte)) {
	if s.hasData {
		event(s.data)
	}
	s.data, s.hasData, s.named, s.tooLong = s.data[:0], false, false, false
}
