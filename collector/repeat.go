package collector

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Repeat says which of the runs of one point a Run is. The zero Repeat is the
// first one, or the only one. Files and names count from 1: the second run of
// t0_c32 is in t0_c32_r2 and has "repeat": 2, the first one's run line has none.
type Repeat int

// Number counts from 1.
func (r Repeat) Number() int { return int(r) + 1 }

// Suffix is what the name of a point has at its end: "" for the first run, then "_r2".
func (r Repeat) Suffix() string {
	if r == 0 {
		return ""
	}
	return "_r" + strconv.Itoa(r.Number())
}

// MarshalJSON counts from 1.
func (r Repeat) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, int64(r)+1, 10), nil }

// maxRepeats bounds what a run line may say.
const maxRepeats = 100000

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Repeat) UnmarshalJSON(b []byte) error {
	n, err := strconv.Atoi(string(b))
	if err != nil || n < 1 || n > maxRepeats {
		return fmt.Errorf("cannot read repeat %s: want a whole number of 1 to %d", b, maxRepeats)
	}
	*r = Repeat(n - 1)
	return nil
}

// BasePoint is the name that all runs of a point share: t0_c32 of t0_c32_r2.
func (r Run) BasePoint() string { return strings.TrimSuffix(r.Point, r.Repeat.Suffix()) }

// ApartWarmup sets the conversations apart that a sweep asks before a point
// (Run.Warmup). They end before the server's counters are read, so they are in no
// figure, no file and no audit; what is made of a Point is the same without them.
// Only a shard's are in its audit, as the server counts them while other shards
// are measured. What a foreign client warmed up with is ApartAskedAgain.
const ApartWarmup = "warmup"

// withoutWarmup is the Point that figures are made of.
func (p Point) withoutWarmup() Point {
	if p.Run.Shard != nil || len(p.Run.Shards) > 0 {
		return p // it is in their audit, and set apart from all else
	}
	p.Records = slices.DeleteFunc(slices.Clone(p.Records), func(r *Record) bool { return r.SetApart == ApartWarmup })
	return p
}
