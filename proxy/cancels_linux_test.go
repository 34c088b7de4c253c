package proxy

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"spectap/collector"
)

var stressCancels = flag.Int("stress.cancels", 2000, "requests that TestCancels gives up")

const (
	cancelClients = 32
	cleanClients  = 16
	heapSlack     = 2 << 20 // bytes: maps and buffers that have grown
)

// Requests that are given up at every stage, beside 16 clients that stay: those
// get what the engine sends, byte for byte, no request reaches the engine twice,
// each that reached the proxy has one Record that says what happened, and the
// proxy holds afterwards what it held before.
func TestCancels(t *testing.T) {
	for _, measure := range []string{"usage", "tokens"} {
		t.Run(measure, func(t *testing.T) {
			engine := newCancelEngine(t)
			cfg := testConfig(t, upstreamOf(engine.scripted))
			cfg.Measure, cfg.Hold, cfg.UpstreamIdle = measure, time.Minute, 200*time.Millisecond
			sink := &tally{t: t, recs: map[string]told{}}
			s, err := New(cfg, sink, zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			s.http.MaxIdleWorkerDuration = 50 * time.Millisecond
			c := &cancelling{t: t, engine: engine, sink: sink, addr: startBuilt(t, s), stop: make(chan struct{})}
			for i := range stages { // as fasthttp's keeper of the date, some things come with first use
				if err := c.giveUp(stages[i], -1-i); err != nil {
					t.Fatal(err)
				}
			}
			base, quiet := held{}, 0
			eventually(t, "base", func() bool {
				last := base
				base = holds(t, s, engine)
				if quiet++; base.flights+base.watched+base.clients+base.idle+base.upstream > 0 || base.routines != last.routines {
					quiet = 0
				}
				return quiet == 50
			})
			c.run(*stressCancels / 2)
			c.account(s)
			c.engine.forget()
			sink.recs = nil
			var now held
			defer func() { t.Logf("at start %+v, at the end %+v", base, now) }()
			eventually(t, "all back to what it was", func() bool { now = holds(t, s, engine); return now.within(base) })
		})
	}
}

// held is what a proxy and its engine hold.
type held struct {
	flights, watched, clients, idle, upstream, files, routines int
	heap                                                       int // bytes after a collection
}

func holds(t *testing.T, s *Server, e *cancelEngine) held {
	watched := watchedFlights(s.watcher)
	runtime.GC()
	runtime.GC() // what a sync.Pool holds outlives one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	st := s.Status()
	return held{flights: st.InFlight, watched: watched, clients: st.ClientConnections, idle: st.IdleUpstream,
		upstream: int(e.open.Load()), files: openFiles(t), routines: runtime.NumGoroutine(), heap: int(m.HeapAlloc)}
}

func (h held) within(base held) bool {
	return h.flights == 0 && h.watched == 0 && h.clients == 0 && h.idle == 0 && h.upstream == 0 &&
		h.files <= base.files && h.routines <= base.routines && h.heap <= base.heap+heapSlack
}

// told is what a Record tells that the test wants to know.
type told struct {
	kind, response string
	retries        int
	done, warned   bool
}

// tally is a Sink that keeps outcomes by the client's request id.
type tally struct {
	t    *testing.T
	mu   sync.Mutex
	recs map[string]told
}

func (s *tally) Emit(r *collector.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := s.recs[r.RequestID]; twice {
		s.t.Errorf("two Records of request %q", r.RequestID)
	}
	s.recs[r.RequestID] = told{r.ErrorKind, r.ResponseID, r.Retries, r.SawDone, len(r.Warnings) > 0}
}

func (s *tally) Close() error { return nil }

// cancelling is one run of TestCancels.
type cancelling struct {
	t      *testing.T
	engine *cancelEngine
	sink   *tally
	addr   string
	stop   chan struct{} // closed when all requests were given up
	next   atomic.Int64
	stayed sync.Map // ids of requests whose client stayed
	left   sync.Map // ids of requests that were given up: how many Records, and of what kind
}

// run gives up n requests, with the clean clients beside them.
func (c *cancelling) run(n int) {
	var clean, gone sync.WaitGroup
	for w := range cleanClients {
		clean.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-c.stop:
					return
				default:
				}
				if err := c.stay(fmt.Sprintf("clean-%d-%d", w, i)); err != nil {
					c.t.Error(err)
					return
				}
			}
		})
	}
	for range cancelClients {
		gone.Go(func() {
			for i := int(c.next.Add(1)) - 1; i < n; i = int(c.next.Add(1)) - 1 {
				if err := c.giveUp(stages[i%len(stages)], i); err != nil {
					c.t.Errorf("request %d, %s: %v", i, stages[i%len(stages)].name, err)
				}
			}
		})
	}
	gone.Wait()
	close(c.stop)
	clean.Wait()
}

// stay asks for a clean stream and compares it.
func (c *cancelling) stay(id string) error {
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience)) // fails only on a closed connection
	if _, err := io.WriteString(conn, request("clean", id, true)+"\r\n"); err != nil {
		return err
	}
	one := &client{Conn: conn, br: newReader(conn), t: c.t}
	resp, err := http.ReadResponse(one.br, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	got, err := io.ReadAll(resp.Body)
	if want := strings.Join(cleanStream(id, ""), ""); err != nil || string(got) != want {
		return fmt.Errorf("%s: %v\n got %q\nwant %q", id, err, got, want)
	}
	c.stayed.Store(id, true)
	return nil
}

// account holds the Records against what the clients did.
func (c *cancelling) account(s *Server) {
	c.t.Helper()
	eventually(c.t, "no request on its way", func() bool { return s.flights.count() == 0 })
	c.sink.mu.Lock()
	defer c.sink.mu.Unlock()
	clean, retries, kinds := 0, 0, map[string]uint64{}
	for id, rec := range c.sink.recs {
		retries += rec.retries
		if rec.kind == "" {
			kinds["ok"]++
		} else {
			kinds[rec.kind]++
		}
		if _, ok := c.stayed.Load(id); ok {
			clean++
			if rec.kind != "" || rec.response != id || !rec.done || rec.warned {
				c.t.Errorf("%s, whose client stayed: got %+v", id, rec)
			}
			continue
		}
		want, ok := c.left.Load(id)
		if !ok || !want.(expected).allows(rec) {
			c.t.Errorf("%s, which was given up: got %+v, want %+v", id, rec, want)
		}
	}
	c.left.Range(func(id, want any) bool {
		if _, ok := c.sink.recs[id.(string)]; !ok && want.(expected).certain {
			c.t.Errorf("%s has no Record, want %+v", id, want)
		}
		return true
	})
	c.stayed.Range(func(id, _ any) bool {
		if _, ok := c.sink.recs[id.(string)]; !ok {
			c.t.Errorf("%s, whose client stayed, has no Record", id)
		}
		return true
	})
	c.engine.once(c.t)
	st := s.Status()
	if st.Requests != uint64(len(c.sink.recs)) || st.Retries != uint64(retries) || st.Panics != 0 || fmt.Sprint(st.Outcomes) != fmt.Sprint(kinds) {
		c.t.Errorf("got %d requests, %d retries, %d panics, outcomes %v; the %d Records say %d retries, %v", st.Requests, st.Retries, st.Panics, st.Outcomes, len(c.sink.recs), retries, kinds)
	}
	if clean < cleanClients {
		c.t.Errorf("got %d clean streams, want %d or more", clean, cleanClients)
	}
	c.t.Logf("%d clean streams, outcomes %v, %d retries on a stale connection, %d refused", clean, kinds, retries, st.Refused)
}
