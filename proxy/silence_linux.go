package proxy

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// limitSilence has the kernel end a client's connection when the client
// acknowledges nothing for so long. A host that vanishes sends no FIN: without
// it, what is on the way to the client is sent again for a quarter of an hour.
// A client that only waits is asked by keep-alive probes, and answers them. The
// watcher sees the end. Sockets other than TCP have no such client.
func limitSilence(c net.Conn, limit time.Duration) {
	tc, ok := c.(*net.TCPConn)
	if !ok || limit <= 0 {
		return
	}
	between := func(d time.Duration) time.Duration { return min(max(d, time.Second), 15*time.Second) }
	_ = tc.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: between(limit / 2), Interval: between(limit / 8)})
	raw, err := tc.SyscallConn()
	if err != nil {
		return // closed already
	}
	_ = raw.Control(func(fd uintptr) { // fails on a socket that was reset: nothing to limit
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
}
