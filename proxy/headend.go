package proxy

import (
	"bytes"
	"errors"
)

// errHeadGoesOn says that fasthttp wants more of a head than ends it for headEnd.
var errHeadGoesOn = errors.New("request head goes on behind an empty line")

// headEnd finds the end of a request's head as its bytes come: the first empty
// line behind one that is not. It takes more for an empty line than fasthttp does,
// so that nothing behind a head gets into fasthttp's buffer. A head that is not
// at its end for fasthttp there is refused: one of two readers would go on.
type headEnd struct {
	begun  bool // a line that is not empty has ended
	inLine bool // the current line is not empty
	found  bool
}

// feed returns how many of the next bytes belong to the head.
func (h *headEnd) feed(p []byte) int {
	for at := 0; at < len(p); {
		line, end := p[at:], bytes.IndexByte(p[at:], '\n')
		if end >= 0 {
			line = line[:end]
		}
		h.inLine = h.inLine || !isEmptyLine(line)
		if end < 0 {
			break
		}
		at += end + 1
		if h.begun && !h.inLine {
			h.found = true
			return at
		}
		h.begun, h.inLine = h.begun || h.inLine, false
	}
	return len(p)
}

func isEmptyLine(line []byte) bool {
	for _, c := range line {
		if c != '\r' {
			return false
		}
	}
	return true
}
