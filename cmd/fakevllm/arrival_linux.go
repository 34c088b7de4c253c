package main

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// stampArrivals makes the connections of a TCP listener tell when the kernel got
// what they read (SO_TIMESTAMPNS, which they inherit from the listening socket):
// a request that waits in the accept queue of a busy engine has arrived. A
// listener that cannot is returned as it is.
func stampArrivals(ln net.Listener) net.Listener {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return ln
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return ln
	}
	var option error
	err = raw.Control(func(fd uintptr) {
		option = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1)
	})
	if err != nil || option != nil {
		return ln
	}
	return stampingListener{tcp}
}

type stampingListener struct{ *net.TCPListener }

// Accept implements net.Listener.
func (l stampingListener) Accept() (net.Conn, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return c, nil
	}
	return &stampedConn{TCPConn: c, raw: raw}, nil
}

// stampedConn implements fakevllm.Stamped.
type stampedConn struct {
	*net.TCPConn
	raw syscall.RawConn
	at  atomic.Int64 // Unix nanoseconds; 0 where the kernel gave no time
}

// Arrived returns when the last segment that Read returned arrived; the zero time where the kernel did not say.
func (c *stampedConn) Arrived() time.Time {
	if ns := c.at.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// Read implements net.Conn.
func (c *stampedConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var n, oobn int
	var failed error
	control := make([]byte, 64)
	err := c.raw.Read(func(fd uintptr) bool {
		for failed = syscall.EINTR; failed == syscall.EINTR; {
			n, oobn, _, _, failed = syscall.Recvmsg(int(fd), p, control, 0)
		}
		return failed != syscall.EAGAIN
	})
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, &net.OpError{Op: "read", Net: "tcp", Addr: c.RemoteAddr(), Err: os.NewSyscallError("recvmsg", failed)}
	case n == 0:
		return 0, io.EOF
	}
	c.at.Store(stampOf(control[:oobn]))
	return n, nil
}

// stampOf finds the kernel's time in the control messages of a read.
func stampOf(control []byte) int64 {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level == syscall.SOL_SOCKET && m.Header.Type == syscall.SCM_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(syscall.Timespec{})) {
			var t syscall.Timespec
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&t)), unsafe.Sizeof(t)), m.Data)
			return t.Nano()
		}
	}
	return 0
}
