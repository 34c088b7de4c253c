package proxy

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/valyala/fasthttp"

	"spectap/collector"
)

// relayed is a connection that left HTTP for WebSocket: bytes go both ways as they
// come, until both sides have ended. Nothing of them is read.
//
//	client ──▶ fasthttp's reader, with what stood behind the request ──▶ engine
//	client ◀── the exchange's reader, with what stood behind the 101 ◀── engine
//
// fasthttp gives the connection away for it and no longer counts it: the flight
// does, so that Shutdown waits for the relay, and then cuts it.
type relayed struct {
	s    *Server
	f    *flight
	x    *exchange
	head []byte // the 101 as the client gets it
	up   way    // client to engine
	down way    // engine to client

	broken sync.Once
	kind   string // why the relay was cut; "" where both sides ended
	text   string
}

// relayBuffer holds one read of the client. What it does not take at once stays
// in the sockets: a side that does not read holds up the other one.
const relayBuffer = 16 << 10

// upgrades says whether a request asks for a WebSocket. Any other protocol, and
// an Upgrade that is not named by Connection, is ignored, as uvicorn does: the
// request is served as HTTP/1.1 (RFC 9110 section 7.8).
func upgrades(h *fasthttp.RequestHeader) bool {
	if !h.IsGet() || !h.IsHTTP11() {
		return false
	}
	asked := h.PeekAll(fasthttp.HeaderUpgrade)
	if len(asked) != 1 || !isField(asked[0], "websocket") {
		return false
	}
	return namedBy(h.PeekAll(fasthttp.HeaderConnection), []byte("upgrade"))
}

// appendUpgrade appends the fields that ask for another protocol, or switch to it.
func appendUpgrade(dst, to []byte) []byte {
	return appendField(appendField(dst, fasthttp.HeaderConnection, "Upgrade"), fasthttp.HeaderUpgrade, string(to))
}

// upgradeOf returns the protocol that an answer names, or nil.
func upgradeOf(h *fasthttp.ResponseHeader) []byte {
	for name, value := range h.All() {
		if isField(name, fasthttp.HeaderUpgrade) {
			return value
		}
	}
	return nil
}

// appendInterim appends the head of an interim answer as the client gets it.
func appendInterim(dst []byte, h *fasthttp.ResponseHeader) []byte {
	message := h.StatusMessage()
	if len(message) == 0 {
		message = []byte(fasthttp.StatusMessage(h.StatusCode()))
	}
	dst = fmt.Appendf(dst, "HTTP/1.1 %d %s\r\n", h.StatusCode(), message)
	h.SetNoDefaultContentType(true) // or All invents one
	if h.StatusCode() == fasthttp.StatusSwitchingProtocols {
		dst = appendUpgrade(dst, upgradeOf(h))
	}
	var named [][]byte
	for name, value := range h.All() {
		if isField(name, fasthttp.HeaderConnection) {
			named = append(named, value)
		}
	}
	for name, value := range h.All() {
		if !hopByHop(name) && !namedBy(named, name) {
			dst = appendField(dst, string(name), string(value))
		}
	}
	return append(dst, "\r\n"...)
}

// relay takes over the connections of a request whose engine switched protocols.
func (s *Server) relay(ctx *fasthttp.RequestCtx, f *flight, x *exchange) {
	at, _ := x.conn.arrival(f.clock)
	f.rec.ResponseHead = collector.At(at)
	s.watcher.disarm(f.client, f.watch) // a half-close is the relay's business
	f.watch = 0
	if !f.attach(bothEnds{x.conn, f.client}) {
		s.discard(x)
		s.fail(ctx, f, upstreamFailure(f, stageHead, errClientGone))
		return
	}
	f.rec.Status = fasthttp.StatusSwitchingProtocols
	r := &relayed{s: s, f: f, x: x, head: appendInterim(nil, &x.head)}
	s.waiting.add(f.client, r)
	ctx.HijackSetNoResponse(true) // or fasthttp skips the relay while it shuts down
	ctx.Hijack(r.run)
}

// run is called on a goroutine of its own, on which a panic would kill the process.
func (r *relayed) run(c net.Conn) {
	defer r.recovered()
	r.s.waiting.take(r.f.client)
	r.carry(c)
	r.end()
}

// carry returns when both ways have ended.
func (r *relayed) carry(c net.Conn) {
	defer r.recovered()
	r.down.from, r.down.to, r.down.read = r.x.conn, r.f.client, r.fromEngine
	r.up.from, r.up.to, r.up.read = r.f.client, r.x.conn, reader(c)
	if _, err := r.f.client.Write(r.head); err != nil {
		r.broke(&r.up, err)
		return
	}
	var both sync.WaitGroup
	both.Go(func() { r.pass(&r.up, &r.down) })
	both.Go(func() { r.pass(&r.down, &r.up) })
	both.Wait()
}

// end closes both connections and lands the flight. A relayed connection is no
// generation, so there is no Record of it at the sink; an observer gets one whose
// bytes are those that were relayed.
func (r *relayed) end() {
	r.f.detach()
	r.s.discard(r.x)
	_ = r.f.client.Close()
	rec := r.f.rec
	rec.RequestBytes += r.up.bytes
	rec.ResponseBytes = r.down.bytes
	if r.down.bytes > 0 {
		at, _ := r.x.conn.arrival(r.f.clock)
		rec.LastByte = collector.At(at)
	}
	rec.ErrorKind, rec.Error = r.kind, r.text
	r.s.fillUnmeasured(rec)
	r.s.land(r.f)
}

// recovered cuts a relay that panicked.
func (r *relayed) recovered() {
	if recover() == nil {
		return
	}
	r.s.counts.panics.Add(1)
	r.cut(collector.ErrInternal, "a panic was recovered", abruptly)
}

// broke cuts a relay one of whose sides failed. The other side is reset, as the
// failed one would have reset it. What a side sent before it ended was passed on,
// so its failure afterwards is none.
func (r *relayed) broke(side *way, err error) {
	how, limit := abruptly, errors.Is(err, os.ErrDeadlineExceeded) // ours; a peer that vanished times out, too
	if limit {
		how = gently
	}
	switch cause := r.f.cancelled(); {
	case cause == errDrained:
		r.cut(collector.ErrDrained, cause.Error(), gently)
	case cause != nil: // the client left while its connection was taken over
		r.cut(collector.ErrClientGone, cause.Error(), gently)
	case side.ended.Load():
		r.cut("", "", how)
	case side == &r.up && limit: // the engine had ended
		r.cut("", "", how)
	case side == &r.up:
		r.cut(collector.ErrClientGone, errClientGone.Error(), how)
	case limit:
		r.cut(collector.ErrStalled, errSilent.Error(), how)
	default:
		r.cut(collector.ErrTruncated, errBroken.Error(), how)
	}
}

var (
	errBroken = errors.New("upstream's connection broke while it was relayed")
	errSilent = errors.New("upstream was silent after the client had ended; see --idle_timeout (SPECTAP_IDLE_TIMEOUT)")
)

// closing is how a relay is cut.
type closing int

const (
	gently closing = iota // what was written still arrives
	abruptly
)

// cut closes both connections; only the first reason counts.
func (r *relayed) cut(kind, text string, how closing) {
	r.broken.Do(func() {
		r.kind, r.text = kind, text
		for _, c := range []net.Conn{r.x.conn.socket, r.f.client} {
			if l, ok := c.(interface{ SetLinger(sec int) error }); ok && how == abruptly {
				_ = l.SetLinger(0) // fails on a closed socket only
			}
		}
		_ = bothEnds{r.x.conn, r.f.client}.Close()
	})
}

// bothEnds is what a flight owns while it is relayed: a cancel closes both.
type bothEnds struct {
	net.Conn
	client net.Conn
}

// Close implements net.Conn.
func (b bothEnds) Close() error { return errors.Join(b.Conn.Close(), b.client.Close()) }

// waitingRelays are relays whose connection fasthttp has not given away yet. It
// does not where the client left in that moment.
type waitingRelays struct {
	mu  sync.Mutex
	all map[net.Conn]*relayed
}

func (w *waitingRelays) add(client net.Conn, r *relayed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = make(map[net.Conn]*relayed)
	}
	w.all[client] = r
}

// take returns the relay that waits for a connection, or nil.
func (w *waitingRelays) take(client net.Conn) *relayed {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.all[client]
	delete(w.all, client)
	return r
}

// connState ends the relay of a connection that fasthttp closed instead of giving it away.
func (s *Server) connState(c net.Conn, state fasthttp.ConnState) {
	if state != fasthttp.StateClosed {
		return
	}
	if r := s.waiting.take(c); r != nil {
		r.broke(&r.up, errClientGone)
		r.end()
	}
}
