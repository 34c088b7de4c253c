package proxy

// commentScanner tells server-sent comments (": keep-alive") from data, however
// the network cuts them. The zero scanner is at the start of a line.
type commentScanner struct {
	inLine  bool
	comment bool
}

// data says whether b holds any byte that belongs neither to a comment nor to a line end.
func (c *commentScanner) data(b []byte) (found bool) {
	for _, x := range b {
		switch {
		case x == '\n' || x == '\r':
			c.inLine = false
		case !c.inLine:
			c.inLine, c.comment = true, x == ':'
			found = found || !c.comment
		default:
			found = found || !c.comment
		}
	}
	return found
}
