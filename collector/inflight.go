package collector

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// flight is the time that one request was in flight, in seconds from the epoch:
// from the moment it was written upstream to the end of the answer.
type flight struct {
	start, end float64
	counted    bool // it is a turn of a conversation that is in the figures
}

// flightOf is a Record's flight; ok is false where nothing of it is known.
func flightOf(r *Record, epoch time.Time) (f flight, ok bool) {
	if r.Start.IsZero() {
		return flight{}, false
	}
	end := r.Ended()
	if n := len(r.Chunks); n > 0 {
		end = max(end, r.Chunks[n-1].At)
	}
	at := r.Start.Round(0).Sub(epoch)
	f = flight{start: (at + r.UpstreamWritten.Offset).Seconds(), end: (at + end).Seconds()}
	return f, f.end > f.start
}

// flights are the flights of Records, those that are in no figure too: they are
// load for the server all the same.
func (p Point) flights(s selection, recs []*Record) []flight {
	counted := map[*Record]bool{}
	for _, c := range s.convs {
		for _, t := range c.turns {
			counted[t.rec] = true
		}
	}
	epoch := p.epoch()
	var list []flight
	for _, r := range recs {
		if f, ok := flightOf(r, epoch); ok {
			f.counted = counted[r]
			list = append(list, f)
		}
	}
	return list
}

// span is a piece of time, in seconds from the epoch.
type span struct{ from, to float64 }

func (s span) seconds() float64 { return s.to - s.from }

// meanInFlight is the integral of the number in flight over a span by its length.
func meanInFlight(flights []flight, s span) float64 {
	if s.seconds() <= 0 {
		return 0
	}
	total := 0.0
	for _, f := range flights {
		total += max(0, min(f.end, s.to)-max(f.start, s.from))
	}
	return total / s.seconds()
}

// edge is a moment at which the number in flight changes.
type edge struct {
	at   float64
	by   int
	each int // to give equal moments one order: ends come first
}

// spansAtLeast returns the spans in which at least n are in flight, and the most
// that are in flight at once. A request that starts at the moment at which
// another ends does not overlap with it, and leaves no gap.
func spansAtLeast(flights []flight, n int) (spans []span, most int) {
	edges := make([]edge, 0, 2*len(flights))
	for _, f := range flights {
		edges = append(edges, edge{f.start, 1, 1}, edge{f.end, -1, 0})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.each, b.each)) })
	running, since := 0, math.NaN()
	for i, e := range edges {
		running += e.by
		most = max(most, running)
		if i+1 < len(edges) && edges[i+1].at == e.at {
			continue // the number at a moment is that after all its edges
		}
		switch {
		case running >= n && math.IsNaN(since):
			since = e.at
		case running < n && !math.IsNaN(since):
			spans = append(spans, span{since, e.at})
			since = math.NaN()
		}
	}
	return spans, most
}

// bridged joins spans with less than gap between them.
func bridged(spans []span, gap float64) []span {
	var joined []span
	for _, s := range spans {
		if n := len(joined); n > 0 && s.from-joined[n-1].to <= gap {
			joined[n-1].to = s.to
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// longest returns the longest span; of equal ones the first.
func longest(spans []span) span {
	return slices.MaxFunc(spans, func(a, b span) int { return cmp.Compare(a.seconds(), b.seconds()) })
}

// covered is how long spans last inside another one.
func covered(spans []span, in span) float64 {
	total := 0.0
	for _, s := range spans {
		total += max(0, min(s.to, in.to)-max(s.from, in.from))
	}
	return total
}
