package proxy

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"spectap/collector"
)

// raw sends bytes and returns everything until the peer closes.

func raw(t testing.TB, addr, text string) string {
	t.Helper()
	c := connect(t, addr)
	c.send(text)
	got, err := io.ReadAll(c.br)
	if err != nil {
		t.Fatalf("after %q: %v", got, err)
	}
	return string(got)
}

// Everything the proxy refuses itself is an OpenAI-shaped error.

func TestRefused(t *testing.T) {
	up := answering(t, func(*http.Request) string { return withLength("200 OK", "text/plain", "reached") })
	cfg := testConfig(t, upstreamOf(up))
	cfg.MaxBodyBytes = 1000
	p := startProxy(t, cfg, nil)
	f := func(status int, kind, request string) {
		t.Helper()
		c := connect(t, p.addr)
		c.send(request)
		resp := c.answer("POST")
		text := body(t, resp)
		var e struct {
			Error struct{ Message, Type string }
		}
		if err := json.Unmarshal([]byte(text), &e); err != nil || e.Error.Message == "" {
			t.Errorf("%.60q: got body %q, want an error object", request, text)
		}
		if resp.StatusCode != status || e.Error.Type != kind {
			t.Errorf("%.60q: got %d %q, want %d %q", request, resp.StatusCode, e.Error.Type, status, kind)
		}
		if strings.Contains(text+p.log.String(), "canary") {
			t.Errorf("%.60q: bytes of the request leaked", request)
		}
	}
	f(413, "spectap_request_too_large", post(chatPath, strings.Repeat("canary", 200)))
	f(431, "spectap_header_too_large", post(chatPath, "{}", "X: "+strings.Repeat("canary", 30000)))
	f(400, "spectap_bad_request", "POST canary\r\n\r\n")
	f(400, "spectap_bad_request", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	f(400, "spectap_bad_request", "POST / HTTP/1.1\r\nHost: h\r\nX: a\r\n canary\r\nContent-Length: 0\r\n\r\n")
	f(505, "spectap_http_version", "GET / HTTP/1.2\r\nHost: h\r\n\r\n")
	f(501, "spectap_not_implemented", "CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n")
	if n := up.requests.Load(); n != 0 {
		t.Errorf("got %d upstream requests, want none", n)
	}
}

func TestExpectContinue(t *testing.T) {
	up := answering(t, func(req *http.Request) string {
		return withLength("200 OK", "text/plain", "expect="+req.Header.Get("Expect"))
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send("POST /v1/x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	if resp := c.answer("POST"); resp.StatusCode != 100 {
		t.Fatalf("got %d, want 100", resp.StatusCode)
	}
	c.send("{}")
	if text := body(t, c.answer("POST")); text != "expect=" {
		t.Errorf("got %q, want no Expect upstream", text)
	}
}

// An HTTP/1.0 client gets the whole answer and the end of the connection.

func TestHTTP10(t *testing.T) {
	up := answering(t, func(req *http.Request) string {
		if req.Proto != "HTTP/1.1" {
			return withLength("500 no", "text/plain", req.Proto)
		}
		return streamHead + chunk("data: 1\n\n") + chunk(doneEvent) + lastChunk
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	got := raw(t, p.addr, "POST "+chatPath+" HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
	contains(t, got, " 200 OK\r\n")
	contains(t, got, "data: 1\n\n")
	contains(t, got, "[DONE]")
}

// A panicking sink costs the Record, not the answer.

type panicSink struct{ value string }

func (s panicSink) Emit(*collector.Record) { panic(s.value) }

func (panicSink) Close() error { return nil }

func TestPanicInSink(t *testing.T) {
	up := answering(t, func(*http.Request) string { return streamHead + chunk(tokenEvent("a")) + chunk(doneEvent) + lastChunk })
	p := startProxy(t, testConfig(t, upstreamOf(up)), func(s *Server) { s.sink = panicSink{} })
	c := connect(t, p.addr)
	for range 2 {
		c.send(post(chatPath, chatStream))
		if got := body(t, c.answer("POST")); got != tokenEvent("a")+doneEvent {
			t.Errorf("got %q", got)
		}
	}
	if n := p.Status().Panics; n != 2 {
		t.Errorf("got %d panics counted, want 2", n)
	}
}

// A Record is at the sink when the client sees the end of its answer.

func TestRecordBeforeEnd(t *testing.T) {
	up := answering(t, func(req *http.Request) string {
		if req.URL.RawQuery == "stream" {
			return streamHead + chunk(tokenEvent("a")) + chunk(doneEvent) + lastChunk
		}
		return withLength("200 OK", "application/json", `{"id":"x","choices":[],"pad":"`+strings.Repeat("x", 30000)+`"}`)
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	for _, q := range []string{"stream", "whole"} {
		for range 20 {
			c.send(post(chatPath+"?"+q, chatStream))
			body(t, c.answer("POST"))
			if n := len(p.recs.ch); n != 1 {
				t.Fatalf("%s: got %d Records when the client saw the end, want 1", q, n)
			}
			p.recs.next(t)
		}
	}
}

// Moments are in order, and first output is the first event with output.

func TestMoments(t *testing.T) {
	seen := make(chan struct{})
	role := `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		c.send(streamHead, chunk(role))
		<-seen
		c.send(chunk(tokenEvent("a")), chunk(finishEvent), chunk(doneEvent), lastChunk)
		c.gone()
	})
	f := func(stamps string, setup func(*Server)) {
		t.Helper()
		p := startProxy(t, testConfig(t, upstreamOf(up)), setup)
		c := connect(t, p.addr)
		c.send(post(chatPath, chatStream))
		resp := c.answer("POST")
		if _, err := io.ReadFull(resp.Body, make([]byte, len(role))); err != nil {
			t.Fatal(err)
		}
		seen <- struct{}{}
		body(t, resp)
		r := p.recs.next(t)
		order := []collector.Moment{r.UpstreamWritten, r.ResponseHead, r.FirstOutput, r.LastByte, r.Done}
		for i, m := range order {
			if !m.Known || i > 0 && i != 1 && m.Offset < order[i-1].Offset {
				t.Errorf("moments are out of order at %d: %+v", i, order)
			}
		}
		if r.FirstOutput.Offset <= r.ResponseHead.Offset || len(r.Chunks) == 0 {
			t.Errorf("first output %v is not after the role event", r.FirstOutput)
		}
		if r.Stamps != stamps || !r.ResidenceMax.Known || r.ResidenceP50.Offset > r.ResidenceMax.Offset {
			t.Errorf("got stamps %q, residence %v..%v; want %q", r.Stamps, r.ResidenceP50, r.ResidenceMax, stamps)
		}
	}
	f(collector.StampsUser, func(s *Server) { s.pool.dialer.stamp = nil })
	f(collector.StampsUser, func(s *Server) { s.pool.dialer.stamp = func(c net.Conn) net.Conn { return silentStamps{c} } })
	if platformStamps {
		defer holdStamps()()
		eventually(t, "the kernel stamps", func() bool { return stampsOnce(t) })
		f(collector.StampsKernel, nil)
	}
}

// silentStamps is a connection whose kernel never says a time.

type silentStamps struct{ net.Conn }

func (silentStamps) Stamp() (int64, bool) { return 0, false }

// openFiles counts this process's descriptors; 0 where the platform does not say.

// Shutdown lets running requests end while ctx lives, and cuts them afterwards.

// Unix sockets on both sides, and TLS to the engine.

func TestSockets(t *testing.T) {
	dir := t.TempDir()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "at "+r.RequestURI) })
	f := func(upstream string, setup func(*Server)) {
		t.Helper()
		p := startProxy(t, testConfig(t, upstream), setup)
		c := connect(t, p.addr)
		c.send(post("/v1/x", "{}"))
		if got := body(t, c.answer("POST")); got != "at /v1/x" {
			t.Errorf("%s: got %q", upstream, got)
		}
		p.recs.next(t)
	}
	path := filepath.Join(dir, "up.sock")
	if stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err == nil { // a killed process leaves its file
		stale.SetUnlinkOnClose(false)
		_ = stale.Close()
	}
	ln, err := Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	unix := httptest.NewUnstartedServer(handler)
	unix.Listener = ln
	unix.Start()
	defer unix.Close()
	f("unix:"+path, nil)
	secure := httptest.NewTLSServer(handler)
	defer secure.Close()
	f(secure.URL, func(s *Server) {
		s.pool.dialer.tls = secure.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		s.pool.dialer.tls.ServerName, s.pool.dialer.tls.MinVersion = "example.com", tls.VersionTLS12
	})
}
