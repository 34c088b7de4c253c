package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"spectap/collector"
)

// fasthttp's own housekeeping ends up to ten seconds after its server.
func TestMain(m *testing.M) {
	if code, ok := runOverheadRole(); ok {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// patience bounds waits for what must happen; no test asserts a time.
const patience = 20 * time.Second

// engineConn is one connection as a scripted engine sees it.
type engineConn struct {
	net.Conn
	br *bufio.Reader
}

// request reads the next request whole; nil when the client closed.
func (c *engineConn) request() *http.Request {
	req, err := http.ReadRequest(c.br)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	return req
}

func (c *engineConn) send(parts ...string) {
	for _, p := range parts {
		_, _ = io.WriteString(c, p)
	}
}

// gone waits until the peer closed.
func (c *engineConn) gone() { _, _ = io.Copy(io.Discard, c.br) }

// scripted is a scripted upstream: serve gets every connection with its number.
type scripted struct {
	ln       net.Listener
	conns    atomic.Int64
	requests atomic.Int64
	wg       sync.WaitGroup
}

func startEngine(t testing.TB, serve func(e *scripted, c *engineConn, n int)) *scripted {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &scripted{ln: ln}
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	e.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			n := int(e.conns.Add(1)) - 1
			mu.Lock()
			open[c] = true
			mu.Unlock()
			e.wg.Go(func() {
				serve(e, &engineConn{c, bufio.NewReader(c)}, n)
				_ = c.Close()
				mu.Lock()
				delete(open, c)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		e.wg.Wait()
	})
	return e
}

// answering is an engine that answers every request by answer.
func answering(t testing.TB, answer func(req *http.Request) string) *scripted {
	return startEngine(t, func(e *scripted, c *engineConn, _ int) {
		for {
			req := c.request()
			if req == nil {
				return
			}
			e.requests.Add(1)
			c.send(answer(req))
		}
	})
}

// records is a Sink that hands Records to the test.
type records struct{ ch chan *collector.Record }

func (r records) Emit(rec *collector.Record) { r.ch <- rec }
func (r records) Close() error               { return nil }

func (r records) next(t testing.TB) *collector.Record {
	t.Helper()
	select {
	case rec := <-r.ch:
		return rec
	case <-time.After(patience):
		t.Fatal("no Record came")
		return nil
	}
}

// stack is a proxy in front of an engine.
type stack struct {
	*Server
	addr string
	recs records
	log  *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func testConfig(t testing.TB, upstream string) Config {
	t.Helper()
	var cfg Config
	if err := env.ParseWithOptions(&cfg, env.Options{Environment: map[string]string{}}); err != nil {
		t.Fatal(err)
	}
	cfg.Upstream, cfg.Measure, cfg.Engine = upstream, "observe", "vllm"
	return cfg
}

// startProxy runs a proxy on loopback until the test ends; setup may change it first.
func startProxy(t testing.TB, cfg Config, setup func(*Server)) *stack {
	t.Helper()
	recs := records{make(chan *collector.Record, 4096)}
	log := &lockedBuffer{}
	s, err := New(cfg, recs, zerolog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	if setup != nil {
		setup(s)
	}
	return &stack{Server: s, addr: startBuilt(t, s), recs: recs, log: log}
}

// startBuilt serves on loopback until the test ends and returns the address.
func startBuilt(t testing.TB, s *Server) string {
	t.Helper()
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(ln); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // cut what still runs
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
	return ln.Addr().String()
}

func upstreamOf(e *scripted) string { return "http://" + e.ln.Addr().String() }

// client is a raw connection to a proxy or an engine.
type client struct {
	net.Conn
	br *bufio.Reader
	t  testing.TB
}

func connect(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &client{c, bufio.NewReader(c), t}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads the head of an answer.
func (c *client) answer(method string) *http.Response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.br, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("cannot read answer: %v", err)
	}
	return resp
}

// body reads an answer's body to its end.
func body(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("cannot read body after %q: %v", b, err)
	}
	return string(b)
}

func post(path, text string, headers ...string) string {
	extra := ""
	for _, h := range headers {
		extra += h + "\r\n"
	}
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", path, extra, len(text), text)
}

const (
	chatPath   = "/v1/chat/completions"
	streamHead = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
	lastChunk  = "0\r\n\r\n"
	doneEvent  = "data: [DONE]\n\n"
)

var chatStream = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// tokenEvent is one token event of vLLM.
func tokenEvent(text string) string {
	return fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q},"logprobs":null,"finish_reason":null}]}`+"\n\n", text)
}

const finishEvent = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"length","stop_reason":null}]}` + "\n\n"

func withLength(status, contentType, text string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s", status, contentType, len(text), text)
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func wait(t testing.TB, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		t.Fatalf("never happened: %s", what)
	}
}

func contains(t testing.TB, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("got %q, want it to contain %q", got, want)
	}
}
