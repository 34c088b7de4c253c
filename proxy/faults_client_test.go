package proxy

import (
	"io"
	"net"
	"strings"
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
			up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
				c.request()
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

// A client that leaves while a pipelined request waits is seen, too.
func TestClientGoneBehindPipelined(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, n int) {
		if c.request() != nil && n == 0 {
			close(arrived)
			c.gone()
			close(gone)
		}
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream) + post(chatPath, chatStream))
	wait(t, "request at the engine", arrived)
	leave(c, "fin")
	wait(t, "upstream connection closed", gone)
}

// GuideLLM resets its connection right after [DONE]: it has cancelled nothing.
func TestGoneAfterDone(t *testing.T) {
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
	leave(c, "rst")
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
