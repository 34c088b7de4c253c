package tap

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spectap/collector"
)

func eventsOf(limit int, pieces ...string) (events []string) {
	var s sse
	s.reset(limit)
	take := func(data []byte) {
		if s.tooLong {
			events = append(events, "TOO LONG")
			return
		}
		events = append(events, string(data))
	}
	for _, p := range pieces {
		s.read([]byte(p), take)
	}
	s.end(take)
	return events
}

// TestSSEGrammar follows the event-stream grammar. Each line is also read in every pair of pieces
// and byte by byte.
func TestSSEGrammar(t *testing.T) {
	f := func(stream string, want ...string) {
		t.Helper()
		if got := eventsOf(100, stream); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", stream, got, want)
		}
		for i := range len(stream) {
			if got := eventsOf(100, stream[:i], stream[i:]); !slices.Equal(got, want) {
				t.Errorf("%q cut at %d: got %q, want %q", stream, i, got, want)
			}
		}
		if got := eventsOf(100, strings.Split(stream, "")...); !slices.Equal(got, want) {
			t.Errorf("%q byte by byte: got %q, want %q", stream, got, want)
		}
	}
	f("data: a\n\ndata: b\n\n", "a", "b")
	f("data: a\r\n\r\ndata: b\r\n\r\n", "a", "b")                         // CRLF
	f("data: a\r\rdata: b\r\r", "a", "b")                                 // CR
	f("data: a\r\ndata: b\r\n\r\n", "a\nb")                               // an LF after a CR is no blank line
	f("data: a\r\n\rdata: b\n\r\n", "a", "b")                             // mixed
	f("data:a\n\n", "a")                                                  // no space
	f("data:  a\n\n", " a")                                               // one space is removed, not two
	f("data: a\ndata: b\ndata\ndata:c\n\n", "a\nb\n\nc")                  // lines are joined; data without a colon is an empty line
	f("\xef\xbb\xbfdata: a\n\n", "a")                                     // BOM
	f("data: a\n\n\xef\xbb\xbfdata: b\n\n", "a")                          // a BOM later is part of a field's name
	f(": ping\n\ndata: a\n: ping\n\n:\n\n", "a")                          // comments
	f("event: x\n\nid: 3\nretry: 5\n\ndata: a\n\n", "a")                  // no data, no event
	f("event: x\ndata: a\nid: 1\n\n", "a")                                // other fields
	f("data: a\n\ndata: b", "a", "b")                                     // no blank line at the end
	f("data: a\n\ndata: b\n", "a", "b")                                   // no blank line at the end
	f("data: a\n\ndat", "a")                                              // half a field's name
	f("\n\n\ndata: a\n\n\n\n", "a")                                       // blank lines
	f("data:\n\n", "")                                                    // empty data
	f("database: a\n\n")                                                  // another field
	f("data: é\U0001f600\n\n", "é\U0001f600")                             // cut inside a character
	f("data: "+strings.Repeat("x", 100)+"\n\n", strings.Repeat("x", 100)) // at the limit
	f("data: "+strings.Repeat("x", 101)+"\n\ndata: b\n\n", "TOO LONG", "b")
	f("data: "+strings.Repeat("x", 300)+"\ndata: y\n\ndata: b\n\n", "TOO LONG", "b")
	f(strings.Repeat("data: "+strings.Repeat("x", 40)+"\n", 3)+"\ndata: b\n\n", "TOO LONG", "b") // the sum counts
	f(": "+strings.Repeat("x", 300)+"\n\ndata: b\n\n", "b")                                      // a long comment is no event
}

// TestMegabyteEvent reads an event far over the buffers of common readers (go-proxy.md 6, row 23).
func TestMegabyteEvent(t *testing.T) {
	text := strings.Repeat("x", 5<<20)
	event := []byte(`data: {"id":"a","choices":[{"index":0,"text":"` + text + `","token_ids":[1,2]}]}` + "\n\n")
	tap := New(Options{Route: RouteCompletions, KeepText: true})
	tap.Head(200, "text/event-stream", "")
	for piece := range slices.Chunk(event, 4096) {
		tap.Observe(time.Second, piece)
	}
	tap.End(time.Second, true)
	var r collector.Record
	tap.Fill(&r)
	if len(r.Chunks) != 1 || r.Chunks[0].Tokens != 2 || r.Reply != text {
		t.Errorf("got %d chunks, %d bytes of text", len(r.Chunks), len(r.Reply))
	}
	tap.Reset(Options{Route: RouteChat})
	if cap(tap.sse.line)+cap(tap.sse.data)+cap(tap.reply) > 1<<20 {
		t.Error("the buffers of a megabyte event are kept for the next answer")
	}
}

// TestOversizedEvent goes on after an event over the limit, in bounded memory, and says so.
func TestOversizedEvent(t *testing.T) {
	tap := New(Options{Route: RouteCompletions, KeepText: true, MaxEvent: 1 << 16})
	tap.Head(200, "text/event-stream", "")
	tap.Observe(0, []byte("data: "))
	for range 1000 {
		tap.Observe(0, bytes.Repeat([]byte("x"), 4096))
	}
	if held := cap(tap.sse.line) + cap(tap.sse.data); held > 1<<18 {
		t.Errorf("holds %d bytes of an event over the limit", held)
	}
	tap.Observe(time.Second, []byte("\n\ndata: {\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"stop\"}]}\n\n"))
	tap.End(time.Second, true)
	var r collector.Record
	tap.Fill(&r)
	if got := fmt.Sprint(r.Events, len(r.Chunks), r.Finish, r.ErrorKind, r.SpecMissing, r.Warnings); got !=
		"2 1stopnot_measured[an event was over the size limit and was not read]" {
		t.Errorf("got %s", got)
	}
}
