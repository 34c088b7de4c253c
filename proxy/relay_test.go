package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spectap/collector"
)

const (
	realtime  = "/v1/realtime?model=m"
	wsFields  = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
	handshake = "GET " + realtime + " HTTP/1.1\r\nHost: h:1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + wsFields + "\r\n"
	switched  = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
)

// rawHead reads a head as it stands on the wire.
func rawHead(br *bufio.Reader) string {
	var head strings.Builder
	for {
		line, err := br.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String()
		}
	}
}

// exactly reads as many bytes as want has, and compares.
func (c *client) exactly(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c.br, got); err != nil || string(got) != want {
		c.t.Fatalf("got %.100q, %v; want %.100q", got[:n], err, want)
	}
}

// upgraded connects, sends a handshake and reads the 101.
func upgraded(t testing.TB, addr string) *client {
	t.Helper()
	c := connect(t, addr)
	c.send(handshake)
	if head := rawHead(c.br); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatalf("got %q, want a 101", head)
	}
	return c
}

// echoing is an engine that switches and sends back what comes, until its client
// ends; heads gets each handshake as it came.
func echoing(t testing.TB, heads chan<- string) *scripted {
	return startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		head := rawHead(c.br)
		if heads != nil {
			heads <- head
		}
		c.send(switched, "\r\n")
		_, _ = io.Copy(c.Conn, c.br)
	})
}

// ended gives the Records that an observer gets.
func ended(ch chan *collector.Record) func(*Server) {
	return func(s *Server) {
		s.Observer = observerFunc(func(*collector.Record, collector.Headers) func(*collector.Record) {
			return func(rec *collector.Record) { ch <- rec }
		})
	}
}

// A handshake goes on with the fields that switch, and without what is for one
// connection only; so does the 101. Bytes go both ways in any size.
func TestRelay(t *testing.T) {
	heads, recs := make(chan string, 1), make(chan *collector.Record, 1)
	up := echoing(t, heads)
	p := startProxy(t, testConfig(t, upstreamOf(up)), ended(recs))
	f := func(fields, upstream string) {
		t.Helper()
		c := connect(t, p.addr)
		c.send("GET " + realtime + " HTTP/1.1\r\nHost: h:1\r\n" + fields + wsFields + "\r\n")
		want := "GET " + realtime + " HTTP/1.1\r\nHost: h:1\r\n" + wsFields + upstream + "\r\n"
		if d := cmp.Diff(want, <-heads); d != "" {
			t.Errorf("the engine's view:\n%s", d)
		}
		want = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
		if d := cmp.Diff(want, rawHead(c.br)); d != "" {
			t.Errorf("the client's view:\n%s", d)
		}
		sent := 0
		for _, n := range []int{1, 125, 4096, 70000, 1 << 20} {
			text := strings.Repeat("x", n-1) + "\n"
			go func() { _, _ = io.WriteString(c, text) }()
			c.exactly(text)
			sent += n
		}
		leave(c, "half")
		if _, err := c.br.ReadByte(); err != io.EOF {
			t.Errorf("got %v, want the engine's end", err)
		}
		rec := <-recs
		if rec.Status != 101 || rec.ErrorKind != "" || rec.RequestBytes != sent || rec.ResponseBytes != sent || !rec.Done.Known || !rec.LastByte.Known || rec.Path != "/v1/realtime" || rec.Route != "" {
			t.Errorf("the observer got %+v", rec)
		}
	}
	f("Connection: Upgrade\r\nUpgrade: websocket\r\n", "Connection: Upgrade\r\nUpgrade: websocket\r\n")
	f("connection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\n", "Connection: Upgrade\r\nUpgrade: WebSocket\r\n")
	f("Connection: close\r\nConnection: upgrade\r\nUpgrade: WEBSOCKET\r\n", "Connection: Upgrade\r\nUpgrade: WEBSOCKET\r\n")
	f("Connection: x-hop, Upgrade\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: websocket\r\n", "Connection: Upgrade\r\nUpgrade: websocket\r\n")
	if n := len(p.recs.ch); n != 0 {
		t.Errorf("got %d Records at the sink, want none: a relay is no generation", n)
	}
}

// What stands right behind a handshake, or behind the 101, is not lost.
func TestRelayEarlyBytes(t *testing.T) {
	got := make(chan string, 1)
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		rawHead(c.br)
		c.send(switched + "\r\nfirst words")
		text, _ := io.ReadAll(c.br)
		got <- string(text)
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	for _, early := range []string{"early", strings.Repeat("early", 40000)} {
		c := connect(t, p.addr)
		go func() { _, _ = io.WriteString(c, handshake+early) }()
		rawHead(c.br)
		c.exactly("first words")
		go func() { _, _ = io.WriteString(c, "late"); leave(c, "half") }()
		if text := <-got; text != early+"late" {
			t.Errorf("the engine got %d bytes, want %d", len(text), len(early+"late"))
		}
	}
}

// An engine that does not switch answers as it does any request, and the
// connection goes on.
func TestRelayRefusedByEngine(t *testing.T) {
	status := ""
	up := answering(t, func(*http.Request) string {
		return "HTTP/1.1 " + status + "\r\ncontent-type: application/json\r\nconnection: upgrade\r\nupgrade: websocket\r\ncontent-length: 14\r\n\r\n{\"detail\":\"x\"}"
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	for _, status = range []string{"401 Unauthorized", "403 Forbidden", "404 Not Found", "426 Upgrade Required", "200 OK"} {
		c.send(handshake)
		resp := c.answer("GET")
		if text := body(t, resp); resp.Status != status || text != `{"detail":"x"}` {
			t.Errorf("got %s %q, want %s", resp.Status, text, status)
		}
		want := map[bool]string{true: "websocket Upgrade"}[strings.HasPrefix(status, "426")]
		if got := strings.TrimSpace(resp.Header.Get("Upgrade") + " " + resp.Header.Get("Connection")); got != want {
			t.Errorf("%s: got upgrade %q, want %q", status, got, want)
		}
	}
	if n := up.conns.Load(); n != 1 {
		t.Errorf("got %d connections to the engine, want 1", n)
	}
}

// Everything but a WebSocket that is asked for properly is served as HTTP/1.1.
func TestUpgradeIgnored(t *testing.T) {
	up := answering(t, func(req *http.Request) string {
		text, _ := io.ReadAll(req.Body)
		return withLength("200 OK", "text/plain", fmt.Sprint(req.Method, " ", req.Header["Upgrade"], req.Header["Http2-Settings"], req.Header["Connection"], string(text)))
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	f := func(method, proto, fields, text string) {
		t.Helper()
		c := connect(t, p.addr)
		request := fmt.Sprintf("%s /v1/realtime %s\r\nHost: h\r\n%s%sContent-Length: %d\r\n\r\n%s", method, proto, wsFields, fields, len(text), text)
		for range 2 {
			c.send(request)
			if got, want := body(t, c.answer(method)), method+" [] [] []"+text; got != want {
				t.Errorf("%s %q: the engine got %q, want %q", method, fields, got, want)
			}
			if proto == "HTTP/1.0" {
				return
			}
		}
	}
	const h2c = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n" // curl --http2
	const ws = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	f("GET", "HTTP/1.1", h2c, "")
	f("POST", "HTTP/1.1", h2c, "{}")
	f("POST", "HTTP/1.1", ws, "{}")
	f("GET", "HTTP/1.0", ws, "")
	f("GET", "HTTP/1.1", "Upgrade: websocket\r\n", "")
	f("GET", "HTTP/1.1", "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n", "")
	f("GET", "HTTP/1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n", "")
}

// An engine that switches without being asked to has not answered.
func TestUpgradeUnasked(t *testing.T) {
	up := answering(t, func(*http.Request) string { return switched + "\r\n" })
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send("GET /v1/realtime HTTP/1.1\r\nHost: h\r\n\r\n")
	if resp := c.answer("GET"); resp.StatusCode != 502 {
		t.Errorf("got %d, want 502", resp.StatusCode)
	}
}
