package proxy

import (
	"bufio"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"
)

func TestCopyRequestHeaders(t *testing.T) {
	f := func(tapped bool, raw, want string) {
		t.Helper()
		var src, dst fasthttp.RequestHeader
		if err := src.Read(bufio.NewReader(strings.NewReader(strings.ReplaceAll(raw, "\n", "\r\n") + "\r\n"))); err != nil {
			t.Fatal(err)
		}
		copyRequestHeaders(&dst, &src, tapped)
		if got := strings.ReplaceAll(dst.String(), "\r\n", "\n"); got != want+"\n" {
			t.Errorf("%q:\n got %q\nwant %q", raw, got, want+"\n")
		}
	}
	f(true, "GET /a//b%2Fc?x=1 HTTP/1.1\nHost: h\n", "GET /a//b%2Fc?x=1 HTTP/1.1\nHost: h\n") // no User-Agent, no Content-Type
	f(true, "GET / HTTP/1.1\nHost: h\nX-Request-Id: a b\nAccept: 1\nX-A: 1\nX-A: 2\n", "GET / HTTP/1.1\nHost: h\nX-Request-Id: a b\nAccept: 1\nX-A: 1\nX-A: 2\n")
	f(true, "GET / HTTP/1.1\nHost: h\nConnection: keep-alive, x-hop\nX-Hop: 1\nKeep-Alive: 5\nTE: trailers\nUpgrade: h2c\nProxy-Authorization: a\nProxy-Connection: b\n",
		"GET / HTTP/1.1\nHost: h\n")
	f(true, "GET / HTTP/1.1\nHost: h\nConnection: close\nAccept-Encoding: gzip\n", "GET / HTTP/1.1\nHost: h\n")
	f(false, "GET / HTTP/1.1\nHost: h\nAccept-Encoding: gzip\n", "GET / HTTP/1.1\nHost: h\nAccept-Encoding: gzip\n")
	f(true, "GET / HTTP/1.0\nHost: h\nCookie: a=b; c=d\nAuthorization: Bearer x\nbaggage: k=v\n", "GET / HTTP/1.1\nHost: h\nAuthorization: Bearer x\nBaggage: k=v\nCookie: a=b; c=d\n")
	f(true, "POST / HTTP/1.1\nHost: h\nContent-Length: 5\n", "POST / HTTP/1.1\nHost: h\n") // no Content-Type
	f(true, "POST / HTTP/1.1\nHost: h\nContent-Type: application/json; charset=utf-8\nContent-Length: 5\nExpect: 100-continue\nTrailer: X-T\n",
		"POST / HTTP/1.1\nHost: h\nContent-Type: application/json; charset=utf-8\n") // the caller sets the length
}

// Through a real server, because it adds fields of its own.
func TestCopyResponseHeaders(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		var src fasthttp.ResponseHeader
		if err := src.Read(bufio.NewReader(strings.NewReader(strings.ReplaceAll(raw, "\n", "\r\n") + "\r\n"))); err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(served(t, &src), "\r\n", "\n"); got != want+"\n" {
			t.Errorf("%q:\n got %q\nwant %q", raw, got, want+"\n")
		}
	}
	f("HTTP/1.1 200 OK\nDate: Mon, 30 Nov 2026 06:00:00 GMT\nServer: uvicorn\nVary: Origin\nContent-Length: 7\nContent-Type: text/event-stream\n",
		"HTTP/1.1 200 OK\nServer: uvicorn\nContent-Type: text/event-stream\nContent-Length: 0\nDate: Mon, 30 Nov 2026 06:00:00 GMT\nVary: Origin\n")
	f("HTTP/1.1 418 Short And Stout\nContent-Length: 0\nSet-Cookie: a=1; Path=/\nSet-Cookie: b=2\nX-A: 1\nX-A: 2\n",
		"HTTP/1.1 418 Short And Stout\nContent-Length: 0\nX-A: 1\nX-A: 2\nSet-Cookie: a=1; Path=/\nSet-Cookie: b=2\n") // no Server, Date or Content-Type
	f("HTTP/1.1 200 OK\nConnection: close, x-hop\nX-Hop: 1\nKeep-Alive: timeout=5\nTransfer-Encoding: chunked\nTrailer: X-T\nProxy-Authenticate: b\nUpgrade: x\nX-Request-Id: r\n",
		"HTTP/1.1 200 OK\nContent-Length: 0\nX-Request-Id: r\n")
}

// served returns the head that a client of ours gets for an upstream's head.
func served(t *testing.T, src *fasthttp.ResponseHeader) string {
	t.Helper()
	ln := fasthttputil.NewInmemoryListener()
	s := &fasthttp.Server{
		NoDefaultServerHeader: true, NoDefaultDate: true, NoDefaultContentType: true,
		Handler: func(ctx *fasthttp.RequestCtx) { copyResponseHeaders(&ctx.Response.Header, src) },
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	defer func() {
		_ = ln.Close()
		<-done
	}()
	conn, err := ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return readHead(t, conn)
}

func readHead(t *testing.T, conn net.Conn) string {
	t.Helper()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	var head strings.Builder
	for r := bufio.NewReader(conn); !strings.HasSuffix(head.String(), "\r\n\r\n"); {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		head.WriteString(line)
	}
	return head.String()
}

// Only what is a trace context is kept of a traceparent field, and only a known method.
func TestFieldsThatAreKept(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	later := "01" + parent[2:]
	f := func(value, want string) {
		t.Helper()
		h := &fasthttp.RequestHeader{}
		h.Set("traceparent", value)
		if got := traceparentOf(h); got != want {
			t.Errorf("traceparent %q: got %q, want %q", value, got, want)
		}
	}
	f(parent, parent)
	f(later+"-canary", later)
	f(later+"canary", "")
	f(parent+"-canary", "")
	f("canary", "")
	f("", "")
	f(strings.ToUpper(parent), "")
	f(strings.Replace(parent, "-", "_", 1), "")
	f(strings.Replace(parent, "b7ad", "b-ad", 1), "")
	for method, want := range map[string]string{"POST": "POST", "QUERY": "QUERY", "CANARY": "_OTHER", "post": "_OTHER", "": "_OTHER"} {
		if got := methodOf([]byte(method)); got != want {
			t.Errorf("method %q: got %q, want %q", method, got, want)
		}
	}
}
