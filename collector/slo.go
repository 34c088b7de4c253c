package collector

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The limits that an SLO may have, by the name that --slo takes. All are of one
// request. Tools mean different things by these names (peers: TPOT with and without
// the first token, ITL as a mean or as each gap), so here they are written out:
//
//	ttft  from the start to the first event with output. The start is the moment the
//	      request was handed to the server's socket, as in timing.json; in open loop,
//	      of a first turn, the moment at which it was meant to be sent
//	tpot  time per output token without the first: (last event - first event) / (n - 1),
//	      n the tokens of the reply. A reply of one token has none, and is within
//	e2e   from the start to the last event with output
//	gap   the longest time between two events with output
const (
	LimitTTFT = "ttft"
	LimitTPOT = "tpot"
	LimitE2E  = "e2e"
	LimitGap  = "gap"
)

// SLO are limits that a request has to keep all of, and the share of requests that
// has to.
type SLO struct {
	TTFT  float64 `json:"ttft_s,omitempty"` // 0: no limit, as the next three
	TPOT  float64 `json:"tpot_excl_first_s,omitempty"`
	E2E   float64 `json:"e2e_s,omitempty"`
	Gap   float64 `json:"longest_gap_s,omitempty"`
	Share float64 `json:"share"`
}

// limits are the names and fields of an SLO, in their order.
func (s *SLO) limits() []struct {
	name  string
	limit *float64
} {
	return []struct {
		name  string
		limit *float64
	}{{LimitTTFT, &s.TTFT}, {LimitTPOT, &s.TPOT}, {LimitE2E, &s.E2E}, {LimitGap, &s.Gap}}
}

// ParseSLO reads limits as people type them, ttft=200ms, and reports all that is
// wrong with them at once. It returns nil where there are none.
func ParseSLO(typed []string, share float64) (*SLO, error) {
	if len(typed) == 0 {
		return nil, nil
	}
	s := &SLO{Share: share}
	var errs []error
	for _, each := range typed {
		name, value, _ := strings.Cut(each, "=")
		errs = append(errs, s.set(name, value, each))
	}
	if !(share > 0 && share < 1) {
		errs = append(errs, fmt.Errorf("cannot use --slo_share %v: want a share above 0 and below 1, such as 0.95", share))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// set takes one limit.
func (s *SLO) set(name, value, typed string) error {
	var names []string
	for _, l := range s.limits() {
		if l.name != name {
			names = append(names, l.name)
			continue
		}
		d, err := time.ParseDuration(value)
		switch {
		case err != nil || d <= 0:
			return fmt.Errorf("cannot use --slo %q: want a duration above 0 with its unit, as in %s=200ms", typed, name)
		case *l.limit != 0:
			return fmt.Errorf("cannot use --slo %q: %s has a limit already", typed, name)
		}
		*l.limit = d.Seconds()
		return nil
	}
	if slices.Contains([]string{"itl", "inter_token_latency"}, name) {
		return fmt.Errorf("cannot use --slo %q: tools mean two things by it; say tpot (time per output token without the first, a mean) or gap (the longest time between two events)", typed)
	}
	return fmt.Errorf("cannot use --slo %q: known are %s, as in ttft=200ms,tpot=20ms", typed, strings.Join(names, ", "))
}

// String is the SLO as it is typed.
func (s SLO) String() string {
	var parts []string
	for _, l := range s.limits() {
		if *l.limit > 0 {
			parts = append(parts, l.name+"="+time.Duration(*l.limit*1e9).String())
		}
	}
	return strings.Join(parts, ",")
}

// requestTimes are what an SLO limits, in seconds.
type requestTimes struct {
	ttft, e2e, gap float64
	tpot           float64 // 0 of a reply of one token
}

// requestTimes measures an answered request; ok is false where it did not stream,
// so that nothing but its end is known. lateness is how long before it was sent it
// was meant to be.
func (r *Record) requestTimes(lateness time.Duration) (t requestTimes, ok bool) {
	n := len(r.Chunks)
	if !r.Stream || n == 0 {
		return requestTimes{}, false
	}
	start := r.UpstreamWritten.Offset - lateness
	first, last := r.Chunks[0].At, r.Chunks[n-1].At
	t.ttft, t.e2e = (first - start).Seconds(), (last - start).Seconds()
	for i, c := range r.Chunks[1:] {
		t.gap = max(t.gap, (c.At - r.Chunks[i].At).Seconds())
	}
	tokens := 0
	for _, c := range r.Chunks {
		tokens += c.Tokens
	}
	if said, known := replyTokens(r); known {
		tokens = said
	}
	if tokens > 1 {
		t.tpot = (last - first).Seconds() / float64(tokens-1)
	}
	return t, true
}

// broken names the limits that a request did not keep.
func (s SLO) broken(t requestTimes) []string {
	var names []string
	for i, l := range s.limits() {
		if value := []float64{t.ttft, t.tpot, t.e2e, t.gap}[i]; *l.limit > 0 && value > *l.limit {
			names = append(names, l.name)
		}
	}
	return names
}
