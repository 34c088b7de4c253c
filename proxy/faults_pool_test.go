package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"spectap/collector"
)

// keepAlive races requests against an engine that closes a connection after it
// was idle for the limit: each comes within a millisecond of it, on either side.
func keepAlive(t *testing.T, limit time.Duration, clients, rounds int) {
	up := startEngine(t, func(e *scripted, c *engineConn, _ int) {
		for n := 0; ; n++ {
			if n > 0 { // uvicorn's limit is for connections that carried a request
				_ = c.SetReadDeadline(time.Now().Add(limit))
			}
			if _, err := c.br.Peek(1); err != nil {
				return
			}
			_ = c.SetReadDeadline(time.Time{})
			if c.request() == nil {
				return
			}
			e.requests.Add(1)
			c.send(withLength("200 OK", "application/json", "{}"))
		}
	})
	cfg := testConfig(t, upstreamOf(up))
	if cfg.UpstreamIdle >= 5*time.Second {
		t.Errorf("connections are kept for %s by default; vLLM closes its own after 5 s", cfg.UpstreamIdle)
	}
	cfg.UpstreamIdle = 10 * limit // or the race would not be run
	p := startProxy(t, cfg, nil)
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			a := &asker{addr: p.addr}
			defer a.hangUp()
			for i := range rounds {
				id := fmt.Sprintf("c%d-%d", n, i)
				if status, text, err := a.ask(id); status != 200 || text != "{}" || err != nil {
					t.Errorf("%s: got %d %q, %v", id, status, text, err)
				}
				early := time.Duration(i%21-10) * 100 * time.Microsecond
				time.Sleep(limit - 2*time.Millisecond)
				for at := time.Now().Add(2*time.Millisecond - early); time.Now().Before(at); {
					runtime.Gosched()
				}
			}
		})
	}
	all.Wait()
	retries := p.Status().Retries
	if n := up.requests.Load(); n != int64(clients*rounds) {
		t.Errorf("the engine answered %d requests of %d", n, clients*rounds)
	}
	t.Logf("%d requests, %d connections, %d retries", clients*rounds, up.conns.Load(), retries)
}

// No request fails because it meets the engine's close of an idle connection.
// With SPECTAP_SLOW set it is run a thousand times more, at a longer limit.
func TestKeepAliveRace(t *testing.T) {
	keepAlive(t, 20*time.Millisecond, 8, 42)
	if os.Getenv("SPECTAP_SLOW") != "" {
		keepAlive(t, 250*time.Millisecond, 16, 63)
	}
}

// Behind the first byte of an answer no request is sent again, though its
// connection was a reused one: the engine has run it.
func TestNoRetryBehindFirstByte(t *testing.T) {
	f := func(sent, kind string, status int) {
		for _, reset := range []bool{false, true} {
			up := startEngine(t, func(e *scripted, c *engineConn, n int) {
				for i := 0; c.request() != nil; i++ {
					e.requests.Add(1)
					if i > 0 {
						c.send(sent)
						if reset {
							_ = c.Conn.(*net.TCPConn).SetLinger(0)
						}
						return
					}
					c.send(withLength("200 OK", "application/json", "{}"))
				}
			})
			p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
			c := connect(t, p.addr)
			c.send(post(chatPath, whole))
			body(t, c.answer("POST"))
			p.recs.next(t)
			c.send(post(chatPath, chatStream))
			resp := c.answer("POST")
			if got, err := io.ReadAll(resp.Body); resp.StatusCode != status || (err != nil) != (status == 200) {
				t.Errorf("%q: got %d %q, end %v; want %d", sent, resp.StatusCode, got, err, status)
			}
			rec := p.recs.next(t)
			if n := up.requests.Load(); n != 2 || up.conns.Load() != 1 || rec.Retries != 0 || rec.ErrorKind != kind {
				t.Errorf("%q: the engine got %d requests on %d connections, kind %q, %d retries; want 2, 1, %q, 0", sent, n, up.conns.Load(), rec.ErrorKind, rec.Retries, kind)
			}
			_ = c.Close()
			p.atBase(t, 0)
		}
	}
	f("H", collector.ErrUpstreamReset, 502)
	f("HTTP/1.1 200 OK\r\n", collector.ErrUpstreamReset, 502)
	f(streamHead, collector.ErrTruncated, 200)
	f(streamHead+chunk(tokenEvent("a")), collector.ErrTruncated, 200)
	f(streamHead+chunk(tokenEvent("a")+finishEvent), collector.ErrTruncated, 200)
}

// An answer is closed by its end, by fasthttp and by whoever cancels it, in any
// order and at the same time: its connection is in the pool once or closed, and
// there is one Record.
func TestClosedTwice(t *testing.T) {
	up := answering(t, func(*http.Request) string {
		return streamHead + chunk(tokenEvent("a")) + chunk(finishEvent+doneEvent) + lastChunk
	})
	begun := make(chan *stream, 1)
	p := startProxy(t, testConfig(t, upstreamOf(up)), afterHandle(func(b *stream) { begun <- b }))
	for n := range 300 {
		a := &asker{addr: p.addr}
		var cancels sync.WaitGroup
		cancels.Go(func() {
			b := <-begun
			for range 2 {
				cancels.Go(func() {
					for range n % 50 {
						runtime.Gosched()
					}
					b.f.cancel(errClientGone)
				})
			}
		})
		_, _, _ = a.ask("x") // whole or cut
		cancels.Wait()
		a.hangUp()
		p.recs.next(t)
		p.pool.mu.Lock()
		seen := map[*upConn]bool{}
		for _, c := range p.pool.idle {
			if seen[c] || c.SetReadDeadline(time.Time{}) != nil {
				t.Errorf("round %d: a connection is in the pool twice, or closed", n)
			}
			seen[c] = true
		}
		p.pool.mu.Unlock()
	}
	if n := len(p.recs.ch); n != 0 {
		t.Errorf("got %d Records too many", n)
	}
	eventually(t, "nothing in flight", func() bool { return p.Status().InFlight == 0 && p.watches() == 0 })
}
