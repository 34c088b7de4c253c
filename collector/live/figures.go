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
	s := rec.Spec
	if s == nil || s.Steps == 0 || !believed(s.Steps) || !believed(s.AcceptedTokens) {
		return 0, 0, false
	}
	return s.Steps, s.AcceptedTokens, true
}

// acceptanceLength is 1 + accepted drafts / verify steps: the tokens that a
// verify step brings, its bonus token included. No prefill, no step without
// drafts, nothing that the end of a reply cut off: the server's view.
// It is NaN without steps.
func acceptanceLength(steps, accepted uint64) float64 {
	return quotient(float64(steps+accepted), float64(steps))
}

// reachedPositions counts steps by position from accepted[j], the steps that
// accepted exactly j drafts.
func reachedPositions(accepted []int) (p positions) {
	for j := len(accepted) - 1; j >= 0; j-- {
		if !believed(accepted[j]) {
			return positions{}
		}
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

// timePerToken is, with D the time to the answer's last byte, F the time to the
// first output and n the output tokens, (D - F) / (n - 1): of a stream of one
// choice that succeeded and whose engine said n. Source:
// semantic-conventions-genai v0.1.0, gen_ai.server.time_per_output_token.
func timePerToken(rec *collector.Record) (time.Duration, bool) {
	first, ok := timeToFirst(rec)
	if !ok || rec.ErrorKind != "" || rec.SpecMissing == collector.MissingSeveralChoices || rec.Usage == nil {
		return 0, false
	}
	end, n := rec.Done.Offset, rec.Usage.CompletionTokens
	if rec.LastByte.Known {
		end = rec.LastByte.Offset
	}
	if n < 2 || !believed(n) || end < first {
		return 0, false
	}
	return (end - first) / time.Duration(n-1), true
}
