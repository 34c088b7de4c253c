package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"spectap/collector"
)

// observerFunc implements collector.Observer.
type observerFunc func(*collector.Record, collector.Headers) func(*collector.Record)

func (f observerFunc) Begin(rec *collector.Record, h collector.Headers) func(*collector.Record) {
	return f(rec, h)
}

// statusOf sends one request, whose head ends in "Content-Length: ", and returns the status of its answer.
func statusOf(t *testing.T, addr, method, head, text string) int {
	t.Helper()
	c := connect(t, addr)
	c.send(fmt.Sprintf("%s%d\r\n\r\n%s", head, len(text), text))
	resp := c.answer(method)
	body(t, resp)
	return resp.StatusCode
}

// An observer sees every request once, sets what goes upstream, and gets the
// same complete Record that the sink gets.
func TestObserver(t *testing.T) {
	const ours = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	sent := make(chan http.Header, 8)
	up := answering(t, func(req *http.Request) string {
		sent <- req.Header
		return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	})
	ended := make(chan *collector.Record, 8)
	p := startProxy(t, testConfig(t, upstreamOf(up)), func(s *Server) {
		s.Observer = observerFunc(func(rec *collector.Record, h collector.Headers) func(*collector.Record) {
			if got, want := h.Get("tracestate"), "a=1,b=2"; got != want {
				t.Errorf("Get of two fields: got %q, want %q", got, want)
			}
			if !slices.Contains(h.Keys(), "Traceparent") {
				t.Errorf("got keys %q, want Traceparent among them", h.Keys())
			}
			h.Set("traceparent", ours)
			h.Set("tracestate", "") // removes both fields
			return func(rec *collector.Record) { ended <- rec }
		})
	})
	f := func(method, path, body, route string, status int) {
		t.Helper()
		head := method + " " + path + " HTTP/1.1\r\nHost: x\r\ntraceparent: a\r\nTraceparent: b\r\ntracestate: a=1\r\ntracestate: b=2\r\nContent-Length: "
		if got := statusOf(t, p.addr, method, head, body); got != status {
			t.Errorf("%s %s: got status %d, want %d", method, path, got, status)
		}
		rec := <-ended
		if rec.Route != route || rec.Status != status || !rec.Done.Known {
			t.Errorf("%s %s: got route %q, status %d, done %v; want %q, %d, true", method, path, rec.Route, rec.Status, rec.Done.Known, route, status)
		}
		if status == http.StatusOK {
			upstream := <-sent
			if got := upstream.Values("Traceparent"); !slices.Equal(got, []string{ours}) {
				t.Errorf("%s %s: got traceparent %q upstream, want ours alone", method, path, got)
			}
			if got := upstream.Values("Tracestate"); got != nil {
				t.Errorf("%s %s: got tracestate %q upstream, want none", method, path, got)
			}
			if rec.Traceparent != ours {
				t.Errorf("got Record.Traceparent %q, want the one sent upstream", rec.Traceparent)
			}
		}
		if route != "" && rec != p.recs.next(t) {
			t.Errorf("%s %s: sink and observer got different Records", method, path)
		}
	}
	f("POST", "/v1/chat/completions", `{"messages":[]}`, collector.RouteChat, 200)
	f("POST", "/v1/embeddings", `{}`, collector.RouteOther, 200)
	f("GET", "/v1/models", "", "", 200)
	f("CONNECT", "x:1", "", "", 501)
}

// A panicking observer costs the observation, not the request.
func TestObserverPanics(t *testing.T) {
	up := answering(t, func(*http.Request) string { return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" })
	f := func(o collector.Observer) {
		t.Helper()
		p := startProxy(t, testConfig(t, upstreamOf(up)), func(s *Server) { s.Observer = o })
		if got := statusOf(t, p.addr, "POST", "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: ", `{}`); got != 200 {
			t.Errorf("got status %d, want 200", got)
		}
		p.recs.next(t)
		if got := p.Status().Panics; got != 1 {
			t.Errorf("got %d panics, want 1", got)
		}
	}
	f(observerFunc(func(*collector.Record, collector.Headers) func(*collector.Record) { panic("begin") }))
	f(observerFunc(func(*collector.Record, collector.Headers) func(*collector.Record) {
		return func(*collector.Record) { panic("end") }
	}))
}
