package compare

import (
	"fmt"
	"strings"
)

// Since is the moment that a latency counts from. In an open loop conversations are
// to begin at moments of their own, and a request that is late, or waits behind
// others, is not as fast as one that is not; in a closed loop nothing is late.
type Since string

// The values of Since.
const (
	SinceWritten  Since = "written"  // the moment when the request was written, as timing.json has it
	SinceIntended Since = "intended" // where both sides are open loops: the scheduled moment, of a later turn the end of the turn before it
)

// open says that the point is an open loop: conversations began at a schedule's moments.
func (p Point) open() bool {
	for _, r := range p.runs {
		if r.point == nil || !r.point.Run.Schedule.Begun() {
			return false
		}
	}
	return true
}

// since is the moment that a quantity counts from; "" where it counts from none.
func (p pairs) since(quantity string) Since {
	switch {
	case quantity != QuantityTTFT:
		return ""
	case p.open:
		return SinceIntended
	}
	return SinceWritten
}

// ttft takes a turn's TTFT from the moment that counts for both sides.
func (p pairs) ttft() func(turn) sample {
	if p.since(QuantityTTFT) == SinceIntended {
		return func(t turn) sample { return t.due }
	}
	return func(t turn) sample { return t.ttft }
}

// The loops, as a Difference names them.
const (
	loopOpen   = "open: at moments of a schedule"
	loopClosed = "closed: as many at a time"
)

// loops says that one side alone is an open loop: its requests do not wait for each
// other, and what the server makes them wait is in no TTFT that both sides have.
func (p PointComparison) loops() (a, b string, differ bool) {
	name := func(open bool) string {
		if open {
			return loopOpen
		}
		return loopClosed
	}
	x, y := p.a.open(), p.b.open()
	return name(x), name(y), x != y
}

// sinceLines say what the TTFT of open loops counts from. That of closed loops
// counts from the writing of a request, as everywhere.
func (c Comparison) sinceLines() []string {
	var intended, mixed []string
	for _, p := range c.Points {
		if _, _, differ := p.loops(); differ {
			mixed = append(mixed, p.Point)
		} else if p.pairs.open {
			intended = append(intended, p.Point)
		}
	}
	where := func(points []string) string {
		if len(points) == len(c.Points) {
			return ""
		}
		return " in " + strings.Join(points, ", ")
	}
	var lines []string
	if len(intended) > 0 {
		lines = append(lines, fmt.Sprintf("TTFT counts from the intended moment%s: both sides are open loops.", where(intended)))
	}
	if len(mixed) > 0 {
		lines = append(lines, fmt.Sprintf("TTFT counts from the writing of a request%s, as one side alone is an open loop: how late its requests were written is not in it.", where(mixed)))
	}
	return lines
}
