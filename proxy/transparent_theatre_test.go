package proxy

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// scene is one exchange that is played twice, directly and through the proxy.
type scene struct {
	name    string
	request []string // sent one after another; awaitInterim waits for a 1xx answer
	answer  func(*message) reply
	answers int    // that the client reads; 0 is one
	early   bool   // the engine answers behind the head of the request and reads its body afterwards
	fresh   bool   // on an upstream connection of its own: one that ends unanswered is tried again on a pooled one
	only    string // the one mode to play it in; "" is all
}

// Parts of a request that are not sent.
const (
	awaitInterim = "(an interim answer)"
	awaitAnswer  = "(an answer, or nothing for a while)"
)

// reply is what the engine sends. Each part waits until the client has got all
// before it: a proxy that holds something back never gets the next.
type reply struct {
	head    string
	parts   []string
	chunked bool // the parts are chunks
	tail    string
	drip    bool   // the tail comes byte by byte
	due     []int  // bytes of a body that the client gets of the parts up to each; nil is all
	end     string // "" goes on, "FIN" or "RST" end the connection
}

// view is what both ends saw of a scene.
type view struct {
	requests []*message // at the engine
	answers  []*message // at the client
	end      string     // "kept" or "closed"
	early    bool       // an answer came while awaitAnswer waited
	late     bool       // a part of an answer did not come before the next
	serving  int        // requests that the engine has not done with
}

// theatre is a scripted engine that plays scenes, one at a time.
type theatre struct {
	*scripted
	mu    sync.Mutex
	scene *scene
	view  *view
	limit time.Duration // of waits for a part to be got
	got   chan struct{} // the client got more of a body
	total int
}

const probeRequest = "GET /probe HTTP/1.1\r\nHost: probe\r\n\r\n"

func openTheatre(t testing.TB) *theatre {
	st := &theatre{}
	st.scripted = startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		for st.serve(c) {
		}
	})
	return st
}

// serve answers one request and says whether the connection goes on.
func (st *theatre) serve(c *engineConn) bool {
	m, err := readRawHead(c.br)
	if err != nil {
		return false
	}
	m.frame(false, true)
	if m.target() == "/probe" {
		c.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		return true
	}
	st.mu.Lock()
	sc, v := st.scene, st.view
	v.requests = append(v.requests, m)
	v.serving++
	st.mu.Unlock()
	defer func() {
		st.mu.Lock()
		v.serving--
		st.mu.Unlock()
	}()
	if len(m.values("Expect")) > 0 && !sc.early {
		c.send("HTTP/1.1 100 Continue\r\n\r\n")
	}
	whole := func() bool { return m.readBody(c.br, func(int) {}) == nil }
	if !sc.early && !whole() {
		return false
	}
	r := sc.answer(m)
	sent := 0
	c.send(r.head)
	for i, part := range r.parts {
		v.late = v.late || !sc.early && !st.await(sent)
		if r.chunked {
			c.send(chunk(part))
		} else {
			c.send(part)
		}
		if sent += len(part); r.due != nil {
			sent = r.due[i]
		}
	}
	v.late = v.late || !sc.early && !st.await(sent)
	if r.drip {
		c.send(strings.Split(r.tail, "")...)
	} else {
		c.send(r.tail)
	}
	switch r.end {
	case "RST":
		_ = c.Conn.(*net.TCPConn).SetLinger(0)
	case "FIN":
		_ = c.Conn.(*net.TCPConn).CloseWrite()
		if sc.early {
			whole()
		}
		c.gone()
	default:
		return !sc.early || whole()
	}
	return false
}

// await waits until the client has got n bytes of bodies.
func (st *theatre) await(n int) bool {
	for {
		st.mu.Lock()
		enough := st.total >= n
		st.mu.Unlock()
		if enough {
			return true
		}
		select {
		case <-st.got:
		case <-time.After(st.limit):
			return false
		}
	}
}

// set makes the engine play a scene.
func (st *theatre) set(sc *scene, v *view) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.scene, st.view, st.total, st.got = sc, v, 0, make(chan struct{}, 1)
}

// waits are how long a scene waits for what may be late.
type waits struct{ part, answer time.Duration }

// play lets a client play a scene against addr and returns what was seen.
func (st *theatre) play(t testing.TB, addr string, sc *scene, w waits) *view {
	t.Helper()
	v := &view{}
	st.set(sc, v)
	st.limit = w.part
	c := connect(t, addr)
	defer func() { _ = c.Close() }()
	interim, answered := make(chan struct{}, 8), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, part := range sc.request {
			switch part {
			case awaitInterim:
				<-interim
				continue
			case awaitAnswer:
				select {
				case <-answered:
					v.early = true
				case <-time.After(w.answer):
				}
				continue
			}
			if _, err := io.WriteString(c, part); err != nil {
				return // the engine may close while it is asked
			}
		}
	})
	methods := methodsOf(sc)
	for i := range max(1, sc.answers) {
		m, err := readRawAnswer(c.br, methods[min(i, len(methods)-1)], st.read, func() { interim <- struct{}{} })
		if err != nil {
			v.end = "closed"
			break
		}
		v.answers = append(v.answers, m)
	}
	close(answered)
	close(interim)
	if v.end == "" {
		wg.Wait() // the whole request comes before the probe
		v.end = endAfter(c, v.answers)
	}
	_ = c.Close()
	wg.Wait()
	eventually(t, "the engine is done with "+sc.name, func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return v.serving == 0
	})
	return v
}

// read tells the engine how much of a body the client has got.
func (st *theatre) read(total int) {
	st.mu.Lock()
	st.total = total
	st.mu.Unlock()
	select {
	case st.got <- struct{}{}:
	default:
	}
}

// endAfter finds out whether a connection can be used again, by using it.
func endAfter(c *client, answers []*message) string {
	if last := answers[len(answers)-1]; last.cut != "" || last.framing == "until close" {
		return "closed"
	}
	if _, err := io.WriteString(c, probeRequest); err != nil {
		return "closed"
	}
	if m, err := readRawAnswer(c.br, "GET", func(int) {}, func() {}); err != nil || m.body != "ok" {
		return "closed"
	}
	return "kept"
}

func methodsOf(sc *scene) (all []string) {
	for _, part := range sc.request {
		if method, _, ok := strings.Cut(part, " "); ok && strings.Contains(part, "HTTP/1.") {
			all = append(all, method)
		}
	}
	return append(all, "GET")
}
