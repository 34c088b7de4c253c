package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Interim answers pass on as they come, but for a 100, which is fasthttp's to
// give, and to clients that do not know them.
func TestInterim(t *testing.T) {
	const final = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
	hints := "HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=x\r\nlink: </b>\r\nx-hop: 1\r\nConnection: x-hop\r\n\r\n"
	interim := ""
	up := answering(t, func(*http.Request) string { return interim + final })
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	f := func(request, engine, want string) {
		t.Helper()
		interim = engine
		c := connect(t, p.addr)
		c.send(request)
		var got strings.Builder
		for !strings.HasPrefix(got.String(), "HTTP/1.1 200") && !strings.Contains(got.String(), "\nHTTP/1.1 200") {
			got.WriteString(rawHead(c.br))
		}
		want += "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
		if strings.Contains(request, "HTTP/1.0") {
			want += "Connection: close\r\n"
		}
		if d := cmp.Diff(want+"\r\n", got.String()); d != "" {
			t.Errorf("%.20q after %.20q:\n%s", request, engine, d)
		}
		c.exactly("ok")
	}
	const get, old = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n", "GET /x HTTP/1.0\r\nHost: h\r\n\r\n"
	f(get, "HTTP/1.1 102 Processing\r\n\r\n", "HTTP/1.1 102 Processing\r\n\r\n")
	f(get, "HTTP/1.1 199 Hm\r\n\r\n"+hints, "HTTP/1.1 199 Hm\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>; rel=x\r\nlink: </b>\r\n\r\n")
	f(get, "HTTP/1.1 100 Continue\r\n\r\n", "")
	f(old, "HTTP/1.1 100 Continue\r\n\r\n"+hints, "")
	f("POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 100 Continue\r\n\r\n"+hints, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>; rel=x\r\nlink: </b>\r\n\r\n")
}

// A pipelined request holds nothing of the answer before it back, and its interim
// answer comes behind that.
func TestInterimPipelined(t *testing.T) {
	go1, go2 := make(chan struct{}), make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		c.send(streamHead, chunk(tokenEvent("a")), chunk(finishEvent), chunk(doneEvent), lastChunk)
		c.request()
		<-go1
		c.send("HTTP/1.1 102 Processing\r\n\r\n")
		<-go2
		c.send(withLength("200 OK", "text/plain", "second"))
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream) + "GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
	if text := body(t, c.answer("POST")); text != tokenEvent("a")+finishEvent+doneEvent { // to its last chunk
		t.Errorf("got %q", text)
	}
	close(go1)
	if resp := c.answer("GET"); resp.StatusCode != 102 {
		t.Errorf("got %d, want 102", resp.StatusCode)
	}
	close(go2)
	if text := body(t, c.answer("GET")); text != "second" {
		t.Errorf("got %q", text)
	}
}

// An expectation that is none is ignored, as uvicorn does; methods and targets
// that are seldom pass on.
func TestSeldomRequests(t *testing.T) {
	up := answering(t, func(req *http.Request) string {
		text, _ := io.ReadAll(req.Body)
		return withLength("200 OK", "text/plain", fmt.Sprint(req.Method, " ", req.RequestURI, " ", req.Header["Expect"], string(text)))
	})
	f := func(base, request, want string) {
		t.Helper()
		p := startProxy(t, testConfig(t, upstreamOf(up)+base), nil)
		c := connect(t, p.addr)
		c.send(request)
		if resp := c.answer("GET"); resp.StatusCode != 200 {
			t.Errorf("%.30q: got %d", request, resp.StatusCode)
		} else if text := body(t, resp); text != want {
			t.Errorf("%.30q: the engine got %q, want %q", request, text, want)
		}
	}
	f("", "POST /v1/x HTTP/1.1\r\nHost: h\r\nExpect: something-else\r\nContent-Length: 2\r\n\r\n{}", "POST /v1/x [something-else]{}")
	f("", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS * []")
	f("/base", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS * []")
	f("/base", "OPTIONS /x HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS /base/x []")
	f("", "TRACE /v1/x?a HTTP/1.1\r\nHost: h\r\n\r\n", "TRACE /v1/x?a []")
}
