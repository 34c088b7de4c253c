//go:build !linux

package proxy

import "net"

// direct returns the connection as it is.
func direct(c net.Conn) net.Conn { return c }
