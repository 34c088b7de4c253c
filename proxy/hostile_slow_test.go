package proxy

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// A request that does not come whole is answered 408, which names the limit that
// was hit, and its connection ends. What a client drips does not move the head's limit.
func TestSlowRequests(t *testing.T) {
	up := answering(t, func(*http.Request) string { return withLength("200 OK", "text/plain", "ok") })
	cfg := testConfig(t, upstreamOf(up))
	cfg.RequestHeadTimeout, cfg.RequestBodyTimeout = 100*time.Millisecond, 150*time.Millisecond
	p := startProxy(t, cfg, nil)
	const head = "SPECTAP_REQUEST_HEAD_TIMEOUT"
	const body = "SPECTAP_REQUEST_BODY_TIMEOUT"
	f := func(before, sent, wanted string) {
		t.Helper()
		c := connect(t, p.addr)
		if before != "" { // the limits hold for every request of a connection
			c.send(before)
			_ = refusedBody(t, c, 200)
		}
		c.send(sent)
		contains(t, refusedBody(t, c, 408), wanted)
		c.ended()
	}
	for _, before := range []string{"", post(chatPath, chatStream)} {
		f(before, "P", head)
		f(before, "POST "+chatPath+" HTTP/1.1\r\nHost: h\r\nX", head)
		f(before, "POST "+chatPath+" HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n", body)
		f(before, "POST "+chatPath+" HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n{\"a", body)
		f(before, "POST "+chatPath+" HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", body)
		f(before, "POST "+chatPath+" HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5", body)
		f(before, "POST "+chatPath+" HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", body)
	}
	c := connect(t, p.addr)
	stop := make(chan struct{})
	dripped := make(chan struct{})
	go func() { // one byte of a head every few milliseconds, for ever
		defer close(dripped)
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				_, _ = io.WriteString(c.Conn, "G")
			}
		}
	}()
	contains(t, refusedBody(t, c, 408), head)
	close(stop)
	<-dripped
}

// refusedBody reads one answer and returns its body; where the status is ours,
// the error must be one, and the connection must be said to end.
func refusedBody(t testing.TB, c *client, status int) string {
	t.Helper()
	resp := c.answer("POST")
	text := body(t, resp)
	if resp.StatusCode != status {
		t.Fatalf("got %d %q, want %d", resp.StatusCode, text, status)
	}
	if status >= 400 {
		var e struct {
			Error struct{ Message, Type string }
		}
		if json.Unmarshal([]byte(text), &e) != nil || e.Error.Message == "" || !strings.HasPrefix(e.Error.Type, "spectap_") {
			t.Errorf("got %q, want an error object", text)
		}
		if !resp.Close {
			t.Errorf("%d: the answer does not say that the connection ends", status)
		}
	}
	return text
}

// ended waits for the end of a connection behind its last answer.
func (c *client) ended() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.br); err != nil || len(rest) > 0 {
		c.t.Errorf("got %q, %v behind the answer; want the end", rest, err)
	}
}

// limitsConn keeps the read limits that were set, and gives out one byte a read.
type limitsConn struct {
	net.Conn
	in     string
	limits []time.Time
}

func (c *limitsConn) SetReadDeadline(d time.Time) error { c.limits = append(c.limits, d); return nil }

func (c *limitsConn) Read(p []byte) (int, error) {
	if c.in == "" {
		return 0, io.EOF
	}
	n := copy(p[:1], c.in)
	c.in = c.in[n:]
	return n, nil
}

// Every byte of a body starts the limit anew; a head has one limit for all of it.
func TestBodyLimitFollowsProgress(t *testing.T) {
	s := startProxy(t, testConfig(t, "http://127.0.0.1:1"), nil).Server
	raw := &limitsConn{in: "0123456789"}
	c, err := newClientConn(raw, s)
	if err != nil {
		t.Fatal(err)
	}
	read := func(n int) (set int) {
		t.Helper()
		before := len(raw.limits)
		if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		return len(raw.limits) - before
	}
	if n := read(1); n != 0 {
		t.Errorf("got %d limits set while idle, want none", n)
	}
	s.connStates(c, fasthttp.StateActive)
	if err := c.SetReadDeadline(time.Time{}); err != nil { // as fasthttp ends the idle limit
		t.Fatal(err)
	}
	if last := raw.limits[len(raw.limits)-1]; last.IsZero() {
		t.Error("the head has no limit")
	}
	if n := read(3); n != 0 {
		t.Errorf("got %d limits set within the head, want none", n)
	}
	if err := c.SetReadDeadline(time.Now().Add(headRead(&fasthttp.RequestHeader{}).ReadTimeout)); err != nil {
		t.Fatal(err)
	}
	if until := time.Until(raw.limits[len(raw.limits)-1]); until > time.Hour {
		t.Errorf("the body's limit is in %s, want that of the settings", until)
	}
	if n := read(4); n != 4 {
		t.Errorf("got %d limits set in 4 reads of the body, want 4", n)
	}
	if err := c.SetDeadline(time.Time{}); err != nil { // hijacked
		t.Fatal(err)
	}
	if n := read(2); n != 0 {
		t.Errorf("got %d limits set for a relay, want none", n)
	}
}

// SetDeadline implements net.Conn.
func (c *limitsConn) SetDeadline(d time.Time) error { return c.SetReadDeadline(d) }

// A connection that idles, kept alive or never used, ends without a word.
func TestIdleConnectionEnds(t *testing.T) {
	up := answering(t, func(*http.Request) string { return withLength("200 OK", "text/plain", "ok") })
	cfg := testConfig(t, upstreamOf(up))
	cfg.IdleTimeout, cfg.RequestHeadTimeout = time.Second, 50*time.Millisecond
	p := startProxy(t, cfg, nil)
	kept, fresh := connect(t, p.addr), connect(t, p.addr)
	kept.send(post(chatPath, chatStream))
	if got := body(t, kept.answer("POST")); got != "ok" {
		t.Errorf("got %q", got)
	}
	kept.ended()
	fresh.ended()
	if n := p.Status().Refused; n != 0 {
		t.Errorf("got %d requests refused, want none", n)
	}
}

// No limit of a request strikes in its answer, and the watcher still sees a
// client that leaves after they have passed.
func TestAnswersHaveNoLimit(t *testing.T) {
	const limit = 20 * time.Millisecond
	gone := make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		for n := 0; ; n++ {
			if c.request() == nil {
				return
			}
			c.send(streamHead, chunk(tokenEvent("a")))
			time.Sleep(5 * limit) // longer than each limit
			if n == 2 {
				c.gone()
				close(gone)
				return
			}
			c.send(chunk(finishEvent), chunk(doneEvent), lastChunk)
		}
	})
	cfg := testConfig(t, upstreamOf(up))
	cfg.RequestHeadTimeout, cfg.RequestBodyTimeout = limit, limit
	p := startProxy(t, cfg, nil)
	c := connect(t, p.addr)
	for range 2 {
		c.send(post(chatPath, chatStream))
		if got := body(t, c.answer("POST")); got != tokenEvent("a")+finishEvent+doneEvent {
			t.Errorf("got %q", got)
		}
		time.Sleep(2 * limit) // an idle connection has IDLE_TIMEOUT only
		if rec := p.recs.next(t); rec.ErrorKind != "" {
			t.Errorf("got %q, want no error", rec.ErrorKind)
		}
	}
	c.send(post(chatPath, chatStream))
	if _, err := bufio.NewReader(c.answer("POST").Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * limit)
	_ = c.Close()
	wait(t, "the engine sees that the client left", gone)
	if rec := p.recs.next(t); rec.ErrorKind != "client_gone" {
		t.Errorf("got %q, want client_gone", rec.ErrorKind)
	}
}
