package fakevllm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

var errFault = errors.New("scripted fault")

// fault is a scripted misbehaviour: "name", "name@n", and in Config.Fault also
// "name@n/m" for every m-th request.
type fault struct {
	name  string
	n     int // events before it; slowhead: hundredths of a second
	every int
}

// faultNames are the faults and what they do.
var faultNames = map[string]string{
	"nostats":   "no statistics block",
	"status400": "error status", "status429": "error status", "status500": "error status", "status503": "error status",
	"error":    "an error event after n events, then [DONE]",
	"cut":      "the connection closes after n events, without the last chunk",
	"rst":      "the connection is reset after n events",
	"stall":    "nothing more after n events, the connection stays open",
	"nodone":   "no [DONE], a clean end",
	"comments": "a keep-alive comment before every event",
	"split":    "every event in three writes",
	"merge":    "three events in one write",
	"crlf":     "CRLF line ends",
	"slowhead": "the head comes n hundredths of a second late",
	"reset":    "the connection is reset before the head",
	"nothttp":  "an answer that is not HTTP",
	"garbage":  "after n events an event that is not JSON",
}

// FaultNames lists the scripted faults and what each does, one a line.
func FaultNames() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(faultNames)) {
		fmt.Fprintf(&b, "\n%-10s %s", name, faultNames[name])
	}
	return b.String()
}

func parseFault(s string) (fault, error) {
	f := fault{n: 3, every: 1}
	s, every, has := strings.Cut(s, "/")
	name, n, at := strings.Cut(s, "@")
	f.name = name
	var err error
	if has {
		f.every, err = strconv.Atoi(every)
	}
	if at && err == nil {
		f.n, err = strconv.Atoi(n)
	}
	if _, known := faultNames[name]; err != nil || name != "" && !known || f.every < 1 || f.n < 0 {
		return f, fmt.Errorf("cannot read fault %q: want name, name@n or name@n/every, with one of fakevllm's fault names", s)
	}
	return f, nil
}

// before acts out what comes before the head; true means that it took the answer.
func (f fault) before(e *Engine, conn net.Conn) (*apiError, bool) {
	switch f.name {
	case "slowhead":
		_ = e.sleep(time.Duration(f.n) * 10 * time.Millisecond)
	case "reset":
		reset(conn)
		return nil, true
	case "nothttp":
		_, _ = io.WriteString(conn, "SSH-2.0-this is not HTTP\r\n")
		_ = conn.Close()
		return nil, true
	}
	code, ok := strings.CutPrefix(f.name, "status")
	if !ok {
		return nil, false
	}
	status, _ := strconv.Atoi(code)
	kind := map[int]string{400: "BadRequestError", 429: "Too Many Requests", 500: "InternalServerError", 503: "Service Unavailable"}[status]
	return &apiError{status: status, message: "scripted fault " + f.name, kind: kind}, true
}

// reset closes a connection so that the peer sees a reset where there is TCP.
func reset(conn net.Conn) {
	if l, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = l.SetLinger(0)
	}
	_ = conn.Close()
}

// wire is the way of events to the socket, with its fault.
type wire struct {
	w       io.Writer
	conn    net.Conn
	fault   fault
	truth   *Truth
	done    <-chan struct{}
	events  int
	failed  bool // an in-band error took the rest
	held    []byte
	stamps  int // events with tokens in held
	inHeld  int
	written int64
}

// event sends one event; tokens says that it carries some, so that its write is stamped.
func (w *wire) event(b []byte, tokens bool) error {
	if w.failed {
		return nil
	}
	if err := w.script(); err != nil || w.failed {
		return err
	}
	w.events++
	if tokens {
		w.stamps++
	}
	switch w.fault.name {
	case "comments":
		b = append([]byte(": keep-alive\n\n"), b...)
	case "crlf":
		b = bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
	case "split":
		third := len(b) / 3
		if err := errors.Join(w.write(b[:third]), w.write(b[third:2*third])); err != nil {
			return err
		}
		return w.stamped(b[2*third:])
	case "merge":
		w.held = append(w.held, b...)
		w.inHeld++
		if w.inHeld < 3 {
			return nil
		}
		b, w.held, w.inHeld = w.held, nil, 0
	}
	return w.stamped(b)
}

// stamped writes b, and notes the time before it for each event with tokens in it.
func (w *wire) stamped(b []byte) error {
	for now := time.Now().UnixNano(); w.stamps > 0; w.stamps-- {
		w.truth.WriteUnixNs = append(w.truth.WriteUnixNs, now)
	}
	return w.write(b)
}

func (w *wire) write(b []byte) error {
	n, err := w.w.Write(b)
	w.written += int64(n)
	return err
}

// script acts out the faults that come after n events.
func (w *wire) script() error {
	if w.events != w.fault.n {
		return nil
	}
	switch w.fault.name {
	case "cut":
		return errFault
	case "rst":
		reset(w.conn)
		return errFault
	case "stall":
		return w.stall()
	case "garbage":
		return w.write([]byte("data: {\"id\":\"chatcmpl-\n\n"))
	case "error":
		w.failed = true
		e := apiError{status: 500, kind: "InternalServerError", message: "scripted fault"}
		return w.write(e.event())
	}
	return nil
}

// stall waits until the client leaves or the engine closes.
func (w *wire) stall() error {
	var one [1]byte
	for {
		_ = w.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := w.conn.Read(one[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return errFault
		}
		select {
		case <-w.done:
			return errFault
		default:
		}
	}
}

// finish sends what is held and [DONE].
func (w *wire) finish() error {
	end := []byte("data: [DONE]\n\n")
	switch w.fault.name {
	case "nodone":
		return nil
	case "crlf":
		end = []byte("data: [DONE]\r\n\r\n")
	case "merge":
		end = append(w.held, end...)
	}
	return w.stamped(end)
}
