package live

import (
	"time"

	"spectap/collector"
)

// maxCount is the largest figure that is believed; above it a server has gone
// wrong, and a browser's numbers are no longer exact.
const maxCount = 1 << 32

func believed(n int) bool { return n >= 0 && n < maxCount }

// verified returns the verify steps of a request and the drafts that they
// accepted; ok is false where the engine did not say how many steps it made.
func verified(rec *collector.Record) (steps, accepted int, ok bool) {
	if s := rec.Spec; s != nil && s.Steps != 0 && !damaged(rec) {
		return s.Steps, s.AcceptedTokens, true
	}
	return 0, 0, false
}

// damaged says that the counts of a request's statistics cannot be.
func damaged(rec *collector.Record) bool {
	s := rec.Spec
	return !believed(s.Steps) || !believed(s.AcceptedTokens) || s.Accepted != nil && rec.Histogram() == nil
}

// unbelieved is the reason of statistics whose counts cannot be, as in metrics.
const unbelieved = "unbelieved"

// missing returns why a request has no statistics; ok is false where it has some.
func missing(rec *collector.Record) (reason string, ok bool) {
	if rec.Spec == nil {
		return rec.SpecMissing, true
	}
	return unbelieved, damaged(rec)
}

// acceptanceLength is 1 + accepted drafts / verify steps: the tokens that a
// verify step brings, its bonus token included. No prefill, no step without
// drafts, nothing that the end of a reply cut off: the server's view.
// It is NaN without steps.
func acceptanceLength(steps, accepted uint64) float64 {
	return quotient(float64(steps+accepted), float64(steps))
}

// reachedPositions counts steps by position from accepted[j], the steps that
// accepted exactly j drafts, of statistics that are not damaged.
func reachedPositions(accepted []int) (p positions) {
	for j := len(accepted) - 1; j >= 0; j-- {
		if j < maxPositions {
			p.reached[j] = p.steps // of those that accepted more than j
		}
		p.steps += uint64(accepted[j])
	}
	p.length = min(max(len(accepted)-1, 0), maxPositions)
	return p
}

// outputTokens returns the output tokens of a request: as the server's usage
// says, else the sum over its events; ok is false where nobody said.
func outputTokens(rec *collector.Record) (n int, ok bool) {
	if rec.Usage != nil {
		return rec.Usage.CompletionTokens, believed(rec.Usage.CompletionTokens)
	}
	for _, c := range rec.Chunks {
		n += c.Tokens
	}
	return n, n > 0 && believed(n)
}

// timeToFirst is the time from the fully read request to the first output of a
// stream. A body that comes in one piece has no first output.
func timeToFirst(rec *collector.Record) (time.Duration, bool) {
	return rec.FirstOutput.Offset, rec.Stream && rec.FirstOutput.Known
}
