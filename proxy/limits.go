package proxy

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// lingerIdle and lingerTotal bound how long a connection is read whose request
	// was refused before its end. A close with bytes unread resets the connection,
	// and the client could lose the answer that says why.
	lingerIdle  = time.Second
	lingerTotal = 10 * time.Second
	// unlimited stands for no limit where fasthttp takes 0 for "leave it".
	unlimited = 365 * 24 * time.Hour
)

// phase is what a client's connection is doing.
type phase int32

const (
	waiting phase = iota // for the first byte of a request
	inHead
	inBody    // and, until the connection waits again, in the answer: nothing is read then
	givenAway // no longer HTTP: its limits are the relay's
)

// limitListener gives every connection the limits of slow clients.
type limitListener struct {
	net.Listener
	s *Server
}

// Accept implements net.Listener.
func (l limitListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newClientConn(c, l.s)
}

// clientConn is a client's connection. It owns the read limits: how long it may
// idle, how long a request's head may take, and how long a body may bring
// nothing. No limit is on an answer. fasthttp has one limit for head and body
// together, so its calls only mark where a request stands:
//
//	connStates(StateActive)   first byte   head's limit
//	SetReadDeadline(zero)    idle over    ignored
//	SetReadDeadline(time)    head read    body's limit, renewed by every read
//	connStates(StateIdle)     answered     fasthttp sets the idle limit next
//	SetDeadline              hijacked     all is the caller's
//
// fasthttp gets the bytes of heads only: what came along behind one is kept for
// whoever reads next, the request's upload first.
//
// One goroutine reads and sets limits; Close may come from Shutdown.
type clientConn struct {
	net.Conn
	s       *Server
	phase   atomic.Int32
	lingers atomic.Bool // Close waits for the client
	head    headEnd
	ahead   *[]byte // read, but not given out; nil for none
	given   int     // of ahead
	body    upload  // of the request that is served
}

func newClientConn(c net.Conn, s *Server) (*clientConn, error) {
	cc := &clientConn{Conn: c, s: s}
	return cc, c.SetReadDeadline(time.Now().Add(s.cfg.IdleTimeout))
}

func (c *clientConn) is(p phase) bool { return phase(c.phase.Load()) == p }

// SyscallConn implements syscall.Conn, for the watcher.
func (c *clientConn) SyscallConn() (syscall.RawConn, error) {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, syscall.EINVAL
	}
	return sc.SyscallConn()
}

// CloseWrite ends our side of the connection, for a relay and for drop.
func (c *clientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return syscall.EINVAL
}

// SetLinger makes Close reset the connection, for a relay.
func (c *clientConn) SetLinger(seconds int) error {
	if l, ok := c.Conn.(interface{ SetLinger(sec int) error }); ok {
		return l.SetLinger(seconds)
	}
	return nil
}

// Read implements net.Conn. An error before a request's first byte, the end of
// the idle limit among them, ends the connection without an answer (fasthttp's
// Server.ReduceMemoryUsage).
func (c *clientConn) Read(p []byte) (n int, err error) {
	inside := c.is(inHead)
	if inside && c.head.found {
		return 0, errHeadGoesOn
	}
	if c.ahead != nil {
		n = copy(p, (*c.ahead)[c.given:])
		c.given += n
	} else if n, err = c.Conn.Read(p); n > 0 && err == nil && c.s.cfg.RequestBodyTimeout > 0 && c.is(inBody) {
		err = c.Conn.SetReadDeadline(time.Now().Add(c.s.cfg.RequestBodyTimeout))
	}
	if inside || c.is(waiting) {
		end := c.head.feed(p[:n])
		c.unread(p[end:n])
		n = end
	}
	c.freeAhead()
	return n, err
}

// SetReadDeadline implements net.Conn for fasthttp's calls.
func (c *clientConn) SetReadDeadline(t time.Time) error {
	if !c.is(inHead) {
		return c.Conn.SetReadDeadline(t)
	}
	if t.IsZero() {
		return nil
	}
	c.phase.Store(int32(inBody))
	return c.Conn.SetReadDeadline(deadline(c.s.cfg.RequestBodyTimeout))
}

// SetDeadline implements net.Conn. fasthttp calls it when it gives a hijacked connection away.
func (c *clientConn) SetDeadline(t time.Time) error {
	c.phase.Store(int32(givenAway))
	return c.Conn.SetDeadline(t)
}

// deadline returns the end of a limit that begins now; none for 0.
func deadline(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// connStates is fasthttp's hook: it marks where a connection stands.
func (s *Server) connStates(nc net.Conn, state fasthttp.ConnState) {
	s.connState(nc, state)
	c, ok := nc.(*clientConn)
	if !ok {
		return
	}
	switch state {
	case fasthttp.StateActive:
		c.phase.Store(int32(inHead))
		_ = c.Conn.SetReadDeadline(deadline(s.cfg.RequestHeadTimeout)) // fails on a closed connection, as the next read does
	case fasthttp.StateIdle:
		c.head = headEnd{}
		c.phase.Store(int32(waiting))
	}
}

// headRead is fasthttp's hook behind a request's head; what it returns makes
// fasthttp call SetReadDeadline. A body is the upload's: fasthttp must see none.
func headRead(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if n := h.ContentLength(); n > 0 || n == -1 {
		h.SetContentLength(0)
	}
	return fasthttp.RequestConfig{ReadTimeout: unlimited}
}

// linger makes the close of a client's connection wait for what the client still sends.
func linger(c net.Conn) {
	if cc, ok := c.(*clientConn); ok {
		cc.lingers.Store(true)
	}
}

// Close implements net.Conn.
func (c *clientConn) Close() error {
	if c.lingers.Swap(false) {
		c.drop()
	}
	return c.Conn.Close()
}

// drop ends our side and reads what comes until the client ends its own.
func (c *clientConn) drop() {
	if c.CloseWrite() != nil {
		return
	}
	end := time.Now().Add(lingerTotal)
	var unread [4 << 10]byte
	for now := time.Now(); now.Before(end) && !c.s.stopping.Load(); now = time.Now() {
		if c.Conn.SetReadDeadline(now.Add(lingerIdle)) != nil {
			return
		}
		if _, err := c.Conn.Read(unread[:]); err != nil {
			return
		}
	}
}
