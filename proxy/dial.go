package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Listen opens the socket of an address: "host:port", ":port" or "unix:/path".
// A stale socket file that nobody listens on is replaced.
func Listen(addr string) (net.Listener, error) {
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("cannot listen on %q: %w", addr, err)
		}
		return ln, nil
	}
	removeStaleSocket(path)
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %q: %w", addr, err)
	}
	return ln, nil
}

// removeStaleSocket removes a socket file that refuses connections, as a killed
// process leaves it. Anything else stays, and listening reports it.
func removeStaleSocket(path string) {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&fs.ModeSocket == 0 {
		return
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		_ = c.Close()
		return
	}
	_ = os.Remove(path)
}

// endpoint is where the engine listens.
type endpoint struct {
	network string // "tcp" or "unix"
	address string // host:port, or the path of the socket
	host    string // Host header where the client sent none; TLS server name without its port
	base    string // path that is put before every request target, without a final slash
	tls     bool
}

// parseUpstream reads SPECTAP_UPSTREAM. Its errors say what was wanted, for Validate.
func parseUpstream(s string) (endpoint, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if path == "" {
			return endpoint{}, errors.New("want unix:/path")
		}
		return endpoint{network: "unix", address: path, host: "localhost"}, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return endpoint{}, errors.New("want http://host:port, https://host:port or unix:/path")
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return endpoint{}, errors.New("want no user, query or fragment; an engine's key comes from the client")
	}
	e := endpoint{network: "tcp", host: u.Host, base: strings.TrimRight(u.EscapedPath(), "/"), tls: u.Scheme == "https"}
	port := u.Port()
	if port == "" {
		port = map[bool]string{false: "80", true: "443"}[e.tls]
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return endpoint{}, errors.New("want a port of 1 to 65535")
	}
	e.address = net.JoinHostPort(u.Hostname(), port)
	return e, nil
}

// dialer opens connections to the engine: dual stack TCP or a unix socket, TLS
// above it where the URL says https. Go sets TCP_NODELAY on every TCP socket.
type dialer struct {
	to      endpoint
	timeout time.Duration
	tls     *tls.Config
	stamp   func(net.Conn) net.Conn // asks the kernel for receive times; tests force the fallback by leaving it nil
}

func newDialer(to endpoint, timeout time.Duration) *dialer {
	d := &dialer{to: to, timeout: timeout, stamp: withStamps}
	if to.tls {
		host, _, err := net.SplitHostPort(to.host)
		if err != nil {
			host = to.host
		}
		d.tls = &tls.Config{ServerName: host, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	}
	return d
}

// dial returns a connection ready for requests, and the socket below its TLS.
func (d *dialer) dial(ctx context.Context) (conn, socket net.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	var nd net.Dialer
	socket, err = nd.DialContext(ctx, d.to.network, d.to.address)
	if err != nil {
		return nil, nil, err
	}
	if d.stamp != nil {
		socket = d.stamp(socket)
	}
	if d.tls == nil {
		return socket, socket, nil
	}
	tc := tls.Client(&hastyConn{Conn: socket}, d.tls)
	if err := tc.HandshakeContext(ctx); err != nil {
		_ = socket.Close()
		return nil, nil, err
	}
	return tc, socket, nil
}
