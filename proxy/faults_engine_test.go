package proxy

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"spectap/collector"
)

const (
	whole     = `{"model":"m","messages":[{"role":"user","content":"hi"}]}` // a request for an answer in one piece
	jsonHead  = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
	bandError = `data: {"error":{"message":"EngineCore encountered an issue","type":"InternalServerError","param":null,"code":500}}` + "\n\n"
	noHead    = "before its response head"
	noEnd     = "before the answer's end"
)

func limitStall(c *Config) { c.StallTimeout = 50 * time.Millisecond }

// An engine that fails before its answer: the client gets an error of our own
// that says so, and the request is not sent again.
func TestEngineFailsBeforeAnswer(t *testing.T) {
	f := func(name string, engine func(*engineConn) bool, status int, body, kind, text string) {
		t.Helper()
		for _, request := range []string{chatStream, whole} {
			fault{request: request, engine: engine, want: outcome{status: status, body: body, kind: kind, text: text},
				change: func(c *Config) { c.HeadTimeout = 100 * time.Millisecond }}.run(t, name)
		}
	}
	reset, protocol := collector.ErrUpstreamReset, collector.ErrUpstreamProtocol
	f("closes", sends(), 502, reset, reset, noHead)
	f("resets", resets(), 502, reset, reset, noHead)
	f("half-closes", halfCloses(), 502, reset, reset, noHead)
	f("closes in the head", sends("HTTP/1.1 200 OK\r\ncontent-ty"), 502, reset, reset, noHead)
	f("closes behind an interim head", sends("HTTP/1.1 102 Processing\r\n\r\n"), 502, reset, reset, noHead)
	f("hangs", hangs(), 504, collector.ErrUpstreamTimeout, collector.ErrUpstreamTimeout, "SPECTAP_HEAD_TIMEOUT")
	f("hangs in the head", hangs("HTTP/1.1 200"), 504, collector.ErrUpstreamTimeout, collector.ErrUpstreamTimeout, "SPECTAP_HEAD_TIMEOUT")
	f("SSH", sends("SSH-2.0-OpenSSH_9.9\r\n\r\n"), 502, protocol, protocol, "not HTTP/1.1")
	f("TLS", sends("\x15\x03\x01\x00\x02\x02\x46\r\n\r\n"), 502, protocol, protocol, "not HTTP/1.1")
	f("noise", sends(strings.Repeat("\x00\xff\x80 canary", 10000)), 502, protocol, protocol, "not HTTP/1.1")
	f("two lengths", sends("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}"), 502, protocol, protocol, "not HTTP/1.1")
	f("negative length", sends("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n{}"), 502, protocol, protocol, "not HTTP/1.1")
}

// An engine that fails inside its answer: the client gets every byte that came,
// then a cut connection, never a clean end and never a byte of ours.
func TestEngineFailsInAnswer(t *testing.T) {
	a := tokenEvent("a")
	part := a[:len(a)/2]
	f := func(name, request string, engine func(*engineConn) bool, body, kind, text string) {
		t.Helper()
		fault{request: request, engine: engine, change: limitStall,
			want: outcome{status: 200, body: body, cut: true, kind: kind, text: text}}.run(t, name)
	}
	truncated, stalled := collector.ErrTruncated, collector.ErrStalled
	ends := map[string]func(...string) func(*engineConn) bool{"closes": sends, "resets": resets, "half-closes": halfCloses}
	for how, end := range ends {
		f(how+" behind the head", chatStream, end(streamHead), "", truncated, noEnd)
		f(how+" behind an event", chatStream, end(streamHead, chunk(a)), a, truncated, noEnd)
		f(how+" in an event", chatStream, end(streamHead, chunk(a), chunk(part)), a+part, truncated, noEnd)
		f(how+" in a chunk", chatStream, end(streamHead, chunk(a), chunk(a)[:len(part)]), a+chunk(a)[len(fmt.Sprintf("%x\r\n", len(a))):len(part)], truncated, noEnd)
		f(how+" behind the finish event", chatStream, end(streamHead, chunk(a+finishEvent)), a+finishEvent, truncated, noEnd)
		f(how+" in a whole body", whole, end(jsonHead+"content-length: 100\r\n\r\n{"), "{", truncated, noEnd)
		f(how+" behind a whole head", whole, end(jsonHead+"content-length: 100\r\n\r\n"), "", truncated, noEnd)
	}
	f("resets a body without a length", whole, resets(jsonHead+"\r\n{"), "{", truncated, noEnd)
	f("sends no chunk", chatStream, hangs(streamHead, chunk(a), "zz\r\n"), a, truncated, "malformed chunked body")
	f("stalls", chatStream, hangs(streamHead, chunk(a)), a, stalled, "SPECTAP_STALL_TIMEOUT")
	f("stalls in an event", chatStream, hangs(streamHead, chunk(a), chunk(part)), a+part, stalled, "SPECTAP_STALL_TIMEOUT")
	f("stalls behind the finish event", chatStream, hangs(streamHead, chunk(a+finishEvent)), a+finishEvent, stalled, "SPECTAP_STALL_TIMEOUT")
	f("stalls in a whole body", whole, hangs(jsonHead+"content-length: 100\r\n\r\n{"), "{", stalled, "SPECTAP_STALL_TIMEOUT")
}

// A vLLM that got SIGTERM while it works sends keep-alive comments for ever
// (captures of a real one): they pass, and do not count as data.
func TestEngineHangsWithComments(t *testing.T) {
	up := startEngine(t, func(e *scripted, c *engineConn, _ int) {
		c.request()
		e.requests.Add(1)
		c.send(streamHead, chunk(tokenEvent("a")))
		for {
			if _, err := io.WriteString(c, chunk(": keep-alive\n\n")); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	cfg := testConfig(t, upstreamOf(up))
	cfg.StallTimeout = 500 * time.Millisecond // many comments, also on a busy machine
	p := startProxy(t, cfg, nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	got, err := io.ReadAll(c.answer("POST").Body)
	comments := strings.Count(string(got), ": keep-alive\n\n")
	if want := tokenEvent("a") + strings.Repeat(": keep-alive\n\n", comments); err == nil || string(got) != want || comments == 0 {
		t.Errorf("got %q and the end %v, want the event, comments and a cut", got, err)
	}
	if rec := p.recs.next(t); rec.ErrorKind != collector.ErrStalled || len(rec.Chunks) != 1 || up.requests.Load() != 1 {
		t.Errorf("got kind %q, %d chunks, %d requests; want stalled, 1, 1", rec.ErrorKind, len(rec.Chunks), up.requests.Load())
	}
	_ = c.Close()
	p.atBase(t, 0)
}

// What looks odd but is whole passes as it came, and the Record says what it was.
func TestEngineAnswersOddly(t *testing.T) {
	a, end := tokenEvent("a"), finishEvent+doneEvent
	f := func(name, stream, kind, text string) {
		t.Helper()
		want := outcome{status: 200, body: stream, kind: kind, text: text, idle: 1}
		fault{engine: keeps(streamHead, chunk(stream), lastChunk), want: want}.run(t, name)
		fault{engine: keeps(streamHead + chunk(stream[:1]) + chunk(stream[1:]) + lastChunk), want: want}.run(t, name+", in one write")
		fault{engine: keeps(withLength("200 OK", "text/event-stream", stream)), want: want}.run(t, name+", with a length")
		want.idle = 0
		fault{engine: sends("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", stream), want: want}.run(t, name+", up to the close")
		fault{engine: halfCloses(streamHead, chunk(stream), lastChunk), want: want,
			change: func(c *Config) { c.UpstreamIdle = time.Millisecond }}.run(t, name+", then half-closes")
	}
	f("an error in the stream", a+bandError+doneEvent, collector.ErrInBand, "InternalServerError (500)")
	f("an error first", bandError+doneEvent, collector.ErrInBand, "InternalServerError (500)")
	f("no [DONE]", a+finishEvent, "", "")
	f("no [DONE], no finish reason", a, collector.ErrNotFinished, "without a finish reason")
	f("no final newline", a+finishEvent+"data: [DONE]", "", "")
	f("no final newline of an event", a+strings.TrimSpace(finishEvent), "", "")
	f("CRLF", strings.ReplaceAll(a+end, "\n", "\r\n"), "", "")
	f("comments", ": ping\n\n"+a+": ping\n\n"+end, "", "")
	for _, status := range []string{"500 Internal Server Error", "503 Service Unavailable", "429 Too Many Requests"} {
		fault{engine: keeps(withLength(status, "application/json", `{"error":"Unauthorized"}`)), want: outcome{
			status: int(status[0]-'0')*100 + int(status[1]-'0')*10 + int(status[2]-'0'), body: `{"error":"Unauthorized"}`, kind: collector.ErrHTTPStatus, idle: 1}}.run(t, status)
	}
}

// An event far over every buffer on its way passes whole, in each mode.
func TestLargeEvent(t *testing.T) {
	stream := tokenEvent(strings.Repeat("x", 5<<20)) + finishEvent + doneEvent
	fault{engine: keeps(streamHead, chunk(stream), lastChunk), want: outcome{status: 200, body: stream, idle: 1}}.run(t, "5 MB")
}
