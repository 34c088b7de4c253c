package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/rs/zerolog"

	"spectap/collector"
	"spectap/proxy"
	"spectap/proxy/fakevllm"
)

// byRequest is a Sink that keeps Records by the client's X-Request-ID.
type byRequest struct {
	mu   sync.Mutex
	recs map[string]*collector.Record
	t    *testing.T
}

func (b *byRequest) Emit(r *collector.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.recs[r.RequestID] != nil {
		b.t.Errorf("two Records of request %q", r.RequestID)
	}
	b.recs[r.RequestID] = r
}

func (b *byRequest) Close() error { return nil }

// question is one request of the stress, and what the engine answers directly.
type question struct {
	path, text string
	want       string // without ids and times
}

var passing = regexp.MustCompile(`"(id|created|request_id)":("[^"]*"|\d+)`)

func questions() []question {
	var list []question
	for i := range 24 {
		stream := i%3 != 0
		if i%2 == 0 {
			list = append(list, question{path: "/v1/chat/completions",
				text: fmt.Sprintf(`{"model":"fake-model","messages":[{"role":"user","content":"question %d"}],"max_tokens":%d,"temperature":0,"stream":%t}`, i, 4+3*i, stream)})
		} else {
			list = append(list, question{path: "/v1/completions",
				text: fmt.Sprintf(`{"model":"fake-model","prompt":"prompt %d","max_tokens":%d,"temperature":0,"stream":%t}`, i, 4+3*i, stream)})
		}
	}
	return list
}

func (q question) raw(id string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\nX-Request-Id: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", q.path, id, len(q.text), q.text)
}

// caller is a client with one connection at a time.
type caller struct {
	addr string
	conn net.Conn
	br   *bufio.Reader
}

func (c *caller) hangUp(reset bool) {
	if reset {
		_ = c.conn.(*net.TCPConn).SetLinger(0)
	}
	_ = c.conn.Close()
	c.conn = nil
}

func (c *caller) send(raw string) error {
	if c.conn == nil {
		conn, err := net.Dial("tcp", c.addr)
		if err != nil {
			return err
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		c.conn, c.br = conn, bufio.NewReader(conn)
	}
	_, err := io.WriteString(c.conn, raw)
	return err
}

// ask returns the body of an answer.
func (c *caller) ask(q question, id string) (string, error) {
	if err := c.send(q.raw(id)); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(resp.Body)
	return passing.ReplaceAllString(fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Content-Type"), " ", string(text)), "-"), err
}

// leave asks, reads some bytes and goes.
func (c *caller) leave(q question, id string, rng *rand.Rand) error {
	if err := c.send(q.raw(id)); err != nil {
		return err
	}
	if rng.IntN(3) > 0 {
		resp, err := http.ReadResponse(c.br, nil)
		if err != nil {
			return err
		}
		_, _ = io.CopyN(io.Discard, resp.Body, int64(rng.IntN(3000)))
	}
	c.hangUp(rng.IntN(2) == 0)
	return nil
}

func serveEngine(t *testing.T) (addr string, stop func()) {
	t.Helper()
	engine, err := fakevllm.New(fakevllm.Config{Seed: 7, Draftless: 0.3, Prefill: time.Millisecond, Step: 200 * time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = engine.Serve(ln) })
	return ln.Addr().String(), func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}

func serveProxy(t *testing.T, upstream, measure string, sink collector.Sink) (s *proxy.Server, addr string, stop func()) {
	t.Helper()
	var cfg proxy.Config
	if err := env.ParseWithOptions(&cfg, env.Options{Environment: map[string]string{}}); err != nil {
		t.Fatal(err)
	}
	cfg.Upstream, cfg.Measure, cfg.Engine = "http://"+upstream, measure, "vllm"
	cfg.Hold = time.Minute // a slow machine must not make it let go
	s, err := proxy.New(cfg, sink, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := proxy.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(ln) })
	return s, ln.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}

func openFiles() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

func backTo(t *testing.T, what string, base int, now func() int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); now() > base; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%s: got %d, want %d as before", what, now(), base)
			return
		}
	}
}

// Clients that stay beside clients that leave at any moment, on kept
// connections: whoever stays gets byte for byte what the engine sends directly,
// and a Record of its own; afterwards nothing is left over.
func TestStress(t *testing.T) {
	const clients, rounds = 64, 10
	files, routines := openFiles(), runtime.NumGoroutine()
	for _, measure := range []string{"observe", "usage", "tokens"} {
		t.Run(measure, func(t *testing.T) {
			engine, stopEngine := serveEngine(t)
			defer stopEngine()
			list := questions()
			direct := &caller{addr: engine}
			for i := range list {
				var err error
				if list[i].want, err = direct.ask(list[i], fmt.Sprint("direct-", i)); err != nil || !strings.HasPrefix(list[i].want, "200 ") {
					t.Fatalf("directly: %q, %v", list[i].want, err)
				}
			}
			direct.hangUp(false)
			sink := &byRequest{recs: map[string]*collector.Record{}, t: t}
			s, addr, stop := serveProxy(t, engine, measure, sink)
			stayed := storm(t, addr, list, clients, rounds)
			stop()
			check(t, s, sink, stayed)
		})
	}
	backTo(t, "open files", files, openFiles)
	backTo(t, "goroutines", routines+7, runtime.NumGoroutine) // fasthttp's cleaner of each of the six servers sleeps on, and its date keeper; TestMain knows them by name
}

// storm lets the clients loose and returns the ids of the requests whose client stayed.
func storm(t *testing.T, addr string, list []question, clients, rounds int) (stayed []string) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for n := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 1))
			c := &caller{addr: addr}
			for i := range rounds {
				q, id := list[rng.IntN(len(list))], fmt.Sprintf("c%d-%d", n, i)
				if rng.IntN(3) == 0 {
					if err := c.leave(q, id, rng); err != nil {
						t.Errorf("%s: %v", id, err)
					}
					continue
				}
				got, err := c.ask(q, id)
				if err != nil || got != q.want {
					t.Errorf("%s: %v\n got %q\nwant %q", id, err, got, q.want)
					return
				}
				mu.Lock()
				stayed = append(stayed, id)
				mu.Unlock()
			}
			if c.conn != nil {
				c.hangUp(false)
			}
		})
	}
	wg.Wait()
	return stayed
}

func check(t *testing.T, s *proxy.Server, sink *byRequest, stayed []string) {
	t.Helper()
	sink.mu.Lock()
	defer sink.mu.Unlock()
	for _, id := range stayed {
		rec := sink.recs[id]
		if rec == nil {
			t.Errorf("%s: no Record", id)
			continue
		}
		if _, own, _ := strings.Cut(rec.ResponseID, "-"); rec.ErrorKind != "" || !strings.HasPrefix(own, id) || len(rec.Warnings) > 0 {
			t.Errorf("%s: got response %q, kind %q, warnings %q", id, rec.ResponseID, rec.ErrorKind, rec.Warnings)
		}
	}
	st := s.Status()
	if st.InFlight != 0 || st.IdleUpstream != 0 || st.Panics != 0 || st.Requests != uint64(len(sink.recs)) {
		t.Errorf("got %d in flight, %d idle, %d panics, %d requests and %d Records", st.InFlight, st.IdleUpstream, st.Panics, st.Requests, len(sink.recs))
	}
}
