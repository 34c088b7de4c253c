package proxy

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"spectap/collector"
)

// The four framings of an answer, to each method: the client gets the body and
// the length that it gets directly, and the connection behind it is in order.
func TestFramings(t *testing.T) {
	f := func(name, head, sent string, closes bool) {
		up := startEngine(t, func(e *scripted, c *engineConn, _ int) {
			for {
				req := c.request()
				if req == nil {
					return
				}
				e.requests.Add(1)
				c.send("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n" + head + "\r\n")
				if req.Method != "HEAD" {
					c.send(sent)
				}
				if closes {
					return
				}
			}
		})
		p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
		view := func(addr, method string) string {
			c := connect(t, addr)
			seen := ""
			for range 2 {
				c.send(method + " " + chatPath + " HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}")
				resp := c.answer(method)
				length := resp.ContentLength
				if length < 0 && method == "HEAD" {
					length = 0 // nothing tells it
				}
				seen += fmt.Sprint(resp.StatusCode, " ", length, " ", body(t, resp), "\n")
				if closes && addr != p.addr {
					return seen + seen
				}
			}
			return seen
		}
		for _, method := range []string{"GET", "POST", "HEAD"} {
			if method == "HEAD" && strings.Count(head, "\n") > 1 {
				continue // the length is of nothing
			}
			if want, got := view(up.ln.Addr().String(), method), view(p.addr, method); got != want {
				t.Errorf("%s, %s: got %q, want %q as directly", name, method, got, want)
			}
		}
	}
	f("length", "content-length: 5\r\n", "hello", false)
	f("no length to speak of", "content-length: 0\r\n", "", false)
	f("chunks", "transfer-encoding: chunked\r\n", chunk("he")+chunk("llo")+lastChunk, false)
	f("up to the close", "", "hello", true)
	f("length and chunks", "content-length: 99\r\ntransfer-encoding: chunked\r\n", chunk("hello")+lastChunk, true)
}

// The engine gets the length of the body that was made of the client's, whether
// that is longer, shorter or as long, and whichever way the client framed its own.
func TestRewrittenLength(t *testing.T) {
	up := answering(t, func(req *http.Request) string {
		text, _ := io.ReadAll(req.Body)
		answer := strconv.FormatInt(req.ContentLength, 10) + " " + string(text)
		return withLength("200 OK", "text/plain", answer)
	})
	cfg := testConfig(t, upstreamOf(up))
	cfg.Temperature, cfg.Override = "0.5", true
	p := startProxy(t, cfg, nil)
	c := connect(t, p.addr)
	for _, sent := range []string{`{"a":1}`, `{"temperature":0.25000000000000}`, `{"temperature":0.7}`} {
		for _, request := range []string{
			post(chatPath, sent),
			"POST " + chatPath + " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(sent[:3]) + chunk(sent[3:]) + lastChunk,
		} {
			c.send(request)
			length, text, _ := strings.Cut(body(t, c.answer("POST")), " ")
			if n, _ := strconv.Atoi(length); n != len(text) || !strings.Contains(text, `"temperature":0.5`) || strings.Count(text, "temperature") != 1 {
				t.Errorf("sent %s: the engine got length %s and %s", sent, length, text)
			}
		}
	}
	if n := up.conns.Load(); n != 1 {
		t.Errorf("got %d connections, want 1: what follows a body is in order", n)
	}
}

// Framing bytes that bring no data are no write: an empty one would be the last
// chunk for the client.
func TestEmptyWrites(t *testing.T) {
	stream := tokenEvent("a") + finishEvent + doneEvent
	next := make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		c.send(streamHead)
		for _, b := range []byte(fmt.Sprintf("%x;x=y\r\n", len(stream))) {
			c.send(string(b))
			time.Sleep(100 * time.Microsecond) // a read of its own, as a rule
		}
		c.send(stream[:1])
		<-next
		c.send(stream[1:])
		for _, b := range []byte("\r\n0\r\nx-trailer: 1\r\n\r\n") {
			c.send(string(b))
			time.Sleep(100 * time.Microsecond)
		}
		c.gone()
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	resp := c.answer("POST")
	first := make([]byte, 1)
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatalf("the answer ended before its first byte: %v", err)
	}
	close(next)
	if got := string(first) + body(t, resp); got != stream {
		t.Errorf("got %q", got)
	}
}

// Each event arrives before the next one is sent, however the answer is framed.
func TestEventAtOnce(t *testing.T) {
	const events = 5
	f := func(measure, head string, frame func(string) string) {
		t.Helper()
		seen := make(chan struct{})
		up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
			c.request()
			c.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" + head + "\r\n")
			for range events {
				c.send(frame(tokenEvent("a")))
				<-seen
			}
		})
		cfg := testConfig(t, upstreamOf(up))
		cfg.Measure = measure
		p := startProxy(t, cfg, nil)
		c := connect(t, p.addr)
		c.send(post(chatPath, chatStream))
		resp := c.answer("POST")
		for n := range events {
			got := make([]byte, len(tokenEvent("a")))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != tokenEvent("a") {
				t.Fatalf("%s, %q, event %d: got %q, %v", measure, head, n, got, err)
			}
			seen <- struct{}{}
		}
		_ = c.Close()
		p.recs.next(t)
	}
	plain := func(s string) string { return s }
	for _, measure := range []string{"observe", "usage", "tokens"} {
		f(measure, "transfer-encoding: chunked\r\n", chunk)
		f(measure, "", plain)
		f(measure, fmt.Sprintf("content-length: %d\r\n", events*len(tokenEvent("a"))+1), plain)
	}
}

// A prefill and a stream that last longer than every limit but the two that are
// meant for them, and are off by default.
func TestNoLimitStrikes(t *testing.T) {
	const limit = time.Second // the shortest that each may be
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		for c.request() != nil {
			time.Sleep(5 * limit / 4) // the prefill
			c.send(streamHead)
			for range 6 {
				c.send(chunk(tokenEvent("a")))
				time.Sleep(limit / 4)
			}
			c.send(chunk(finishEvent+doneEvent) + lastChunk)
		}
	})
	cfg := testConfig(t, upstreamOf(up))
	if cfg.HeadTimeout != 0 || cfg.StallTimeout != 0 {
		t.Errorf("by default the head may take %s and a gap %s, want no limits", cfg.HeadTimeout, cfg.StallTimeout)
	}
	for i, v := 0, reflect.ValueOf(&cfg).Elem(); i < v.NumField(); i++ {
		name, field := v.Type().Field(i).Name, v.Field(i)
		if field.Type() == reflect.TypeFor[time.Duration]() && name != "HeadTimeout" && name != "StallTimeout" {
			field.SetInt(int64(limit))
		}
	}
	p := startProxy(t, cfg, nil)
	if p.http.WriteTimeout != 0 {
		t.Errorf("the server's write limit is %s: it would cut longer streams", p.http.WriteTimeout)
	}
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	if got := body(t, c.answer("POST")); got != strings.Repeat(tokenEvent("a"), 6)+finishEvent+doneEvent {
		t.Errorf("got %q", got)
	}
	if rec := p.recs.next(t); rec.ErrorKind != "" {
		t.Errorf("got kind %q", rec.ErrorKind)
	}
}

// A client that takes zstd gets no compressed stream where we measure; elsewhere
// its wish goes on. What is compressed all the same passes as it is.
func TestCompressed(t *testing.T) {
	const zipped = "\x28\xb5\x2f\xfd\x04\x58frame"
	f := func(path, asked string, always bool, want string) {
		t.Helper()
		got := make(chan string, 1)
		up := answering(t, func(req *http.Request) string {
			got <- req.Header.Get("Accept-Encoding")
			if always || req.Header.Get("Accept-Encoding") != "" {
				return "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: zstd\r\ntransfer-encoding: chunked\r\n\r\n" +
					chunk(zipped) + chunk(zipped) + lastChunk
			}
			return streamHead + chunk(tokenEvent("a")+finishEvent+doneEvent) + lastChunk
		})
		for _, measure := range []string{"observe", "usage", "tokens"} {
			cfg := testConfig(t, upstreamOf(up))
			cfg.Measure = measure
			p := startProxy(t, cfg, nil)
			c := connect(t, p.addr)
			c.send(post(path, chatStream, "Accept-Encoding: zstd, gzip"))
			resp := c.answer("POST")
			if text := body(t, resp); <-got != asked || text != want || (resp.Header.Get("Content-Encoding") == "zstd") != (want == zipped+zipped) {
				t.Errorf("%s %s: got %q, encoding %q", measure, path, text, resp.Header.Get("Content-Encoding"))
			}
			if path != chatPath {
				continue
			}
			if rec := p.recs.next(t); always && (rec.SpecMissing != collector.MissingNotMeasured || len(rec.Warnings) == 0) {
				t.Errorf("%s: got missing %q, warnings %q", measure, rec.SpecMissing, rec.Warnings)
			}
		}
	}
	f(chatPath, "", false, tokenEvent("a")+finishEvent+doneEvent)
	f(chatPath, "", true, zipped+zipped)
	f("/docs", "zstd, gzip", false, zipped+zipped)
}
