package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// writesOf keeps what each write brought.
type writesOf struct{ all []string }

// Write implements io.Writer.
func (w *writesOf) Write(p []byte) (int, error) {
	w.all = append(w.all, string(p))
	return len(p), nil
}

// A read of which the client gets nothing, as of what was asked for, or of an event
// that is held, leads to no write, nor does the end of a stream that holds nothing:
// an empty chunk would be the end of the body.
func TestNoEmptyWrites(t *testing.T) {
	next := make(chan struct{}, 1)
	parts := []string{chunk(tokenEvent("a")), chunk(finishEvent), chunk(usageEvent), chunk(doneEvent), lastChunk}
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		c.send(streamHead)
		for _, part := range parts {
			<-next
			c.send(part)
		}
	})
	cfg := testConfig(t, upstreamOf(up))
	cfg.Measure, cfg.Hold = "usage", patience
	cfg.StallTimeout = patience // with a limit on it the wait is plain reads, none of them in vain
	ended := make(chan []string, 1)
	p := startProxy(t, cfg, func(s *Server) {
		s.http.Handler = func(ctx *fasthttp.RequestCtx) {
			s.handle(ctx)
			b, ok := ctx.Response.BodyStream().(*stream)
			if !ok {
				t.Error("the answer is no stream")
				return
			}
			b.x.br.Reset(&eachRead{b.x.conn, next})
			b.framed = false // what is written is seen before it becomes a chunk
			var got writesOf
			if _, err := b.WriteTo(&got); err != nil {
				t.Error(err)
			}
			ended <- got.all
			ctx.Response.Reset()
		}
	})
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	_ = body(t, c.answer("POST"))
	got := <-ended
	if all := strings.Join(got, ""); all != tokenEvent("a")+finishEvent+doneEvent {
		t.Errorf("got %q", all)
	}
	if slices.Contains(got, "") {
		t.Errorf("got an empty write among %q", got)
	}
}

// eachRead asks for the next part before each read, so that reads do not join.
type eachRead struct {
	net.Conn
	next chan struct{}
}

// Read implements net.Conn.
func (c *eachRead) Read(p []byte) (int, error) {
	c.next <- struct{}{}
	return c.Conn.Read(p)
}

// A connection that a cancel closed does not go back to the pool, though its answer
// was read whole; one that was only given a last limit, because the client left
// behind the last event, does, and without the limit.
func TestReleaseAfterCancel(t *testing.T) {
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) { _, _ = io.Copy(io.Discard, c) })
	s := startProxy(t, testConfig(t, upstreamOf(up)), nil).Server
	dial := func() (*flight, *upConn) {
		t.Helper()
		conn, err := s.pool.dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		f := &flight{}
		if !f.attach(conn) {
			t.Fatal("the flight does not take the connection")
		}
		return f, conn
	}
	f, conn := dial()
	f.cancel(errClientGone)
	s.release(f, &exchange{conn: conn, br: s.reader(conn)})
	if n := s.pool.idleCount(); n != 0 {
		t.Errorf("got %d idle connections, want none: it is closed", n)
	}
	f, conn = dial()
	limit := &limited{Conn: conn.Conn}
	conn.Conn = limit
	f.finished.Store(true)
	f.cancel(errClientGone)
	if limit.limit.IsZero() {
		t.Error("a cancel behind the last event sets no limit")
	}
	s.release(f, &exchange{conn: conn, br: s.reader(conn)})
	if n := s.pool.idleCount(); n != 1 || !limit.limit.IsZero() {
		t.Errorf("got %d idle connections with the limit %v, want one without", n, limit.limit)
	}
	_ = s.pool.get().Close()
	f, conn = dial()
	s.release(f, &exchange{conn: conn, br: s.reader(conn)})
	f.cancel(errDrained)
	if conn := s.pool.get(); conn == nil {
		t.Error("a late cancel closed a connection of the pool")
	} else {
		_ = conn.Close()
	}
}

// writeLimits keeps the limits that were set for writes.
type writeLimits struct {
	net.Conn
	mu  sync.Mutex
	all []time.Time
}

// SetWriteDeadline implements net.Conn.
func (c *writeLimits) SetWriteDeadline(d time.Time) error {
	c.mu.Lock()
	c.all = append(c.all, d)
	c.mu.Unlock()
	return c.Conn.SetWriteDeadline(d)
}

// The end of a TLS connection is said, but not waited for: Close is called with
// locks held.
func TestCloseOfTLSDoesNotWait(t *testing.T) {
	said := make(chan error, 1)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateActive {
			_, err := c.Read(make([]byte, 1)) // io.EOF where the end was said
			said <- err
		}
	}
	secure.StartTLS()
	defer secure.Close()
	to, err := parseUpstream(secure.URL)
	if err != nil {
		t.Fatal(err)
	}
	limits := &writeLimits{}
	d := newDialer(to, patience)
	d.tls = secure.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	d.tls.ServerName, d.tls.MinVersion = "example.com", tls.VersionTLS12
	d.stamp = func(c net.Conn) net.Conn { limits.Conn = c; return limits }
	c, err := (&pool{dialer: d}).dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "G"); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, one := range limits.all {
		if wait := time.Until(one); wait > time.Second {
			t.Errorf("Close waits for up to %v", wait)
		}
	}
	if len(limits.all) == 0 {
		t.Error("Close sets no limit")
	}
	if err := <-said; err != nil && err != io.EOF {
		t.Errorf("the server got %v, want the end said", err)
	}
}

// panicTransport is a http.RoundTripper that panics.
type panicTransport struct{}

// RoundTrip implements http.RoundTripper.
func (panicTransport) RoundTrip(*http.Request) (*http.Response, error) { panic("on purpose") }

// A panic while the engine is asked what it is costs that answer, not the process.
func TestProbePanics(t *testing.T) {
	up := answering(t, func(*http.Request) string { return withLength("200 OK", "text/plain", "ok") })
	cfg := testConfig(t, upstreamOf(up))
	cfg.Engine = "auto"
	p := startProxy(t, cfg, func(s *Server) { s.probe.client.Transport = panicTransport{} })
	eventually(t, "the panic is counted", func() bool { return p.Status().Panics > 0 })
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	if got := body(t, c.answer("POST")); got != "ok" {
		t.Errorf("got %q", got)
	}
}
