// Package proxy stands in front of a language-model server, passes every
// request and answer on as it comes, and makes one collector.Record of each
// generation. It does all the I/O and reads all the clocks; what an answer
// means is package tap's business, what a Record is worth package collector's.
//
//	client ──▶ Server.handle ──▶ Policy ──▶ roundTrip ──▶ engine
//	client ◀── stream.WriteTo ◀── Cutter ◀── dechunk ◀─── engine
//	                  └──▶ tap ──▶ Record ──▶ Sink
//
// Start with Server.handle.
package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"spectap/collector"
	"spectap/proxy/tap"
)

// Server is the proxy of one engine.
type Server struct {
	// Observer is told of every request; nil is none. It is set before Serve.
	Observer collector.Observer

	cfg      Config
	to       endpoint
	policy   Policy
	captures captures
	sink     collector.Sink
	log      zerolog.Logger
	http     *fasthttp.Server
	pool     *pool
	watcher  *watcher
	serving  listeners
	readers  sync.Pool // *bufio.Reader on upstream connections, of readBuffer
	wide     sync.Pool // the same, of wideBuffer
	stays    sync.Pool // *residences
	taps     sync.Pool // *tap.Tap, with their buffers
	cutters  sync.Pool // *cutting
	buffers  sync.Pool // *[]byte for request heads and changed bodies
	flights  flights
	uploads  uploads
	waiting  waitingRelays
	counts   counts
	calls    atomic.Int64 // model calls on their way; counted with SPECTAP_MAX_IN_FLIGHT only
	probe    *prober

	engine   atomic.Value // Engine
	stopping atomic.Bool
	stopOnce sync.Once
	unstamp  func()
	records  atomic.Uint64 // numbers Record.ID
	prefix   string        // of Record.ID: the start of this Server
}

// New makes a Server that sends Records to sink. The caller closes sink after Shutdown.
func New(cfg Config, sink collector.Sink, log zerolog.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	to, err := parseUpstream(cfg.Upstream)
	if err != nil {
		return nil, fmt.Errorf("cannot use upstream %q: %w", cfg.Upstream, err)
	}
	policy, err := newPolicy(cfg)
	if err != nil {
		return nil, err
	}
	w, err := newWatcher()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, to: to, policy: policy, captures: cfg.captures(), sink: sink, log: log, watcher: w}
	s.prefix = fmt.Sprintf("%x-", time.Now().UnixNano())
	s.engine.Store(EngineUnknown)
	if cfg.Engine != "auto" {
		s.engine.Store(Engine(cfg.Engine))
	}
	s.pool = &pool{dialer: newDialer(to, cfg.ConnectTimeout), watcher: w, limit: cfg.UpstreamIdle}
	s.probe = newProber(s)
	s.unstamp = holdStamps()
	s.http = s.server()
	return s, nil
}

// Engine returns the engine behind the proxy; EngineUnknown until it is found.
func (s *Server) Engine() Engine { return s.engine.Load().(Engine) }

// handle takes one request from the end of its head to the head of its answer. The
// body of the answer follows in stream.WriteTo, on the same goroutine, after
// handle has returned.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	_ = ctx.SetWriteDeadline(time.Time{}) // so that fasthttp writes this answer before it takes a pipelined request up
	refused := refusal(ctx)
	var body []byte
	if refused == nil {
		var broken *failure
		if body, broken = s.receive(ctx); broken != nil {
			s.refuse(ctx, broken)
			return
		}
	}
	defer clientOf(ctx).body.free()
	f := s.takeOff(ctx, len(body))
	defer s.recovered(ctx, f)
	if refused != nil {
		s.begin(ctx, f)
		s.fail(ctx, f, refused)
		return
	}
	buf := s.buffer()
	defer s.buffers.Put(buf)
	room := s.buffer()
	defer s.buffers.Put(room)
	body = s.rewrite(f, room, body)
	if f.sent.Rewritten {
		clientOf(ctx).body.changed(body)
	}
	s.begin(ctx, f)
	if no := s.admit(f); no != nil {
		s.fail(ctx, f, no)
		return
	}
	*buf = s.appendHead((*buf)[:0], ctx, f, len(body))

	f.watch = s.watcher.arm(f.client, f) // before dialing, so that no leaving is missed
	x, err := s.roundTrip(f, *buf, body)
	if err != nil {
		s.fail(ctx, f, err)
		return
	}
	if x.head.StatusCode() == fasthttp.StatusSwitchingProtocols {
		s.relay(ctx, f, x)
		return
	}
	s.answer(ctx, f, x)
}

// takeOff starts the flight of a request that was fully read.
func (s *Server) takeOff(ctx *fasthttp.RequestCtx, bodyBytes int) *flight {
	now := time.Now()
	h := &ctx.Request.Header
	f := &flight{clock: clock{now}, client: ctx.Conn(), rec: &collector.Record{
		ID:           fmt.Sprintf("%s%d", s.prefix, s.records.Add(1)),
		Start:        now,
		Method:       methodOf(h.Method()),
		Path:         pathOf(h.RequestURI()),
		RequestID:    string(h.Peek("X-Request-Id")),
		Traceparent:  traceparentOf(h),
		RequestBytes: bodyBytes,
	}}
	f.rec.Labels, f.rec.NamedBy = labels(h)
	s.captures.request(f.rec, h)
	f.route = tap.RouteOf(f.rec.Path)
	f.rec.Route = routeName(f.rec, f.route)
	f.measured = f.rec.Route != ""
	bound(f.rec)
	f.upgrade, f.hints = upgrades(h), h.IsHTTP11()
	s.flights.add(f)
	s.counts.requests.Add(1)
	return f
}

// labels reads who sent a request: from baggage, else from the headers by which
// clients name their conversations. by says which of them named the conversation.
func labels(h *fasthttp.RequestHeader) (l collector.Labels, by string) {
	l = LabelsFromBaggage(bytes.Join(h.PeekAll("Baggage"), []byte{','}))
	if l.Conversation != "" {
		return l, collector.NamedByBaggage
	}
	for _, header := range []struct{ name, by string }{
		{"X-Correlation-Id", collector.NamedByCorrelation}, {"X-Session-Affinity", collector.NamedByAffinity},
	} {
		if value := h.Peek(header.name); len(value) > 0 {
			l.Conversation = string(value)
			return l, header.by
		}
	}
	return l, ""
}

// rewrite applies the policy; a new body stands in room. A panic in it costs
// the measurement: the body goes on as it came.
func (s *Server) rewrite(f *flight, room *[]byte, body []byte) (out []byte) {
	if !f.measured {
		return body
	}
	defer func() {
		if r := recover(); r != nil {
			s.counts.panics.Add(1)
			f.rec.Warnings = append(f.rec.Warnings, "a panic was recovered while rewriting the request")
			f.sent, out = Request{}, body
		}
	}()
	engine := s.Engine()
	out, f.sent = s.policy.Apply((*room)[:0], body, f.route, engine)
	if f.sent.Rewritten && cap(out) <= joinLimit {
		*room = out
	}
	describe(f.rec, &f.sent, engine)
	return out
}

// describe writes what the request says into its Record.
func describe(rec *collector.Record, req *Request, engine Engine) {
	rec.Engine, rec.Model, rec.Stream = string(engine), req.Model, req.Stream
	rec.SamplingClient, rec.SamplingSent, rec.Injected = req.SamplingClient, req.SamplingSent, req.Injected
	rec.UserHash, rec.Thread, rec.Prompt = req.UserHash, req.Thread, req.Prompt
	if !rec.Labels.HasTurn && req.UserTurns > 0 { // clients go on after a failed turn, so replies do not count
		rec.Labels.Turn, rec.Labels.HasTurn = req.UserTurns-1, true
	}
	if rec.Labels.Question == "" {
		rec.Labels.Question = req.UserHash
	}
	if req.Problem != "" {
		rec.Warnings = append(rec.Warnings, "rewrite failed: "+req.Problem)
	}
}

// answer passes the head of an answer on and leaves its body to a stream.
func (s *Server) answer(ctx *fasthttp.RequestCtx, f *flight, x *exchange) {
	at, _ := x.conn.arrival(f.clock)
	f.rec.ResponseHead = collector.At(at)
	f.rec.Status = x.head.StatusCode()
	b := &stream{s: s, f: f, x: x, residence: s.residences(), framing: framingOf(ctx.IsHead(), &x.head)}
	clientOf(ctx).body.free() // sent, and not again: an answer can take minutes
	s.watchBody(b)
	resp := &ctx.Response
	resp.ImmediateHeaderFlush = true
	resp.Header.SetNoDefaultContentType(true)
	copyResponseHeaders(&resp.Header, &x.head)
	if to := upgradeOf(&x.head); len(to) > 0 && f.rec.Status == fasthttp.StatusUpgradeRequired {
		resp.Header.Set(fasthttp.HeaderConnection, "Upgrade") // it has to say to what (RFC 9110 section 15.5.22)
		resp.Header.SetBytesV(fasthttp.HeaderUpgrade, to)
	}
	size := -1
	switch b.framing {
	case noBody:
		if n := x.head.ContentLength(); n >= 0 && (ctx.IsHead() || f.rec.Status == fasthttp.StatusNotModified) {
			resp.Header.Set(fasthttp.HeaderContentLength, strconv.Itoa(n)) // SetContentLength does nothing at 304
		}
		resp.SkipBody = ctx.IsHead()
		b.finish("", "")
		return
	case fixedLength:
		b.left = int64(x.head.ContentLength())
		if b.cutter == nil { // what is cut has another length
			size = x.head.ContentLength()
			b.sized = true
		}
	case untilClose:
		x.head.SetConnectionClose()
	}
	if !ctx.Request.Header.IsHTTP11() && size < 0 {
		if b.framing != chunked { // what comes in chunks goes on in chunks, as vLLM sends them to HTTP/1.0, too
			unframed(ctx, b)
			return
		}
		ctx.SetConnectionClose()
	}
	b.framed = size < 0
	ctx.Response.SetBodyStream(b, size)
}

// watchBody gives a stream its tap and its cutter.
func (s *Server) watchBody(b *stream) {
	h := &b.x.head
	if s.cfg.StallTimeout > 0 {
		b.quiet = time.Now().Add(s.cfg.StallTimeout)
	}
	b.teeing = s.Engine() == EngineUnknown && b.f.rec.Status == fasthttp.StatusOK && probed(b.f.rec.Path) != ""
	if !b.f.measured {
		return
	}
	if b.f.sent.Asked != (Asked{}) && isEventStream(h) && len(h.ContentEncoding()) == 0 {
		c, ok := s.cutters.Get().(*cutting)
		if !ok {
			c = new(cutting)
		}
		c.Reset(b.f.sent.Asked)
		c.out, c.kept = reuse(c.out), reuse(c.kept)
		b.cutter = c
	}
	b.tapBody()
}

// tapBody gives a stream its tap. A panic in it costs the measurement.
func (b *stream) tapBody() {
	defer func() {
		if r := recover(); r != nil {
			b.measuringFailed("reading the answer's head")
			b.tap = nil
		}
	}()
	s, h := b.s, &b.x.head
	options := tap.Options{Route: b.f.route, KeepText: s.cfg.KeepTexts || s.cfg.HashUser || s.captures.reply || s.captures.reasoning, Choices: b.f.sent.Choices}
	if t, ok := s.taps.Get().(*tap.Tap); ok {
		t.Reset(options)
		b.tap = t
	} else {
		b.tap = tap.New(options)
	}
	b.tap.Head(h.StatusCode(), string(h.ContentType()), string(h.ContentEncoding()))
}

// fail answers in place of the engine.
func (s *Server) fail(ctx *fasthttp.RequestCtx, f *flight, err error) {
	var no *failure
	if !errors.As(err, &no) {
		panic("BUG: unexpected kind of failure: " + err.Error())
	}
	s.watcher.disarm(f.client, f.watch)
	f.rec.ErrorKind, f.rec.Error = no.kind, no.message
	if no.kind != collector.ErrClientGone {
		f.rec.Status = no.status
	}
	s.fillUnmeasured(f.rec)
	s.land(f)
	no.write(ctx)
	if no.ends() {
		linger(f.client)
	}
	if f.cancelled() != nil { // the connection has a write limit, or nobody at its end
		ctx.SetConnectionClose()
	}
}

// recovered answers for a handler that panicked. fasthttp would let it kill the process.
func (s *Server) recovered(ctx *fasthttp.RequestCtx, f *flight) {
	r := recover()
	if r == nil {
		return
	}
	s.counts.panics.Add(1)
	f.cancel(errDrained)
	s.fail(ctx, f, &failure{status: fasthttp.StatusInternalServerError, kind: collector.ErrInternal, code: "internal", message: "a panic was recovered"})
}

// land ends a flight: its Record goes to the sink, before the client sees the
// end of the answer, and to the log if it failed.
func (s *Server) land(f *flight) {
	f.end()
	s.leave(f)
	rec := f.rec
	if rec.Model == "" {
		rec.Model = f.sent.Model
	}
	rec.Model = bounded(rec.Model, longestName)
	if !s.cfg.KeepTexts {
		s.captures.texts(rec)
	}
	rec.Done = collector.At(time.Since(f.start))
	defer s.flights.remove(f) // when the sink has its Record: Shutdown waits for that
	s.counts.outcome(rec, f.measured)
	s.observed(f)
	if rec.ErrorKind != "" {
		s.logFailure(rec)
	}
	if !f.measured || s.sink == nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			s.counts.panics.Add(1)
			s.log.Error().Str("id", rec.ID).Msg("a sink panicked and lost a record")
		}
	}()
	s.sink.Emit(rec)
}

// logFailure leaves the path out: it can hold a secret. The Record has it, under the id.
func (s *Server) logFailure(rec *collector.Record) {
	s.log.Warn().Str("id", rec.ID).Str("method", rec.Method).Str("route", rec.Route).
		Int("status", rec.Status).Str("error_kind", rec.ErrorKind).Str("error", rec.Error).
		Int("retries", rec.Retries).Int("response_bytes", rec.ResponseBytes).
		Float64("duration_s", rec.Done.Offset.Seconds()).Msg("request failed")
}

// fillUnmeasured says why a Record has no statistics where no tap does.
func (s *Server) fillUnmeasured(rec *collector.Record) {
	switch rec.ErrorKind {
	case collector.ErrClientGone:
		rec.SpecMissing = collector.MissingClientGone
	case collector.ErrTruncated, collector.ErrStalled, collector.ErrDrained:
		rec.SpecMissing = collector.MissingTruncated
	case "":
		rec.SpecMissing = collector.MissingNotMeasured
	default:
		rec.SpecMissing = collector.MissingError
	}
}
