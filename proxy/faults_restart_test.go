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

	"spectap/collector"
)

// restarting is an engine that can be killed and started again on its address.
type restarting struct {
	t    *testing.T
	addr string
	wg   sync.WaitGroup

	mu       sync.Mutex
	ln       net.Listener
	open     map[net.Conn]bool
	arrivals map[string][]*arrival // by X-Request-Id
}

// arrival is a request as the engine got it.
type arrival struct {
	reused bool // its connection had carried another one
	sent   atomic.Bool
}

func (e *restarting) start() {
	ln, err := net.Listen("tcp", e.addr)
	if err != nil {
		e.t.Errorf("cannot start the engine again: %v", err)
		return
	}
	e.mu.Lock()
	e.ln, e.addr, e.open = ln, ln.Addr().String(), map[net.Conn]bool{}
	e.mu.Unlock()
	e.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			if e.ln != ln { // killed meanwhile
				_ = c.Close()
			}
			e.open[c] = true
			e.mu.Unlock()
			e.wg.Go(func() { defer func() { _ = c.Close() }(); e.serve(&engineConn{c, bufio.NewReader(c)}) })
		}
	})
}

// kill ends the engine as a crash does: no answer is ended. reset: and what is unread is reset.
func (e *restarting) kill(reset bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.ln.Close()
	e.ln = nil
	for c := range e.open {
		if reset {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		_ = c.Close()
	}
}

func (e *restarting) serve(c *engineConn) {
	for n := 0; ; n++ {
		req := c.request()
		if req == nil {
			return
		}
		a, id := &arrival{reused: n > 0}, req.Header.Get("X-Request-Id")
		e.mu.Lock()
		e.arrivals[id] = append(e.arrivals[id], a)
		e.mu.Unlock()
		time.Sleep(time.Millisecond) // prefill
		if _, err := io.WriteString(c, streamHead); err != nil {
			return
		}
		a.sent.Store(true)
		for range 5 {
			c.send(chunk(tokenEvent("a")))
			time.Sleep(500 * time.Microsecond)
		}
		c.send(chunk(finishEvent+doneEvent) + lastChunk)
	}
}

// asker sends requests one after another on one connection, or a new one after a failure.
type asker struct {
	addr string
	conn net.Conn
	br   *bufio.Reader
}

func (a *asker) ask(id string) (status int, text string, err error) {
	if a.conn == nil {
		if a.conn, err = net.Dial("tcp", a.addr); err != nil {
			return 0, "", err
		}
		_ = a.conn.SetDeadline(time.Now().Add(patience))
		a.br = bufio.NewReader(a.conn)
	}
	if _, err = io.WriteString(a.conn, post(chatPath, chatStream, "X-Request-Id: "+id)); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(a.br, nil)
	if err != nil {
		return 0, "", err
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.Close {
		a.hangUp()
	}
	return resp.StatusCode, string(b), err
}

func (a *asker) hangUp() {
	if a.conn != nil {
		_ = a.conn.Close()
		a.conn = nil
	}
}

// An engine that is killed and started again under load: a request fails at
// most once, and its answer and its Record say why; none is sent twice but
// where design 9.5 allows it; the requests after the restart succeed.
func TestEngineRestart(t *testing.T) {
	const clients, restarts = 16, 6
	e := &restarting{t: t, addr: "127.0.0.1:0", arrivals: map[string][]*arrival{}}
	e.start()
	p := startProxy(t, testConfig(t, "http://"+e.addr), nil)
	var stop atomic.Bool
	var mu sync.Mutex
	outcomes := map[string]string{} // by request: the error kinds that fit, "" for a whole answer
	var asking sync.WaitGroup
	for n := range clients {
		asking.Go(func() {
			a := &asker{addr: p.addr}
			defer a.hangUp()
			for i, after := 0, 0; after < 5; i++ {
				if stop.Load() {
					after++
				}
				id := fmt.Sprintf("c%d-%d", n, i)
				status, text, err := a.ask(id)
				fits := "?"
				switch {
				case status == 200 && err == nil && strings.HasSuffix(text, doneEvent):
					fits = ""
				case status == 200 && err != nil:
					fits = collector.ErrTruncated
				case status == 502 && err == nil:
					fits = collector.ErrUpstreamReset + " " + collector.ErrUpstreamRefused
				}
				if fits == "?" || fits != "" && after > 0 {
					t.Errorf("%s: got status %d, %.100q, %v; engine up for good: %v", id, status, text, err, after > 0)
				}
				mu.Lock()
				outcomes[id] = fits
				mu.Unlock()
			}
		})
	}
	for n := range restarts {
		time.Sleep(20 * time.Millisecond) // load
		e.kill(n%2 == 0)
		time.Sleep(5 * time.Millisecond) // refused
		e.start()
	}
	stop.Store(true)
	asking.Wait()
	eventually(t, "nothing in flight", func() bool { st := p.Status(); return st.InFlight == 0 && st.ClientConnections == 0 })
	e.check(p, outcomes)
	e.kill(false)
	e.wg.Wait()
}

// check compares what the clients saw with the Records and with what the engine got.
func (e *restarting) check(p *stack, outcomes map[string]string) {
	failed, retried := 0, 0
	for range len(outcomes) {
		rec := p.recs.next(e.t)
		fits, known := outcomes[rec.RequestID]
		if !known || rec.ErrorKind == "" != (fits == "") || !strings.Contains(fits, rec.ErrorKind) || rec.ErrorKind != "" && rec.Error == "" {
			e.t.Errorf("%s: got kind %q (%s), the client saw %q", rec.RequestID, rec.ErrorKind, rec.Error, fits)
		}
		delete(outcomes, rec.RequestID)
		got := e.arrivals[rec.RequestID]
		if len(got) > 1+rec.Retries || rec.Retries > 1 || len(got) == 2 && (!got[0].reused || got[0].sent.Load()) {
			e.t.Errorf("%s: the engine got it %d times, %d retries", rec.RequestID, len(got), rec.Retries)
		}
		if rec.ErrorKind != "" {
			failed++
		}
		retried += rec.Retries
	}
	if n := len(p.recs.ch); n > 0 || failed == 0 {
		e.t.Errorf("got %d Records too many, %d failed requests; want none, some", n, failed)
	}
	e.t.Logf("%d requests reached the engine, %d failed, %d were retried", len(e.arrivals), failed, retried)
}
