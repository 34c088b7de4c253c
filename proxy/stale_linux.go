package proxy

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// untaken says whether the engine's kernel took no byte of the last request of
// size bytes: its socket was closed before the request came. What was taken is
// acknowledged within 200 ms, read or not.
func untaken(c net.Conn, size int) bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	var info *unix.TCPInfo
	var optErr error
	err = raw.Control(func(fd uintptr) { info, optErr = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err != nil || optErr != nil || info.Bytes_sent < uint64(size) {
		return false
	}
	const syn = 1 // counted as acknowledged, not as sent
	return info.Bytes_acked <= info.Bytes_sent-info.Bytes_retrans-uint64(size)+syn
}
