package proxy

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/rs/zerolog"
)

// A Serve that begins while the proxy shuts down, or after it, ends: whoever waits
// for it would wait for ever.
func TestServeBesideShutdown(t *testing.T) {
	f := func(serve func(*Server, net.Listener) <-chan error) {
		t.Helper()
		s, err := New(testConfig(t, "http://127.0.0.1:1"), nil, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := <-serve(s, ln); err != nil {
			t.Errorf("got %v, want an end without error", err)
		}
		if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v of the listener, want it closed", err)
		}
	}
	shutDown := func(s *Server) {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("cannot shut down: %v", err)
		}
	}
	f(func(s *Server, ln net.Listener) <-chan error { // after
		shutDown(s)
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ln) }()
		return ended
	})
	for range 50 {
		f(func(s *Server, ln net.Listener) <-chan error { // at any moment of it
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(ln) }()
			shutDown(s)
			return ended
		})
	}
}
