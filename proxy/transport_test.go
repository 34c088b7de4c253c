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

// leave is how a client goes: FIN, RST or a half-close.
func leave(c *client, how string) {
	tc := c.Conn.(*net.TCPConn)
	switch how {
	case "rst":
		_ = tc.SetLinger(0)
		_ = tc.Close()
	case "half":
		_ = tc.CloseWrite()
	default:
		_ = tc.Close()
	}
}

func TestClientGone(t *testing.T) {
	f := func(name, how, sent, request string) {
		t.Run(name+" "+how, func(t *testing.T) {
			arrived, gone := make(chan struct{}), make(chan struct{})
			up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
				c.request()
				c.send(sent)
				close(arrived)
				c.gone()
				close(gone)
			})
			p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
			c := connect(t, p.addr)
			c.send(post(chatPath, request))
			wait(t, "request at the engine", arrived)
			if sent != "" {
				if resp := c.answer("POST"); strings.Contains(sent, "data:") {
					_, _ = resp.Body.Read(make([]byte, 1))
				}
			}
			leave(c, how)
			wait(t, "upstream connection closed", gone)
			rec := p.recs.next(t)
			if rec.ErrorKind != collector.ErrClientGone || rec.SpecMissing != collector.MissingClientGone {
				t.Errorf("got kind %q, missing %q; want client_gone", rec.ErrorKind, rec.SpecMissing)
			}
		})
	}
	for _, how := range []string{"fin", "rst", "half"} {
		f("prefill", how, "", chatStream)
		f("silent stream", how, streamHead, chatStream)
		f("mid stream", how, streamHead+chunk(tokenEvent("a")), chatStream)
		f("not streaming", how, "", `{}`)
		f("half a body", how, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", `{}`)
	}
}

// A client that leaves while a pipelined request waits is seen, too.
func TestClientGoneBehindPipelined(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, n int) {
		if c.request() != nil && n == 0 {
			close(arrived)
			c.gone()
			close(gone)
		}
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream) + post(chatPath, chatStream))
	wait(t, "request at the engine", arrived)
	leave(c, "fin")
	wait(t, "upstream connection closed", gone)
}

// GuideLLM resets its connection right after [DONE]: it has cancelled nothing.
func TestGoneAfterDone(t *testing.T) {
	release := make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		c.send(streamHead, chunk(tokenEvent("a")), chunk(finishEvent), chunk(doneEvent))
		<-release
		c.send(lastChunk)
		c.gone()
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	resp := c.answer("POST")
	want := tokenEvent("a") + finishEvent + doneEvent
	if _, err := io.ReadFull(resp.Body, make([]byte, len(want))); err != nil {
		t.Fatal(err)
	}
	leave(c, "rst")
	close(release)
	rec := p.recs.next(t)
	if rec.ErrorKind != "" || !rec.SawDone || rec.Finish != "length" {
		t.Errorf("got kind %q, done %v, finish %q; want none, true, length", rec.ErrorKind, rec.SawDone, rec.Finish)
	}
}

// An upstream that dies is a cut connection for the client, never a clean end.
func TestTruncated(t *testing.T) {
	f := func(name string, reset bool, sent string) {
		t.Run(name, func(t *testing.T) {
			up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
				c.request()
				c.send(sent)
				if reset {
					_ = c.Conn.(*net.TCPConn).SetLinger(0)
				}
			})
			p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
			c := connect(t, p.addr)
			c.send(post(chatPath, chatStream))
			resp := c.answer("POST")
			got, err := io.ReadAll(resp.Body)
			if err == nil {
				t.Errorf("got a clean end after %q", got)
			}
			rec := p.recs.next(t)
			if rec.ErrorKind != collector.ErrTruncated || rec.SpecMissing != collector.MissingTruncated {
				t.Errorf("got kind %q, missing %q; want truncated", rec.ErrorKind, rec.SpecMissing)
			}
			if !strings.HasPrefix(sent, streamHead+chunk(string(got))) && !strings.HasSuffix(sent, string(got)) {
				t.Errorf("got %q, which the engine did not send", got)
			}
		})
	}
	f("after an event", false, streamHead+chunk(tokenEvent("a")))
	f("inside a chunk", false, streamHead+"fff\r\ndata: {")
	f("malformed chunk", false, streamHead+chunk(tokenEvent("a"))+"zz\r\n")
	f("bare line feed in a chunk extension", false, streamHead+chunk(tokenEvent("a"))+"5;x\nhello\r\n0\r\n\r\n")
	f("fixed length", false, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
}

// A reset may overtake what was sent before it, so only its end is checked.
func TestTruncatedByReset(t *testing.T) {
	seen := make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		c.send(streamHead, chunk(tokenEvent("a")))
		<-seen
		_ = c.Conn.(*net.TCPConn).SetLinger(0)
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	resp := c.answer("POST")
	if _, err := io.ReadFull(resp.Body, make([]byte, len(tokenEvent("a")))); err != nil {
		t.Fatal(err)
	}
	close(seen)
	if rest, err := io.ReadAll(resp.Body); err == nil || len(rest) > 0 {
		t.Errorf("got %q and error %v, want a cut connection", rest, err)
	}
	if rec := p.recs.next(t); rec.ErrorKind != collector.ErrTruncated || len(rec.Chunks) != 1 {
		t.Errorf("got kind %q, %d chunks; want truncated, 1", rec.ErrorKind, len(rec.Chunks))
	}
}

// An answer that comes before a big body was read is passed on.
func TestEarlyAnswer(t *testing.T) {
	up := startEngine(t, func(e *scripted, c *engineConn, _ int) {
		if _, err := http.ReadRequest(c.br); err == nil { // the head only
			e.requests.Add(1)
			c.send("HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 24\r\n\r\n" + `{"error":"Unauthorized"}`)
		}
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	big := `{"messages":"` + strings.Repeat("x", 10<<20) + `"}`
	for range 5 {
		c := connect(t, p.addr)
		c.send(post(chatPath, big))
		resp := c.answer("POST")
		if text := body(t, resp); resp.StatusCode != 401 || text != `{"error":"Unauthorized"}` {
			t.Fatalf("got %d %q, want the engine's 401", resp.StatusCode, text)
		}
		if rec := p.recs.next(t); rec.Status != 401 || rec.ErrorKind != collector.ErrHTTPStatus {
			t.Errorf("got status %d, kind %q", rec.Status, rec.ErrorKind)
		}
	}
	if n := up.requests.Load(); n != 5 {
		t.Errorf("got %d upstream requests, want 5", n)
	}
}

func TestStallLimit(t *testing.T) {
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		c.send(streamHead, chunk(tokenEvent("a")))
		for range 1000 { // comments must not keep it alive
			if _, err := io.WriteString(c, chunk(": keep-alive\n\n")); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Error("the stall limit did not strike")
	})
	cfg := testConfig(t, upstreamOf(up))
	cfg.StallTimeout = 50 * time.Millisecond
	p := startProxy(t, cfg, nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	if _, err := io.ReadAll(c.answer("POST").Body); err == nil {
		t.Error("got a clean end, want a cut connection")
	}
	if rec := p.recs.next(t); rec.ErrorKind != collector.ErrStalled {
		t.Errorf("got kind %q, want stalled", rec.ErrorKind)
	}
}

func TestUpstreamUnreachable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	p := startProxy(t, testConfig(t, "http://"+ln.Addr().String()), nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	resp := c.answer("POST")
	contains(t, body(t, resp), `"type":"spectap_upstream_refused"`)
	if rec := p.recs.next(t); resp.StatusCode != 502 || rec.ErrorKind != collector.ErrUpstreamRefused || rec.Status != 502 {
		t.Errorf("got %d, kind %q, want 502 upstream_refused", resp.StatusCode, rec.ErrorKind)
	}
}

func TestHeadTimeoutAndProtocol(t *testing.T) {
	f := func(sent string, limit time.Duration, status int, kind string) {
		t.Helper()
		up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
			c.request()
			c.send(sent)
			if limit > 0 {
				c.gone()
			}
		})
		cfg := testConfig(t, upstreamOf(up))
		cfg.HeadTimeout = limit
		p := startProxy(t, cfg, nil)
		c := connect(t, p.addr)
		c.send(post(chatPath, chatStream))
		resp := c.answer("POST")
		text := body(t, resp)
		if rec := p.recs.next(t); resp.StatusCode != status || rec.ErrorKind != kind {
			t.Errorf("sent %q: got %d %s, kind %q; want %d, %q", sent, resp.StatusCode, text, rec.ErrorKind, status, kind)
		}
		if strings.Contains(text+p.log.String(), "canary") {
			t.Errorf("bytes of the answer leaked: %s%s", text, p.log.String())
		}
	}
	f("", 30*time.Millisecond, 504, collector.ErrUpstreamTimeout)
	f("canary is not HTTP\r\n\r\n", 0, 502, collector.ErrUpstreamProtocol)
	f("HTTP/1.1 200 OK\r\ncanary canary\x00\r\n\r\n", 0, 502, collector.ErrUpstreamProtocol)
	f("HTTP/1.1 20", 0, 502, collector.ErrUpstreamReset)
}
