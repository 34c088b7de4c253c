package proxy

import (
	"errors"
	"net"
	"sync"
	"time"
)

// attendant is an upstream connection that can wait for bytes without looking
// in vain first. Between a read that took all there was and the next wait, Go's
// netpoller forgets what it is told; so the forwarding runs inside the wait:
//
//	epoll ──▶ read ──▶ turn: cut, write on, tap ──▶ wait again, without a read that finds nothing
//
// A quarter of a streamed event's system calls are saved by that.
type attendant interface {
	// attend calls turn when bytes may have come, until turn returns false, and
	// ends with an error where the wait does (a limit, a close). Reads in turn do
	// not wait: they return errNothing. Close waits for the turn that runs, so
	// turn must neither wait nor close the connection.
	attend(turn func() (more bool)) error
}

// putOff is a client's connection whose writes can be put off in place of waiting.
type putOff interface {
	// hurry makes writes return at once; what the socket does not take is kept.
	hurry()
	// settle ends that, and waits until what was kept is written.
	settle() error
	// owes says that something is kept.
	owes() bool
}

// leaver is told by the watcher that the peer of a connection has left.
type leaver interface{ peerLeft() }

var errNothing = errors.New("no bytes have come")

// attended is what an upstream connection needs to be waited for like that. A
// read that took all there was can leave the connection's end unseen, where that
// came with the same news from the kernel; so the watcher tells of the end, too.
type attended struct {
	mu    sync.Mutex
	over  bool // the engine has closed its side, or the connection is broken
	waits bool // an attend runs
}

// begin is called before attend; false after the end: reads find it without waiting.
func (a *attended) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits = !a.over
	return a.waits
}

// end is called after attend, and says whether the wait was broken off by hangup.
func (a *attended) end(c net.Conn) (over bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits = false
	if a.over {
		_ = c.SetReadDeadline(time.Time{}) // no read waits any more
	}
	return a.over
}

// hangup notes the end and breaks a wait off.
func (a *attended) hangup(c net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if a.waits {
		_ = c.SetReadDeadline(time.Unix(1, 0))
	}
}

// next returns what is to be passed on next, as read does. Where it can, it
// waits by attend and passes plain bytes on itself. lost is an error of the client.
func (b *stream) next(w *countingWriter) (in []byte, err, lost error) {
	up, client := b.pair()
	if up == nil || !b.x.conn.begin() {
		in, err = b.read()
		return in, err, nil
	}
	client.hurry()
	waited := up.attend(func() bool {
		if in, err = b.read(); err == errNothing {
			in, err = nil, nil
			return true
		}
		if err != nil {
			return false
		}
		at, _ := b.x.conn.arrival(b.f.clock)
		lost = b.forward(w, at, in)
		in = nil
		return lost == nil && !client.owes() && b.heldUntil.IsZero() && b.x.br.Buffered() == 0
	})
	if over := b.x.conn.end(b.x.conn); waited != nil && !over {
		err = waited
	}
	if lost == nil {
		lost = client.settle()
	}
	return in, err, lost
}

// pair returns both connections where next can attend: those of a body without a
// length, over plain TCP, while no limit is set on the wait.
func (b *stream) pair() (attendant, putOff) {
	if b.framing == fixedLength || b.armed || !b.heldUntil.IsZero() || !b.quiet.IsZero() || b.x.br.Buffered() > 0 {
		return nil, nil
	}
	up, ok := b.x.conn.Conn.(attendant)
	socket := b.f.client
	if c, limited := socket.(*clientConn); limited {
		socket = c.Conn
	}
	client, also := socket.(putOff)
	if !ok || !also {
		return nil, nil
	}
	return up, client
}
