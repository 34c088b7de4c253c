package telemetry

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"spectap/collector"
)

// labelOther is the value that takes whatever a bounded label does not admit.
const labelOther = "other"

// maxLabel bounds the bytes of a label's value that others chose.
const maxLabel = 128

// names are the values of a label that clients or servers choose. A value is
// admitted while there is room; all others are labelOther.
type names struct {
	limit int

	mu     sync.RWMutex
	known  map[string]bool
	folded uint64 // requests whose value found no room
}

// fold returns the value to show. Only a request that the engine served admits a
// new value: a client can send any.
func (n *names) fold(name string, served bool) string {
	if name == "" {
		return ""
	}
	name = clean(name)
	n.mu.RLock()
	known, room := n.known[name], len(n.known) < n.limit
	n.mu.RUnlock()
	switch {
	case known:
		return name
	case !served:
		return labelOther
	case !room:
		return n.refuse()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		n.known = make(map[string]bool, n.limit)
	}
	if !n.known[name] && len(n.known) >= n.limit {
		n.folded++
		return labelOther
	}
	n.known[strings.Clone(name)] = true
	return name
}

func (n *names) refuse() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.folded++
	return labelOther
}

// lost returns how many served requests show labelOther because there was no room.
func (n *names) lost() uint64 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.folded
}

// clean makes a label's value of a text: UTF-8 of bounded length.
func clean(s string) string {
	if len(s) > maxLabel {
		s = s[:maxLabel]
		for i := 1; i < utf8.UTFMax && !utf8.ValidString(s); i++ { // a character may be cut
			s = s[:maxLabel-i]
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// pathClass is the path of a request where it is a known one.
func pathClass(rec *collector.Record) string {
	if path := httpRoute(rec.Route, rec.Path); path != "" {
		return path
	}
	return labelOther
}

// statusClasses are the values of label status.
var statusClasses = [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

func statusClass(status int) string {
	if class := status / 100; class > 0 && class < len(statusClasses) {
		return statusClasses[class]
	}
	return statusClasses[0]
}

func served(rec *collector.Record) bool { return rec.Status/100 == 2 }

// outcome is the kind of failure, or ok.
func outcome(rec *collector.Record) string {
	switch rec.ErrorKind {
	case "":
		return "ok"
	case collector.ErrClientGone, collector.ErrUpstreamRefused, collector.ErrUpstreamReset, collector.ErrUpstreamTimeout,
		collector.ErrUpstreamProtocol, collector.ErrTruncated, collector.ErrStalled, collector.ErrDrained, collector.ErrInBand,
		collector.ErrHTTPStatus, collector.ErrNotFinished, collector.ErrRequestRejected, collector.ErrInternal:
		return rec.ErrorKind
	}
	return labelOther
}

// errorType is error.type of metrics and spans: one of few words, or the status
// where that is what went wrong; empty for what went well.
func errorType(rec *collector.Record) string {
	if word, ok := errorTypes[rec.ErrorKind]; ok {
		return word
	}
	switch {
	case rec.ErrorKind == "" && rec.Status < http.StatusBadRequest:
		return ""
	case rec.Status >= http.StatusBadRequest && http.StatusText(rec.Status) != "":
		return strconv.Itoa(rec.Status)
	}
	return "_OTHER"
}

// unbelieved is the reason of a block whose counts cannot be.
const unbelieved = "unbelieved"

// missing is the reason why a request has no statistics.
func missing(rec *collector.Record) string {
	if rec.Spec != nil {
		return unbelieved
	}
	switch rec.SpecMissing {
	case collector.MissingStopString, collector.MissingSeveralChoices, collector.MissingNoUsage, collector.MissingError,
		collector.MissingClientGone, collector.MissingTruncated, collector.MissingNotReported, collector.MissingNotMeasured:
		return rec.SpecMissing
	}
	return labelOther
}

func engine(rec *collector.Record) string {
	switch rec.Engine {
	case "", "vllm", "sglang", "trtllm", "llamacpp":
		return rec.Engine
	}
	return labelOther
}

// operation is gen_ai.operation.name; empty where the conventions have none.
func operation(rec *collector.Record) string {
	switch rec.Route {
	case collector.RouteChat, collector.RouteResponses, collector.RouteMessages:
		return "chat"
	case collector.RouteCompletions:
		return "text_completion"
	case collector.RouteOther:
		if rec.Path == "/v1/embeddings" {
			return "embeddings"
		}
	}
	return ""
}

// maxPosition is the first draft position that has no label of its own.
const maxPosition = 64

// positionNames are the values of label position.
var positionNames = func() (names [maxPosition]string) {
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}()
