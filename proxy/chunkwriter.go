package proxy

import (
	"io"
	"strconv"
)

// chunkWriter sends each write as one chunk (RFC 9112 section 7.1), by one write
// to the client's connection. fasthttp would frame it, too, through a buffer of
// the connection that a long event does not fit in; the last chunk is fasthttp's.
type chunkWriter struct {
	s *Server
	w io.Writer
}

// Write implements io.Writer. p is not empty.
func (c chunkWriter) Write(p []byte) (int, error) {
	frame := c.s.buffer()
	defer c.s.buffers.Put(frame)
	head := append(strconv.AppendUint((*frame)[:0], uint64(len(p)), 16), "\r\n"...)
	*frame = head
	if len(p) > joinLimit {
		return c.pieces(head, p)
	}
	*frame = append(append(head, p...), "\r\n"...)
	n, err := c.w.Write(*frame)
	return min(max(n-len(head), 0), len(p)), err
}

// pieces sends a long chunk without a copy of it.
func (c chunkWriter) pieces(head, p []byte) (int, error) {
	if _, err := c.w.Write(head); err != nil {
		return 0, err
	}
	n, err := c.w.Write(p)
	if err == nil {
		_, err = io.WriteString(c.w, "\r\n")
	}
	return n, err
}

// countingWriter counts what the client's connection took.
type countingWriter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
