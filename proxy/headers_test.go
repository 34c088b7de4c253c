package proxy

import (
	"bufio"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"
)

func TestRequestFields(t *testing.T) {
	f := func(tapped bool, replaced []string, length int, raw, want string) {
		t.Helper()
		var src fasthttp.RequestHeader
		if err := src.Read(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\n" + strings.ReplaceAll(raw, "\n", "\r\n") + "\r\n"))); err != nil {
			t.Fatal(err)
		}
		for _, name := range replaced {
			src.Set(name, "ours")
		}
		got := strings.ReplaceAll(string(appendRequestFields(nil, &src, tapped, replaced, length)), "\r\n", "\n")
		if got != want {
			t.Errorf("%q:\n got %q\nwant %q", raw, got, want)
		}
	}
	same := "x-REQUEST-id: a b\nhost: h\nAccept:1\nX-A:  1 \nUser-Agent: u\nX-Empty:\nx-a: 2\ncookie: a=b;  c=d\nbaggage: k=v\nCookie: e\n"
	f(true, nil, -1, same, same) // order, case, spaces, duplicates
	f(true, nil, -1, "Host: h\nConnection: close, Host\n", "Host: h\n")
	f(true, nil, -1, "Host: h\nConnection: keep-alive, x-hop\nConnection: close,X-Hip\nx-hip: 1\nX-Hop: 1\nKeep-Alive: 5\nTE: trailers\nUpgrade: h2c\nProxy-Authorization: a\nProxy-Connection: b\n", "Host: h\n")
	f(true, nil, -1, "Host: h\nAccept-Encoding: gzip\n", "Host: h\n")
	f(false, nil, -1, "Host: h\naccept-encoding: gzip\n", "Host: h\naccept-encoding: gzip\n")
	f(true, nil, 7, "Host: h\ncontent-length: 5\nContent-Type: a\nExpect: 100-continue\nTrailer: X-T\n", "Host: h\ncontent-length: 7\nContent-Type: a\n")
	f(true, nil, 0, "Host: h\nTransfer-Encoding: chunked\nX: 1\n", "Host: h\nContent-Length: 0\nX: 1\n")
	f(true, []string{"traceparent", "b3"}, -1, "TraceParent: a\nHost: h\ntraceparent: b\n", "Host: h\ntraceparent: ours\nb3: ours\n")
}

// Through a real server, because it adds fields of its own.
func TestCopyResponseHeaders(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		var src fasthttp.ResponseHeader
		src.DisableNormalizing()
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
	f("HTTP/1.1 200 OK\nx-b: 1\ndate: Mon, 30 Nov 2026 06:00:00 GMT\nserver: uvicorn\nX-a:\nx-B: 2\ncontent-length: 7\n", // case and order
		"HTTP/1.1 200 OK\nServer: uvicorn\nContent-Length: 0\nx-b: 1\ndate: Mon, 30 Nov 2026 06:00:00 GMT\nX-a: \nx-B: 2\n")
	f("HTTP/1.1 200 OK\nconnection: x-hop\nCONNECTION: x-hip\nx-hip: 1\nX-Hop: 1\ncontent-length: 0\n", "HTTP/1.1 200 OK\nContent-Length: 0\n")
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
