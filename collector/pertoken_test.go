package collector

import (
	"testing"
	"time"
)

func TestTimePerOutputToken(t *testing.T) {
	f := func(what string, want time.Duration, change func(*Record)) {
		t.Helper()
		r := &Record{
			Stream: true, FirstOutput: At(30 * time.Millisecond), LastByte: At(50 * time.Millisecond), Done: At(60 * time.Millisecond),
			Chunks: []Chunk{{At: 30 * time.Millisecond, Tokens: 2}, {At: 50 * time.Millisecond, Tokens: 3}}, Usage: &Usage{CompletionTokens: 5},
		}
		change(r)
		if got, known := r.TimePerOutputToken(); known != (want > 0) || known && got != want {
			t.Errorf("%s: got %v, %v, want %v", what, got, known, want)
		}
	}
	f("a stream", 5*time.Millisecond, func(*Record) {})
	f("no last byte", 7500*time.Microsecond, func(r *Record) { r.LastByte = Moment{} })
	f("no stream", 0, func(r *Record) { r.Stream = false })
	f("an error", 0, func(r *Record) { r.ErrorKind = ErrTruncated })
	f("no output", 0, func(r *Record) { r.FirstOutput = Moment{} })
	f("no usage", 0, func(r *Record) { r.Usage = nil })
	f("one token", 0, func(r *Record) { r.Usage.CompletionTokens = 1 })
	f("negative usage", 0, func(r *Record) { r.Usage.CompletionTokens = -3 })
	f("absurd usage", 0, func(r *Record) { r.Usage.CompletionTokens = 1 << 60 })
	f("a second choice", 0, func(r *Record) { r.Chunks[1].Choice = 1 })
	f("several choices", 0, func(r *Record) { r.SpecMissing = MissingSeveralChoices })
	f("an end before the first output", 0, func(r *Record) { r.LastByte = At(0) })
}
