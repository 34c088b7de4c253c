package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"spectap/collector"
)

// afterHandle lets a test change the stream of an answer before it runs.
func afterHandle(change func(*stream)) func(*Server) {
	return func(s *Server) {
		s.http.Handler = func(ctx *fasthttp.RequestCtx) {
			s.handle(ctx)
			if b, ok := ctx.Response.BodyStream().(*stream); ok {
				change(b)
			}
		}
	}
}

// A write that fails behind [DONE] ends the flight well, but the connection
// whose last chunk was not read must not serve another request.
func TestUnreadConnectionIsNotPooled(t *testing.T) {
	left, closed := make(chan struct{}), make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		c.send(streamHead, chunk(tokenEvent("a")), chunk(finishEvent), chunk(doneEvent))
		<-left
		for range 1000 {
			if _, err := io.WriteString(c, chunk(": ping\n\n")); err != nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		close(closed)
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), afterHandle(func(b *stream) {
		b.s.watcher.disarm(b.f.client, b.f.watch) // only the failing write tells
	}))
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	want := tokenEvent("a") + finishEvent + doneEvent
	if _, err := io.ReadFull(c.answer("POST").Body, make([]byte, len(want))); err != nil {
		t.Fatal(err)
	}
	leave(c, "rst")
	close(left)
	if rec := p.recs.next(t); rec.ErrorKind != "" || !rec.SawDone {
		t.Errorf("got kind %q, done %v; want a whole answer", rec.ErrorKind, rec.SawDone)
	}
	if n := p.pool.idleCount(); n != 0 {
		t.Errorf("got %d idle connections, want none: its answer was not read to the end", n)
	}
	wait(t, "connection closed", closed)
}

// limited is a connection that keeps its read limit.
type limited struct {
	net.Conn
	limit time.Time
}

func (l *limited) SetReadDeadline(d time.Time) error { l.limit = d; return nil }

// The limit for an engine that does not end its answer, set when the client
// left behind the last event, is not taken away by the stream's own.
func TestLimitOfCancelStays(t *testing.T) {
	c := &limited{}
	f := &flight{}
	f.attach(c)
	f.finished.Store(true)
	f.cancel(errClientGone)
	set := c.limit
	if set.IsZero() {
		t.Fatal("cancel set no limit")
	}
	if err := f.setReadDeadline(c, time.Time{}); err != nil || !c.limit.Equal(set) {
		t.Errorf("got limit %v, %v; want %v", c.limit, err, set)
	}
}

// A client that does not read holds neither memory nor the shutdown.
func TestShutdownWithClientThatDoesNotRead(t *testing.T) {
	stuck := make(chan int, 1)
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		c.send(streamHead)
		event, sent := chunk("data: "+strings.Repeat("x", 60000)+"\n\n"), 0
		for {
			_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			n, err := io.WriteString(c, event)
			if sent += n; err != nil {
				break
			}
		}
		stuck <- sent
		c.gone()
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	if sent := <-stuck; sent > 64<<20 {
		t.Errorf("the engine could send %d bytes to a client that does not read", sent)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Shutdown(ctx) }()
	wait(t, "shutdown", done)
	if rec := p.recs.next(t); rec.ErrorKind != collector.ErrDrained || rec.SpecMissing != collector.MissingTruncated {
		t.Errorf("got kind %q, %q missing; want %q", rec.ErrorKind, rec.SpecMissing, collector.ErrDrained)
	}
}

// A request that slips in while Shutdown cuts the others is refused, not waited for.
func TestRequestAfterShutdown(t *testing.T) {
	var fs flights
	wait(t, "no flights", fs.cancelAll(errDrained))
	f := &flight{clock: clock{time.Now()}, rec: &collector.Record{}}
	fs.add(f)
	if !errors.Is(f.cancelled(), errDrained) || f.attach(&limited{}) {
		t.Errorf("got cause %v, want %v and no connection", f.cancelled(), errDrained)
	}
	if no := upstreamFailure(f, stageDial, errClientGone); no.status != 503 || no.kind != collector.ErrDrained {
		t.Errorf("got status %d, kind %q; want 503, %q", no.status, no.kind, collector.ErrDrained)
	}
}
