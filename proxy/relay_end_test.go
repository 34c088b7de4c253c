package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
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

// back waits until nothing of relays is left.
func back(t testing.TB, p *stack) {
	t.Helper()
	eventually(t, "flights ended", func() bool { return p.flights.count() == 0 })
	p.waiting.mu.Lock()
	defer p.waiting.mu.Unlock()
	if n := len(p.waiting.all); n != 0 {
		t.Errorf("%d relays wait for a connection", n)
	}
	if n := p.pool.idleCount(); n != 0 {
		t.Errorf("%d connections are in the pool, want none: they no longer speak HTTP", n)
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

// Shutdown waits for relays, as for any answer, and cuts them at its deadline.
func TestRelayShutdown(t *testing.T) {
	for _, finish := range []bool{true, false} {
		up, conns := handed(t)
		recs := make(chan *collector.Record, 1)
		p := startProxy(t, testConfig(t, upstreamOf(up)), ended(recs))
		c := upgraded(t, p.addr)
		e := <-conns
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); _ = p.Shutdown(ctx) }()
		eventually(t, "listener closed", func() bool {
			_, err := net.Dial("tcp", p.addr)
			return err != nil
		})
		e.send("still here")
		c.exactly("still here")
		select {
		case <-done:
			t.Error("shutdown did not wait for a relay")
		default:
		}
		kind := ""
		if finish {
			_ = e.Conn.(*net.TCPConn).CloseWrite()
			leave(c, "fin")
		} else {
			cancel()
			kind = collector.ErrDrained
		}
		wait(t, "shutdown", done)
		e.gone()
		_, _ = io.Copy(io.Discard, c.br)
		if rec := <-recs; rec.ErrorKind != kind {
			t.Errorf("got kind %q, want %q", rec.ErrorKind, kind)
		}
	}
}

// A handshake that fasthttp does not give away, because the client's connection
// is closed in that moment, still ends its flight and the engine's connection.
func TestRelayNeverBegun(t *testing.T) {
	up, conns := handed(t)
	recs := make(chan *collector.Record, 1)
	p := startProxy(t, testConfig(t, upstreamOf(up)), func(s *Server) {
		ended(recs)(s)
		s.http.Handler = func(ctx *fasthttp.RequestCtx) {
			s.handle(ctx)
			_ = ctx.Conn().Close()
		}
	})
	connect(t, p.addr).send(handshake)
	(<-conns).gone()
	if rec := <-recs; rec.ErrorKind != collector.ErrClientGone {
		t.Errorf("got kind %q, want %q", rec.ErrorKind, collector.ErrClientGone)
	}
	back(t, p)
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("canary") }

// A relay that panics is cut, counted, and tells nothing; the process goes on.
func TestRelayPanic(t *testing.T) {
	up, conns := handed(t)
	recs := make(chan *collector.Record, 1)
	broken := true
	p := startProxy(t, testConfig(t, upstreamOf(up)), func(s *Server) {
		ended(recs)(s)
		s.http.Handler = func(ctx *fasthttp.RequestCtx) {
			s.handle(ctx)
			if broken {
				s.waiting.all[ctx.Conn()].x.br.Reset(panicking{})
			}
		}
	})
	c := connect(t, p.addr)
	c.send(handshake)
	(<-conns).gone()
	_, _ = io.Copy(io.Discard, c.br)
	rec := <-recs
	if rec.ErrorKind != collector.ErrInternal || p.Status().Panics != 1 || strings.Contains(p.log.String()+rec.Error, "canary") {
		t.Errorf("got kind %q, %q, %d panics", rec.ErrorKind, rec.Error, p.Status().Panics)
	}
	back(t, p)
	broken = false
	c = upgraded(t, p.addr)
	(<-conns).send("well")
	c.exactly("well")
}

// Many relays beside streams disturb nobody, and leave nothing behind.
func TestRelaysBesideStreams(t *testing.T) {
	const relays, streams, words = 100, 8, 20
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		for {
			head := rawHead(c.br)
			switch {
			case head == "":
				return
			case strings.HasPrefix(head, "GET /v1/realtime"):
				c.send(switched, "\r\n")
				_, _ = io.Copy(c.Conn, c.br)
				return
			}
			_, _ = io.ReadFull(c.br, make([]byte, len(chatStream)))
			c.send(streamHead)
			for range words {
				c.send(chunk(tokenEvent("a")))
			}
			c.send(chunk(finishEvent), chunk(doneEvent), lastChunk)
		}
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for n := range relays {
		c := upgraded(t, p.addr)
		all.Go(func() {
			for range words {
				_, _ = io.WriteString(c, "ping\n")
				if line, err := c.br.ReadString('\n'); line != "ping\n" {
					t.Errorf("got %q, %v; want an echo", line, err)
				}
			}
			leave(c, []string{"fin", "rst", "half"}[n%3])
		})
	}
	for range streams {
		c := connect(t, p.addr)
		all.Go(func() {
			for range words {
				c.send(post(chatPath, chatStream))
				text, err := io.ReadAll(c.answer("POST").Body)
				if want := strings.Repeat(tokenEvent("a"), words) + finishEvent + doneEvent; string(text) != want || err != nil {
					t.Errorf("got %d bytes, %v; want %d", len(text), err, len(want))
				}
			}
			_ = c.Close()
		})
	}
	all.Wait()
	eventually(t, "flights ended", func() bool { return p.flights.count() == 0 })
	if n := len(p.recs.ch); n != streams*words {
		t.Errorf("got %d Records, want %d: of the streams only", n, streams*words)
	}
	p.pool.expire()
	eventually(t, "goroutines ended", func() bool { return runtime.NumGoroutine() <= before+streams })
}
