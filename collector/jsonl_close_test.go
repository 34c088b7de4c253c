package collector

import (
	"os"
	"strings"
	"testing"
	"time"
)

// A pipe that nobody reads holds neither Emit nor, for longer than Patience,
// Close; what is lost is counted. A hung disk that no close wakes is left behind.
func TestJSONLGivesUp(t *testing.T) {
	f := func(j *JSONL, records int, lost uint64) {
		t.Helper()
		var failures []error
		j.Patience, j.Failed = 50*time.Millisecond, func(err error) { failures = append(failures, err) }
		for range records {
			j.Emit(&Record{Chunks: make([]Chunk, 40)})
		}
		err := j.Close()
		if err == nil || !strings.Contains(err.Error(), "no line was taken for 50ms") {
			t.Errorf("got Close %v, want that no line was taken", err)
		}
		if got := j.Dropped(); got < lost || got > uint64(records) || len(failures) != 1 {
			t.Errorf("got %d dropped, failures %v; want %d or more, one", got, failures, lost)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f(newJSONL(w, jsonlQueue, false), 1000, 500) // a pipe takes 64 KiB
	hung := blockedWriter{make(chan struct{}, 16), make(chan struct{})}
	defer close(hung.gate)
	f(newJSONL(hung, jsonlQueue, false), 10, 10)
}

// A slow disk that takes line after line is not given up.
func TestJSONLWaitsForSlowDisk(t *testing.T) {
	w := blockedWriter{make(chan struct{}), make(chan struct{})}
	j := newJSONL(w, jsonlQueue, false)
	j.Patience = time.Second
	for range 10 {
		j.Emit(&Record{})
	}
	closed := make(chan error, 1)
	go func() { closed <- j.Close() }()
	for range 10 {
		<-w.entered
		time.Sleep(150 * time.Millisecond) // longer than the limit in all
		w.gate <- struct{}{}
	}
	if err := <-closed; err != nil || j.Dropped() != 0 {
		t.Errorf("got %v, %d dropped; want all written", err, j.Dropped())
	}
}
