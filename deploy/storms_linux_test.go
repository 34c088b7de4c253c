package deploy

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// startEngineAt starts the simulated engine on an address of its own choice.
func startEngineAt(t *testing.T, address string) *process {
	t.Helper()
	p := start(t, nil, command(t, "fakevllm"), "--listen", address, "--seed", "7", "--prefill", "20ms", "--step", "40ms", "--step_per_request", "0", "--eos", "0")
	p.printed(t, `fakevllm: .* on (http://[0-9.:]+),`)
	return p
}

// kill ends a process as the kernel does when memory runs out.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
}

// stormReply takes a second.
var stormReply = prompt{number: 1, tokens: 64, stream: true}

// kindSeen is the error kind that an answer's Record must have; false for an
// answer that no fault of the engine explains.
func kindSeen(text, want string, err error) (kinds []string, ok bool) {
	switch {
	case err == nil && text == want:
		return []string{""}, true
	case errors.Is(err, io.ErrUnexpectedEOF) && strings.HasPrefix(text, "200 text/event-stream"):
		return []string{"truncated"}, true
	case err == nil && strings.HasPrefix(text, "502 application/json") && strings.Contains(text, "spectap_upstream_"):
		return []string{"upstream_refused", "upstream_reset"}, true
	}
	return nil, false
}

// An engine that is killed under 200 streams, and comes back, three times: every
// client is told, goes on when the engine does, and nothing is left over in the
// proxy or between it and the engine.
func TestEngineKilledUnderLoad(t *testing.T) {
	t.Parallel()
	const clients, rounds = 200, 3
	address := refused(t)
	engine := startEngineAt(t, address)
	path := filepath.Join(t.TempDir(), "records.jsonl")
	p := startProxy(t, nil, "http://"+address, "--records", path, "--pprof")
	direct := &caller{address: address}
	want, err := direct.ask(stormReply, "direct")
	direct.hangUp(false)
	if err != nil {
		t.Fatal(err)
	}
	base := p.atRest(t)
	base.routines++ // fasthttp's keeper of the date comes with the first answer
	stop, asking := make(chan struct{}), sync.WaitGroup{}
	var seen sync.Map // error kinds by request id
	for n := range clients {
		asking.Go(func() {
			c := &caller{address: hostOf(p.URL)}
			defer func() { c.hangUp(false) }()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("e%d-%d", n, i)
				text, err := c.ask(stormReply, id)
				kinds, ok := kindSeen(text, want, err)
				if !ok {
					t.Errorf("%s: %v\n got %q", id, err, text)
				}
				seen.Store(id, kinds)
				if err != nil {
					c.hangUp(false)
				} else if kinds[0] != "" {
					time.Sleep(50 * time.Millisecond) // as clients that try again do
				}
			}
		})
	}
	for range rounds {
		before := p.status(t)
		poll(t, "all streams", func() bool {
			now := p.status(t)
			return now.InFlight == clients && now.Outcomes["ok"] >= before.Outcomes["ok"]+clients/2
		})
		engine.kill(t)
		poll(t, "streams that broke off", func() bool { return p.status(t).Outcomes["truncated"] >= before.Outcomes["truncated"]+clients/2 })
		engine = startEngineAt(t, address)
	}
	engineBase := engine.files(t)
	last := p.status(t)
	poll(t, "whole answers again", func() bool { return p.status(t).Outcomes["ok"] >= last.Outcomes["ok"]+clients })
	close(stop)
	asking.Wait()
	p.backTo(t, base)
	poll(t, "no connection at the engine", func() bool { return engine.files(t) <= engineBase })
	status := p.status(t)
	p.stop(t)
	recs, n := recordsByRequest(t, path), 0
	seen.Range(func(id, kinds any) bool {
		n++
		if r, ok := recs[id.(string)]; !ok || !strings.Contains(" "+strings.Join(kinds.([]string), " ")+" ", " "+r.ErrorKind+" ") {
			t.Errorf("%s: the client saw %q, the Record says %+v", id, kinds, r)
		}
		return true
	})
	if len(recs) != n || status.Requests != n || status.IdleUpstream != 0 || status.ClientConnections != 0 {
		t.Errorf("got %d Records of %d requests, %+v", len(recs), n, status)
	}
	t.Logf("%d requests: %v", n, kindsOf(recs))
}
