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
