package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

const (
	// uploadFirst is the room that a body begins with. It grows by uploadFast as
	// bytes come, from uploadSlow on by two.
	uploadFirst = 16 << 10
	uploadFast  = 4
	uploadSlow  = 4 << 20
	// leastBuffer and mostBuffer are the sizes of buffers that are used again; each
	// size between is twice the one before it.
	leastBuffer = 4 << 10
	mostBuffer  = 1 << 20
)

// errNoRoom says that the bodies of all requests take what they may.
var errNoRoom = errors.New("no room for the request's body")

// upload is the body of a client's request. fasthttp would take the memory that
// a head declares before a byte has come, so the body is read here, and grows
// with what arrives; all of them share one budget.
//
//	socket ──▶ clientConn ──head──▶ fasthttp, which is told that there is no body
//	                └───────body──▶ upload
type upload struct {
	s      *Server
	buf    *[]byte // nil without a body of the client's
	budget int64   // taken for it
}

// uploads are the bodies of all requests.
type uploads struct {
	taken   atomic.Int64 // bytes of their budget
	buffers [9]sync.Pool // *[]byte of leastBuffer to mostBuffer
}

// take is false, and takes nothing, above most bytes of buffers.
func (u *uploads) take(n int64, most int) bool {
	if u.taken.Add(n) <= int64(most) {
		return true
	}
	u.taken.Add(-n)
	return false
}

// sizeClass is the index of the shortest buffers that hold n bytes.
func sizeClass(n int) int {
	return bits.Len(uint(max(n, leastBuffer)-1)) - bits.Len(uint(leastBuffer-1))
}

// buffer returns an empty buffer for n bytes.
func (u *uploads) buffer(n int) *[]byte {
	if n <= mostBuffer {
		class := sizeClass(n)
		if b, ok := u.buffers[class].Get().(*[]byte); ok {
			return b
		}
		n = leastBuffer << class
	}
	b := make([]byte, 0, n)
	return &b
}

// free keeps a buffer for another body, unless it is a long one's.
func (u *uploads) free(b *[]byte) {
	if cap(*b) <= mostBuffer {
		*b = (*b)[:0]
		u.buffers[sizeClass(cap(*b))].Put(b)
	}
}

// receive reads the body of a request, to which 100 Continue was said where it
// waited for that. The body is valid until the connection's upload is freed.
func (s *Server) receive(ctx *fasthttp.RequestCtx) ([]byte, *failure) {
	length := framedLength(&ctx.Request.Header)
	if length == 0 {
		return nil, nil
	}
	if length > s.cfg.MaxBodyBytes {
		return nil, s.bodyTooLarge()
	}
	c, err := clientOf(ctx), error(nil)
	c.body.s = s
	if length > 0 {
		err = c.body.sized(c, length)
	} else {
		err = c.body.chunked(c)
	}
	ctx.Request.Header.SetContentLength(length) // as it came
	if err == nil {
		return *c.body.buf, nil
	}
	c.body.free()
	if err == errNoRoom {
		return nil, s.noRoom()
	}
	return nil, s.parseFailure(c, err)
}

// framedLength returns the length that a head gives its body: -1 for chunks, 0
// for none. fasthttp was told that there is none, and refused what is no number.
func framedLength(h *fasthttp.RequestHeader) int {
	for name, value := range lines(h.RawHeaders()) {
		switch {
		case isField(name, fasthttp.HeaderTransferEncoding):
			return -1
		case isField(name, fasthttp.HeaderContentLength):
			n, err := strconv.Atoi(string(bytes.Trim(value, " \t")))
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// sized reads a body of a known length, above 0.
func (u *upload) sized(c *clientConn, length int) error {
	if err := u.begin(c.takeAhead(length), length); err != nil {
		return err
	}
	return u.fill(c, length, length)
}

// begin takes the buffer of a body that has most bytes at last, with what it holds of it.
func (u *upload) begin(buf *[]byte, most int) error {
	u.buf = buf
	return u.charge(cap(*buf), most)
}

// fill reads until the body has length bytes; it has most at last.
func (u *upload) fill(r io.Reader, length, most int) error {
	for b := *u.buf; len(b) < length; *u.buf = b {
		if len(b) == cap(b) {
			if err := u.grow(most); err != nil {
				return err
			}
			b = *u.buf
		}
		n, err := r.Read(b[len(b):min(length, cap(b))])
		b = b[:len(b)+n]
		if err != nil && len(b) < length {
			return cutOff(err)
		}
	}
	return nil
}

// cutOff is an error inside a request: its end is not where the connection ends.
func cutOff(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// grow makes room for a body that has filled its own and has most bytes at last.
func (u *upload) grow(most int) error {
	have := len(*u.buf)
	size := uploadFast * have
	if have >= uploadSlow {
		size = 2 * have
	}
	size = min(most, max(size, uploadFirst))
	if err := u.charge(size, most); err != nil {
		return err
	}
	old := u.buf
	u.buf = u.s.uploads.buffer(size)
	*u.buf = append(*u.buf, *old...)
	u.s.uploads.free(old)
	return nil
}

// charge takes the room of a body from the budget. What a buffer has beyond the
// longest body does not count: one body of that length always fits an empty budget.
func (u *upload) charge(room, most int) error {
	n := int64(min(room, most, u.s.cfg.MaxBodyBytes)) - u.budget
	if !u.s.uploads.take(n, u.s.cfg.MaxBodiesBytes) {
		return errNoRoom
	}
	u.budget += n
	return nil
}

// changed frees the client's body for the one that goes upstream in its place.
// That one has come to be already, so it counts without being refused.
func (u *upload) changed(body []byte) {
	if u.buf == nil {
		return
	}
	n := int64(cap(body))
	u.s.uploads.taken.Add(n - u.budget)
	u.budget = n
	u.s.uploads.free(u.buf)
	u.buf = nil
}

// free gives the buffer and its share of the budget back.
func (u *upload) free() {
	if u.s == nil {
		return
	}
	u.s.uploads.taken.Add(-u.budget)
	if u.buf != nil {
		u.s.uploads.free(u.buf)
	}
	*u = upload{}
}

// unread takes back what was read last, for the next Read.
func (c *clientConn) unread(p []byte) {
	if len(p) == 0 {
		return
	}
	if c.ahead != nil { // it came from there
		c.given -= len(p)
		return
	}
	c.ahead, c.given = c.s.uploads.buffer(len(p)), 0
	*c.ahead = append(*c.ahead, p...)
}

// takeAhead returns a buffer that begins with what was read ahead, up to most bytes.
func (c *clientConn) takeAhead(most int) *[]byte {
	if c.ahead == nil {
		return c.s.uploads.buffer(min(most, uploadFirst))
	}
	if c.given == 0 && len(*c.ahead) <= most {
		buf := c.ahead
		c.ahead = nil
		return buf
	}
	rest := (*c.ahead)[c.given:]
	rest = rest[:min(len(rest), most)]
	buf := c.s.uploads.buffer(len(rest))
	*buf = append(*buf, rest...)
	c.given += len(rest)
	c.freeAhead()
	return buf
}

// freeAhead frees the buffer of what was read ahead when all of it was given out.
func (c *clientConn) freeAhead() {
	if c.ahead != nil && c.given == len(*c.ahead) {
		c.s.uploads.free(c.ahead)
		c.ahead = nil
	}
}

// clientOf returns the connection that a request came on.
func clientOf(ctx *fasthttp.RequestCtx) *clientConn {
	c, ok := ctx.Conn().(*clientConn)
	if !ok {
		panic("BUG: a request came on another connection than a listener's")
	}
	return c
}

// noRoom refuses a body that does not fit beside those of the other requests.
// What is left of it is not read, so the connection ends.
func (s *Server) noRoom() *failure {
	no := reject(fasthttp.StatusServiceUnavailable, "overloaded",
		fmt.Sprintf("request bodies on their way take the %d bytes that SPECTAP_MAX_BODIES_BYTES allows; try again later", s.cfg.MaxBodiesBytes))
	no.again, no.unread = true, true
	return no
}
