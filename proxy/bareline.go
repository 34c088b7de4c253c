package proxy

import (
	"bufio"
	"bytes"
)

// parseHead reads a head as fasthttp does, and also one with lines that end in LF
// alone. RFC 9112 section 2.2 allows to take it, as net/http, nginx and HAProxy do;
// fasthttp would wait for CR LF CR LF behind a head that is whole, without end.
// Towards the client all lines end in CR LF. A later HTTP/1 is read as HTTP/1.1 (RFC
// 9110 section 2.5), of which fasthttp would not see that its body comes in chunks.
func (x *exchange) parseHead() error {
	var end headEnd
	at := 0
	for !end.found {
		if _, err := x.br.Peek(at + 1); err != nil {
			return x.head.Read(x.br) // which meets it, too
		}
		in, _ := x.br.Peek(x.br.Buffered())
		if !maybeStatusLine(in) {
			return x.head.Read(x.br) // which says so at once
		}
		at += end.feed(in[at:])
	}
	head, _ := x.br.Peek(at)
	minor := bytes.IndexByte(head, '.') + 1
	if bytes.HasSuffix(head, []byte("\r\n\r\n")) && head[minor] <= '1' {
		return x.head.Read(x.br)
	}
	whole := withCRLF(head)
	if minor = bytes.IndexByte(whole, '.') + 1; whole[minor] > '1' {
		whole[minor] = '1'
	}
	if err := x.head.Read(bufio.NewReaderSize(bytes.NewReader(whole), len(whole))); err != nil {
		return err
	}
	_, err := x.br.Discard(at)
	return err
}

// maybeStatusLine says whether a status line can begin so.
func maybeStatusLine(in []byte) bool {
	const shape = "HTTP/1.0 000"
	in = bytes.TrimLeft(in, "\r\n")
	for i, c := range in[:min(len(in), len(shape))] {
		if digit := c >= '0' && c <= '9'; c != shape[i] && (shape[i] != '0' || !digit) {
			return false
		}
	}
	return true
}

// withCRLF returns lines with CR LF at the end of each.
func withCRLF(lines []byte) []byte {
	out := make([]byte, 0, len(lines)+bytes.Count(lines, []byte{'\n'}))
	for line := range bytes.Lines(lines) {
		out = append(out, bytes.TrimRight(line, "\r\n")...)
		out = append(out, "\r\n"...)
	}
	return out
}
