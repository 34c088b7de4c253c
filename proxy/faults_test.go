package proxy

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// fault is one way in which an engine fails an answer, and what must come of it.
type fault struct {
	request string // the streamed chat request where empty
	change  func(*Config)
	engine  func(c *engineConn) (open bool) // what it does once it read the request; false closes
	want    outcome
}

// outcome is all that a fault may show, to the client, in the Record and at the engine.
type outcome struct {
	status int    // of the client's answer
	body   string // all that came of it; of an error of our own its type
	cut    bool   // the connection ended before the answer did
	kind   string // ErrorKind of the Record
	text   string // part of the Record's Error
	idle   int    // connections that may carry another request
}

// run lets the engine fail in every mode. The engine gets the request once,
// there is one Record, and nothing is left over.
func (f fault) run(t *testing.T, name string) {
	if f.request == "" {
		f.request = chatStream
	}
	for _, measure := range []string{"observe", "usage", "tokens"} {
		t.Run(name+" "+measure, func(t *testing.T) {
			var open atomic.Int64
			up := startEngine(t, func(e *scripted, c *engineConn, _ int) {
				open.Add(1)
				defer open.Add(-1)
				for c.request() != nil {
					e.requests.Add(1)
					if !f.engine(c) {
						_ = c.Close() // before it counts as closed
						return
					}
				}
			})
			cfg := testConfig(t, upstreamOf(up))
			cfg.Measure = measure
			if f.change != nil {
				f.change(&cfg)
			}
			p := startProxy(t, cfg, nil)
			c := connect(t, p.addr)
			c.send(post(chatPath, f.request))
			f.want.check(t, c, p)
			if n := up.requests.Load(); n != 1 {
				t.Errorf("the engine got %d requests, want 1", n)
			}
			_ = c.Close()
			p.atBase(t, f.want.idle)
			eventually(t, "engine's connections closed", func() bool { return open.Load() == int64(f.want.idle) })
		})
	}
}

// check compares what the client gets of a request, and its Record.
func (want outcome) check(t *testing.T, c *client, p *stack) {
	t.Helper()
	resp := c.answer("POST")
	for resp.StatusCode < 200 { // an interim answer went on before the failure
		resp = c.answer("POST")
	}
	got, err := io.ReadAll(resp.Body)
	if cut := err != nil; resp.StatusCode != want.status || cut != want.cut {
		t.Errorf("got status %d, end %v after %.200q; want %d, cut %v", resp.StatusCode, err, got, want.status, want.cut)
	}
	if own := strings.HasPrefix(string(got), `{"error":{"code":`); own {
		contains(t, string(got), `"type":"spectap_`+want.body+`"`)
	} else if string(got) != want.body {
		t.Errorf("got %d bytes %.200q, want %d bytes %.200q", len(got), got, len(want.body), want.body)
	}
	if want.cut {
		if more, _ := io.ReadAll(c.br); len(more) > 0 {
			t.Errorf("got %q after the cut", more)
		}
	}
	rec := p.recs.next(t)
	if rec.ErrorKind != want.kind || !strings.Contains(rec.Error, want.text) || rec.Status != want.status {
		t.Errorf("got a Record of status %d, kind %q, error %q; want %d, %q, %q", rec.Status, rec.ErrorKind, rec.Error, want.status, want.kind, want.text)
	}
	if rec.Spec == nil && rec.SpecMissing == "" {
		t.Error("got neither Spec nor the reason why there is none")
	}
	if n := len(p.recs.ch); n != 0 {
		t.Errorf("got %d Records more, want one a request", n)
	}
}

// atBase waits until nothing of any request is left but idle connections to the engine.
func (p *stack) atBase(t testing.TB, idle int) {
	t.Helper()
	eventually(t, "nothing is left of the requests", func() bool {
		st := p.Status()
		return st.InFlight == 0 && st.ClientConnections == 0 && st.IdleUpstream == idle && p.watches() == 0
	})
}

// sends is an engine that sends parts and closes.
func sends(parts ...string) func(*engineConn) bool {
	return func(c *engineConn) bool { c.send(parts...); return false }
}

// keeps is an engine that sends parts and takes another request.
func keeps(parts ...string) func(*engineConn) bool {
	return func(c *engineConn) bool { c.send(parts...); return true }
}

// resets is an engine that sends parts and resets its connection.
func resets(parts ...string) func(*engineConn) bool {
	return func(c *engineConn) bool {
		c.send(parts...)
		_ = c.Conn.(*net.TCPConn).SetLinger(0)
		return false
	}
}

// hangs is an engine that sends parts and then nothing, until the proxy closes.
func hangs(parts ...string) func(*engineConn) bool {
	return func(c *engineConn) bool { c.send(parts...); c.gone(); return false }
}

// halfCloses is an engine that sends parts and its end, and reads on.
func halfCloses(parts ...string) func(*engineConn) bool {
	return func(c *engineConn) bool {
		c.send(parts...)
		_ = c.Conn.(*net.TCPConn).CloseWrite()
		c.gone()
		return false
	}
}
