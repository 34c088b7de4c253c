package proxy

import (
	"net/http"
	"strings"
	"testing"
)

// An answer whose head has lines that end in LF alone passes, wherever reads end, and its
// connection is used again. Towards the client all lines end in CR LF.
func TestBareLineEnds(t *testing.T) {
	var parts []string
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		for c.request() != nil {
			c.send(parts...)
		}
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	f := func(head, text string) {
		t.Helper()
		for _, size := range []int{1, 7, 1 << 20} {
			parts = nil
			for rest := head + text; rest != ""; rest = rest[min(size, len(rest)):] {
				parts = append(parts, rest[:min(size, len(rest))])
			}
			c := connect(t, p.addr)
			for range 2 {
				c.send(post(chatPath, chatStream))
				resp := c.answer("POST")
				if got := body(t, resp); resp.StatusCode != 200 || resp.Header.Get("X-A") != "b" || got != "ok\n\nend" {
					t.Errorf("%q in pieces of %d: got %d %q %q", head, size, resp.StatusCode, resp.Header, got)
				}
			}
		}
	}
	const sized, coded = "ok\n\nend", "7\r\nok\n\nend\r\n0\r\n\r\n"
	f("HTTP/1.1 200 OK\nX-A: b\nContent-Length: 7\n\n", sized)
	f("HTTP/1.1 200 OK\nX-A: b\ntransfer-encoding: chunked\n\n", coded)
	f("HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 7\n\n", sized)
	f("HTTP/1.1 200 OK\nX-A: b\nContent-Length: 7\n\r\n", sized)
	f("HTTP/1.1 200 OK\nX-A: b\nContent-Length: 7\r\n\r\n", sized)
	f("HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\nX-A: b\nContent-Length: 7\n\n", sized)
	f("HTTP/1.2 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n", coded)
	if n := up.conns.Load(); n > 3*7 {
		t.Errorf("got %d connections for 42 requests, want them used again", n)
	}
}

// What no status line begins with is refused without waiting for the end of a head.
func TestNoStatusLine(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "H": true, "HTTP/1.1": true, "HTTP/1.1 200": true, "HTTP/1.0 404 Not Found\n": true, "\r\nHTTP/1.1 200": true,
		"SSH-2.0": false, "HTTP/2": false, "HTTP/1.1 2x": false, "HTTP/1.1200": false, "GET / HTTP/1.1": false, "\x15\x03": false,
	} {
		if got := maybeStatusLine([]byte(text)); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		c.send("SSH-2.0-OpenSSH_9.6\r\n")
		c.gone() // and waits
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	resp := c.answer(http.MethodPost)
	if text := body(t, resp); resp.StatusCode != 502 || !strings.Contains(text, "upstream_protocol") {
		t.Errorf("got %d %q, want 502", resp.StatusCode, text)
	}
}
