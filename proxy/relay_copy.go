package proxy

import (
	"io"
	"net"
	"sync/atomic"
	"time"
)

// way is one direction of a relay.
type way struct {
	from, to net.Conn
	read     func() ([]byte, error) // the next bytes, valid until the next call
	bytes    int                    // passed on
	ended    atomic.Bool            // from ended, and to was told
}

// reader returns the client's side of a relay: fasthttp's connection, which has
// read ahead.
func reader(c net.Conn) func() ([]byte, error) {
	buf := make([]byte, relayBuffer)
	return func() ([]byte, error) {
		n, err := c.Read(buf)
		return buf[:n], err
	}
}

// fromEngine returns what is buffered of the engine's bytes, else the next read.
func (r *relayed) fromEngine() ([]byte, error) {
	if _, err := r.x.br.Peek(1); err != nil {
		return nil, err
	}
	in, err := r.x.br.Peek(r.x.br.Buffered())
	_, _ = r.x.br.Discard(len(in)) // in stays valid: Discard moves no bytes
	return in, err
}

// pass copies one way until its side ends: one write for each read. The end is
// passed on as one, and the other way goes on.
func (r *relayed) pass(w, back *way) {
	defer r.recovered()
	for {
		if back.ended.Load() {
			r.limit(w)
		}
		in, err := w.read()
		if len(in) > 0 {
			n, err := w.to.Write(in)
			w.bytes += n
			if err != nil {
				r.broke(back, err)
				return
			}
		}
		switch err {
		case nil:
			continue
		case io.EOF:
			r.halfClose(w, back)
		default:
			r.broke(w, err)
		}
		return
	}
}

// halfClose passes the end of one side on.
func (r *relayed) halfClose(w, back *way) {
	c := w.to
	if up, ok := c.(*upConn); ok {
		c = up.Conn // of TCP, a unix socket, or TLS
	}
	w.ended.Store(true)
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		r.cut("", "", gently)
		return
	}
	_ = half.CloseWrite() // fails where the other way is about to
	r.limit(back)
}

// limit bounds the next step of the way that is left once a side has ended: a
// peer that neither ends nor sends would hold the relay for ever.
func (r *relayed) limit(w *way) {
	at := time.Now().Add(r.s.cfg.IdleTimeout)
	_ = w.from.SetReadDeadline(at) // they fail on a closed connection only
	_ = w.to.SetWriteDeadline(at)
}
