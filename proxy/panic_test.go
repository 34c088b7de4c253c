package proxy

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"spectap/collector"
	"spectap/proxy/tap"
)

const usageEvent = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":1,"total_tokens":2,"completion_tokens":1}}` + "\n\n"

// A measuring error never fails a request: whatever panics, the answer goes on
// whole, the connection stays usable, and the Record says what happened.
func TestPanicWhileMeasuring(t *testing.T) {
	f := func(name, measure, sent, want string, setup func(*Server)) {
		t.Run(name, func(t *testing.T) {
			up := answering(t, func(req *http.Request) string {
				if text, _ := io.ReadAll(req.Body); measure == "observe" && string(text) != chatStream {
					t.Errorf("the engine got %q", text)
				}
				return streamHead + chunk(sent) + lastChunk
			})
			cfg := testConfig(t, upstreamOf(up))
			cfg.Measure = measure
			p := startProxy(t, cfg, setup)
			c := connect(t, p.addr)
			for n := range 2 {
				c.send(post(chatPath, chatStream))
				resp := c.answer("POST")
				if got := body(t, resp); resp.StatusCode != 200 || got != want {
					t.Errorf("got %d %q, want %q", resp.StatusCode, got, want)
				}
				rec := p.recs.next(t)
				if !strings.Contains(strings.Join(rec.Warnings, "\n"), "panic") || rec.ErrorKind == collector.ErrInternal {
					t.Errorf("got kind %q and warnings %q, want the panic among them", rec.ErrorKind, rec.Warnings)
				}
				if got := p.Status().Panics; got != uint64(n+1) {
					t.Errorf("got %d panics counted after %d requests", got, n+1)
				}
				if rec.Spec == nil && rec.SpecMissing == "" {
					t.Error("got neither Spec nor the reason why there is none")
				}
			}
		})
	}
	broken := func() *tap.Tap { // it has no handler for events
		t := &tap.Tap{}
		t.Head(500, "text/event-stream", "")
		return t
	}
	whole := tokenEvent("a") + finishEvent + doneEvent
	f("tap, head", "observe", whole, whole, func(s *Server) { s.taps.New = func() any { return (*tap.Tap)(nil) } })
	f("tap, event", "observe", whole, whole, afterHandle(func(b *stream) { b.tap = broken() }))
	f("tap, end", "observe", "data: 1", "data: 1", afterHandle(func(b *stream) { b.tap = broken() }))
	f("policy", "usage", whole, whole, func(s *Server) {
		s.policy.Fill = map[string]json.RawMessage{"stream_options": {}}
	})
	f("cutter, search", "usage", whole+usageEvent, whole+usageEvent, afterHandle(ofCutter(func(c *Cutter) { c.scan = 1 << 30 })))
	hold := ofCutter(func(c *Cutter) { c.held, c.brace = []byte(finishEvent), 1<<30 })
	f("cutter, held", "usage", usageEvent+whole, finishEvent+usageEvent+whole, afterHandle(hold))
	end := strings.TrimSpace(usageEvent)
	f("cutter, end", "usage", end, finishEvent+end, afterHandle(hold))
}

// ofCutter changes the Cutter of a stream, if it has one.
func ofCutter(change func(*Cutter)) func(*stream) {
	return func(b *stream) {
		if b.cutter != nil {
			change(&b.cutter.Cutter)
		}
	}
}

// Whatever panics, the value is told nowhere: it can hold what passes.
func TestPanicTellsNothing(t *testing.T) {
	const secret = "canary"
	boom := func() any { panic(secret) }
	observer := func(begin bool) collector.Observer {
		return observerFunc(func(*collector.Record, collector.Headers) func(*collector.Record) {
			if begin {
				panic(secret)
			}
			return func(*collector.Record) { panic(secret) }
		})
	}
	f := func(name string, status int, setup func(*Server)) {
		t.Run(name, func(t *testing.T) {
			up := answering(t, func(*http.Request) string {
				return streamHead + chunk(tokenEvent("a")+finishEvent+doneEvent) + lastChunk
			})
			cfg := testConfig(t, upstreamOf(up))
			cfg.Measure = "usage"
			p := startProxy(t, cfg, setup)
			c := connect(t, p.addr)
			c.send(post(chatPath, chatStream))
			resp := c.answer("POST")
			told := body(t, resp) + p.log.String()
			if resp.StatusCode != status || p.Status().Panics != 1 {
				t.Errorf("got status %d, %d panics, want %d, 1", resp.StatusCode, p.Status().Panics, status)
			}
			if name != "sink" {
				rec, err := json.Marshal(p.recs.next(t))
				if err != nil {
					t.Fatal(err)
				}
				told += string(rec)
			}
			if strings.Contains(told, secret) {
				t.Errorf("the value of the panic is told: %q", told)
			}
		})
	}
	f("handler", 500, func(s *Server) { s.buffers.New = boom })
	f("tap", 200, func(s *Server) { s.taps.New = boom })
	f("cutter", 500, func(s *Server) { s.cutters.New = boom })
	f("observer, begin", 200, func(s *Server) { s.Observer = observer(true) })
	f("observer, end", 200, func(s *Server) { s.Observer = observer(false) })
	f("sink", 200, func(s *Server) { s.sink = panicSink{secret} })
}

// What a Cutter that panicked cannot give back is a cut connection, not a gap.
func TestPanicLosesNothingSilently(t *testing.T) {
	up := answering(t, func(*http.Request) string { return streamHead + chunk(tokenEvent("a")) + lastChunk })
	cfg := testConfig(t, upstreamOf(up))
	cfg.Measure = "usage"
	p := startProxy(t, cfg, afterHandle(ofCutter(func(c *Cutter) {
		c.part, c.scan = make([]byte, keepLimit+1), 1<<30
	})))
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	if got, err := io.ReadAll(c.answer("POST").Body); err == nil {
		t.Errorf("got a clean end after %d bytes", len(got))
	}
	if rec := p.recs.next(t); rec.ErrorKind != collector.ErrInternal {
		t.Errorf("got kind %q, want %q", rec.ErrorKind, collector.ErrInternal)
	}
}

// An event that is larger than the tap reads is not collected without end.
func TestCutterBounds(t *testing.T) {
	for _, asked := range []Asked{{Usage: true}, {Usage: true, Continuous: true}} {
		var c Cutter
		c.Reset(asked)
		in := []byte(strings.Repeat("x", 1<<20))
		sent := len(c.Feed(nil, []byte(finishEvent+`data: {"a":"`)))
		fed := len(finishEvent) + len(`data: {"a":"`)
		for range 40 {
			sent += len(c.Feed(nil, in))
			fed += len(in)
			if len(c.part) > tap.DefaultMaxEvent+len(in) {
				t.Fatalf("%+v: %d bytes are kept", asked, len(c.part))
			}
		}
		if sent += len(c.Release(nil)); sent != fed {
			t.Errorf("%+v: %d bytes came out of %d", asked, sent, fed)
		}
	}
}
