package report

import (
	"fmt"
	"slices"

	"spectap/collector"
	"spectap/collector/estimate"
)

// lightestRuns are the runs of the point with the least load, for each temperature.
func lightestRuns(points []*point) []runs {
	var list []runs
	groups := repeats(points)
	for _, p := range lightest(points) {
		i := slices.IndexFunc(groups, func(g runs) bool { return slices.Contains(g, p) })
		list = append(list, groups[i])
	}
	return list
}

// drawn are the points as a chart has them: the runs of each together, or one by one
// where they cannot be.
func drawn(points []*point, can func(runs) bool) []runs {
	var list []runs
	for _, group := range repeats(points) {
		if len(group) == 1 || can(group) {
			list = append(list, group)
			continue
		}
		for _, p := range group {
			list = append(list, runs{p})
		}
	}
	return list
}

// name is the name of a point in a chart, or that of a run which stands alone.
func (r runs) name() string {
	if len(r) == 1 {
		return r[0].name
	}
	return short(r[0].run.BasePoint(), 48)
}

// figure is a figure of several runs together; ok is false of one run.
func (r runs) figure(name string) (f collector.RepeatFigures, ok bool) {
	if pooled, several := r.pooled(); several {
		return pooled.Figure(name)
	}
	return f, false
}

// together names the point where its runs are taken together, else its run.
func (r runs) together() string {
	pooled, several := r.pooled()
	if !several {
		return r[0].title()
	}
	return fmt.Sprintf("%s, %s together", short(pooled.Point, 48), counted(len(pooled.Runs), "run"))
}

// loadName is the load in words, with the number of the runs.
func (r runs) loadName() string {
	pooled, several := r.pooled()
	if !several {
		return r[0].load().name()
	}
	return fmt.Sprintf("%s, %s", r[0].load().name(), counted(len(pooled.Runs), "run"))
}

// rates are the acceptance rates of all runs by draft position; of one run where no
// more are known.
func (r runs) rates(conditional bool) ([]float64, []collector.Interval) {
	if rates, intervals, several := r.pooledRates(conditional); several {
		return rates, intervals
	}
	return r[0].rates(conditional)
}

// pooledRates are those of several runs together.
func (r runs) pooledRates(conditional bool) (rates []float64, intervals []collector.Interval, several bool) {
	for i := 1; ; i++ {
		f, ok := r.figure(collector.FigurePosition(i, conditional))
		if !ok {
			return rates, intervals, len(rates) > 0
		}
		rates, intervals = append(rates, f.Pooled), append(intervals, f.Interval)
	}
}

func (p *point) rates(conditional bool) ([]float64, []collector.Interval) {
	if conditional {
		return p.spec.Position.Conditional, p.spec.Position.ConditionalIntervals
	}
	return p.spec.Position.PerPosition, p.spec.Position.PerPositionIntervals
}

// category is the acceptance length of a category over all runs, with its interval:
// over runs and conversations where each run measured the same ones.
func (r runs) category(name string) (all category, in estimate.Interval, ok bool) {
	var parts [][]estimate.Part
	alike := true
	first := r[0].of(name)
	for _, p := range r {
		cat := p.of(name)
		if cat == nil {
			alike = false
			continue
		}
		if !ok {
			all = category{name: name, average: cat.average}
		}
		alike = alike && first != nil && slices.Equal(first.places, cat.places)
		all.al, ok = append(all.al, cat.al...), true
		parts = append(parts, grouped(cat.parts()))
	}
	if !ok {
		return all, in, false
	}
	if !alike {
		return all, estimate.Interval{Reason: "the runs measured other conversations"}, true
	}
	if len(parts) == 1 {
		return all, estimate.Ratio(parts[0], r[0].run.Seed), true
	}
	return all, estimate.RatioOfRuns(parts, r[0].run.Seed), true
}

// between is an interval in a mark's title; "" where there is none.
func between(low, high string) string {
	if low == none {
		return ""
	}
	return ", 95 % from " + low + " to " + high
}
