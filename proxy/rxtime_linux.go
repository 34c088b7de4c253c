package proxy

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stampedConn is a TCP connection whose Read keeps the kernel's receive time of
// the last segment that it returned (SO_TIMESTAMPNS). One goroutine reads.
type stampedConn struct {
	*net.TCPConn
	raw  syscall.RawConn
	recv func(fd uintptr) bool // made once, so that a read allocates nothing

	msg   unix.Msghdr
	iov   unix.Iovec
	fd    uintptr // of the turn of attend that runs
	turns bool    // one runs: Read does not wait
	dry   bool    // the last read took all there was
	round uint    // turns of the attend that runs

	p     []byte // of the read that runs
	n     int
	err   error
	stamp int64           // nanoseconds of the wall clock; 0 where the kernel gave none
	oob   [8]unix.Cmsghdr // room for the control messages, aligned as the kernel wants it
}

// withStamps asks the kernel to stamp what the socket receives. A socket that
// cannot is returned as it is: times are then those of the read's return.
func withStamps(c net.Conn) net.Conn {
	tc, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return c
	}
	var opt error
	err = raw.Control(func(fd uintptr) {
		opt = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	if err != nil || opt != nil {
		return c
	}
	s := &stampedConn{TCPConn: tc, raw: raw}
	s.recv = s.receive
	return s
}

// holdStamps keeps the kernel stamping until the returned function is called.
// Without a socket that wants stamps the kernel stops, and the first segments
// after it started again carry none.
func holdStamps() (release func()) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil && unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) == nil {
		return func() { _ = unix.Close(fd) }
	}
	if err == nil {
		_ = unix.Close(fd)
	}
	return func() {}
}

// Read implements net.Conn.
func (c *stampedConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.p, c.n, c.err, c.stamp = p, 0, nil, 0
	var err error
	if !c.turns {
		err = c.raw.Read(c.recv)
	} else if !c.receive(c.fd) {
		err = errNothing
	}
	c.dry = c.n < len(p)
	c.p, c.iov.Base = nil, nil
	switch {
	case err != nil:
		return 0, err
	case c.err != nil:
		return 0, &net.OpError{Op: "read", Net: "tcp", Addr: c.RemoteAddr(), Err: os.NewSyscallError("recvmsg", c.err)}
	case c.n == 0:
		return 0, io.EOF
	}
	return c.n, nil
}

// attend implements attendant.
func (c *stampedConn) attend(turn func() (more bool)) error {
	defer func() { c.turns = false }()
	c.round = 0
	return c.raw.Read(func(fd uintptr) (done bool) {
		c.fd, c.turns = fd, true
		for {
			if c.round%ackLater == 0 {
				acknowledge(fd, acksLater)
			}
			c.round++
			c.n = 0
			if !turn() {
				acknowledge(fd, acksAtOnce)
				return true
			}
			if c.n > 0 {
				acknowledge(fd, acksNow)
			}
			if c.dry { // news that comes from here on ends the wait
				return false
			}
		}
	})
}

// The kernel acknowledges what a read takes, inside the read: a twelfth of an
// event's work, ahead of its write. While attend waits, that is done after the
// turn; the engine hears of it some microseconds later. See tcp(7), TCP_QUICKACK,
// and __tcp_sock_set_quickack in Linux' net/ipv4/tcp.c.
const (
	acksLater  = 0 // reads acknowledge nothing
	acksAtOnce = 1 // as a new socket; what is owed is sent
	acksNow    = 2 // what is owed is sent, and reads go on acknowledging nothing
)

// ackLater is how often acksLater is said again: the kernel forgets it at an
// acksNow where nothing is owed, as after bytes of two full segments.
const ackLater = 64

// acknowledge sets that. A kernel without it acknowledges inside the reads.
func acknowledge(fd uintptr, mode int32) {
	_, _, _ = unix.RawSyscall6(unix.SYS_SETSOCKOPT, fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, uintptr(unsafe.Pointer(&mode)), unsafe.Sizeof(mode), 0)
}

// receive runs under the netpoller; false parks until the socket is readable.
// unix.Recvmsg would allocate an address for each call; a raw call because of
// what directConn says.
func (c *stampedConn) receive(fd uintptr) bool {
	c.iov.Base = unsafe.SliceData(c.p)
	c.iov.SetLen(len(c.p))
	for {
		c.msg = unix.Msghdr{Iov: &c.iov, Control: (*byte)(unsafe.Pointer(&c.oob))}
		c.msg.SetIovlen(1)
		c.msg.SetControllen(int(unsafe.Sizeof(c.oob)))
		n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&c.msg)), 0)
		switch errno {
		case 0:
			c.n = int(n)
			c.stamp = receiveTime(&c.oob, int(c.msg.Controllen))
			return true
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			c.err = errno
			return true
		}
	}
}

// receiveTime reads the SCM_TIMESTAMPNS control message, or returns 0.
func receiveTime(oob *[8]unix.Cmsghdr, n int) int64 {
	h := &oob[0]
	if n < unix.CmsgSpace(int(unsafe.Sizeof(unix.Timespec{}))) ||
		h.Level != unix.SOL_SOCKET || h.Type != unix.SCM_TIMESTAMPNS {
		return 0
	}
	ts := (*unix.Timespec)(unsafe.Add(unsafe.Pointer(h), unix.CmsgLen(0)))
	return ts.Nano()
}

// ReadFrom and WriteTo of net.TCPConn would bypass Read.
func (c *stampedConn) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{c})
}

// Stamp implements stamper.
func (c *stampedConn) Stamp() (int64, bool) { return c.stamp, c.stamp != 0 }
