package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"spectap/collector"
)

// leave is how a client goes: FIN, RST or a half-close.
func leave(c *client, how string) {
	tc := c.Conn.(*net.TCPConn)
	switch how {
	case "rst":
		_ = tc.SetLinger(0)
		_ = tc.Close()
	case "half":
		_ = tc.CloseWrite()
	default:
		_ = tc.Close()
	}
}

func TestClientGone(t *testing.T) {
	f := func(name, how, sent, request string) {
		t.Run(name+" "+how, func(t *testing.T) {
			arrived, gone := make(chan struct{}), make(chan struct{})
			up := startEngine(t, func(e *scripted, c *engineConn, _ int) {
				c.request()
				e.requests.Add(1)
				c.send(sent)
				close(arrived)
				c.gone()
				close(gone)
			})
			p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
			c := connect(t, p.addr)
			c.send(post(chatPath, request))
			wait(t, "request at the engine", arrived)
			if sent != "" {
				if resp := c.answer("POST"); strings.Contains(sent, "data:") {
					_, _ = resp.Body.Read(make([]byte, 1))
				}
			}
			leave(c, how)
			wait(t, "upstream connection closed", gone)
			rec := p.recs.next(t)
			if rec.ErrorKind != collector.ErrClientGone || rec.SpecMissing != collector.MissingClientGone {
				t.Errorf("got kind %q, missing %q; want client_gone", rec.ErrorKind, rec.SpecMissing)
			}
			if n := up.requests.Load(); n != 1 {
				t.Errorf("the engine got %d requests, want 1", n)
			}
			p.atBase(t, 0)
		})
	}
	for _, how := range []string{"fin", "rst", "half"} {
		f("prefill", how, "", chatStream)
		f("silent stream", how, streamHead, chatStream)
		f("mid stream", how, streamHead+chunk(tokenEvent("a")), chatStream)
		f("not streaming", how, "", `{}`)
		f("half a body", how, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", `{}`)
	}
}

// A client that leaves while a pipelined request waits is seen, too, and the
// request that waits goes nowhere.
func TestClientGoneBehindPipelined(t *testing.T) {
	for _, how := range []string{"fin", "rst", "half"} {
		arrived, gone := make(chan struct{}, 2), make(chan struct{}, 2)
		up := startEngine(t, func(e *scripted, c *engineConn, _ int) {
			for c.request() != nil {
				e.requests.Add(1)
				arrived <- struct{}{}
			}
			gone <- struct{}{}
		})
		p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
		c := connect(t, p.addr)
		c.send(post(chatPath, chatStream) + post(chatPath, chatStream))
		wait(t, "request at the engine", arrived)
		leave(c, how)
		wait(t, "upstream connection closed", gone)
		if how == "half" {
			_, _ = io.ReadAll(c.br) // up to the proxy's close
		}
		p.atBase(t, 0)
		if n := up.requests.Load(); n != 1 {
			t.Errorf("%s: the engine got %d requests, want 1", how, n)
		}
	}
}

// A client that leaves before its request is whole is no request: neither the
// engine nor a sink hears of it.
func TestClientGoneBeforeRequest(t *testing.T) {
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) { c.gone() })
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	request := post(chatPath, chatStream)
	head := strings.Index(request, "\r\n\r\n") + 4
	for _, how := range []string{"fin", "rst", "half"} {
		for _, sent := range []string{"", request[:1], request[:head/2], request[:head], request[:len(request)-1]} {
			c := connect(t, p.addr)
			c.send(sent)
			leave(c, how)
			if how == "half" {
				if got, _ := io.ReadAll(c.br); len(got) > 0 && !strings.HasPrefix(string(got), "HTTP/1.1 4") {
					t.Errorf("sent %q: got %q", sent, got)
				}
			}
		}
	}
	p.atBase(t, 0)
	if st := p.Status(); up.conns.Load() != 0 || len(p.recs.ch) != 0 || st.Requests != 0 {
		t.Errorf("got %d connections at the engine, %d Records, %d requests; want none", up.conns.Load(), len(p.recs.ch), st.Requests)
	}
	if strings.Contains(p.log.String(), "messages") {
		t.Errorf("bytes of a request are in the log: %s", p.log)
	}
}

// Many clients that leave at once, beside one that stays: all of theirs end at
// the engine, the other's answer comes whole, and nothing is left of them.
func TestClientsGoneTogether(t *testing.T) {
	const clients, rounds = 8, 25
	var release sync.Map // of each request that stays: a channel
	gone := make(chan struct{}, clients)
	up := startEngine(t, func(e *scripted, c *engineConn, _ int) {
		for {
			req := c.request()
			if req == nil {
				return
			}
			e.requests.Add(1)
			c.send(streamHead, chunk(tokenEvent("a")))
			if held, stays := release.Load(req.Header.Get("X-Request-Id")); stays {
				<-held.(chan struct{})
				c.send(chunk(finishEvent), chunk(doneEvent), lastChunk)
				continue
			}
			c.gone()
			gone <- struct{}{}
			return
		}
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	first := func(c *client) *http.Response {
		resp := c.answer("POST")
		if _, err := io.ReadFull(resp.Body, make([]byte, len(tokenEvent("a")))); err != nil {
			t.Fatal(err)
		}
		return resp
	}
	stays := connect(t, p.addr)
	for n := range rounds {
		held := make(chan struct{})
		id := fmt.Sprint("stays-", n)
		release.Store(id, held)
		stays.send(post(chatPath, chatStream, "X-Request-Id: "+id))
		resp := first(stays)
		var all []*client
		for range clients {
			c := connect(t, p.addr)
			c.send(post(chatPath, chatStream))
			first(c)
			all = append(all, c)
		}
		for i, c := range all {
			leave(c, []string{"fin", "rst", "half"}[i%3])
		}
		for range all {
			wait(t, "upstream connection closed", gone)
		}
		for _, c := range all {
			_ = c.Close()
		}
		close(held)
		if got := body(t, resp); got != finishEvent+doneEvent {
			t.Fatalf("round %d: got %q", n, got)
		}
	}
	_ = stays.Close()
	p.atBase(t, 1)
	kinds := map[string]int{}
	for len(p.recs.ch) > 0 {
		kinds[p.recs.next(t).ErrorKind]++
	}
	if kinds[""] != rounds || kinds[collector.ErrClientGone] != clients*rounds || up.requests.Load() != (clients+1)*rounds {
		t.Errorf("got kinds %v of %d requests", kinds, up.requests.Load())
	}
}

// GuideLLM resets its connection right after [DONE]: it has cancelled nothing.
func TestGoneAfterDone(t *testing.T) {
	for _, how := range []string{"fin", "rst", "half"} {
		t.Run(how, func(t *testing.T) { goneAfterDone(t, how) })
	}
}

func goneAfterDone(t *testing.T, how string) {
	release := make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		c.send(streamHead, chunk(tokenEvent("a")), chunk(finishEvent), chunk(doneEvent))
		<-release
		c.send(lastChunk)
		c.gone()
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	resp := c.answer("POST")
	want := tokenEvent("a") + finishEvent + doneEvent
	if _, err := io.ReadFull(resp.Body, make([]byte, len(want))); err != nil {
		t.Fatal(err)
	}
	leave(c, how)
	close(release)
	rec := p.recs.next(t)
	if rec.ErrorKind != "" || !rec.SawDone || rec.Finish != "length" {
		t.Errorf("got kind %q, done %v, finish %q; want none, true, length", rec.ErrorKind, rec.SawDone, rec.Finish)
	}
}

// The openai client closes its connection at an error event, without waiting for
// [DONE]: the engine failed, not the client. The engine is freed all the same.
func TestGoneAfterErrorEvent(t *testing.T) {
	const event = "data: {\"error\": {\"message\": \"no\", \"type\": \"BadRequestError\", \"code\": 400}}\n\n"
	gone := make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		c.send(streamHead, chunk(event))
		c.gone()
		close(gone)
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	resp := c.answer("POST")
	if _, err := io.ReadFull(resp.Body, make([]byte, len(event))); err != nil {
		t.Fatal(err)
	}
	leave(c, "fin")
	wait(t, "upstream connection closed", gone)
	rec := p.recs.next(t)
	if rec.ErrorKind != collector.ErrInBand || rec.Error != "BadRequestError (400)" {
		t.Errorf("got kind %q, error %q; want in_band_error, BadRequestError (400)", rec.ErrorKind, rec.Error)
	}
}
