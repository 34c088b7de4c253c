package proxy

import (
	"net/http"
	"strings"
	"testing"

	"spectap/collector"
	"spectap/proxy/tap"
)

// The chain of a turn's user messages goes on with the next turn's, whatever
// became of the reply between them.
func TestThreadOfMessages(t *testing.T) {
	h := func(texts ...string) (chain string) {
		for _, text := range texts {
			chain = collector.ChainHash(nil, chain, text)
		}
		return chain
	}
	f := func(messages, users, before, answer string) {
		t.Helper()
		_, req := apply(Policy{HashUser: true}, `{"messages":[`+messages+`]}`, tap.RouteChat, EngineVLLM)
		if want := (collector.Thread{Users: users, Before: before, Answer: collector.ReplyHash(nil, answer)}); *req.Thread != want {
			t.Errorf("%s: got %+v, want %+v", messages, *req.Thread, want)
		}
	}
	const a, b, c = `{"role":"user","content":"a"}`, `{"role":"user","content":[{"type":"text","text":"b"}]}`, `{"role":"user","content":"c"}`
	const reply = `{"role":"assistant","content":" r\n"}`
	f(a, h("a"), "", "")
	f(`{"role":"system","content":"s"},`+a, h("a"), "", "")                 // a system message is no turn
	f(a+","+reply+","+b, h("a", "b"), h("a"), "r")                          // text parts, white space around the reply
	f(a+","+b, h("a", "b"), h("a"), "")                                     // AIPerf after a failed turn
	f(a+","+reply+","+b+","+c, h("a", "b", "c"), h("a", "b"), "")           // the turn before had no reply
	f(`{"role":"assistant","content":"r"},`+a, h("a"), "", "r")             // a greeting
	f(a+`,{"role":"assistant","content":null},`+b, h("a", "b"), h("a"), "") // a tool call
	if h("a", "b") == h("b", "a") || h("ab") == h("a", "b") {
		t.Error("different messages have one chain")
	}
	if _, req := apply(Policy{}, `{"messages":[`+a+`]}`, tap.RouteChat, EngineVLLM); req.Thread != nil {
		t.Error("hashes are kept without being asked for")
	}
}

// A key makes other hashes, which cannot be checked without it.
func TestKeyedHashes(t *testing.T) {
	_, plain := apply(Policy{HashUser: true}, `{"prompt":"a"}`, tap.RouteCompletions, EngineVLLM)
	_, keyed := apply(Policy{HashUser: true, HashKey: []byte("k")}, `{"prompt":"a"}`, tap.RouteCompletions, EngineVLLM)
	if plain.UserHash != collector.HashText(nil, "a") || keyed.UserHash != collector.HashText([]byte("k"), "a") || plain.UserHash == keyed.UserHash {
		t.Errorf("got %s and %s", plain.UserHash, keyed.UserHash)
	}
	if plain.Thread.Users != plain.UserHash || keyed.Thread.Users != keyed.UserHash {
		t.Error("the chain of one prompt is not its hash")
	}
}

// The Record has the reply's hash, and its text only on demand.
func TestThreadOfReply(t *testing.T) {
	f := func(keep bool, message, reply, thought string) {
		t.Helper()
		up := answering(t, func(*http.Request) string {
			return withLength("200 OK", "application/json", `{"choices":[{"index":0,"finish_reason":"stop","message":`+message+`}]}`)
		})
		cfg := testConfig(t, upstreamOf(up))
		cfg.HashUser, cfg.KeepTexts = true, keep
		p := startProxy(t, cfg, nil)
		c := connect(t, p.addr)
		c.send(post(chatPath, `{"messages":[{"role":"user","content":"q"}]}`))
		body(t, c.answer("POST"))
		rec := p.recs.next(t)
		if rec.Thread == nil || rec.Thread.Reply != collector.ReplyHash(nil, reply) || rec.Thread.Thought != collector.ReplyHash(nil, thought) {
			t.Errorf("%s: got %+v", message, rec.Thread)
		}
		if kept := strings.Contains(rec.Reply, reply); kept != keep || rec.NamedBy != "" {
			t.Errorf("%s: got reply %q, named by %q", message, rec.Reply, rec.NamedBy)
		}
	}
	f(false, `{"content":"abc"}`, "abc", "")
	f(true, `{"content":"abc"}`, "abc", "")
	f(false, `{"content":" abc","reasoning":"think"}`, "abc", "think abc")
}

// A request is in flight until the sink has its Record: what Shutdown waits for is
// in the sink then.
func TestInFlightUntilEmitted(t *testing.T) {
	up := answering(t, func(*http.Request) string { return withLength("200 OK", "application/json", "{}") })
	inFlight := make(chan int, 1)
	p := startProxy(t, testConfig(t, upstreamOf(up)), func(s *Server) {
		s.sink = emitFunc(func(*collector.Record) { inFlight <- s.Status().InFlight })
	})
	c := connect(t, p.addr)
	c.send(post(chatPath, `{"messages":[]}`))
	body(t, c.answer("POST"))
	if n := <-inFlight; n != 1 {
		t.Errorf("got %d requests in flight while the sink gets a Record, want 1", n)
	}
}

// emitFunc is a Sink of one function.
type emitFunc func(*collector.Record)

func (f emitFunc) Emit(r *collector.Record) { f(r) }
func (f emitFunc) Close() error             { return nil }
