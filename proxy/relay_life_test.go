package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"spectap/collector"
)

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

// A handshake that is on its way when Shutdown begins is still relayed: the
// client's connection is not cut behind a 101.
func TestRelayShutdownInHandshake(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		rawHead(c.br)
		close(asked)
		<-answer
		c.send(switched, "\r\n")
		_, _ = io.Copy(c.Conn, c.br)
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send(handshake)
	wait(t, "handshake", asked)
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Shutdown(context.Background()) }()
	eventually(t, "listener closed", func() bool {
		_, err := net.Dial("tcp", p.addr)
		return err != nil
	})
	close(answer)
	if head := rawHead(c.br); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Errorf("got %q, want a 101", head)
	}
	c.send("echo")
	c.exactly("echo")
	leave(c, "fin")
	wait(t, "shutdown", done)
}

// Whoever leaves, when and how: nothing is left of a relay on either side.
func TestRelayLeftAtAnyStage(t *testing.T) {
	var open atomic.Int64
	up := startEngine(t, func(_ *scripted, c *engineConn, n int) {
		open.Add(1)
		defer open.Add(-1)
		defer func() { _ = c.Close() }() // before it counts as closed
		rawHead(c.br)
		switch n % 7 {
		case 0: // no answer to the handshake
		case 1:
			_ = c.Conn.(*net.TCPConn).SetLinger(0)
		case 2:
			c.send(switched, "\r\n", "and gone")
		case 3:
			c.send(switched, "\r\n")
			_ = c.Conn.(*net.TCPConn).SetLinger(0)
		default:
			c.send(switched, "\r\n")
			_, _ = io.Copy(c.Conn, c.br)
		}
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	flood := strings.Repeat("x", 300000)
	var all sync.WaitGroup
	for n := range 30 {
		all.Go(func() {
			for m := range 20 {
				conn, err := net.Dial("tcp", p.addr)
				if err != nil {
					t.Error(err)
					return
				}
				_ = conn.SetDeadline(time.Now().Add(patience))
				c := &client{conn, bufio.NewReader(conn), t}
				_, _ = io.WriteString(c, handshake+"early")
				switch (n + m) % 4 {
				case 1:
					rawHead(c.br)
				case 2:
					rawHead(c.br)
					_, _ = io.WriteString(c, flood) // its echo is never read
				case 3:
					rawHead(c.br)
					_, _ = c.br.ReadByte()
				}
				leave(c, []string{"fin", "rst", "half"}[(n*7+m)%3])
				_ = c.Close()
			}
		})
	}
	all.Wait()
	eventually(t, "engine's connections closed", func() bool { return open.Load() == 0 })
	back(t, p)
	if n := p.Status().Panics; n != 0 {
		t.Errorf("got %d panics", n)
	}
}
