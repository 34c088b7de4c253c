package proxy

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// quiet is a proxy that keeps no log.
func quiet(s *Server) { s.log = zerolog.Nop() }

// answersOf reads what a client got: every answer whole, an answer of our own
// that ends the connection last. It returns how many are the engine's.
func answersOf(t *testing.T, out string, seen []strictRequest) (passed int) {
	t.Helper()
	br := bufio.NewReader(strings.NewReader(out))
	for {
		if _, err := br.Peek(1); err != nil {
			return passed
		}
		method := http.MethodGet
		if passed < len(seen) {
			method = seen[passed].method
		}
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("answer %d cannot be read: %v", passed, err)
		}
		if resp.StatusCode == http.StatusContinue {
			continue
		}
		ours := resp.StatusCode >= 400
		text, err := io.ReadAll(resp.Body)
		if err != nil && (!ours || len(text) > 0) { // a refused HEAD has no body
			t.Fatalf("answer %d is cut: %v", passed, err)
		}
		if !ours {
			passed++
			continue
		}
		if len(text) > 0 && !strings.Contains(string(text), `"spectap_`) || resp.StatusCode == http.StatusGatewayTimeout {
			t.Fatalf("got %d %q, want an answer of our own", resp.StatusCode, text)
		}
		if rest, _ := io.ReadAll(br); !resp.Close || len(rest) > 0 {
			t.Fatalf("%d: close %v and %q behind it, want the end of the connection", resp.StatusCode, resp.Close, rest)
		}
		return passed
	}
}

// sameRequests compares what the engine got with what net/http reads from the
// client's bytes: the same requests, in order, with the same bodies.
func sameRequests(t *testing.T, in string, seen []strictRequest) {
	t.Helper()
	br := bufio.NewReader(strings.NewReader(in))
	for n, got := range seen {
		for next, err := br.Peek(1); err == nil && (next[0] == '\r' || next[0] == '\n'); next, err = br.Peek(1) {
			_, _ = br.Discard(1) // empty lines before a request are ignored (RFC 9112 section 2.2)
		}
		req, err := http.ReadRequest(br)
		if errors.As(err, new(*url.Error)) {
			return // it reads targets, too, which have no meaning to a proxy
		}
		if err != nil {
			t.Fatalf("request %d went on as %q; net/http: %v", n, got.head, err)
		}
		text, err := io.ReadAll(req.Body)
		if err != nil {
			t.Fatalf("request %d went on with body %q; net/http: %v", n, got.body, err)
		}
		if req.Method != got.method || req.RequestURI != got.target || string(text) != got.body {
			t.Fatalf("request %d went on as %s %q with body %q; net/http reads %s %q with body %q",
				n, got.method, got.target, got.body, req.Method, req.RequestURI, text)
		}
	}
}

// Whatever a client sends: no panic; each request that the engine gets is
// unambiguous, and one that net/http reads at the same place; each answer is
// whole; behind a refusal the connection ends.
func FuzzRequestHead(f *testing.F) {
	up := startStrict(f, echoStrict)
	cfg := testConfig(f, upstreamOf(up.scripted))
	cfg.MaxBodyBytes, cfg.MaxHeadBytes, cfg.HeadTimeout = 1<<16, 1<<13, patience
	p := startProxy(f, cfg, quiet)
	f.Add([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"))
	f.Add([]byte(post(chatPath, chatStream) + "GET /b HTTP/1.1\r\nHost: h\r\nConnection: close, x\r\nx: 1\r\n\r\n"))
	f.Add([]byte("POST http://h/x?a HTTP/1.0\r\nContent-Length: 2\r\n\r\nokHEAD / HTTP/1.1\r\nHost: h\r\n\r\n"))
	f.Add([]byte("POST /v1/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: t\r\n\r\n2;a=b\r\nok\r\n0\r\nt: 1\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"))
	f.Add([]byte("POST /v1/x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok"))
	f.Add([]byte("GET /v1/realtime HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"))
	f.Add([]byte("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\nCONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n"))
	for _, line := range append(smuggled(), otherSmuggled()...) {
		f.Add([]byte("POST /v1/x HTTP/1.1\r\n" + line + "\r\nHost: h\r\nContent-Length: 4\r\n\r\n1\r\nZ\r\n0\r\n\r\nGET /x HTTP/1.1\r\nHost: h\r\n\r\n"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := string(b)
		c := serveBytes(t, p, in)
		seen := up.take(t, in)
		p.forget()
		if n := p.Status().Panics; n > 0 {
			t.Fatalf("got %d panics", n)
		}
		if passed := answersOf(t, c.out.String(), seen); passed != len(seen) {
			t.Fatalf("got %d answers of %d requests at the engine", passed, len(seen))
		}
		sameRequests(t, in, seen)
	})
}

// forget drops the Records that came.
func (p *stack) forget() {
	for len(p.recs.ch) > 0 {
		<-p.recs.ch
	}
}
