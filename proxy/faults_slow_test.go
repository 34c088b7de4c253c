package proxy

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
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
