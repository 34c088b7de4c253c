package fakevllm

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	errFault  = errors.New("scripted fault")
	errInBand = errors.New("an error event took the rest")
)

// fault is a scripted misbehaviour: "name", "name@n", and in Config.Fault also
// "name@n/m" for every m-th request.
type fault struct {
	name  string
	n     int // events before it
	every int
}

// faultNames are the faults and what they do.
var faultNames = map[string]string{
	"nostats":   "no statistics block",
	"status400": "error status", "status429": "error status", "status500": "error status", "status503": "error status",
	"error":    "an error event after n events, then [DONE]",
	"cut":      "the connection closes after n events, without the last chunk",
	"stall":    "nothing more after n events, the connection stays open",
	"nodone":   "no [DONE], a clean end",
	"comments": "a keep-alive comment before every event",
	"split":    "every event in three writes",
	"merge":    "three events in one write",
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

// pickFault chooses the next request's fault: its header's, else every m-th's.
func (e *Engine) pickFault(header string) (fault, error) {
	if header != "" {
		return parseFault(header)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counters.requests++; e.counters.requests%e.fault.every != 0 {
		return fault{}, nil
	}
	return e.fault, nil
}

// send writes one event as the fault wants it; tokens says that it carries some,
// so that its write is stamped.
func (g *generation) send(event string, tokens bool) error {
	f := g.q.fault
	if g.events == f.n {
		switch f.name {
		case "cut":
			return errFault
		case "stall":
			<-g.ctx.Done()
			return errFault
		case "error":
			g.pending += (&apiError{status: 500, kind: "InternalServerError", message: "scripted fault"}).json(errorEvent)
			return errors.Join(g.flush(), errInBand)
		}
	}
	g.events++
	if tokens {
		g.stamps++
	}
	switch f.name {
	case "comments":
		event = ": keep-alive\n\n" + event
	case "split":
		for range 2 {
			g.pending, event = event[:len(event)/2], event[len(event)/2:]
			if err := g.flush(); err != nil {
				return err
			}
		}
	}
	g.pending += event
	if f.name == "merge" && g.events%3 != 0 {
		return nil
	}
	return g.flush()
}

// flush writes what is pending as one chunk, and notes the time before it for
// each event with tokens in it.
func (g *generation) flush() error {
	for now := time.Now().UnixNano(); g.stamps > 0; g.stamps-- {
		g.t.WriteUnixNs = append(g.t.WriteUnixNs, now)
	}
	_, err := g.w.Write([]byte(g.pending))
	g.pending = ""
	return errors.Join(err, http.NewResponseController(g.w).Flush())
}
