package proxy

import (
	"io"
	"strings"
	"testing"

	"spectap/collector"
)

// A broken answer of the engine is a 502 where nothing was passed on yet, and a
// cut connection afterwards; the Record says which. It is never a clean end.
func TestBrokenAnswers(t *testing.T) {
	var answer string
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		if c.request() != nil {
			c.send(answer)
		}
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	f := func(status int, text, kind, sent string) {
		t.Helper()
		answer = sent
		c := connect(t, p.addr)
		c.send(post(chatPath, chatStream))
		resp := c.answer("POST")
		got, err := io.ReadAll(resp.Body)
		rec := p.recs.next(t)
		if resp.StatusCode != status || rec.ErrorKind != kind {
			t.Errorf("%.70q: got %d %q, kind %q; want %d, kind %q", sent, resp.StatusCode, got, rec.ErrorKind, status, kind)
		}
		switch {
		case kind == collector.ErrTruncated && err == nil:
			t.Errorf("%.70q: got a clean end", sent)
		case kind == collector.ErrUpstreamProtocol:
			contains(t, string(got), `"spectap_upstream_protocol"`)
		case string(got) != text:
			t.Errorf("%.70q: got body %q, want %q", sent, got, text)
		}
		if kind != collector.ErrTruncated { // the client's connection is as good as before
			answer = withLength("200 OK", "text/plain", "next")
			c.send(post(chatPath, chatStream))
			if got := body(t, c.answer("POST")); got != "next" {
				t.Errorf("%.70q: got %q next", sent, got)
			}
			_ = p.recs.next(t)
		}
	}
	const ok = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
	const coded = ok + "transfer-encoding: chunked\r\n\r\n"
	no := func(sent string) { t.Helper(); f(502, "", collector.ErrUpstreamProtocol, sent) }
	cut := func(text, sent string) { t.Helper(); f(200, text, collector.ErrTruncated, sent) }

	// Heads.
	no("hello world\r\n\r\n")                                                                                          // HTTP/0.9, or no HTTP
	no("\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64\x00\x04\x00\x10\x00\x00\x00\x06\x00\x00\x40\x00") // HTTP/2 SETTINGS
	no("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	no("HTTP/2.0 200 OK\r\ncontent-length: 2\r\n\r\nok")
	no("HTTP/2 200\r\ncontent-length: 2\r\n\r\nok")
	no("ICY 200 OK\r\ncontent-length: 2\r\n\r\nok")
	no("HTTP/1.1 20x OK\r\ncontent-length: 2\r\n\r\nok")
	no("HTTP/1.1 1000 OK\r\ncontent-length: 2\r\n\r\nok")
	no("HTTP/1.1 -200 OK\r\ncontent-length: 2\r\n\r\nok")
	no("HTTP/1.1 42 OK\r\ncontent-length: 2\r\n\r\nok")
	no(ok + "no colon here\r\ncontent-length: 2\r\n\r\nok")
	no(ok + "bad name: 1\r\ncontent-length: 2\r\n\r\nok")
	no(ok + ": nameless\r\ncontent-length: 2\r\n\r\nok")
	no(ok + "x: a\x00b\r\ncontent-length: 2\r\n\r\nok")
	no(ok + "x\x00y: 1\r\ncontent-length: 2\r\n\r\nok")
	no(ok + "x: a\rb\r\ncontent-length: 2\r\n\r\nok")
	no(ok + "x: " + strings.Repeat("x", 200<<10) + "\r\ncontent-length: 2\r\n\r\nok")
	// Framing.
	no(ok + "content-length: 2\r\ncontent-length: 3\r\n\r\nok")
	no(ok + "content-length: -2\r\n\r\nok")
	no(ok + "content-length: +2\r\n\r\nok")
	no(ok + "content-length: 0x2\r\n\r\nok")
	no(ok + "content-length: 2, 3\r\n\r\nok")
	no(ok + "content-length: 99999999999999999999\r\n\r\nok")
	no(ok + "transfer-encoding: gzip, chunked\r\n\r\n" + chunk("ok") + lastChunk)
	no(ok + "transfer-encoding: chunked, gzip\r\n\r\nok")
	no(ok + "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n" + chunk("ok") + lastChunk)
	// Chunks. What came before the broken one was passed on.
	event := tokenEvent("a")
	cut(event+"hello", coded+chunk(event)+"5\r\nhelloX\r\n")
	cut(event+"hello", coded+chunk(event)+"5\r\nhello\n")
	cut(event+"hel", coded+chunk(event)+"5\r\nhel")
	for _, broken := range []string{
		"xyz\r\nhello\r\n", "-5\r\nhello\r\n", "0x5\r\nhello\r\n", " 5\r\nhello\r\n", "5 5\r\nhello\r\n", "5\nhello\r\n", "5\rhello\r\n",
		"\r\nhello\r\n", ";x\r\nhello\r\n", "5;a\nb\r\nhello\r\n", "5;a\n0\r\n\r\n", "5;" + strings.Repeat("x", 100<<10) + "\r\nhello\r\n",
		"ffffffffffffffff\r\nhello", "10000000000000005\r\nhello\r\n", "7fffffffffffffff\r\nhello", "5\t;x\n", "5 \n",
		"0\r\nx: a\nb\r\n\r\n", "0\r\nx: " + strings.Repeat("x", 100<<10) + "\r\n\r\n", "0\r\n", "0\r\n\r", "0", "",
	} {
		cut(event, coded+chunk(event)+broken)
	}
	cut("hel", ok+"content-length: 5\r\n\r\nhel")
	// Odd, but with one meaning.
	f(200, "hello", "", "HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nhello")
	f(200, "hello", "", "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello and more")
	f(200, "ok", "", "HTTP/1.1 200\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok")
	f(200, "ok", "", "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n02;a=\"b\"\r\nok\r\n000;x\r\nt: 1\r\n\r\n")
	f(200, "ok", "", "HTTP/1.2 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok")
	f(200, "ok", "", "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nx: 1\r\n folded\r\ncontent-length: 2\r\n\r\nok")
	f(200, "ok", "", "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n"+chunk("ok")+lastChunk)
	f(200, "ok", "", "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n"+chunk("ok")+lastChunk)
	f(200, "ok", "", "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding : chunked\r\n\r\n"+chunk("ok")+lastChunk)
	if n := p.Status().Panics; n != 0 {
		t.Errorf("got %d panics", n)
	}
}
