package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// drainTime is shorter than the long replies of these tests, and longer than the short ones.
const drainTime = 6 * time.Second

var (
	shortReply  = prompt{number: 1, tokens: 48, stream: true}    // a second
	longReply   = prompt{number: 2, tokens: 30000, stream: true} // seven minutes
	silentReply = prompt{number: 3, tokens: 30000}               // and nothing before the end
)

// ending is how a request ended for its client.
type ending struct {
	id, text string
	err      error
}

// underLoad are clients whose requests are all on their way.
type underLoad struct {
	endings chan ending
	clients sync.WaitGroup
}

// loadProxy asks n times for each kind of reply, and returns when the proxy has all
// of them and each stream has begun. Further clients stay connected and ask nothing.
func loadProxy(t *testing.T, p *proxyProcess, n int, kinds ...prompt) *underLoad {
	t.Helper()
	u := &underLoad{endings: make(chan ending, n*len(kinds))}
	var begun sync.WaitGroup
	for _, kind := range kinds {
		for i := range n {
			begun.Add(1)
			u.clients.Go(func() {
				id := fmt.Sprintf("%d-%d", kind.number, i)
				c := &caller{address: hostOf(p.URL)}
				defer func() { c.hangUp(false) }()
				err := c.send(kind, id)
				if err == nil && kind.stream {
					_, err = c.in.Peek(1)
				}
				begun.Done()
				end := ending{id: id, err: err}
				if err == nil {
					end.text, end.err = c.answer()
				}
				u.endings <- end
			})
		}
	}
	begun.Wait()
	poll(t, "all requests in flight", func() bool { return p.status(t).InFlight == n*len(kinds) })
	idle, err := net.Dial("tcp", hostOf(p.URL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = idle.Close() })
	return u
}

// all waits for the clients and returns how each request ended.
func (u *underLoad) all() map[string]ending {
	u.clients.Wait()
	close(u.endings)
	ends := map[string]ending{}
	for e := range u.endings {
		ends[e.id] = e
	}
	return ends
}

// signal sends a signal and waits until the proxy takes no more: not ready, and no connection.
func (p *proxyProcess) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	poll(t, "readiness off", func() bool {
		text, err := fetch(p.Admin + "/readyz")
		return err == nil && strings.TrimSpace(string(text)) == "draining"
	})
	poll(t, "no new connection", func() bool {
		c, err := net.Dial("tcp", hostOf(p.URL))
		if err == nil {
			_ = c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}

// ends waits for the end of the process and checks its exit code.
func (p *proxyProcess) ends(t *testing.T, code int) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(drainTime + stopTimeout):
		t.Fatal("the proxy did not end")
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("got exit code %d, want %d", got, code)
	}
}

// slowEngine takes 40 ms for a step of 2 or 3 tokens.
func slowEngine(t *testing.T) string {
	t.Helper()
	return startEngine(t, "--prefill", "20ms", "--step", "40ms", "--step_per_request", "0", "--eos", "0")
}

// SIGTERM under load: what ends within the drain time ends whole, what does not
// is cut, so that no client takes it for whole, and the file and the collector
// have all of it.
func TestTermUnderLoad(t *testing.T) {
	t.Parallel()
	const n = 16
	engine := slowEngine(t)
	direct := &caller{address: hostOf(engine)}
	defer direct.hangUp(false)
	want, err := direct.ask(shortReply, "direct")
	if err != nil {
		t.Fatal(err)
	}
	f := func(name, collector string, sink *receiver) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "records.jsonl")
			p := startProxy(t, otlp(collector), engine, "--records", path, "--drain_timeout", drainTime.String())
			u := loadProxy(t, p, n, shortReply, longReply, silentReply)
			p.signal(t, syscall.SIGTERM)
			if status := p.status(t); status.InFlight != 3*n {
				t.Logf("%d of %d requests are left when the signal has come", status.InFlight, 3*n)
			}
			ends := u.all()
			p.ends(t, 0)
			recs := recordsByRequest(t, path)
			for i := range n {
				whole, cut, silent := ends[fmt.Sprintf("1-%d", i)], ends[fmt.Sprintf("2-%d", i)], ends[fmt.Sprintf("3-%d", i)]
				if whole.err != nil || whole.text != want || recs[whole.id].ErrorKind != "" || !recs[whole.id].SawDone {
					t.Errorf("short: got %+v, %+v\nwant %q", whole, recs[whole.id], want)
				}
				if !errors.Is(cut.err, io.ErrUnexpectedEOF) || !strings.HasPrefix(cut.text, "200 text/event-stream") || recs[cut.id].ErrorKind != "drained" || recs[cut.id].Status != 200 {
					t.Errorf("long: got %d bytes, %v, %+v; want an end that is none", len(cut.text), cut.err, recs[cut.id])
				}
				if silent.err != nil || !strings.HasPrefix(silent.text, "503 application/json") || !strings.Contains(silent.text, "spectap_draining") || recs[silent.id].ErrorKind != "drained" || recs[silent.id].Status != 503 {
					t.Errorf("silent: got %+v, %+v; want a 503", silent, recs[silent.id])
				}
			}
			if len(recs) != 3*n {
				t.Errorf("got %d records, want %d: %v", len(recs), 3*n, kindsOf(recs))
			}
			if sink != nil && sink.spans.Load() != 2*3*n {
				t.Errorf("got %d spans, want %d", sink.spans.Load(), 2*3*n)
			}
		})
	}
	sink := startReceiver(t, 0)
	f("collector", sink.address, sink)
	f("collector refuses", refused(t), nil)
}

// A second SIGTERM cuts at once, and loses nothing that was measured.
func TestTermTwice(t *testing.T) {
	t.Parallel()
	const n = 32
	sink := startReceiver(t, 0)
	path := filepath.Join(t.TempDir(), "records.jsonl")
	p := startProxy(t, otlp(sink.address), slowEngine(t), "--records", path, "--drain_timeout", "1h")
	u := loadProxy(t, p, n, longReply)
	p.signal(t, syscall.SIGTERM)
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil { // one of the same kind could be the first one doubled
		t.Fatal(err)
	}
	for id, end := range u.all() {
		if !errors.Is(end.err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: got %d bytes, %v; want an end that is none", id, len(end.text), end.err)
		}
	}
	p.ends(t, 0)
	if kinds := kindsOf(recordsByRequest(t, path)); kinds["drained"] != n || len(kinds) != 1 {
		t.Errorf("got records %v, want %d that were drained", kinds, n)
	}
	if sink.spans.Load() != 2*n {
		t.Errorf("got %d spans, want %d", sink.spans.Load(), 2*n)
	}
}

// SIGKILL leaves whole lines. One that the kernel tore is a line of its own, and
// the next proxy that appends to the file begins behind it.
func TestKilledLeavesLines(t *testing.T) {
	t.Parallel()
	engine := startEngine(t, "--prefill", "1ms", "--step", "1ms")
	path := filepath.Join(t.TempDir(), "records.jsonl")
	p := startProxy(t, nil, engine, "--records", path)
	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			c := &caller{address: hostOf(p.URL)}
			defer func() { c.hangUp(false) }()
			for k := 0; ; k++ {
				if _, err := c.ask(prompt{number: i, tokens: 16, stream: true}, fmt.Sprintf("k%d-%d", i, k)); err != nil {
					return
				}
			}
		})
	}
	poll(t, "a hundred records", func() bool { return p.status(t).Requests > 100 })
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	clients.Wait()
	<-p.ended
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := bytes.Count(text, []byte("\n"))
	if whole < 50 {
		t.Fatalf("got %d lines", whole)
	}
	text = append(text[:bytes.LastIndexByte(text, '\n')+1], text[bytes.LastIndexByte(text[:len(text)-1], '\n')+1:][:40]...) // as torn
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	again := startProxy(t, nil, engine, "--records", path)
	c := &caller{address: hostOf(again.URL)}
	if _, err := c.ask(shortReply, "again"); err != nil {
		t.Fatal(err)
	}
	c.hangUp(false)
	again.stop(t)
	if text, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	bad, last := 0, recordLine{}
	for line := range bytes.Lines(text) {
		if json.Unmarshal(line, &last) != nil {
			bad++
		}
	}
	if bad != 1 || last.RequestID != "again" || !bytes.HasSuffix(text, []byte("\n")) {
		t.Errorf("got %d bad lines and a last record of %q, want one and the new one", bad, last.RequestID)
	}
}
