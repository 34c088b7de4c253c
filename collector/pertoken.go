package collector

import "time"

// TimePerOutputToken is, with D the time to the answer's last byte, F the time to
// the first output and n the output tokens, (D - F) / (n - 1). It is known for a
// stream of one choice that succeeded and whose engine said n > 1. Source:
// semantic-conventions-genai v0.1.0, gen_ai.server.time_per_output_token.
func (r *Record) TimePerOutputToken() (per time.Duration, known bool) {
	n, said := replyTokens(r)
	if !r.Stream || r.ErrorKind != "" || !r.FirstOutput.Known || !said || n < 2 || several(r) {
		return 0, false
	}
	whole := r.Ended() - r.FirstOutput.Offset
	if whole < 0 {
		return 0, false
	}
	return whole / time.Duration(n-1), true
}

// Ended is when the engine's answer ended; without one, when the request did.
func (r *Record) Ended() time.Duration {
	if r.LastByte.Known {
		return r.LastByte.Offset
	}
	return r.Done.Offset
}
