// Package tap reads the answer of a language-model server as it passes by and
// says what it was: when output came, how many tokens each event brought, how
// it ended, and what the engine reported about speculative decoding. It opens no
// socket and reads no clock: bytes and times go in, a collector.Record comes out.
// Whatever the bytes are, it never fails and never changes them; what it cannot
// read becomes a warning.
//
//	Head ─▶ Observe, Observe, ... ─▶ End ─▶ Fill
//
// Start with Tap; openai.go decides what counts as output.
package tap

import (
	"fmt"
	"time"
)

// DefaultMaxEvent is the longest event, or whole body, that is read: 16 MiB.
const DefaultMaxEvent = 16 << 20

// Options say what was asked.
type Options struct {
	Route    Route
	KeepText bool // keep the reply's text, for Record.Reply and Record.Reasoning
	Choices  int  // n times the number of prompts, as asked; 0 where unknown
	MaxEvent int  // longest event or body that is read, in bytes; 0 is DefaultMaxEvent
}

// The ways to read a body.
const (
	readNothing = iota // not measured
	readStream         // server-sent events
	readBody           // one JSON object
	readSniff          // the first byte tells, because Content-Type does not
)

// Tap reads one answer. It belongs to one goroutine. It keeps no bytes of its
// caller: what Observe gets is valid during the call only.
type Tap struct {
	options Options
	status  int
	mode    int
	coded   bool // Content-Encoding other than identity

	sse       sse
	body      []byte
	event     event
	onEvent   func([]byte) // t.data, bound once
	at        time.Duration
	read      int // number of the current read
	chunkRead int // number of the read of the last chunk

	id, model          string
	engine             string
	engineMark         int
	chunks             []seen
	choices            []choiceState
	events, badEvents  int
	unread             bool  // a body or event was over the limit
	usage              usage // the last one
	usageTotal         bool  // usage is of the whole request, not of one choice
	usageAtEnd         bool  // a usage came with the finish or after it
	stats              []statistics
	done, ended, clean bool
	failed             bool
	failure            string
	reply, reasoning   []byte
	warnings           []string
	routeFinish        string // finish of the routes without choices
}

// New returns a Tap for one answer.
func New(o Options) *Tap {
	t := &Tap{}
	t.Reset(o)
	return t
}

// Reset makes the Tap ready for another answer, with its buffers.
func (t *Tap) Reset(o Options) {
	if o.MaxEvent <= 0 {
		o.MaxEvent = DefaultMaxEvent
	}
	lines := t.sse
	lines.reset(o.MaxEvent)
	clear(t.event.choices[:cap(t.event.choices)]) // they point into buffers
	*t = Tap{
		options: o, sse: lines, body: keep(t.body), onEvent: t.onEvent,
		event: event{choices: t.event.choices[:0]}, chunks: keepChunks(t.chunks), choices: t.choices[:0],
		stats: t.stats[:0], reply: keep(t.reply), reasoning: keep(t.reasoning),
		engineMark: markNone,
	}
	if t.onEvent == nil {
		t.onEvent = t.data
	}
}

// Head takes the head of the answer and decides how its body is read.
func (t *Tap) Head(status int, contentType, contentEncoding string) {
	t.status = status
	t.coded = !plainEncoding(contentEncoding)
	switch {
	case t.coded:
		t.warn("the answer is compressed and was not measured")
	case t.options.Route == RouteOther && status < 400, status >= 300 && status < 400:
	default:
		t.mode = readMode(contentType)
	}
}

// Observe takes the bytes of one read of the body; at is its arrival as an offset from Record.Start.
func (t *Tap) Observe(at time.Duration, b []byte) {
	if len(b) == 0 {
		return
	}
	t.at = at
	t.read++
	if t.mode == readSniff {
		t.mode = sniff(b[0])
	}
	switch t.mode {
	case readStream:
		t.sse.read(b, t.onEvent)
	case readBody:
		if t.unread = t.unread || len(t.body)+len(b) > t.options.MaxEvent; t.unread {
			t.body = t.body[:0]
			return
		}
		t.body = append(t.body, b...)
	}
}

// End says that the body ended: complete where the protocol said so, not where the connection
// broke or somebody left. What lacks its blank line is read now, with the time of the last read.
func (t *Tap) End(at time.Duration, complete bool) {
	if t.ended {
		return
	}
	t.ended, t.clean = true, complete
	if t.read == 0 {
		t.at = at
	}
	switch t.mode {
	case readStream:
		t.sse.end(t.onEvent)
	case readBody:
		t.whole()
	}
}

// Finished says whether the route's last event has come: [DONE], response.completed or
// message_stop. A client that leaves now has cancelled nothing.
func (t *Tap) Finished() bool { return t.done }

// Failed says whether the server has reported an error. A client that leaves now
// has been told why.
func (t *Tap) Failed() bool { return t.failed }

// data takes the data of one event.
func (t *Tap) data(data []byte) {
	data = trim(data)
	switch {
	case t.sse.tooLong:
		t.events++
		t.unread = true
		t.warn("an event was over the size limit and was not read")
	case len(data) == 0:
	case string(data) == "[DONE]":
		t.done = true
	case t.done:
		t.warn("data came after the last event and was not read")
	default:
		t.events++
		if t.event.parse(data) {
			t.apply(&t.event)
		} else if !t.sse.named && (!t.ended || t.clean) {
			t.badEvents++
		}
	}
}

// whole reads a body that is one JSON object.
func (t *Tap) whole() {
	switch {
	case t.unread:
		t.warn("the body was over the size limit and was not read")
	case t.event.parse(t.body):
		t.event.whole = true
		t.apply(&t.event)
	case t.clean && (t.status < 400 || len(t.body) > 0):
		t.warn("the body is not a JSON object")
	}
}

func (t *Tap) warn(text string) {
	for _, w := range t.warnings {
		if w == text {
			return
		}
	}
	t.warnings = append(t.warnings, text)
}

// expect warns where a claim about the answer does not hold.
func (t *Tap) expect(holds bool, text string) {
	if !holds {
		t.warn(text)
	}
}

// finalWarnings returns the warnings with the counts that are known at the end.
func (t *Tap) finalWarnings() []string {
	w := t.warnings
	if t.badEvents > 0 {
		w = append(w, fmt.Sprintf("%d events are not JSON objects", t.badEvents))
	}
	return w
}
