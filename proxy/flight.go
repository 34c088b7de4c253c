package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"spectap/collector"
	"spectap/proxy/tap"
)

// Why a flight was ended before its answer did.
var (
	errClientGone = errors.New("client closed its connection")
	errDrained    = errors.New("proxy is shutting down")
)

// afterEnd is how long the engine may take to end an answer whose last event
// was passed on to a client that has left since.
const afterEnd = time.Second

// flight is one request on its way. The client's connection goroutine owns it;
// only the fields below mu are shared, with the watcher and with Shutdown.
type flight struct {
	clock
	rec      *collector.Record
	measured bool      // a Record is emitted
	route    tap.Route // of the request's path
	sent     Request   // what Policy made of it
	client   net.Conn
	watch    uint64 // number at the watcher; 0 when not armed
	upgrade  bool   // the client asked for a WebSocket
	hints    bool   // the client understands interim answers
	observed func(*collector.Record)
	replaced []string    // names of the fields that the observer set or removed
	finished atomic.Bool // the route's last event was passed on
	admitted bool        // counts among Server.calls

	mu     sync.Mutex
	conn   net.Conn // upstream, while this flight owns it
	undial context.CancelFunc
	cause  error // why the flight was cancelled; nil while it goes on
	ended  bool
}

// peerLeft implements leaver: the client has gone.
func (f *flight) peerLeft() { f.cancel(errClientGone) }

// cancel closes the upstream connection under the lock that release takes, so
// that it never hits a connection that is back in the pool. A cancel that comes
// before there is a connection is kept. What is being written to the client
// gets a last limit: one that does not read would hold the flight for ever.
func (f *flight) cancel(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.cause != nil {
		return
	}
	f.cause = cause
	if f.undial != nil {
		f.undial()
	}
	if f.client != nil {
		_ = f.client.SetWriteDeadline(time.Now().Add(afterEnd))
	}
	if f.conn == nil {
		return
	}
	if cause == errClientGone && f.finished.Load() {
		_ = f.conn.SetReadDeadline(time.Now().Add(afterEnd))
		return
	}
	_ = f.conn.Close()
}

// setReadDeadline limits the next wait for the engine; the limit that cancel
// has set stays.
func (f *flight) setReadDeadline(c net.Conn, d time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cause != nil {
		return nil
	}
	return c.SetReadDeadline(d)
}

// interim passes an interim answer on, to a client that can have one (RFC 9110
// section 15.2). A 100 is for who asked for it: fasthttp did that already. Whether
// the client takes it does not matter; the watcher notices one that left.
func (f *flight) interim(h *fasthttp.ResponseHeader) {
	if f.hints && h.StatusCode() != fasthttp.StatusContinue {
		_, _ = f.client.Write(appendInterim(nil, h))
	}
}

// cancelled returns why the flight was cancelled, or nil.
func (f *flight) cancelled() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cause
}

// dialing returns a context that cancel ends.
func (f *flight) dialing() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cause != nil {
		cancel()
	}
	f.undial = cancel
	return ctx
}

// attach makes the flight own an upstream connection; false if it was cancelled.
func (f *flight) attach(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.undial != nil {
		f.undial()
		f.undial = nil
	}
	if f.cause != nil {
		return false
	}
	f.conn = c
	return true
}

// detach ends the ownership: no cancel closes the connection any more.
func (f *flight) detach() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conn = nil
}

// end makes every later cancel a no-op.
func (f *flight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	if f.undial != nil {
		f.undial()
		f.undial = nil
	}
}

// flights are all requests on their way.
type flights struct {
	mu    sync.Mutex
	all   map[*flight]struct{}
	empty chan struct{} // closed when the last one ends; nil while nobody waits
	cause error         // of cancelAll: what is added later is cancelled, too
}

func (fs *flights) add(f *flight) {
	fs.mu.Lock()
	if fs.all == nil {
		fs.all = make(map[*flight]struct{})
	}
	fs.all[f] = struct{}{}
	cause := fs.cause
	fs.mu.Unlock()
	if cause != nil {
		f.cancel(cause)
	}
}

func (fs *flights) remove(f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.all, f)
	if len(fs.all) == 0 && fs.empty != nil {
		close(fs.empty)
		fs.empty = nil
	}
}

func (fs *flights) count() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.all)
}

// wait returns when there is no flight, or ctx has ended.
func (fs *flights) wait(ctx context.Context) {
	fs.mu.Lock()
	empty := fs.whenEmpty()
	fs.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}

// whenEmpty returns a channel that is closed when all flights have ended.
func (fs *flights) whenEmpty() <-chan struct{} {
	if len(fs.all) == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	if fs.empty == nil {
		fs.empty = make(chan struct{})
	}
	return fs.empty
}

// cancelAll cancels every flight, running or to come, and returns a channel that is closed when all have ended.
func (fs *flights) cancelAll(cause error) <-chan struct{} {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.cause = cause
	for f := range fs.all {
		f.cancel(cause)
	}
	return fs.whenEmpty()
}
