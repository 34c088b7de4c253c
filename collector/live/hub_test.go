package live

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// counting is a hub that never ticks and whose snapshots are 1, 2, 3 and so on.
func counting() (h *hub, made *int) {
	made = new(int)
	h = newHub(func() ([]byte, error) { *made++; return fmt.Appendf(nil, "%d", *made), nil })
	h.tick = func(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }
	return h, made
}

// All pages share the bytes of one snapshot, made once.
func TestSharedBytes(t *testing.T) {
	h, made := counting()
	defer h.close()
	first := h.open()
	<-first.frames
	streams := []*stream{first}
	for range 19 {
		streams = append(streams, h.open())
	}
	h.publish(h.stop)
	shared := <-first.frames
	for _, s := range streams[1:] {
		if frame := <-s.frames; &frame[0] != &shared[0] || string(frame) != "data: 2\n\n" {
			t.Errorf("a page has %q of its own, want the shared %q", frame, shared)
		}
	}
	if *made != 2 {
		t.Errorf("made %d snapshots for two ticks, want 2", *made)
	}
}

// A page that does not read misses snapshots and finds the newest; nobody waits for it.
func TestSlowPage(t *testing.T) {
	h, _ := counting()
	defer h.close()
	quick := h.open()
	<-quick.frames
	slow := h.open()
	for i := range 100 {
		h.publish(h.stop)
		if got, want := string(<-quick.frames), fmt.Sprintf("data: %d\n\n", i+2); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if len(slow.frames) != 1 {
		t.Fatalf("%d snapshots wait for a slow page, want 1", len(slow.frames))
	}
	if got := string(<-slow.frames); got != "data: 101\n\n" {
		t.Errorf("the slow page finds %q, want the newest", got)
	}
}

// The hub runs only while a page is open.
func TestHubStopsWithTheLastPage(t *testing.T) {
	ended := make(chan struct{}, 10)
	h := newHub(func() ([]byte, error) { return []byte("1"), nil })
	h.tick = func(time.Duration) (<-chan time.Time, func()) {
		return make(chan time.Time), func() { ended <- struct{}{} }
	}
	for range 3 {
		one, two := h.open(), h.open()
		<-one.frames
		h.leave(one)
		h.leave(two)
		<-ended
	}
	if len(h.streams) != 0 || h.stop != nil {
		t.Errorf("%d streams are left", len(h.streams))
	}
	h.close()
}

// A snapshot that panics is missed; the hub goes on, and the board is free for Emit.
func TestSnapshotPanics(t *testing.T) {
	p := New(Config{})
	p.hub.tick = func(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }
	board := p.board
	p.board = nil
	if text := p.hub.text(); text != nil {
		t.Errorf("got %q of a page without a board, want nothing", text)
	}
	p.board = board
	p.Emit(streamed(time.Millisecond, time.Millisecond, 2, 1))
	page := p.hub.open()
	if frame := string(<-page.frames); !strings.Contains(frame, `"requests":1`) {
		t.Errorf("got %q, want a snapshot", frame)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
