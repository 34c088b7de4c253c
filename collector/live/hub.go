package live

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	interval   = time.Second      // between snapshots
	aliveTicks = 5                // unchanged ticks before a page hears that we are alive
	maxStreams = 100              // open pages
	writeLimit = 10 * time.Second // of one write to a page that does not read
	retryDelay = 2 * time.Second  // before a page connects again
)

// alive is what a page hears where nothing changed; an event, not a comment,
// because a script cannot see comments.
var alive = []byte("event: alive\ndata: 1\n\n")

// hub sends each snapshot, made once, to all open pages. Without a page it does
// nothing and runs nothing.
type hub struct {
	encode func() ([]byte, error)
	tick   func(time.Duration) (<-chan time.Time, func()) // time.NewTicker; tests drive it by hand

	mu      sync.Mutex
	streams map[*stream]struct{}
	last    []byte        // the frame that was published last
	idle    int           // ticks since then
	stop    chan struct{} // ends the running goroutine; nil where none runs
	closed  chan struct{}
	running sync.WaitGroup
}

// stream is an open page. Its channel holds one frame: a page that reads slowly
// finds the newest one there, and skipped the others.
type stream struct{ frames chan []byte }

func newHub(encode func() ([]byte, error)) *hub {
	return &hub{encode: encode, tick: ticker, streams: make(map[*stream]struct{}), closed: make(chan struct{})}
}

func ticker(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// open adds a page; nil where there are too many, or the hub is closed.
func (h *hub) open() *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.streams) >= maxStreams || h.isClosed() {
		return nil
	}
	s := &stream{frames: make(chan []byte, 1)}
	h.streams[s] = struct{}{}
	if h.stop != nil {
		if h.last != nil {
			s.put(h.last)
		}
		return s
	}
	h.stop = make(chan struct{})
	h.last, h.idle = nil, 0
	stop := h.stop
	h.running.Go(func() { h.run(stop) })
	return s
}

// leave removes a page; with the last one the hub stops.
func (h *hub) leave(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, s)
	if len(h.streams) == 0 && h.stop != nil {
		close(h.stop)
		h.stop = nil
	}
}

// close ends all streams and waits for the hub's goroutine.
func (h *hub) close() {
	h.mu.Lock()
	if !h.isClosed() {
		close(h.closed)
	}
	h.mu.Unlock()
	h.running.Wait()
}

func (h *hub) isClosed() bool {
	select {
	case <-h.closed:
		return true
	default:
		return false
	}
}

// run publishes at once and then at every tick.
func (h *hub) run(stop chan struct{}) {
	ticks, end := h.tick(interval)
	defer end()
	for {
		h.publish(stop)
		select {
		case <-ticks:
		case <-stop:
			return
		case <-h.closed:
			return
		}
	}
}

// publish makes a snapshot and hands it to every page, if anything changed.
func (h *hub) publish(stop chan struct{}) {
	text := h.text()
	if text == nil {
		return // a broken invariant: the page says that it hears nothing
	}
	frame := frameOf(text)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop != stop {
		return // the last page left, and another one may have come since
	}
	if !bytes.Equal(frame, h.last) {
		h.last, h.idle = frame, 0
		for s := range h.streams {
			s.put(frame)
		}
		return
	}
	if h.idle++; h.idle < aliveTicks {
		return
	}
	h.idle = 0
	for s := range h.streams {
		select {
		case s.frames <- alive:
		default: // a frame is on its way
		}
	}
}

// text is a snapshot, nil where none could be made. A panic would end the process
// from the hub's goroutine, with all requests that pass.
func (h *hub) text() (text []byte) {
	defer func() {
		if recover() != nil {
			text = nil
		}
	}()
	text, err := h.encode()
	if err != nil {
		return nil
	}
	return text
}

// frameOf makes an event of a text without line breaks.
func frameOf(text []byte) []byte {
	frame := make([]byte, 0, len(text)+len("data: \n\n"))
	frame = append(frame, "data: "...)
	frame = append(frame, text...)
	return append(frame, "\n\n"...)
}

// put replaces the frame that waits. Only the hub calls it, under its lock.
func (s *stream) put(frame []byte) {
	select {
	case <-s.frames:
	default:
	}
	s.frames <- frame
}

// serve answers GET /live.
func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		streamHeaders(w.Header())
		return
	}
	s := h.open()
	if s == nil {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many open pages, or spectap is ending; close one and load this page again", http.StatusServiceUnavailable)
		return
	}
	defer h.leave(s)
	streamHeaders(w.Header())
	out := http.NewResponseController(w)
	frame := []byte("retry: " + strconv.FormatInt(retryDelay.Milliseconds(), 10) + "\n\n")
	for {
		_ = out.SetWriteDeadline(time.Now().Add(writeLimit)) // a recorder of a test has none
		if _, err := w.Write(frame); err != nil || out.Flush() != nil {
			return
		}
		select {
		case frame = <-s.frames:
		case <-r.Context().Done():
			return
		case <-h.closed:
			return
		}
	}
}

func streamHeaders(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // nginx would collect the stream
}
