package proxy

import (
	"context"
	"net"
	"net/http"
	"testing"

	"spectap/collector"
)

// While the proxy drains nobody who was connected loses a request: one that is
// on its way, half sent, or sent on a connection that was not used before is
// answered, and told that the connection ends. An idle connection ends at once;
// a new one is refused.
func TestDraining(t *testing.T) {
	const path = "/v1/embeddings"
	finish := make(chan struct{})
	up := answering(t, func(req *http.Request) string {
		if req.URL.RawQuery == "wait" {
			<-finish
		}
		return withLength("200 OK", "application/json", "{}")
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	busy, idle, fresh, half := connect(t, p.addr), connect(t, p.addr), connect(t, p.addr), connect(t, p.addr)
	idle.send(post(path, "{}"))
	_ = body(t, idle.answer("POST"))
	busy.send(post(path+"?wait", "{}"))
	half.send("POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{")
	eventually(t, "a request is at the engine and all are connected", func() bool {
		return up.requests.Load() == 2 && p.Status().ClientConnections == 4
	})
	drained := make(chan error, 1)
	go func() { drained <- p.Shutdown(context.Background()) }()
	idle.ended()
	if c, err := net.Dial("tcp", p.addr); err == nil {
		_ = c.Close()
		t.Error("a new connection was taken")
	}
	answered := func(c *client) {
		t.Helper()
		resp := c.answer("POST")
		if text := body(t, resp); resp.StatusCode != 200 || text != "{}" || !resp.Close {
			t.Errorf("got %d %q, close %v; want the answer and the end of the connection", resp.StatusCode, text, resp.Close)
		}
		c.ended()
	}
	half.send("}")
	answered(half)
	fresh.send(post(path, "{}"))
	answered(fresh)
	close(finish)
	resp := busy.answer("POST")
	if text := body(t, resp); resp.StatusCode != 200 || text != "{}" {
		t.Errorf("got %d %q of the request on its way", resp.StatusCode, text)
	}
	busy.ended()
	if err := <-drained; err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
	for range 4 {
		if rec := p.recs.next(t); rec.ErrorKind != "" {
			t.Errorf("got kind %q, want none", rec.ErrorKind)
		}
	}
}

// A request that comes when the drain's time is over is answered 503 with a reason.
func TestDrained(t *testing.T) {
	p := startProxy(t, testConfig(t, "http://127.0.0.1:1"), nil)
	<-p.flights.cancelAll(errDrained)
	c := connect(t, p.addr)
	c.send(post(chatPath, "{}"))
	text := refusedBody(t, c, 503)
	contains(t, text, `"spectap_draining"`)
	contains(t, text, "shutting down")
	c.ended()
	if rec := p.recs.next(t); rec.ErrorKind != collector.ErrDrained || rec.Status != 503 {
		t.Errorf("got kind %q, status %d; want drained, 503", rec.ErrorKind, rec.Status)
	}
}
