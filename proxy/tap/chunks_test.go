package tap

import (
	"fmt"
	"testing"
	"time"
)

// Chunks come out as they went in, with the highest counts and the last choice
// that are told apart.
func TestChunkList(t *testing.T) {
	tap := New(Options{Route: RouteCompletions})
	tap.Head(200, "text/event-stream", "")
	const last = 7_000_000 // index of the last choice
	for i := range maxChoices {
		index := i
		if i == maxChoices-1 {
			index = last
		}
		event := fmt.Sprintf("data: {\"choices\":[{\"index\":%d,\"text\":\"a\"}]}\n\n", index)
		if i == maxChoices-1 {
			event = fmt.Sprintf("data: {\"choices\":[{\"index\":%d,\"text\":\"b\"}],\"usage\":{\"completion_tokens\":%d}}\n\n", last, 1<<53) + event
		}
		tap.Observe(time.Duration(i)*time.Hour, []byte(event))
	}
	got := tap.chunkList()
	if len(got) != maxChoices+1 {
		t.Fatalf("got %d chunks, want %d", len(got), maxChoices+1)
	}
	for i, c := range got[:maxChoices-1] {
		if c.Choice != i || c.At != time.Duration(i)*time.Hour || c.Tokens != 0 || c.Shared {
			t.Errorf("chunk %d: got %+v", i, c)
		}
	}
	end := got[maxChoices-1:]
	if end[0].Choice != last || end[0].Tokens != mostTokens || end[0].Shared || end[1].Choice != last || !end[1].Shared {
		t.Errorf("got %+v", end)
	}
}
