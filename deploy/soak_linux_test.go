package deploy

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// soakFor is how long TestSoak runs. Memory is judged from soakJudged on.
var soakFor = flag.Duration("soak", 14*time.Second, "how long the soak runs")

const (
	soakStreams = 64
	soakRound   = 15 * time.Second // of the clients: all idle for 5 s in it
	soakJudged  = 2 * time.Minute
)

// Clients that go on for a long time, 1 % of whose requests are given up, and
// whose other requests come when the engine closes idle connections (5 s): no
// answer differs from the engine's own, each request has one Record, and the
// proxy holds at the end what it held at the start. In the second arm the proxy
// keeps connections for longer than the engine does, of which it warns: its look at
// an idle connection, and its one retry, keep most requests from a 502.
func TestSoak(t *testing.T) {
	t.Parallel()
	f := func(name string, racy bool, args ...string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine := startEngine(t, "--prefill", "20ms", "--step", "40ms", "--step_per_request", "0", "--eos", "0")
			path := filepath.Join(t.TempDir(), "records.jsonl")
			p := startProxy(t, nil, engine, append([]string{"--records", path, "--pprof", "--hold", "10s"}, args...)...) // a slow machine must not make it let go
			s := newSoak(t, engine, p)
			s.racy = racy
			base := p.atRest(t)
			base.routines++ // fasthttp's keeper of the date comes with the first answer
			watched := s.run(t)
			s.judge(t, base, watched)
			p.backTo(t, base)
			status := p.status(t)
			p.stop(t)
			s.account(t, status, recordsByRequest(t, path))
		})
	}
	f("default", false)
	f("idle for longer than the engine", true, "--upstream_idle", "10s")
}

// soak is one proxy under load, and what its clients saw.
type soak struct {
	proxy *proxyProcess
	racy  bool              // the proxy keeps connections for longer than the engine
	want  map[prompt]string // what the engine answers directly
	start time.Time

	mu     sync.Mutex
	stayed map[string]bool // ids of requests whose answer was read to the end
	left   map[string]bool // ids of requests whose client left; true: a Record is certain
	reset  map[string]bool // ids of requests that had a 502
}

// soakPrompts are what the clients ask for; the first is short.
func soakPrompts() []prompt {
	list := []prompt{{number: 0, tokens: 1}}
	for i := 1; i <= 12; i++ {
		list = append(list, prompt{number: i, tokens: 16 + 8*i, stream: i%6 != 0})
	}
	return list
}

func newSoak(t *testing.T, engine string, p *proxyProcess) *soak {
	t.Helper()
	s := &soak{proxy: p, want: map[prompt]string{}, stayed: map[string]bool{}, left: map[string]bool{}, reset: map[string]bool{}}
	direct := &caller{address: hostOf(engine)}
	defer direct.hangUp(false)
	for i, one := range soakPrompts() {
		text, err := direct.ask(one, fmt.Sprint("direct-", i))
		if err != nil {
			t.Fatal(err)
		}
		s.want[one] = text
	}
	return s
}

// run plays all clients and returns what the proxy held meanwhile.
func (s *soak) run(t *testing.T) (watched []vitals) {
	t.Helper()
	s.start = time.Now()
	ended, seen := make(chan struct{}), make(chan []vitals, 1)
	go func() {
		var list []vitals
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for {
			select {
			case <-ended:
				seen <- list
				return
			case <-every.C:
				v := s.proxy.vitals(t)
				v.at = time.Since(s.start)
				list = append(list, v)
			}
		}
	}()
	var clients sync.WaitGroup
	for n := range soakStreams {
		clients.Go(func() { s.client(t, n) })
	}
	clients.Wait()
	close(ended)
	return <-seen
}

// quiet says whether all clients wait for the engine's limit.
func (v vitals) quiet() bool {
	in := v.at % soakRound
	return in > 4*time.Second && in < 4700*time.Millisecond
}

// judge checks what the proxy held: in the quiet of each round one descriptor
// and one goroutine for each client, and memory that does not rise.
func (s *soak) judge(t *testing.T, base vitals, watched []vitals) {
	t.Helper()
	const slack = 16 // goroutines of connections that clients have just left
	pooled := 0
	if s.racy {
		pooled = soakStreams
	}
	var files, routines []int
	for _, v := range watched {
		if v.quiet() {
			files, routines = append(files, v.files), append(routines, v.routines)
		}
		if v.files > base.files+2*soakStreams+slack {
			t.Errorf("after %v: got %d files, want %d at most", v.at, v.files, base.files+2*soakStreams+slack)
		}
	}
	slices.Sort(files)
	slices.Sort(routines)
	// In single rounds of a busy machine streams last into the quiet.
	if n := len(files); n > 0 && (files[n/2] > base.files+soakStreams+pooled || routines[n/2] > base.routines+soakStreams+slack) {
		t.Errorf("in the quiet of the rounds: got %v files and %v goroutines, want half of them within %d and %d", files, routines, base.files+soakStreams+pooled, base.routines+soakStreams+slack)
	}
	quarter := len(watched) / 4
	if quarter == 0 {
		return
	}
	warm, last := watched[quarter:], watched[len(watched)-quarter:]
	before, after := median(watched[quarter:2*quarter]), median(last)
	highest := slices.MaxFunc(warm, func(a, b vitals) int { return a.resident - b.resident }).resident
	t.Logf("resident KiB: %d at start, %d second quarter, %d last quarter, %d highest after the first, slope %+.1f a minute", base.resident, before, after, highest, slope(warm))
	if *soakFor >= soakJudged && after > before+before/20+2<<10 {
		t.Errorf("resident memory rose from %d to %d KiB", before, after)
	}
	if quiet := slices.DeleteFunc(slices.Clone(watched), func(v vitals) bool { return !v.quiet() }); len(quiet) > 0 {
		t.Logf("in the quiet of the first and the last round: %+v, %+v; at start %+v", quiet[0], quiet[len(quiet)-1], base)
	}
}

// account checks that each request has its Record, and that the log tells
// nothing but the clients that left.
func (s *soak) account(t *testing.T, status proxyStatus, recs map[string]recordLine) {
	t.Helper()
	retries := 0
	for id := range s.stayed {
		if r, ok := recs[id]; !ok || r.ErrorKind != "" || r.Status != 200 {
			t.Errorf("%s: got %+v, want a Record without an error", id, r)
		}
		retries += recs[id].Retries
	}
	gone := 0
	for id, certain := range s.left {
		r, ok := recs[id]
		if certain && !ok || ok && r.ErrorKind != "client_gone" {
			t.Errorf("%s, whose client left: got %+v, %v", id, r, ok)
		}
		if ok {
			gone++
		}
	}
	for id := range s.reset {
		if r := recs[id]; r.ErrorKind != "upstream_reset" || r.Status != 502 || r.Retries != 0 {
			t.Errorf("%s, which had a 502: got %+v", id, r)
		}
	}
	if len(s.reset) > 1+retries/4 {
		t.Errorf("got %d requests with a 502 beside %d that were sent again", len(s.reset), retries)
	}
	if want := len(s.stayed) + gone + len(s.reset); len(recs) != want || status.Requests != want || status.Outcomes["client_gone"] != gone {
		t.Errorf("got %d Records, %d requests (%v), want %d with %d gone", len(recs), status.Requests, status.Outcomes, want, gone)
	}
	if status.InFlight != 0 || status.ClientConnections != 0 || status.Panics != 0 || status.SinkDrops != 0 {
		t.Errorf("got %+v at the end", status)
	}
	logged := s.proxy.logged(t)
	if lines := logged["request failed: client_gone"]; lines != gone || logged["request failed: upstream_reset"] != len(s.reset) {
		t.Errorf("got log lines %v, want %d clients that left and %d resets", logged, gone, len(s.reset))
	}
	delete(logged, "request failed: client_gone")
	delete(logged, "request failed: upstream_reset")
	if len(logged) > 0 {
		t.Errorf("got log lines %v of warnings and errors that nothing explains", logged)
	}
	if code := s.proxy.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	t.Logf("%d requests, %d given up, %d sent again on a new connection, %d with a 502; kinds %v", len(s.stayed)+len(s.left)+len(s.reset), len(s.left), retries, len(s.reset), kindsOf(recs))
}

// logged counts the proxy's log lines of warnings and worse by their message and
// error kind. One warning, of the start, is about settings.
func (p *process) logged(t testing.TB) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for line := range bytes.Lines([]byte(p.output.tail(1 << 30))) {
		var said struct{ Level, Message, Error_kind string }
		if err := json.Unmarshal(line, &said); err != nil {
			counts["not JSON: "+string(line)]++
			continue
		}
		if said.Level == "info" || said.Level == "debug" || said.Message == "a setting may hurt" {
			continue
		}
		if said.Error_kind != "" {
			said.Message += ": " + said.Error_kind
		}
		counts[said.Message]++
	}
	return counts
}
