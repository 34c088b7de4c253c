package deploy

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A proxy that may open 256 files, with 400 clients: the streams that run go on,
// accepting waits, the log says what to raise, whoever is refused is told why, and
// afterwards all is as before.
func TestFileLimit(t *testing.T) {
	t.Parallel()
	const first, more = 100, 300 // a stream takes two descriptors
	engine := slowEngine(t)
	long, short := prompt{number: 1, tokens: 400, stream: true}, prompt{number: 2, tokens: 16, stream: true}
	direct := &caller{address: hostOf(engine)}
	want := map[prompt]string{}
	for _, one := range []prompt{long, short} {
		text, err := direct.ask(one, "direct")
		if err != nil {
			t.Fatal(err)
		}
		want[one] = text
	}
	direct.hangUp(false)
	path := filepath.Join(t.TempDir(), "records.jsonl")
	limited := start(t, nil, "/bin/sh", "-c", `ulimit -n 256; exec "$0" "$@"`, command(t, "spectap"), "proxy", "--upstream", engine,
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log_format", "json", "--records", path, "--pprof")
	p := &proxyProcess{process: limited, URL: "http://" + limited.printed(t, `"listen":"([0-9.:]+)"`), Admin: "http://" + limited.printed(t, `"admin":"([0-9.:]+)"`)}
	base := p.atRest(t)
	base.routines++ // fasthttp's keeper of the date comes with the first answer

	var clients sync.WaitGroup
	var begun sync.WaitGroup
	begun.Add(first)
	for n := range first {
		clients.Go(func() {
			c := &caller{address: hostOf(p.URL)}
			defer func() { c.hangUp(false) }()
			id := fmt.Sprint("first-", n)
			err := c.send(long, id)
			if err == nil {
				_, err = c.in.Peek(1)
			}
			begun.Done()
			if err != nil {
				t.Errorf("%s: %v", id, err)
				return
			}
			if got, err := c.answer(); err != nil || got != want[long] {
				t.Errorf("%s: %v\n got %q\nwant %q", id, err, got, want[long])
			}
		})
	}
	begun.Wait()
	var mu sync.Mutex
	answers := map[string]int{}
	for n := range more {
		clients.Go(func() {
			c := &caller{address: hostOf(p.URL)}
			defer func() { c.hangUp(false) }()
			got, err := c.ask(short, fmt.Sprint("more-", n))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Errorf("more-%d: %v after %q", n, err, got)
			case got == want[short]:
				answers["whole"]++
			default:
				answers[got]++
			}
		})
	}
	clients.Wait()
	for text := range answers {
		if text != "whole" && !(strings.HasPrefix(text, "503 application/json") && strings.Contains(text, "raise its limit of open files (ulimit -n)")) {
			t.Errorf("got answer %q, want a whole one, or one that says why", text)
		}
	}
	if answers["whole"] == 0 {
		t.Error("no client that had to wait got an answer")
	}
	p.backTo(t, base)
	c := &caller{address: hostOf(p.URL)}
	if got, err := c.ask(short, "afterwards"); err != nil || got != want[short] {
		t.Errorf("afterwards: %v, %q", err, got)
	}
	c.hangUp(false)
	p.stop(t)
	logged := p.logged(t)
	const told = "cannot accept a connection now; raise the limit of open files (ulimit -n) if it goes on"
	if logged[told] == 0 {
		t.Errorf("got log lines %v, want %q", logged, told)
	}
	if recs := recordsByRequest(t, path); len(recs) != first+more+1 {
		t.Errorf("got %d Records, want %d: %v", len(recs), first+more+1, kindsOf(recs))
	}
	t.Logf("answers %v, log %v", answers, logged)
}
