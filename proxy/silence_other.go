//go:build !linux

package proxy

import (
	"net"
	"time"
)

// limitSilence leaves it to the system's own limits where there is no TCP_USER_TIMEOUT.
func limitSilence(net.Conn, time.Duration) {}
