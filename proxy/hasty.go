package proxy

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"
)

// goodbye is the time for the end of a TLS connection to be said.
const goodbye = 5 * time.Millisecond

// hastyConn is the socket below TLS. tls.Conn.Close takes up to 5 s to say that the
// connection ends, to a peer that takes nothing: too long for whoever waits for a
// lock that is held meanwhile.
type hastyConn struct {
	net.Conn
	closing atomic.Bool
}

// hasten lets the Close of a TLS connection, which comes next, wait for goodbye only.
func hasten(c net.Conn) {
	if tc, ok := c.(*tls.Conn); ok {
		if below, ok := tc.NetConn().(*hastyConn); ok {
			below.closing.Store(true)
		}
	}
}

// SetWriteDeadline implements net.Conn.
func (c *hastyConn) SetWriteDeadline(t time.Time) error {
	if last := time.Now().Add(goodbye); c.closing.Load() && t.After(last) {
		t = last
	}
	return c.Conn.SetWriteDeadline(t)
}
