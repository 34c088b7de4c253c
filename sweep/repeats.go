package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"spectap/collector"
)

// MostRepeats bounds --repeats.
const MostRepeats = 1000

// repeatPoints plans the later runs of the points: all points once, then all
// again. Each second round runs backwards, so that a steady drift of the server
// falls on all points alike where the rounds are even in number, and a third of it
// or less is left between points where they are odd: it does not look like an
// effect of the point.
func (p *Plan) repeatPoints() error {
	n := p.Config.Repeats
	if n < 1 || n > MostRepeats {
		return fmt.Errorf("cannot use --repeats %d: want 1 to %d", n, MostRepeats)
	}
	once := p.Points
	for r := 1; r < n; r++ {
		round := slices.Clone(once)
		if r%2 == 1 {
			slices.Reverse(round)
		}
		for _, point := range round {
			point.Repeat = collector.Repeat(r)
			point.Name += point.Repeat.Suffix()
			p.Points = append(p.Points, point)
		}
	}
	return nil
}

// seedOf is the seed of a run's requests: --seed, one more for each repeat, so that
// repeats draw other samples, as they do without a seed; nil where none is sent.
func (c Config) seedOf(point PlannedPoint) *int64 {
	if c.SamplingSeed == nil {
		return nil
	}
	seed := *c.SamplingSeed + int64(point.Repeat)
	return &seed
}

// byPoint puts the runs of a point side by side, points in the order in which they first came.
func byPoint[T any](list []T, nameOf func(T) (point string, repeat collector.Repeat)) []T {
	first := map[string]int{}
	base := func(v T) string {
		name, r := nameOf(v)
		return strings.TrimSuffix(name, r.Suffix())
	}
	for i, v := range list {
		if _, seen := first[base(v)]; !seen {
			first[base(v)] = i
		}
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b T) int {
		_, ra := nameOf(a)
		_, rb := nameOf(b)
		return cmp.Or(first[base(a)]-first[base(b)], int(ra-rb))
	})
	return sorted
}

// runText names a later run of a point in a line.
func (p PlannedPoint) runText() string {
	if p.Repeat == 0 {
		return ""
	}
	return fmt.Sprintf(", run %d", p.Repeat.Number())
}
