package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/valyala/fasthttp"
)

// server returns the fasthttp server; every field that is not its default has
// a reason in go-proxy.md 1.2.
func (s *Server) server() *fasthttp.Server {
	return &fasthttp.Server{
		Handler:                      s.handle,
		ErrorHandler:                 func(ctx *fasthttp.RequestCtx, err error) { s.refuse(ctx, s.parseFailure(ctx.Conn(), err)) },
		ExpectHandler:                s.expect,
		ConnState:                    s.connStates,
		HeaderReceived:               headRead,
		Logger:                       serverLog{s.log},
		SecureErrorLogMessage:        true,
		ReadBufferSize:               s.cfg.MaxHeadBytes,
		WriteBufferSize:              writeBuffer,
		IdleTimeout:                  s.cfg.IdleTimeout,
		NoDefaultServerHeader:        true,
		NoDefaultDate:                true,
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true,
		CloseOnShutdown:              true,
		ReduceMemoryUsage:            true,
	}
}

// Serve accepts connections until Shutdown, and none after it. It may run on several listeners.
func (s *Server) Serve(ln net.Listener) error {
	if !s.serving.add(ln) {
		return ln.Close()
	}
	s.probe.start()
	if err := s.http.Serve(limitListener{newPatientListener(ln, s.log, s.cfg.ClientTimeout), s}); err != nil && !s.stopping.Load() {
		return fmt.Errorf("cannot serve on %q: %w", ln.Addr(), err)
	}
	return nil
}

// Shutdown drains: no new connections and not ready at once, running requests
// go on until ctx ends, then they are cut. It returns when all have ended.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Store(true)
	s.serving.close()
	err := s.http.ShutdownWithContext(ctx)
	s.flights.wait(ctx) // for relays: fasthttp no longer counts them
	s.stopOnce.Do(func() {
		<-s.flights.cancelAll(errDrained)
		s.probe.stop()
		s.pool.close()
		s.watcher.close()
		s.unstamp()
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("cannot shut down the proxy: %w", err)
	}
	return nil
}

// listeners are those of Serve. fasthttp knows a listener only once its Serve
// runs: one that begins while, or after, everything is shut down would be served
// for ever.
type listeners struct {
	mu     sync.Mutex
	all    []net.Listener
	closed bool
}

// add is false after close.
func (l *listeners) add(ln net.Listener) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.all = append(l.all, ln)
	}
	return !l.closed
}

// close closes all. fasthttp closes them again, which does nothing.
func (l *listeners) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, ln := range l.all {
		_ = ln.Close() // fails only where it is closed
	}
	l.all = nil
}
