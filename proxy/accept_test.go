package proxy

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
)

// scriptedListener answers Accept with errors, then with one connection.
type scriptedListener struct {
	net.Listener
	errs []error
}

func (l *scriptedListener) Accept() (net.Conn, error) {
	if len(l.errs) == 0 {
		c, _ := net.Pipe()
		return c, nil
	}
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, err
}

// A process without free descriptors goes on; a closed listener ends the server.
func TestAcceptGoesOn(t *testing.T) {
	wrapped := &net.OpError{Op: "accept", Err: syscall.EMFILE}
	l := &scriptedListener{errs: []error{wrapped, syscall.ECONNABORTED}}
	log := &lockedBuffer{}
	c, err := newPatientListener(l, zerolog.New(log), 0).Accept()
	if err != nil || c == nil {
		t.Fatalf("got %v, %v; want a connection", c, err)
	}
	if n := strings.Count(log.String(), "raise the limit of open files"); n != 1 {
		t.Errorf("got %d lines, want one: %s", n, log)
	}
	_ = c.Close()
	l.errs = []error{net.ErrClosed}
	if _, err := (patientListener{Listener: l, log: zerolog.Nop()}).Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want %v", err, net.ErrClosed)
	}
}

// busyListener fails its first Accept as a process without free descriptors does.
type busyListener struct {
	net.Listener
	busy sync.Once
}

func (l *busyListener) Accept() (net.Conn, error) {
	var err error
	l.busy.Do(func() { err = &net.OpError{Op: "accept", Err: syscall.EMFILE} })
	if err != nil {
		return nil, err
	}
	return l.Listener.Accept()
}

// Serve takes connections after accept has failed for a moment.
func TestServeOutlivesAccept(t *testing.T) {
	up := answering(t, func(*http.Request) string { return withLength("200 OK", "text/plain", "here") })
	ended := make(chan error, 1)
	t.Cleanup(func() { // after the proxy's own
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	p := startProxy(t, testConfig(t, "http://"+up.ln.Addr().String()), nil)
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- p.Serve(&busyListener{Listener: ln}) }()
	contains(t, raw(t, ln.Addr().String(), "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), "here")
}
