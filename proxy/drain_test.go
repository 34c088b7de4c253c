package proxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"sync"
	"testing"

	"spectap/collector"
)

func TestSeveralHundredStreams(t *testing.T) {
	const streams = 700
	var started sync.WaitGroup
	started.Add(streams)
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		for c.request() != nil {
			c.send(streamHead, chunk(tokenEvent("a")))
			started.Done()
			started.Wait() // all at once
			c.send(chunk(finishEvent), chunk(doneEvent), lastChunk)
		}
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	base := openFiles(t)
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			c, err := net.Dial("tcp", p.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			_, _ = io.WriteString(c, post(chatPath, chatStream, "Connection: close"))
			got, err := io.ReadAll(c)
			if err != nil || !bytes.Contains(got, []byte("[DONE]")) || !bytes.HasSuffix(got, []byte(lastChunk)) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	wg.Wait()
	for range streams {
		if rec := p.recs.next(t); rec.ErrorKind != "" {
			t.Fatalf("got kind %q", rec.ErrorKind)
		}
	}
	p.pool.close()
	eventually(t, "file descriptors back at their base", func() bool { return openFiles(t) <= base })
	if n := p.flights.count(); n != 0 {
		t.Errorf("got %d flights left", n)
	}
}

func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

func TestDrain(t *testing.T) {
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		if c.request() != nil {
			c.send(streamHead, chunk(tokenEvent("a")))
			arrived <- struct{}{}
			select {
			case <-release:
				c.send(chunk(doneEvent), lastChunk)
			case <-t.Context().Done():
			}
			c.gone()
		}
	})
	f := func(finish bool) {
		t.Helper()
		p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
		c := connect(t, p.addr)
		c.send(post(chatPath, chatStream))
		resp := c.answer("POST")
		<-arrived
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := p.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		}()
		eventually(t, "readiness off", func() bool { return askAdmin(p, "/readyz").Code == 503 })
		if finish {
			close(release)
		} else {
			cancel()
		}
		_, err := io.ReadAll(resp.Body)
		if (err == nil) != finish {
			t.Errorf("finish %v: got error %v", finish, err)
		}
		wait(t, "shutdown", done)
		want := map[bool]string{true: collector.ErrNotFinished, false: collector.ErrDrained}[finish]
		if rec := p.recs.next(t); rec.ErrorKind != want && !(finish && rec.ErrorKind == "") {
			t.Errorf("finish %v: got kind %q, want %q", finish, rec.ErrorKind, want)
		}
	}
	f(false)
	f(true)
}
