package live

import (
	"time"

	"spectap/collector"
)

// Time is cut into steps; a chart shows the complete ones, the last minute is
// the current step and those before it.
const (
	stepWidth   = 5 * time.Second
	minuteSteps = 12  // of the last minute
	chartSteps  = 120 // of a chart: ten minutes
	recentRows  = 50
)

// maxPositions are the draft positions that are shown.
const maxPositions = 32

// sums are totals over some time. Requests count where they ended.
type sums struct {
	requests, failed uint64
	tokens           uint64 // output tokens, of requests whose tokens somebody said
	measured         uint64 // requests with verify steps
	steps, accepted  uint64 // verify steps, and the drafts that they accepted
}

func (s *sums) add(o sums) {
	s.requests += o.requests
	s.failed += o.failed
	s.tokens += o.tokens
	s.measured += o.measured
	s.steps += o.steps
	s.accepted += o.accepted
}

// positions count verify steps by how far they got, of requests with a histogram.
type positions struct {
	steps   uint64
	reached [maxPositions]uint64 // [i] = steps that accepted more than i drafts, as vLLM's counters by position
	length  int                  // positions that were seen
}

func (p *positions) add(o *positions) {
	p.steps += o.steps
	for i := range o.length {
		p.reached[i] += o.reached[i]
	}
	p.length = max(p.length, o.length)
}

// step are the figures of one step.
type step struct {
	sums
	positions  positions
	ttft, tpot quantiles // of the minute that ended with it; set when it is complete
}

// board makes figures of Records. It does no I/O, reads no clock and is as large
// after a million Records as at the start. Time is an offset from the start.
type board struct {
	current int64 // number of the current step
	steps   [chartSteps + 1]step
	ttft    *latency // time to the first output of streams
	tpot    *latency // time per output token after the first, of streams that succeeded

	total     sums // since the start
	positions positions
	errors    tally // by ErrorKind
	missing   tally // requests without statistics, by reason

	rows [recentRows]row // the n-th is at n % recentRows
	seen uint64          // rows so far
}

func newBoard() *board {
	return &board{ttft: newLatency(), tpot: newLatency(), errors: make(tally), missing: make(tally)}
}

// step returns a step by its number, which must be one of the last chartSteps+1.
func (b *board) step(n int64) *step { return &b.steps[n%int64(len(b.steps))] }

// advance makes the step at the offset at the current one. A clock that was set
// back changes nothing.
func (b *board) advance(at time.Duration) {
	to := int64(at / stepWidth)
	if to-b.current > chartSteps {
		clear(b.steps[:])
		b.ttft.reset()
		b.tpot.reset()
		for n := to - chartSteps; n < to; n++ {
			b.step(n).ttft, b.step(n).tpot = b.ttft.last(), b.tpot.last()
		}
		b.current = to
		return
	}
	for b.current < to {
		done := b.step(b.current)
		done.ttft, done.tpot = b.ttft.last(), b.tpot.last()
		b.current++
		*b.step(b.current) = step{}
		b.ttft.begin(b.current)
		b.tpot.begin(b.current)
	}
}

// add counts a Record that ended at the offset at.
func (b *board) add(at time.Duration, rec *collector.Record) {
	b.advance(at)
	now := b.step(b.current)
	one := sums{requests: 1}
	if rec.ErrorKind != "" {
		one.failed = 1
		b.errors.add(rec.ErrorKind, at)
	}
	if n, ok := outputTokens(rec); ok {
		one.tokens = uint64(n)
	}
	if steps, accepted, ok := verified(rec); ok {
		one.measured, one.steps, one.accepted = 1, uint64(steps), uint64(accepted)
		p := reachedPositions(rec.Spec.Accepted)
		now.positions.add(&p)
		b.positions.add(&p)
	}
	if reason, ok := missing(rec); ok {
		b.missing.add(reason, at)
	}
	if d, ok := timeToFirst(rec); ok {
		b.ttft.add(b.current, d)
	}
	if d, ok := rec.TimePerOutputToken(); ok {
		b.tpot.add(b.current, d)
	}
	now.add(one)
	b.total.add(one)
	b.rows[b.seen%recentRows] = newRow(rec)
	b.seen++
}

// minute are the sums of the last minute, and the time that they cover.
func (b *board) minute(at time.Duration) (s sums, span time.Duration) {
	first := max(b.current-minuteSteps+1, 0)
	for n := first; n <= b.current; n++ {
		s.add(b.step(n).sums)
	}
	return s, max(at-time.Duration(first)*stepWidth, time.Second)
}
