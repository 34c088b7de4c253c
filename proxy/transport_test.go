package proxy

import (
	"testing"
	"time"

	"spectap/collector"
)

func TestMayRetry(t *testing.T) {
	f := func(want bool, a attempt) {
		t.Helper()
		if got := mayRetry(a); got != want {
			t.Errorf("mayRetry(%+v): got %v, want %v", a, got, want)
		}
	}
	ok := attempt{reused: true, written: true, waited: time.Millisecond}
	f(true, ok)
	change := func(edit func(*attempt)) attempt { a := ok; edit(&a); return a }
	f(false, change(func(a *attempt) { a.number = 1 }))                     // once
	f(false, change(func(a *attempt) { a.reused = false }))                 // a new connection was not stale
	f(false, change(func(a *attempt) { a.got = 1 }))                        // an answer had begun
	f(false, change(func(a *attempt) { a.timeout = true }))                 // our own limit
	f(false, change(func(a *attempt) { a.waited = retryWithin + 1 }))       // the engine was at work
	f(true, change(func(a *attempt) { a.waited = retryWithin }))            // the limit itself
	f(true, change(func(a *attempt) { a.waited, a.untaken = 1e12, true }))  // nothing came to the engine
	f(true, change(func(a *attempt) { a.written, a.waited = false, 1e12 })) // never written whole: nothing ran
}

// An engine that reads the request on a reused connection, works on it for
// longer than the guard's limit and dies must not get it twice.
func TestRetryNotAfterWork(t *testing.T) {
	up := startEngine(t, func(e *scripted, c *engineConn, _ int) {
		for n := 0; c.request() != nil; n++ {
			e.requests.Add(1)
			if n > 0 {
				time.Sleep(retryWithin + 50*time.Millisecond) // the work
				return
			}
			c.send(withLength("200 OK", "application/json", `{}`))
		}
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, `{}`))
	body(t, c.answer("POST"))
	p.recs.next(t)
	c.send(post(chatPath, `{}`))
	resp := c.answer("POST")
	if text := body(t, resp); resp.StatusCode != 502 {
		t.Errorf("got status %d %s, want 502", resp.StatusCode, text)
	}
	rec := p.recs.next(t)
	if n := up.requests.Load(); n != 2 || rec.Retries != 0 || rec.ErrorKind != collector.ErrUpstreamReset {
		t.Errorf("got %d upstream requests, %d retries, kind %q; want 2, 0, %q", n, rec.Retries, rec.ErrorKind, collector.ErrUpstreamReset)
	}
}

// A new connection that dies is never retried, however quickly.
func TestRetryNotOnNewConnection(t *testing.T) {
	up := startEngine(t, func(e *scripted, c *engineConn, _ int) {
		if c.request() != nil {
			e.requests.Add(1)
		}
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, `{}`))
	if resp := c.answer("POST"); resp.StatusCode != 502 {
		t.Errorf("got status %d, want 502", resp.StatusCode)
	}
	if n := up.requests.Load(); n != 1 {
		t.Errorf("got %d upstream requests, want 1", n)
	}
}

// A reused connection that the engine closes as the request arrives is retried once.
func TestRetryStaleConnection(t *testing.T) {
	up := startEngine(t, func(e *scripted, c *engineConn, n int) {
		for i := 0; c.request() != nil; i++ {
			if n == 0 && i > 0 {
				return // read, not answered: as a server that closes its idle connection
			}
			e.requests.Add(1)
			c.send(withLength("200 OK", "application/json", `{"n":1}`))
		}
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	for i := range 2 {
		c.send(post(chatPath, `{}`))
		if resp := c.answer("POST"); resp.StatusCode != 200 || body(t, resp) != `{"n":1}` {
			t.Fatalf("request %d: got status %d", i, resp.StatusCode)
		}
		if rec := p.recs.next(t); rec.Retries != i {
			t.Errorf("request %d: got %d retries, want %d", i, rec.Retries, i)
		}
	}
	if n := up.requests.Load(); n != 2 {
		t.Errorf("got %d answered requests, want 2", n)
	}
}

// A connection that the engine closed while it was idle is noticed before it is used.
func TestIdleCloseNoticed(t *testing.T) {
	closed := make(chan struct{}, 1)
	up := startEngine(t, func(e *scripted, c *engineConn, _ int) {
		if c.request() != nil {
			e.requests.Add(1)
			c.send(withLength("200 OK", "application/json", `{}`))
			_ = c.Close()
			closed <- struct{}{}
		}
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	for i := range 20 {
		c.send(post(chatPath, `{}`))
		if resp := c.answer("POST"); resp.StatusCode != 200 {
			t.Fatalf("request %d: got status %d", i, resp.StatusCode)
		} else {
			body(t, resp)
		}
		<-closed
		if rec := p.recs.next(t); platformStamps && rec.Retries > 0 {
			t.Errorf("request %d: got %d retries, want the closed connection noticed", i, rec.Retries)
		}
	}
	if n := up.requests.Load(); n != 20 {
		t.Errorf("got %d upstream requests, want 20", n)
	}
}

// Idle connections are dropped by age though no request comes.
func TestIdleExpires(t *testing.T) {
	gone := make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		c.send(withLength("200 OK", "application/json", `{}`))
		c.gone()
		close(gone)
	})
	cfg := testConfig(t, upstreamOf(up))
	cfg.UpstreamIdle = 20 * time.Millisecond
	p := startProxy(t, cfg, nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, `{}`))
	body(t, c.answer("POST"))
	wait(t, "idle connection closed", gone)
	eventually(t, "pool empty", func() bool { return p.pool.idleCount() == 0 })
}
