package proxy

import "time"

// writeLong sends a body that the socket may not take at once. An engine that
// takes nothing of it for a while may have answered already, and for it to read
// on, or to close, one could wait for ever: its answer ends the write, and so
// does the limit of the wait for an answer. A TLS connection cannot write on
// after a limit, so it has none.
func (s *Server) writeLong(c *upConn, body []byte) error {
	if c.Conn != c.socket {
		_, err := c.Write(body)
		return err
	}
	for taken := time.Now(); ; {
		if err := c.SetWriteDeadline(time.Now().Add(earlyAnswer)); err != nil {
			return err
		}
		n, err := c.Write(body)
		body = body[n:]
		switch {
		case err == nil:
			return c.SetWriteDeadline(time.Time{})
		case !isTimeout(err):
			return err
		case n > 0:
			taken = time.Now()
		case pendingClose(c.socket), s.cfg.HeadTimeout > 0 && time.Since(taken) >= s.cfg.HeadTimeout:
			return err
		}
	}
}
