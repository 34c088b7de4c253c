package proxy

import (
	"context"
	"net"
	"sync"
	"time"
)

// upConn is one connection to the engine. One goroutine uses it at a time;
// Close may come from any.
type upConn struct {
	net.Conn // what is written and read: TCP, a unix socket, or TLS
	attended
	socket    net.Conn // below TLS
	stamps    stamper  // nil where the kernel gives no receive times
	reused    bool     // carried a request before
	idleSince time.Time
	watcher   *watcher // tells of the connection's end
	watched   uint64   // its number there; 0 where it is not watched

	got    int       // bytes read since the request was written
	readAt time.Time // return of the last read that brought bytes
	stamp  int64     // the kernel's time of it, wall clock in ns; 0 where it gave none
}

// Read implements io.Reader and keeps the times of the read.
func (c *upConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.got += n
		c.readAt = time.Now()
		c.stamp = 0
		if c.stamps != nil {
			c.stamp, _ = c.stamps.Stamp()
		}
	}
	return n, err
}

// peerLeft implements leaver.
func (c *upConn) peerLeft() { c.hangup(c.Conn) }

// Close closes the connection and forgets its watch.
func (c *upConn) Close() error {
	if c.watched != 0 {
		c.watcher.forget(c.watched)
	}
	hasten(c.Conn)
	return c.Conn.Close()
}

// arrival returns when the bytes of the last read arrived, as an offset, and
// whether the kernel said so.
func (c *upConn) arrival(k clock) (at time.Duration, kernel bool) {
	if c.stamp == 0 {
		return c.readAt.Sub(k.start), false
	}
	return k.at(c.readAt, c.stamp), true
}

// pool keeps idle connections to the engine, the freshest on top: old ones are
// not reused before the engine closes them, they expire.
type pool struct {
	dialer  *dialer
	watcher *watcher
	limit   time.Duration // idle connections older than this are closed

	mu     sync.Mutex
	idle   []*upConn // oldest first
	timer  *time.Timer
	closed bool
}

// get returns a connection that looks alive, or nil.
func (p *pool) get() *upConn {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if time.Since(c.idleSince) < p.limit && !pendingClose(c.socket) {
			c.reused = true
			return c
		}
		_ = c.Close()
	}
}

// dial opens a new connection.
func (p *pool) dial(ctx context.Context) (*upConn, error) {
	conn, socket, err := p.dialer.dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &upConn{Conn: conn, socket: socket, stamps: stamped(socket), watcher: p.watcher}
	if _, ok := conn.(attendant); ok {
		c.watched = p.watcher.arm(socket, c)
	}
	return c, nil
}

// put takes a connection back whose answer was read to its end.
func (p *pool) put(c *upConn) {
	c.idleSince = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return
	}
	p.idle = append(p.idle, c)
	if p.timer == nil {
		p.timer = time.AfterFunc(p.limit, p.expire)
	}
}

// expire closes what was idle for too long and runs again when the next one is due.
func (p *pool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	old := 0
	for old < len(p.idle) && now.Sub(p.idle[old].idleSince) >= p.limit {
		_ = p.idle[old].Close()
		old++
	}
	n := copy(p.idle, p.idle[old:])
	clear(p.idle[n:])
	p.idle = p.idle[:n]
	p.timer = nil
	if n > 0 && !p.closed {
		p.timer = time.AfterFunc(p.limit-now.Sub(p.idle[0].idleSince), p.expire)
	}
}

// idleCount returns the number of idle connections.
func (p *pool) idleCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// close closes all idle connections and every one that comes back later.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	for _, c := range p.idle {
		_ = c.Close()
	}
	p.idle = nil
}
