package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"spectap/collector"
)

// handed is an engine whose connections, switched, are the test's.
func handed(t testing.TB) (*scripted, <-chan *engineConn) {
	conns, done := make(chan *engineConn), make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		rawHead(c.br)
		c.send(switched, "\r\n")
		select {
		case conns <- c:
			<-done
		case <-done:
		}
	})
	t.Cleanup(func() { close(done) })
	return up, conns
}

// back waits until nothing of relays is left. Their connections are in no pool:
// they no longer speak HTTP.
func back(t testing.TB, p *stack) {
	t.Helper()
	p.atBase(t, 0)
	p.waiting.mu.Lock()
	defer p.waiting.mu.Unlock()
	if n := len(p.waiting.all); n != 0 {
		t.Errorf("%d relays wait for a connection", n)
	}
}

// One side's end is passed on as one: the other side is still heard.
func TestRelayHalfClose(t *testing.T) {
	up, conns := handed(t)
	recs := make(chan *collector.Record, 1)
	p := startProxy(t, testConfig(t, upstreamOf(up)), ended(recs))
	f := func(firstTo func(c *client, e *engineConn) (first, second net.Conn, fr, sr io.Reader)) {
		t.Helper()
		c := upgraded(t, p.addr)
		first, second, firstReads, secondReads := firstTo(c, <-conns)
		_, _ = io.WriteString(first, "last words")
		_ = first.(interface{ CloseWrite() error }).CloseWrite()
		if text, err := io.ReadAll(secondReads); string(text) != "last words" || err != nil {
			t.Errorf("got %q, %v; want the first side's words and end", text, err)
		}
		answer := strings.Repeat("answer", 50000)
		go func() {
			_, _ = io.WriteString(second, answer)
			_ = second.Close()
		}()
		if text, err := io.ReadAll(firstReads); string(text) != answer || err != nil {
			t.Errorf("got %d bytes, %v; want %d and the second side's end", len(text), err, len(answer))
		}
		if rec := <-recs; rec.ErrorKind != "" || rec.RequestBytes+rec.ResponseBytes != len("last words"+answer) {
			t.Errorf("got kind %q, %d + %d bytes", rec.ErrorKind, rec.RequestBytes, rec.ResponseBytes)
		}
		back(t, p)
	}
	f(func(c *client, e *engineConn) (net.Conn, net.Conn, io.Reader, io.Reader) {
		return c.Conn.(*net.TCPConn), e.Conn, c.br, e.br
	})
	f(func(c *client, e *engineConn) (net.Conn, net.Conn, io.Reader, io.Reader) {
		return e.Conn, c.Conn, e.br, c.br
	})
}

// One side's reset is passed on as one, and said in the Record.
func TestRelayReset(t *testing.T) {
	up, conns := handed(t)
	recs := make(chan *collector.Record, 1)
	p := startProxy(t, testConfig(t, upstreamOf(up)), ended(recs))
	f := func(kind string, leaves func(c *client, e *engineConn) (gone net.Conn, stays io.Reader)) {
		t.Helper()
		c := upgraded(t, p.addr)
		gone, stays := leaves(c, <-conns)
		_ = gone.(*net.TCPConn).SetLinger(0)
		_ = gone.Close()
		if _, err := stays.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: got %v, want a reset", kind, err)
		}
		if rec := <-recs; rec.ErrorKind != kind || rec.Status != 101 {
			t.Errorf("got kind %q, status %d; want %q", rec.ErrorKind, rec.Status, kind)
		}
		back(t, p)
	}
	f(collector.ErrClientGone, func(c *client, e *engineConn) (net.Conn, io.Reader) { return c.Conn, e.br })
	f(collector.ErrTruncated, func(c *client, e *engineConn) (net.Conn, io.Reader) { return e.Conn, c.br })
}

// A side that closed is gone once it is written to, however it closed; what the
// other one had sent before is no failure.
func TestRelayClosedBothWays(t *testing.T) {
	up, conns := handed(t)
	recs := make(chan *collector.Record, 1)
	p := startProxy(t, testConfig(t, upstreamOf(up)), ended(recs))
	c := upgraded(t, p.addr)
	e := <-conns
	leave(c, "fin")
	e.gone() // the end is seen at once
	eventually(t, "writing to a client that left fails", func() bool {
		_, err := io.WriteString(e, "still here?")
		return err != nil
	})
	if rec := <-recs; rec.ErrorKind != "" {
		t.Errorf("got kind %q, want none: the client had ended", rec.ErrorKind)
	}
	back(t, p)
}

// Both connections are closed when a relay has ended, whoever closed before; a
// peer that vanished is told from a limit of ours.
func TestRelayCloses(t *testing.T) {
	f := func(kind string, engine bool, err error) {
		t.Helper()
		recs := make(chan *collector.Record, 1)
		up, conns := handed(t)
		relays := make(chan *relayed, 1)
		p := startProxy(t, testConfig(t, upstreamOf(up)), func(s *Server) {
			ended(recs)(s)
			s.http.Handler = func(ctx *fasthttp.RequestCtx) {
				s.handle(ctx)
				relays <- s.waiting.all[ctx.Conn()]
			}
		})
		c := upgraded(t, p.addr)
		e, r := <-conns, <-relays
		switch {
		case err == nil:
			_ = e.Conn.(*net.TCPConn).CloseWrite()
			leave(c, "half")
		case engine:
			r.broke(&r.down, err)
		default:
			r.broke(&r.up, err)
		}
		if rec := <-recs; rec.ErrorKind != kind {
			t.Errorf("%v: got kind %q, want %q", err, rec.ErrorKind, kind)
		}
		for _, conn := range []net.Conn{r.x.conn, r.f.client} {
			if err := conn.SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %v of %T, want it closed", err, conn)
			}
		}
	}
	vanished := &net.OpError{Op: "read", Err: os.NewSyscallError("recvmsg", syscall.ETIMEDOUT)}
	f("", false, nil)
	f(collector.ErrClientGone, false, vanished)
	f(collector.ErrTruncated, true, vanished)
	f("", false, os.ErrDeadlineExceeded)
	f(collector.ErrStalled, true, os.ErrDeadlineExceeded)
}

// An idle relay lives as long as both sides want; once one has ended, the other
// one's silence has the limit of idle connections.
func TestRelayIdle(t *testing.T) {
	up, conns := handed(t)
	recs := make(chan *collector.Record, 2)
	cfg := testConfig(t, upstreamOf(up))
	cfg.IdleTimeout = time.Second
	p := startProxy(t, cfg, ended(recs))
	idle := upgraded(t, p.addr)
	idleEngine := <-conns
	for _, kind := range []string{collector.ErrStalled, ""} {
		c := upgraded(t, p.addr)
		e := <-conns
		if kind == "" {
			_ = e.Conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c.br)
		} else {
			leave(c, "half")
			e.gone()
			_, _ = io.Copy(io.Discard, c.br)
		}
		if rec := <-recs; rec.ErrorKind != kind {
			t.Errorf("got kind %q, want %q", rec.ErrorKind, kind)
		}
	}
	_, _ = io.WriteString(idleEngine, "awake")
	idle.exactly("awake")
}

// A side that does not read holds up the other one, in bounds, and loses nothing.
func TestRelayBackpressure(t *testing.T) {
	up, conns := handed(t)
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := upgraded(t, p.addr)
	e := <-conns
	block, sent := []byte(strings.Repeat("x", 60000)), 0
	for {
		_ = e.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		n, err := e.Write(block)
		if sent += n; err != nil {
			break
		}
		if sent > 64<<20 {
			t.Fatalf("the engine could send %d bytes to a client that does not read", sent)
		}
	}
	_ = e.Conn.(*net.TCPConn).CloseWrite()
	if n, err := io.Copy(io.Discard, c.br); n != int64(sent) || err != nil {
		t.Errorf("got %d bytes, %v; want %d", n, err, sent)
	}
}
