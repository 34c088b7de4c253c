package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/valyala/fasthttp"

	"spectap/collector"
)

// Where an attempt to get an answer failed.
const (
	stageDial     = "dial"
	stageWrite    = "write"
	stageHead     = "head"
	stageProtocol = "protocol"
)

const (
	// readBuffer holds one read, and the head of an answer as a rule.
	readBuffer = 4 << 10
	// writeBuffer holds the head of an answer on its way to the client, as a rule.
	// Every open stream has one.
	writeBuffer = 1 << 10
	// wideBuffer takes its place for an answer that fills it: events with
	// logprobs or tool calls are often above 4 KiB, and a body with a length is.
	wideBuffer = 16 << 10
	// joinLimit is the largest body that is copied behind its head to save a write.
	joinLimit = 64 << 10
	// retryWithin is how long after the request was written an unanswered, reused
	// connection still counts as stale (design 9.5). Later the engine is at work.
	retryWithin = 100 * time.Millisecond
	// earlyAnswer is how long to wait for an answer to a request that could not
	// be written whole: an early 401 or 413 stands in the receive queue.
	earlyAnswer = time.Second
)

// attempt says how one attempt to get an answer failed, for mayRetry.
type attempt struct {
	number  int           // from 0
	reused  bool          // the connection carried a request before
	got     int           // bytes read of an answer
	written bool          // the whole request was written
	waited  time.Duration // since then
	timeout bool          // our own limit, not the engine's close
	untaken bool          // the engine's kernel took no byte of it
}

// mayRetry is the guard of the one retry: only a pooled connection that the
// engine had closed already. Anything else could run a generation twice. On a
// busy machine the news of the close can wait for longer than retryWithin.
func mayRetry(a attempt) bool {
	return a.number == 0 && a.reused && a.got == 0 && !a.timeout && (!a.written || a.waited <= retryWithin || a.untaken)
}

// exchange is a request that was sent and the head of its answer.
type exchange struct {
	conn *upConn
	br   *bufio.Reader
	head fasthttp.ResponseHeader
}

// roundTrip sends a request and reads the head of its answer. The flight owns
// the connection afterwards; on an error there is none.
func (s *Server) roundTrip(f *flight, head, body []byte) (*exchange, error) {
	for n := 0; ; n++ {
		x, try, stage, err := s.try(f, n, head, body)
		if err == nil {
			return x, nil
		}
		if f.cancelled() == nil && stage != stageDial && mayRetry(try) {
			f.rec.Retries++
			s.counts.retries.Add(1)
			continue
		}
		return nil, upstreamFailure(f, stage, err)
	}
}

// try makes one attempt. The second one always dials.
func (s *Server) try(f *flight, n int, head, body []byte) (x *exchange, a attempt, stage string, err error) {
	a.number = n
	var c *upConn
	if n == 0 {
		c = s.pool.get()
	}
	if c == nil {
		if c, err = s.pool.dial(f.dialing()); err != nil {
			return nil, a, stageDial, err
		}
	}
	if !f.attach(c) {
		_ = c.Close()
		return nil, a, stageDial, errClientGone
	}
	a.reused, c.got = c.reused, 0
	writeErr := s.write(c, head, body)
	written := time.Now()
	f.rec.UpstreamWritten = collector.At(written.Sub(f.start))
	a.written = writeErr == nil

	x = &exchange{conn: c, br: s.reader(c)}
	wait := s.cfg.HeadTimeout
	if writeErr != nil {
		wait = earlyAnswer
	}
	if err = x.readHead(f, wait, s.cfg.MaxHeadBytes); err == nil {
		if writeErr != nil {
			x.head.SetConnectionClose()
		}
		return x, a, "", nil
	}
	a.got, a.waited = c.got, time.Since(written)
	a.timeout = writeErr == nil && isTimeout(err) || errors.Is(writeErr, os.ErrDeadlineExceeded)
	a.untaken = a.reused && a.written && untaken(c.socket, len(head)+len(body))
	stage = stageHead
	if c.got > 0 && !isTimeout(err) && (!brokeOff(err) || !x.beginsAsHTTP()) {
		stage = stageProtocol
	}
	if writeErr != nil && c.got == 0 {
		stage, err = stageWrite, writeErr
	}
	f.detach()
	s.discard(x)
	return nil, a, stage, err
}

// brokeOff says that an answer stopped, by a close or a reset, before it could be read as one.
func brokeOff(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op)
}

// write sends a request: one write where the body is small.
func (s *Server) write(c *upConn, head, body []byte) error {
	if len(body) <= joinLimit {
		_, err := c.Write(append(head, body...))
		return err
	}
	if _, err := c.Write(head); err != nil {
		return err
	}
	return s.writeLong(c, body)
}

// readHead reads the head of the final answer, or of the upgrade that was asked
// for, of at most most bytes, and passes interim ones on. wait 0 is no limit.
func (x *exchange) readHead(f *flight, wait time.Duration, most int) error {
	if wait > 0 {
		if err := x.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
	}
	for {
		x.head.Reset()
		x.head.SetNoDefaultContentType(true)
		x.head.DisableNormalizing() // names go on as the engine spells them
		err := x.parseHead()
		for small := new(fasthttp.ErrSmallBuffer); errors.As(err, &small) && x.br.Size() < most; {
			if x.br.Size() < wideBuffer {
				x.grow(min(wideBuffer, most))
			} else {
				x.grow(most)
			}
			err = x.parseHead()
		}
		if err == nil {
			err = checkHead(&x.head)
		}
		if err != nil {
			return err
		}
		code := x.head.StatusCode()
		if code == fasthttp.StatusSwitchingProtocols && !f.upgrade {
			return errors.New("unexpected upgrade")
		}
		if code >= 200 || code == fasthttp.StatusSwitchingProtocols {
			break
		}
		f.interim(&x.head)
	}
	if wait > 0 {
		return x.conn.SetReadDeadline(time.Time{})
	}
	return nil
}

// checkHead refuses what fasthttp takes for an answer of HTTP/1.1 and no client would.
func checkHead(h *fasthttp.ResponseHeader) error {
	if !bytes.HasPrefix(h.Protocol(), []byte("HTTP/1.")) {
		return errors.New("answer of another version than HTTP/1")
	}
	if h.StatusCode() < 100 {
		return errors.New("status below 100")
	}
	for name := range h.All() {
		if !isToken(string(name)) {
			return errors.New("field name is not a token")
		}
	}
	return nil
}

// beginsAsHTTP says whether the bytes of a head that ended too early are those of one.
func (x *exchange) beginsAsHTTP() bool {
	read, _ := x.br.Peek(x.br.Buffered())
	return bytes.HasPrefix([]byte("HTTP/1."), read[:min(len(read), len("HTTP/1."))])
}

// grow gives the exchange a reader for a large head, with what was read already.
func (x *exchange) grow(size int) {
	read, _ := x.br.Peek(x.br.Buffered())
	x.br = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(read)), x.conn), size)
}

// reader returns a buffered reader for a connection.
func (s *Server) reader(c *upConn) *bufio.Reader {
	if br, ok := s.readers.Get().(*bufio.Reader); ok {
		br.Reset(c)
		return br
	}
	return bufio.NewReaderSize(c, readBuffer)
}

// release gives a connection back to the pool: only after the whole answer was
// read, nothing was left over, and no cancel closed it. The read limits of this
// answer must not strike in the next one.
func (s *Server) release(f *flight, x *exchange) {
	f.detach()
	if x.br.Buffered() > 0 || x.head.ConnectionClose() || x.conn.SetReadDeadline(time.Time{}) != nil { // fails where a cancel closed it
		s.discard(x)
		return
	}
	s.freeReader(x)
	s.pool.put(x.conn)
}

// discard closes a connection that cannot be used again.
func (s *Server) discard(x *exchange) {
	_ = x.conn.Close()
	s.freeReader(x)
}

func (s *Server) freeReader(x *exchange) {
	x.br.Reset(nil)
	switch x.br.Size() {
	case readBuffer:
		s.readers.Put(x.br)
	case wideBuffer:
		s.wide.Put(x.br)
	}
	x.br = nil
}

// widen gives an exchange a larger buffer. Nothing may stand in the one that it has.
func (s *Server) widen(x *exchange) {
	if x.br.Size() != readBuffer {
		return
	}
	s.freeReader(x)
	if br, ok := s.wide.Get().(*bufio.Reader); ok {
		br.Reset(x.conn)
		x.br = br
		return
	}
	x.br = bufio.NewReaderSize(x.conn, wideBuffer)
}

// The ways in which a body ends.
type framing int

const (
	noBody framing = iota
	chunked
	fixedLength
	untilClose
)

// framingOf follows RFC 9112 section 6.3; fasthttp refused what is ambiguous.
func framingOf(isHead bool, h *fasthttp.ResponseHeader) framing {
	code, n := h.StatusCode(), h.ContentLength()
	switch {
	case isHead, code == fasthttp.StatusNoContent, code == fasthttp.StatusNotModified:
		return noBody
	case n == -1:
		return chunked
	case n > 0:
		return fixedLength
	case n == 0:
		return noBody
	}
	return untilClose
}
