package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stage is a moment at which a client gives up.
type stage struct {
	name   string
	engine string // what the engine does with the request: the value of X-Stage
	stream bool
	sent   func(whole string) string // what is sent of the request; nil: all of it
	behind bool                      // the head of another request follows
	at     func(c *cancelling, id string, br *bufio.Reader) error
	want   expected
}

// expected is the Record of a request that was given up.
type expected struct {
	kind    string
	certain bool // there is one; else there may be one
}

func (e expected) allows(rec told) bool {
	return rec.kind == e.kind && (rec.kind != "" || rec.done && !rec.warned)
}

const gone = "client_gone"

var (
	noRecord = expected{kind: "none"}
	aborted  = expected{kind: gone, certain: true}
	stages   = []stage{
		{name: "connected", sent: func(string) string { return "" }, want: noRecord},
		{name: "in the head", sent: func(s string) string { return s[:40] }, want: noRecord},
		{name: "in the body", sent: func(s string) string { return s[:len(s)-9] }, want: noRecord},
		{name: "at once", engine: "silent", stream: true, want: expected{kind: gone}}, // a reset can overtake the request
		{name: "prefill", engine: "silent", stream: true, at: arrived, want: aborted},
		{name: "prefill, pipelined", engine: "silent", stream: true, behind: true, at: arrived, want: aborted},
		{name: "not streaming", engine: "silent", at: arrived, want: aborted},
		{name: "behind the response head", engine: "head", stream: true, at: head, want: aborted},
		{name: "half a body", engine: "half", at: head, want: aborted},
		{name: "mid stream", engine: "stream", stream: true, at: someEvents, want: aborted},
		{name: "mid stream, pipelined", engine: "stream", stream: true, behind: true, at: someEvents, want: aborted},
		{name: "behind [DONE]", engine: "whole", stream: true, at: allEvents, want: expected{kind: "", certain: true}},
		{name: "behind [DONE], pipelined", engine: "whole", stream: true, behind: true, at: allEvents, want: expected{kind: "", certain: true}},
	}
)

// giveUp sends request number i as far as the stage says, and leaves with a
// reset or in good order.
func (c *cancelling) giveUp(s stage, i int) error {
	id := fmt.Sprintf("gone-%d", i)
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience)) // fails only on a closed connection
	if s.want != noRecord {
		c.left.Store(id, s.want)
	}
	text := request(s.engine, id, s.stream) + "\r\n"
	if s.sent != nil {
		text = s.sent(text)
	}
	if s.behind {
		text += request("whole", id+"-behind", true)[:60]
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	if s.at != nil {
		if err := s.at(c, id, newReader(conn)); err != nil {
			return err
		}
	}
	if i/len(stages)%2 == 0 {
		return conn.(*net.TCPConn).SetLinger(0)
	}
	return nil
}

func arrived(c *cancelling, id string, _ *bufio.Reader) error {
	select {
	case <-c.engine.arrival(id):
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%s never arrived", id)
	}
}

func head(_ *cancelling, _ string, br *bufio.Reader) error {
	_, err := http.ReadResponse(br, nil)
	return err
}

func someEvents(_ *cancelling, id string, br *bufio.Reader) error {
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return err
	}
	return begins(resp.Body, cleanStream(id, "")[0])
}

func allEvents(_ *cancelling, id string, br *bufio.Reader) error {
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return err
	}
	return begins(resp.Body, strings.Join(cleanStream(id, ""), ""))
}

func begins(r io.Reader, want string) error {
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil || string(got) != want {
		return fmt.Errorf("%v\n got %q\nwant %q", err, got[:n], want)
	}
	return nil
}

// cancelEngine does what X-Stage says and keeps what it read.
type cancelEngine struct {
	*scripted
	open atomic.Int64 // connections

	mu   sync.Mutex
	read map[string]int           // requests by X-Request-Id
	came map[string]chan struct{} // closed when the request was read
}

func newCancelEngine(t *testing.T) *cancelEngine {
	e := &cancelEngine{}
	e.forget()
	e.scripted = startEngine(t, e.serve)
	return e
}

func (e *cancelEngine) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.read, e.came = map[string]int{}, map[string]chan struct{}{}
}

func (e *cancelEngine) arrival(id string) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.came[id] == nil {
		e.came[id] = make(chan struct{})
	}
	return e.came[id]
}

// once checks that no request was read twice.
func (e *cancelEngine) once(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, n := range e.read {
		if n != 1 {
			t.Errorf("%s was sent %d times", id, n)
		}
	}
}

func (e *cancelEngine) serve(_ *scripted, c *engineConn, _ int) {
	e.open.Add(1)
	defer e.open.Add(-1)
	for {
		req := c.request()
		if req == nil {
			return
		}
		id := req.Header.Get("X-Request-Id")
		e.mu.Lock()
		e.read[id]++
		e.mu.Unlock()
		close(e.arrival(id))
		asked := ""
		if text, _ := io.ReadAll(req.Body); strings.Contains(string(text), "continuous_usage_stats") {
			asked = "tokens"
		} else if strings.Contains(string(text), "include_usage") {
			asked = "usage"
		}
		switch req.Header.Get("X-Stage") {
		case "clean", "whole":
			c.send(streamHead)
			for i, event := range cleanStream(id, asked) {
				if i%3 == 0 {
					time.Sleep(200 * time.Microsecond) // a decode step
				}
				c.send(chunk(event))
			}
			c.send(lastChunk)
			continue
		case "head":
			c.send(streamHead)
		case "half":
			c.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"id\":")
		case "stream":
			c.send(streamHead, chunk(cleanStream(id, asked)[0]))
		}
		c.gone()
		return
	}
}

// cleanStream is a whole answer as vLLM sends it to a request that asked for
// nothing, for the usage event, or for counts on every event.
func cleanStream(id, asked string) []string {
	const words = 12
	event := func(choices, tail string) string {
		return fmt.Sprintf(`data: {"id":%q,"object":"chat.completion.chunk","created":1,"model":"m","choices":[%s]%s}`+"\n\n", id, choices, tail)
	}
	counts := func(n int) string {
		return fmt.Sprintf(`,"usage":{"prompt_tokens":3,"total_tokens":%d,"completion_tokens":%d}`, 3+n, n)
	}
	const fingerprint = `,"system_fingerprint":"fp"`
	var list []string
	for i := range words {
		tail := ""
		if asked == "tokens" {
			tail = counts(i + 1)
		}
		list = append(list, event(fmt.Sprintf(`{"index":0,"delta":{"content":"%s word %d, "},"logprobs":null,"finish_reason":null}`, id, i), tail))
	}
	const finish = `{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"length","stop_reason":null}`
	switch asked {
	case "":
		list = append(list, event(finish, fingerprint))
	case "usage":
		list = append(list, event(finish, ""), event("", counts(words)+fingerprint))
	case "tokens":
		list = append(list, event(finish, counts(words)), event("", counts(words)+fingerprint))
	}
	return append(list, doneEvent)
}

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReader(r) }

// request is a whole request without the empty line behind its body.
func request(stage, id string, stream bool) string {
	return post(chatPath, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%s"}],"stream":%t}`, id, stream), "X-Stage: "+stage, "X-Request-Id: "+id)
}
