package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spectap/collector"
)

// proveSeen makes sure that each sink has got every exchange, so that nothing is
// found in it only because nothing was in it.
func (o *observed) proveSeen(t *testing.T, sinks map[string]string) {
	recs := recordsOf(t, sinks["records"])
	kinds := map[string]int{}
	for i, e := range o.list {
		rec := recs[fmt.Sprint(i)]
		if (rec != nil) != (e.route != "") {
			t.Errorf("%s: got a record %v, want one %v", e.name, rec != nil, e.route != "")
			continue
		}
		if rec != nil {
			if rec.Route != e.route || rec.ErrorKind != e.kind {
				t.Errorf("%s: got route %q, kind %q (%s); want %q, %q", e.name, rec.Route, rec.ErrorKind, rec.Error, e.route, e.kind)
			}
			if rec.ErrorKind != "" && !strings.Contains(sinks["log"], rec.ID) {
				t.Errorf("%s: the log does not tell the failure", e.name)
			}
			kinds[rec.ErrorKind]++
		}
		trace, _ := hex.DecodeString(traceOf(i))
		traced := !o.alone && !e.refused && e.leave != leaveInside && !strings.Contains(e.request, "traceparent: ")
		if has := strings.Contains(sinks["spans"], string(trace)); has != traced {
			t.Errorf("%s: got spans %v", e.name, has)
		}
	}
	for kind, n := range kinds {
		if got := countOf(sinks["metrics"], kind); got < n {
			t.Errorf("/metrics has %d requests with outcome %q, want %d", got, kind, n)
		}
	}
	if warned := strings.Contains(sinks["log"], "PRIVATE CONTENT IS KEPT"); warned != (o.capture != "") {
		t.Errorf("the log warns of captured content: %v", warned)
	}
	all, _, refused := o.flights()
	if n := strings.Count(sinks["log"], "request refused"); n < refused {
		t.Errorf("the log tells of %d refused requests, want %d", n, refused)
	}
	if !o.alone && !strings.Contains(sinks["pushed"], "spectap.requests") {
		t.Error("no metrics were pushed")
	}
	if all == 0 || sinks["page"] == "" || sinks["admin"] == "" {
		t.Error("a sink is empty")
	}
}

// recordsOf are the records of a file by their X-Request-Id.
func recordsOf(t *testing.T, text string) map[string]*collector.Record {
	recs := map[string]*collector.Record{}
	for line := range strings.Lines(text) {
		var rec collector.Record
		if strings.Contains(line, collector.SchemaRun) {
			continue
		}
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Errorf("%v in %s", err, line)
		}
		recs[rec.RequestID] = &rec
	}
	return recs
}

// countOf sums the requests of an outcome in the first of two texts of /metrics.
func countOf(metrics, kind string) (n int) {
	if kind == "" {
		kind = "ok"
	}
	metrics, _, _ = strings.Cut(metrics, "# EOF")
	for _, found := range regexp.MustCompile(`(?m)^spectap_requests_total\{[^\n]*outcome="`+kind+`"[^\n]*\} (\d+)$`).FindAllStringSubmatch(metrics, -1) {
		one := 0
		_, _ = fmt.Sscan(found[1], &one)
		n += one
	}
	return n
}

// proveEffective makes sure that each canary was where it could have leaked from.
func (o *observed) proveEffective(t *testing.T) {
	toEngine, ours := strings.ToLower(o.toEngine.String()), 0
	for i, e := range o.list {
		own := strings.Contains(string(o.answers[i]), `"type":"spectap_`)
		if own {
			ours++
		}
		reached := strings.Contains(toEngine, canaryOf(i))
		passed := !own && strings.Contains(string(o.answers[i]), canaryOf(i))
		stopped := e.refused || e.leave == leaveInside || own || e.stays
		if !reached && !passed && !stopped {
			t.Errorf("%s: neither the engine nor the client has got the canary, and nothing was refused: %q", e.name, o.answers[i])
		}
		if strings.Contains(e.answer, canary) && !passed && !own && e.leave == "" && !e.stays {
			t.Errorf("%s: the client has not got the canary: %q", e.name, o.answers[i])
		}
	}
	if ours < 10 {
		t.Errorf("got %d answers of the proxy itself, want 10 or more", ours)
	}
}

// lookForCanaries fails for each canary in a sink that may not show it, and for
// each that is missing where it is to be shown.
func (o *observed) lookForCanaries(t *testing.T, sinks map[string]string) {
	for sink, text := range sinks {
		text, optional := strings.ToLower(text), o.alone && (sink == "spans" || sink == "pushed")
		if at := strings.Index(text, "c4n4ryotlp"); at >= 0 {
			t.Errorf("%s shows the header of the exports: %q", sink, around(text, at))
		}
		for i, e := range o.list {
			shown := slices.Contains(strings.Fields(e.shown), sink) || o.captures(e, sink)
			at := strings.Index(text, canaryOf(i))
			switch {
			case shown && at < 0 && !optional:
				t.Errorf("%s: %s does not show it, and should", e.name, sink)
			case !shown && at >= 0 && !slices.Contains(strings.Fields(e.shown), sink+"?"):
				t.Errorf("%s: LEAK: %s shows it: %q", e.name, sink, around(text, at))
			}
		}
	}
	for i, e := range o.list {
		if answer := string(o.answers[i]); strings.Contains(answer, `"type":"spectap_`) && strings.Contains(answer, canaryOf(i)) {
			t.Errorf("%s: LEAK: the proxy's own answer shows it: %q", e.name, answer)
		}
	}
}

// captures says that a sink has to show what was allowed: records texts and
// headers, spans headers alone.
func (o *observed) captures(e exchange, sink string) bool {
	for _, word := range strings.Fields(e.captured) {
		if strings.Contains(o.capture, word) && (sink == "records" || sink == "spans" && word == "header") {
			return true
		}
	}
	return false
}

func around(text string, at int) string { return text[max(0, at-120):min(len(text), at+60)] }
