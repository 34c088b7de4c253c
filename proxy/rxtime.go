package proxy

import (
	"net"
	"time"
)

// stamper is a connection that knows when the kernel received the last bytes
// that Read returned, in nanoseconds of the wall clock; ok is false where the
// kernel gave no time.
type stamper interface {
	Stamp() (unixNano int64, ok bool)
}

// clock turns wall-clock receive times into offsets from the start of a request.
type clock struct{ start time.Time }

// maxAge bounds how long bytes may have waited in the socket buffer. A larger
// or negative age means that the wall clock was stepped.
const maxAge = time.Second

// at returns the offset of a receive time, given the moment its read returned:
// mono = now_mono - (now_wall - rx_wall), with the age clamped to [0, maxAge].
func (c clock) at(now time.Time, rx int64) time.Duration {
	age := time.Duration(now.UnixNano() - rx)
	return max(now.Sub(c.start)-min(max(age, 0), maxAge), 0)
}

// stamped returns the stamper of a socket, or nil.
func stamped(c net.Conn) stamper {
	s, _ := c.(stamper)
	return s
}
