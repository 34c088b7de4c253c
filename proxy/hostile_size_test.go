package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A body above the limit is answered 413 as soon as that is known: before the
// upload where its length is declared, in the middle of a chunked one.
func TestBodyTooLarge(t *testing.T) {
	up := answering(t, func(req *http.Request) string {
		text, _ := io.ReadAll(req.Body)
		return withLength("200 OK", "text/plain", fmt.Sprint(len(text)))
	})
	cfg := testConfig(t, upstreamOf(up))
	cfg.MaxBodyBytes = 1000
	p := startProxy(t, cfg, nil)
	const head = "POST " + chatPath + " HTTP/1.1\r\nHost: h\r\n"
	f := func(request string) {
		t.Helper()
		c := connect(t, p.addr)
		c.send(request)
		text := refusedBody(t, c, 413)
		contains(t, text, "1000 bytes")
		contains(t, text, "SPECTAP_MAX_BODY_BYTES")
		_ = c.Close()
	}
	f(head + "Content-Length: 1001\r\n\r\n")                                                     // not a byte of it sent
	f(head + "Content-Length: 9223372036854775807\r\n\r\n")                                      // the largest that is a number
	f(head + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n")                                        // a chunk's size alone
	f(head + "Transfer-Encoding: chunked\r\n\r\n7ffffffffffffff\r\n")                            // near the end of numbers
	f(head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(strings.Repeat("x", 999)) + "2\r\nxx") // the sum
	f(head + "Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n")                             // no 100 before it
	f(head + "Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n" + strings.Repeat("x", 1001)) // who does not wait for it
	if n := up.requests.Load(); n != 0 {
		t.Errorf("got %d requests upstream, want none", n)
	}
	c := connect(t, p.addr) // what fits passes
	c.send(post(chatPath, strings.Repeat("x", 1000)))
	if got := body(t, c.answer("POST")); got != "1000" {
		t.Errorf("got %q, want 1000", got)
	}
	c.send(head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(strings.Repeat("x", 1000)) + lastChunk)
	if got := body(t, c.answer("POST")); got != "1000" {
		t.Errorf("got %q, want 1000", got)
	}
}

// A client that sends its whole request before it reads gets the refusal, too:
// the connection is not reset under it.
func TestRefusalOutlivesUpload(t *testing.T) {
	up := answering(t, func(*http.Request) string { return withLength("200 OK", "text/plain", "reached") })
	cfg := testConfig(t, upstreamOf(up))
	cfg.MaxBodyBytes = 1000
	p := startProxy(t, cfg, nil)
	f := func(status int, request string) {
		t.Helper()
		c := connect(t, p.addr)
		c.send(request) // fails when the connection is reset before all is written
		_ = refusedBody(t, c, status)
		c.ended()
	}
	large := strings.Repeat("x", 16<<20)
	f(413, post(chatPath, large))
	f(431, "GET / HTTP/1.1\r\nHost: h\r\nX: "+large+"\r\n\r\n")
	f(400, "GET / HTTP/1.1\r\nHost: h\r\nBad Name: 1\r\n\r\n"+large)
	f(400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+large)
	if n := up.requests.Load(); n != 0 {
		t.Errorf("got %d requests upstream, want none", n)
	}
}

// Heads of common and of large clients pass both ways; the limit is a setting.
func TestHeadLimit(t *testing.T) {
	up := answering(t, func(req *http.Request) string {
		return "HTTP/1.1 200 OK\r\nx-large: " + req.Header.Get("X-Large") + "\r\ncontent-length: 2\r\n\r\nok"
	})
	f := func(limit, size, status int) {
		t.Helper()
		cfg := testConfig(t, upstreamOf(up))
		if limit > 0 {
			cfg.MaxHeadBytes = limit
		}
		p := startProxy(t, cfg, nil)
		c := connect(t, p.addr)
		large := strings.Repeat("x", size)
		c.send(post(chatPath, "{}", "X-Large: "+large))
		if status != 200 {
			text := refusedBody(t, c, status)
			contains(t, text, fmt.Sprint(cfg.MaxHeadBytes))
			contains(t, text, "SPECTAP_MAX_HEAD_BYTES")
			return
		}
		resp := c.answer("POST")
		if _ = body(t, resp); resp.StatusCode != status || resp.Header.Get("X-Large") != large {
			t.Errorf("%d bytes: got %d and a header of %d bytes", size, resp.StatusCode, len(resp.Header.Get("X-Large")))
		}
	}
	f(0, 16<<10, 200)
	f(0, 70<<10, 200) // a real vLLM takes it
	f(0, 128<<10, 431)
	f(4<<10, 3<<10, 200)
	f(4<<10, 4<<10, 431)
	f(1<<20, 1000<<10, 200)
}

// Above SPECTAP_MAX_IN_FLIGHT a model call is refused, at once, without a word
// to the engine; other requests pass, and an ended call makes room.
func TestMaxInFlight(t *testing.T) {
	finish := make(chan struct{})
	up := answering(t, func(req *http.Request) string {
		if req.Method == "POST" && req.URL.RawQuery == "wait" {
			<-finish
		}
		return withLength("200 OK", "application/json", `{"object":"chat.completion"}`)
	})
	t.Cleanup(func() { close(finish) })
	cfg := testConfig(t, upstreamOf(up))
	cfg.MaxInFlight = 2
	p := startProxy(t, cfg, nil)
	var busy []*client
	for range 2 {
		c := connect(t, p.addr)
		c.send(post(chatPath+"?wait", chatStream))
		busy = append(busy, c)
	}
	eventually(t, "two calls are at the engine", func() bool { return up.requests.Load() == 2 })
	c := connect(t, p.addr)
	for range 3 { // on one connection: it stays
		c.send(post(chatPath, chatStream))
		resp := c.answer("POST")
		text := body(t, resp)
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || resp.Close {
			t.Errorf("got %d, Retry-After %q, close %v; want 503 to try again", resp.StatusCode, resp.Header.Get("Retry-After"), resp.Close)
		}
		contains(t, text, `"spectap_overloaded"`)
		contains(t, text, "SPECTAP_MAX_IN_FLIGHT")
		if rec := p.recs.next(t); rec.ErrorKind != "request_rejected" || rec.Status != 503 || rec.Model != "m" {
			t.Errorf("got %q %d %q, want a rejected request of its model", rec.ErrorKind, rec.Status, rec.Model)
		}
	}
	c.send("GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
	if resp := c.answer("GET"); resp.StatusCode != 200 {
		t.Errorf("got %d of /health, want 200", resp.StatusCode)
	} else {
		_ = body(t, resp)
	}
	finish <- struct{}{}
	finish <- struct{}{}
	for _, one := range busy {
		_ = body(t, one.answer("POST"))
	}
	for range 5 { // each leaves its place
		c.send(post(chatPath, chatStream))
		if resp := c.answer("POST"); resp.StatusCode != 200 {
			t.Errorf("got %d with room, want 200", resp.StatusCode)
		} else {
			_ = body(t, resp)
		}
	}
	if n := p.calls.Load(); n != 0 {
		t.Errorf("got %d calls counted at the end, want none", n)
	}
}
