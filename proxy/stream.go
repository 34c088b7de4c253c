package proxy

import (
	"errors"
	"io"
	"runtime"
	"time"

	"spectap/collector"
	"spectap/proxy/tap"
)

// stream is the body of one answer: fasthttp calls WriteTo on the client
// connection's goroutine, after the head was flushed.
//
//	engine ──read──▶ dechunk in place ──▶ Cutter ──one write──▶ client
//	                        └──────────── after the write ────▶ tap
type stream struct {
	s       *Server
	f       *flight
	x       *exchange
	framing framing
	full    bool  // the last read filled the buffer
	left    int64 // of a body with a length
	sized   bool  // the client gets that length, too
	framed  bool  // the client gets chunks
	chunks  dechunker
	tap     *tap.Tap // nil where nothing is measured, or after a panic
	cutter  *cutting // nil where nothing was injected
	tee     []byte   // the answer of /v1/models or /version, while the engine is unknown
	teeing  bool

	heldUntil time.Time // the zero time while nothing is held
	quiet     time.Time // when the stall limit strikes; the zero time without one
	armed     bool      // the connection has a read deadline
	comment   commentScanner

	lastByte     time.Duration
	residence    *residences
	kernel, user int  // reads by the origin of their time
	writing      bool // the last bytes are still to be written: finish leaves the connection to its caller
	whole        bool // the answer came to its end
	ended        bool
	landed       bool // the Record was emitted
}

var errStalled = errors.New("upstream sent no data within the stall limit")

// SupportsBodyWriteTo implements fasthttp.BodyWriterTo.
func (b *stream) SupportsBodyWriteTo() bool { return true }

// Read is never called: fasthttp uses WriteTo.
func (b *stream) Read([]byte) (int, error) { return 0, errors.New("BUG: stream.Read called") }

// WriteTo passes the body on: one write for each read. An error cuts the
// client's connection, so that a broken answer never ends cleanly.
func (b *stream) WriteTo(w io.Writer) (n int64, err error) {
	defer func() {
		if r := recover(); r != nil {
			b.s.counts.panics.Add(1)
			err = errors.New("panic while an answer was passed on")
			b.finish(collector.ErrInternal, "a panic was recovered")
		}
	}()
	switch {
	case b.sized:
		w = b.f.client // fasthttp collects 4 KiB of a body with a length: late, and lost where it is cut
	case b.framed:
		w = chunkWriter{b.s, b.f.client}
	}
	cw := countingWriter{w: w}
	err = b.pass(&cw)
	return cw.n, err
}

func (b *stream) pass(w *countingWriter) error {
	for b.left != 0 || b.framing != fixedLength {
		in, readErr, lost := b.next(w)
		if len(in) > 0 && lost == nil {
			at, _ := b.x.conn.arrival(b.f.clock)
			lost = b.forward(w, at, in)
		}
		if lost != nil {
			return b.clientFailed(lost)
		}
		switch {
		case readErr == nil:
		case readErr == io.EOF:
			return b.complete(w)
		case isTimeout(readErr) && !b.heldUntil.IsZero() && !time.Now().Before(b.heldUntil):
			if err := b.expire(w); err != nil {
				return b.clientFailed(err)
			}
		case isTimeout(readErr) && !b.stalled():
		default:
			return b.upstreamFailed(w, readErr)
		}
	}
	return b.complete(w)
}

// read returns the body bytes of one read of the upstream connection, all that
// is buffered. They are valid until the next call. io.EOF is the body's clean
// end, and may come together with its last bytes.
func (b *stream) read() ([]byte, error) {
	if b.chunks.done() {
		return nil, io.EOF
	}
	if b.x.br.Buffered() == 0 {
		if b.full {
			b.s.widen(b.x)
			b.full = false
		}
		if err := b.setDeadline(); err != nil {
			return nil, err
		}
	}
	if _, err := b.x.br.Peek(1); err != nil {
		if err == io.EOF && b.framing != untilClose {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	in, err := b.x.br.Peek(b.x.br.Buffered())
	if err != nil {
		return nil, err
	}
	b.full = len(in) == b.x.br.Size()
	used := len(in)
	switch b.framing {
	case chunked:
		in, used, err = b.chunks.feed(in)
		if err == nil && b.chunks.done() {
			err = io.EOF
		}
	case fixedLength:
		used = int(min(int64(used), b.left))
		in = in[:used]
		b.left -= int64(used)
	}
	_, _ = b.x.br.Discard(used) // in stays valid: Discard moves no bytes
	return in, err
}

// setDeadline arms the earlier of the two limits, and only when one is set.
func (b *stream) setDeadline() error {
	d := b.quiet
	if !b.heldUntil.IsZero() && (d.IsZero() || b.heldUntil.Before(d)) {
		d = b.heldUntil
	}
	if d.IsZero() && !b.armed {
		return nil
	}
	b.armed = !d.IsZero()
	return b.f.setReadDeadline(b.x.conn, d)
}

// forward writes what the client may see of one read, then shows the read to the tap.
func (b *stream) forward(w *countingWriter, at time.Duration, in []byte) error {
	b.lastByte = at
	b.f.rec.ResponseBytes += len(in)
	if b.x.conn.stamp != 0 {
		b.kernel++
	} else {
		b.user++
	}
	last := b.framing == fixedLength && b.left == 0
	if last { // these bytes are the end for the client, so the Record comes first
		b.observe(at, in)
		b.writing = true // in stands in the connection's buffer
		b.finish("", "")
		defer b.free()
	}
	out, err := b.cut(in)
	if !last {
		b.residence.add(time.Since(b.f.start) - at) // before the write, in which the client may get our core
	}
	if len(out) > 0 {
		if err := b.write(w, out); err != nil {
			return err
		}
	}
	if last || err != nil {
		return err
	}
	runtime.Gosched() // streams whose events came meanwhile write first; reading what passed can wait
	b.observe(at, in)
	if b.s.cfg.StallTimeout > 0 && b.comment.data(in) {
		b.quiet = time.Now().Add(b.s.cfg.StallTimeout)
	}
	return nil
}

// observe shows bytes to the tap. A panic in it costs the measurement, not the answer.
func (b *stream) observe(at time.Duration, in []byte) {
	if b.teeing && len(b.tee)+len(in) <= teeLimit {
		b.tee = append(b.tee, in...)
	}
	if b.tap == nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			b.measuringFailed("reading the answer")
			b.tap = nil
		}
	}()
	b.tap.Observe(at, in)
	if b.tap.Finished() {
		b.f.finished.Store(true)
	}
}

func (b *stream) measuringFailed(what string) {
	b.s.counts.panics.Add(1)
	if b.landed { // the Record is the sink's
		return
	}
	b.f.rec.Warnings = append(b.f.rec.Warnings, "a panic was recovered while "+what)
}

// complete ends a body that came whole.
func (b *stream) complete(w *countingWriter) error {
	if err := b.rest(w); err != nil {
		return b.clientFailed(err)
	}
	b.finish("", "")
	return nil
}

// told says whether the client has had all it asked for, or an error in its place:
// some clients leave at an error without waiting for [DONE].
func (b *stream) told() bool {
	return b.f.finished.Load() || b.tap != nil && b.tap.Failed()
}

// clientFailed ends an answer that could not be written. After the route's last
// event the client had all it asked for.
func (b *stream) clientFailed(err error) error {
	if err == errLost {
		b.finish(collector.ErrInternal, err.Error())
		return err
	}
	if b.told() {
		b.finish("", "")
		return err
	}
	b.f.cancel(errClientGone)
	if b.f.cancelled() == errDrained { // the client did not read what was left to it
		b.finish(collector.ErrDrained, errDrained.Error())
		return err
	}
	b.finish(collector.ErrClientGone, errClientGone.Error())
	return err
}

// upstreamFailed ends an answer whose rest will not come.
func (b *stream) upstreamFailed(w *countingWriter, err error) error {
	switch cause := b.f.cancelled(); {
	case cause == errClientGone && b.told():
		b.finish("", "")
		return err
	case cause == errClientGone:
		b.finish(collector.ErrClientGone, cause.Error())
		return err
	case cause != nil:
		b.finish(collector.ErrDrained, cause.Error())
		return err
	}
	_ = b.rest(w) // what is held came before the end
	switch {
	case isTimeout(err):
		b.finish(collector.ErrStalled, errStalled.Error()+"; see --stall_timeout (SPECTAP_STALL_TIMEOUT)")
	case errors.Is(err, errChunk):
		b.finish(collector.ErrTruncated, errChunk.Error())
	default:
		b.finish(collector.ErrTruncated, "upstream closed the connection before the answer's end")
	}
	return err
}

// stalled says whether the stall limit has struck.
func (b *stream) stalled() bool {
	if b.f.cancelled() != nil {
		return true
	}
	return !b.quiet.IsZero() && !time.Now().Before(b.quiet)
}

// Close ends a body that WriteTo did not: the head could not be written.
func (b *stream) Close() error {
	if !b.ended {
		b.f.cancel(errClientGone)
		b.finish(collector.ErrClientGone, errClientGone.Error())
	}
	return nil
}

// CloseWithError is called by fasthttp after Close, with the error of WriteTo.
func (b *stream) CloseWithError(error) error { return b.Close() }

// finish ends the flight: the connection goes back or is closed, and the Record
// is emitted. kind "" is an answer that came whole.
func (b *stream) finish(kind, text string) {
	if b.ended {
		return
	}
	b.ended = true
	rec := b.f.rec
	if kind != "" {
		rec.ErrorKind, rec.Error = kind, text
	}
	b.fill(kind == "")
	if b.cutter != nil && b.framing != fixedLength { // a body with a length is still to be written
		b.s.cutters.Put(b.cutter)
		b.cutter = nil
	}
	b.settleEngine()
	b.s.watcher.disarm(b.f.client, b.f.watch)
	b.whole = kind == ""
	if !b.writing {
		b.free()
	}
	b.landed = true
	b.s.land(b.f)
}

// free gives the upstream connection and its buffer away. Nothing may stand in
// the buffer that is still to be written: the next request would overwrite it.
func (b *stream) free() {
	if b.whole && b.atEnd() {
		b.s.release(b.f, b.x)
		return
	}
	b.f.detach()
	b.s.discard(b.x)
}

// atEnd says whether the connection stands behind this answer. An answer can be
// whole for the client before that: behind [DONE] the last chunk is to come.
func (b *stream) atEnd() bool {
	switch b.framing {
	case chunked:
		return b.chunks.done()
	case fixedLength:
		return b.left == 0
	}
	return b.framing == noBody
}

// fill writes what was measured into the Record.
func (b *stream) fill(complete bool) {
	rec := b.f.rec
	if b.lastByte > 0 {
		rec.LastByte = collector.At(b.lastByte)
	}
	rec.ResidenceP50, rec.ResidenceMax = b.residence.spread()
	b.s.freeResidences(b.residence)
	b.residence = nil
	rec.Stamps = originOf(b.kernel, b.user)
	if b.tap == nil {
		b.s.fillUnmeasured(rec)
		return
	}
	defer func() {
		if r := recover(); r != nil {
			b.measuringFailed("filling the record")
			b.s.fillUnmeasured(rec)
		}
	}()
	b.tap.End(time.Since(b.f.start), complete)
	b.tap.Fill(rec)
	b.s.hashReply(rec)
	b.s.taps.Put(b.tap)
	b.tap = nil
}

// originOf names the origin of a Record's times (Record.Stamps).
func originOf(kernel, user int) string {
	switch {
	case kernel > 0 && user > 0:
		return collector.StampsMixed
	case kernel > 0:
		return collector.StampsKernel
	case user > 0:
		return collector.StampsUser
	}
	return ""
}
