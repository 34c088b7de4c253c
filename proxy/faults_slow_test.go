package proxy

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"spectap/collector"
)

// A client that takes its time is not the engine's silence: the stall limit
// counts none of it, also where comments stand between the data.
func TestSlowClientIsNoStall(t *testing.T) {
	const stall = 500 * time.Millisecond
	round := chunk(tokenEvent("a")) + chunk(strings.Repeat(": keep-alive\n\n", 8<<10))
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		if c.request() == nil {
			return
		}
		c.send(streamHead)
		for range 60 {
			c.send(round)
		}
		c.send(chunk(finishEvent+doneEvent), lastChunk)
		c.gone()
	})
	cfg := testConfig(t, upstreamOf(up))
	cfg.StallTimeout = stall
	p := startProxy(t, cfg, nil)
	c := narrow(t, p.addr)
	c.send(post(chatPath, chatStream))
	resp := c.answer("POST")
	for range 2 { // comments are most of what is on the way at a pause
		time.Sleep(3 * stall / 2)
		if _, err := io.CopyN(io.Discard, resp.Body, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if rec := p.recs.next(t); rec.ErrorKind != "" {
		t.Errorf("got kind %q, error %q", rec.ErrorKind, rec.Error)
	}
}

// An engine that answers early, and neither takes the rest of a large request
// nor closes, has its answer passed on, once; so has one whose limit is over.
func TestEngineTakesNoMore(t *testing.T) {
	f := func(name string, want outcome, answer ...string) {
		t.Run(name, func(t *testing.T) {
			done := make(chan struct{})
			defer close(done)
			up := startEngine(t, func(e *scripted, c *engineConn, _ int) {
				e.requests.Add(1)
				_ = c.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
				for line := ""; line != "\r\n"; { // the head, and little of the body
					var err error
					if line, err = c.br.ReadString('\n'); err != nil {
						return
					}
				}
				c.send(answer...)
				<-done
			})
			cfg := testConfig(t, upstreamOf(up))
			cfg.HeadTimeout = 500 * time.Millisecond
			p := startProxy(t, cfg, nil)
			c := connect(t, p.addr)
			c.send(post(chatPath, strings.Repeat(" ", 8<<20)+whole))
			want.check(t, c, p)
			_ = c.Close()
			p.atBase(t, 0)
			if n := up.requests.Load(); n != 1 {
				t.Errorf("the engine got %d requests, want 1", n)
			}
		})
	}
	const refusal = `{"detail":"no"}`
	f("answers", outcome{status: 401, body: refusal, kind: collector.ErrHTTPStatus}, withLength("401 Unauthorized", "application/json", refusal))
	f("hangs", outcome{status: 504, body: "upstream_timeout", kind: collector.ErrUpstreamTimeout, text: "SPECTAP_HEAD_TIMEOUT"})
}

// A client that leaves inside its request is told apart from one that speaks no HTTP.
func TestClientLeavesInsideRequest(t *testing.T) {
	up := answering(t, func(*http.Request) string { return withLength("200 OK", "text/plain", "reached") })
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	for n, request := range []string{
		"POST " + chatPath + " HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc",
		"POST " + chatPath + " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
		"POST " + chatPath + " HTTP/1.1\r\nHost",
	} {
		c := connect(t, p.addr)
		c.send(request)
		if n%2 == 1 {
			_ = c.Conn.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		} else {
			_ = c.Conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		}
	}
	eventually(t, "no client is left", func() bool { return p.Status().ClientConnections == 0 })
	if log := p.log.String(); strings.Contains(log, "not valid HTTP") || !strings.Contains(log, "connection ended inside the request") {
		t.Errorf("got log %s", log)
	}
	if n := up.requests.Load(); n != 0 {
		t.Errorf("the engine got %d requests, want none", n)
	}
}

// narrow connects with a small receive buffer, so that the proxy soon waits for
// a client that does not read.
func narrow(t testing.TB, addr string) *client {
	t.Helper()
	c := connect(t, addr)
	if err := c.Conn.(*net.TCPConn).SetReadBuffer(256 << 10); err != nil {
		t.Fatal(err)
	}
	return c
}
