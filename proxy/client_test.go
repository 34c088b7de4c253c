package proxy

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The head of an answer may be as large as that of a request, whatever follows it.
func TestLargeHead(t *testing.T) {
	f := func(size, status int, framing, text string) {
		t.Helper()
		large := strings.Repeat("x", size)
		up := answering(t, func(req *http.Request) string {
			if req.Header.Get("X-Small") != "" {
				return withLength("200 OK", "text/plain", "small")
			}
			return "HTTP/1.1 200 OK\r\nx-large: " + large + "\r\n" + framing + "\r\n\r\n" + text
		})
		p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
		c := connect(t, p.addr)
		for range 2 { // the connection stays usable on both sides
			c.send(post(chatPath, "{}"))
			resp := c.answer("POST")
			got := body(t, resp)
			if resp.StatusCode != status || status == 200 && (got != "hello" || resp.Header.Get("X-Large") != large) {
				t.Errorf("%d bytes: got %d %q, header of %d bytes", size, resp.StatusCode, got, len(resp.Header.Get("X-Large")))
			}
			c.send(post(chatPath, "{}", "X-Small: 1"))
			if got := body(t, c.answer("POST")); got != "small" {
				t.Errorf("%d bytes: got %q after it", size, got)
			}
		}
		if n := up.conns.Load(); status == 200 && n != 1 {
			t.Errorf("%d bytes: got %d connections, want 1", size, n)
		}
	}
	for _, size := range []int{1000, readBuffer - 20, readBuffer, 10000, 20000, 70000} {
		f(size, 200, "content-length: 5", "hello")
		f(size, 200, "transfer-encoding: chunked", chunk("hel")+chunk("lo")+lastChunk)
	}
	f(testConfig(t, "").MaxHeadBytes, 502, "content-length: 5", "hello")
}

// An HTTP/1.0 client gets what a direct connection to the engine gives it: the
// real one frames as for HTTP/1.1 and closes (capture nd-http10-stream).
func TestHTTP10Framing(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n"
	f := func(answer, contentLength, want string) {
		t.Helper()
		up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
			if req := c.request(); req != nil && req.Proto == "HTTP/1.1" {
				c.send(answer)
			}
		})
		p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
		for _, version := range []string{"HTTP/1.0\r\n", "HTTP/1.0\r\nHost: h\r\n"} {
			got := raw(t, p.addr, "POST "+chatPath+" "+version+"Content-Length: 2\r\n\r\n{}") // up to the end of the connection
			gotHead, _, _ := strings.Cut(got, "\r\n\r\n")
			gotHead = strings.ToLower(gotHead) + "\r\n"
			gotBody := bodyOf(t, []byte(got))
			if !strings.Contains(gotHead, "connection: close\r\n") || !strings.Contains(gotHead, contentLength) || gotBody != want {
				t.Errorf("got %q, %q; want it closed, with %q and %q", gotHead, gotBody, contentLength, want)
			}
		}
	}
	f(head+"transfer-encoding: chunked\r\n\r\n"+chunk(tokenEvent("a"))+chunk(doneEvent)+lastChunk, "transfer-encoding: chunked\r\n", tokenEvent("a")+doneEvent)
	f(head+"content-length: 5\r\n\r\nhello", "content-length: 5\r\n", "hello")
}

// An HTTP/1.0 request behind another one of the same connection is answered behind it.
func TestHTTP10Pipelined(t *testing.T) {
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		if req := c.request(); req != nil && req.URL.Path == "/second" {
			c.send("HTTP/1.1 200 OK\r\n\r\nsecond")
		} else {
			c.send(withLength("200 OK", "text/plain", "first"))
		}
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	got := raw(t, p.addr, "GET /first HTTP/1.1\r\nHost: h\r\n\r\nGET /second HTTP/1.0\r\n\r\n")
	if first, second := strings.Index(got, "first"), strings.Index(got, "second"); first < 0 || second < first {
		t.Errorf("got %q", got)
	}
}

// A slow client gets everything, in order, and the engine is held back meanwhile.
func TestSlowClient(t *testing.T) {
	before, after, _ := strings.Cut(tokenEvent("#"), "#")
	after = strings.Repeat("x", 32<<10) + after
	f := func(measure string) {
		t.Helper()
		var want strings.Builder
		events, blocked := make(chan int, 1), make(chan struct{})
		up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
			if c.request() == nil {
				return
			}
			_ = c.Conn.(*net.TCPConn).SetWriteBuffer(128 << 10)
			c.send(streamHead)
			n, held := 0, false
			for ; n < 2000 && !held; n++ { // until nobody takes more; then the rest of that event
				event := before + strconv.Itoa(n) + after
				want.WriteString(event)
				_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
				sent, err := io.WriteString(c, chunk(event))
				if held = err != nil; held {
					_ = c.SetWriteDeadline(time.Time{})
					close(blocked)
					c.send(chunk(event)[sent:])
				}
			}
			end := finishEvent + doneEvent
			want.WriteString(end)
			if measure == "usage" {
				end = finishEvent + usageEvent + doneEvent
			}
			events <- n
			c.send(chunk(end), lastChunk)
			c.gone()
		})
		cfg := testConfig(t, upstreamOf(up))
		cfg.Measure = measure
		p := startProxy(t, cfg, func(s *Server) { // with small buffers all around, fewer bytes show the same
			stamp := s.pool.dialer.stamp
			s.pool.dialer.stamp = func(c net.Conn) net.Conn {
				_ = c.(*net.TCPConn).SetReadBuffer(128 << 10)
				return stamp(c)
			}
		})
		c := narrow(t, p.addr)
		c.send(post(chatPath, chatStream))
		wait(t, "the engine is held back", blocked)
		got, n := body(t, c.answer("POST")), <-events
		if got != want.String() {
			t.Errorf("%s: got %d bytes, want %d", measure, len(got), want.Len())
		}
		if rec := p.recs.next(t); rec.ErrorKind != "" || len(rec.Chunks) < n {
			t.Errorf("%s: got kind %q, %d chunks, want %d", measure, rec.ErrorKind, len(rec.Chunks), n)
		}
		t.Logf("%s: held back after %d events", measure, n)
	}
	f("observe")
	f("usage")
}

// Who sent a request: labels win, then the headers by which clients name their
// conversations, then what the messages say. A hash is kept only on demand.
func TestLabelsOfUnlabelled(t *testing.T) {
	up := answering(t, func(*http.Request) string { return withLength("200 OK", "application/json", "{}") })
	const twoTurns = `{"messages":[{"role":"user","content":"abc"},{"role":"assistant","content":"x"},{"role":"user","content":"d"}]}`
	const hash = "ba7816bf8f01cfea414140de5dae2223"
	f := func(keep bool, namedBy, conversation, question, userHash string, headers ...string) {
		t.Helper()
		cfg := testConfig(t, upstreamOf(up))
		cfg.HashUser = keep
		p := startProxy(t, cfg, nil)
		c := connect(t, p.addr)
		c.send(post(chatPath, twoTurns, headers...))
		body(t, c.answer("POST"))
		rec := p.recs.next(t)
		if l := rec.Labels; rec.NamedBy != namedBy || l.Conversation != conversation || l.Question != question || l.Turn != 1 || !l.HasTurn || rec.UserHash != userHash {
			t.Errorf("%v: got %+v, hash %q; want %q, %q, turn 1, %q", headers, l, rec.UserHash, conversation, question, userHash)
		}
	}
	f(false, "", "", "", "")
	f(true, "", "", hash, hash)
	f(true, "x-session-affinity", "s", hash, hash, "X-Session-Affinity: s")
	f(true, "x-correlation-id", "c", hash, hash, "X-Session-Affinity: s", "X-Correlation-ID: c")
	f(true, "baggage", "b", "q1", hash, "X-Correlation-ID: c", "baggage: spectap.conversation=b,spectap.question=q1")
}
