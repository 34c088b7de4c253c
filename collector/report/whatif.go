package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spectap/collector"
)

// whatIfSection shows what shorter drafts would have brought.
func (s *Source) whatIfSection() section {
	sec := section{ID: "whatif", Title: "What if the draft were shorter"}
	drafted := s.speculative()
	points := slices.DeleteFunc(slices.Clone(drafted), func(p *point) bool { return p.spec.WhatIf == nil || len(p.spec.WhatIf.Lengths) == 0 })
	if len(points) == 0 {
		if len(drafted) > 0 {
			sec.quiet("Not shown: speculation.json of the points does not have it, as no verify step was reported, the draft length is not known, or an older version wrote it.")
		}
		return sec
	}
	shown := lightestRuns(points)
	if len(shown) > maxSeries {
		shown = shown[:maxSeries]
	}
	var sentences, assumed []string
	for _, group := range shown {
		title, w := group.whatIf()
		sentences = append(sentences, title+": "+sentence(short(w.TryNext, 400)))
		for _, a := range w.Assumes {
			if !slices.Contains(assumed, a) {
				assumed = append(assumed, a)
			}
		}
	}
	sec.Blocks = append(sec.Blocks, block{List: sentences})
	sec.figures(whatIfFigure(points, shown), lastFigure(points))
	for _, a := range assumed {
		sec.quiet("Assumed: " + strings.TrimSuffix(short(a, 400), ".") + ".")
	}
	return sec
}

// whatIf are the figures of all runs together, else of the first, and whose they are.
func (r runs) whatIf() (title string, w collector.WhatIf) {
	if pooled, several := r.pooled(); several {
		if all, ok := r[0].spec.WhatIf.OfRuns(pooled); ok {
			return r.together(), all
		}
	}
	return r[0].title(), *r[0].spec.WhatIf
}

// whatIfFigure is AL by draft length at the least load of each temperature.
func whatIfFigure(points []*point, shown []runs) figure {
	c := lineChart{xTitle: "draft length, num_speculative_tokens", yTitle: "acceptance length, tokens a step", yDecimals: true, apart: true}
	most := 0
	for _, p := range points {
		for _, l := range p.spec.WhatIf.Lengths {
			most = max(most, l.DraftLength)
		}
	}
	for i := range most {
		c.xTicks = append(c.xTicks, tick{float64(i + 1), strconv.Itoa(i + 1)})
	}
	index, _ := temperatureIndex(points)
	var legends []legend
	for _, group := range shown {
		p := group[0]
		line := series{style: index[p.run.Temperature], name: "T " + temperature(p.run.Temperature)}
		title, w := group.whatIf()
		for _, l := range w.Lengths {
			d := newDataPoint(float64(l.DraftLength), l.AverageAL, "", fmt.Sprintf("%s, draft length %d: %s", title, l.DraftLength, fixed(l.AverageAL, 3)))
			if l.Interval != nil {
				d.lo, d.hi = l.Interval.Low, l.Interval.High
			}
			line.points = append(line.points, d)
		}
		c.series = append(c.series, line)
		legends = append(legends, newLegend(line.style, temperatureName(p.run.Temperature)+", "+group.loadName(), true))
	}
	t := table{Caption: "Acceptance length by draft length, all points", Head: heads("Point", "Draft length", "AL", "95 % from", "to", "Of the full AL", "Tokens per verify step")}
	eachWhatIf(points, func(title string, w collector.WhatIf) { t.Rows = append(t.Rows, lengthRows(title, w)...) })
	return figure{
		ID: "draft-length", Title: "Acceptance length by draft length", Unit: "from the steps that were measured; 95 % interval; least load of each temperature",
		Desc:   fmt.Sprintf("Acceptance length that drafts of 1 to %d tokens would have had, one line a temperature.", most),
		Legend: legends, Wide: c.draw(wideWidth, 320), Narrow: c.draw(narrowWidth, 300), Data: t,
	}
}

// eachWhatIf has what a table of all points has: of several runs first all together,
// then each.
func eachWhatIf(points []*point, row func(title string, w collector.WhatIf)) {
	for _, group := range repeats(points) {
		title, w := group.whatIf()
		if title != group[0].title() {
			row(title, w)
		}
		for _, p := range group {
			row(p.title(), *p.spec.WhatIf)
		}
	}
}

// lengthRows are the rows of one run, or of several together, by draft length.
func lengthRows(title string, w collector.WhatIf) [][]cell {
	var rows [][]cell
	for _, l := range w.Lengths {
		low, high := none, none
		if l.Interval != nil {
			low, high = fixed(l.Interval.Low, 3), fixed(l.Interval.High, 3)
		}
		rows = append(rows, []cell{textCell(title), number(strconv.Itoa(l.DraftLength)), number(fixed(l.AverageAL, 4)), number(low), number(high), number(percent(l.Kept)), number(fixed(l.TokensPerStep, 4))})
	}
	return rows
}

// lastFigure is what the last draft position brings, by point.
func lastFigure(points []*point) figure {
	index, order := temperatureIndex(points)
	c := rowChart{xTitle: "acceptance length gained by the last position"}
	for _, group := range drawn(points, func(r runs) bool { title, _ := r.whatIf(); return title != r[0].title() }) {
		p := group[0]
		title, w := group.whatIf()
		gain := fixed(w.Last.Gain, 3)
		v := rowValue{style: index[p.run.Temperature], v: w.Last.Gain, lo: nan, hi: nan, q1: nan, q3: nan, title: title + ": " + gain}
		if in := w.Last.GainInterval; in.Known {
			v.lo, v.hi = in.Low, in.High
		}
		c.rows = append(c.rows, row{name: group.name(), value: gain, values: []rowValue{v}})
	}
	t := table{Caption: "What the last draft position brings", Head: heads("Point", "Position", "AL gained", "95 % from", "to", "Accepted, of all steps", "Accepted where reached")}
	eachWhatIf(points, func(title string, w collector.WhatIf) { t.Rows = append(t.Rows, lastCells(title, w.Last)) })
	var legends []legend
	for i, temp := range order {
		legends = append(legends, newLegend(i, temperatureName(temp), false))
	}
	return figure{
		ID: "last-position", Title: "What the last draft position brings", Unit: "AL with it less AL without it, 95 % interval", Legend: legends, Data: t,
		Desc: fmt.Sprintf("Acceptance length gained by the last draft position of %s.", counted(len(c.rows), "point")),
		Wide: c.draw(wideWidth), Narrow: c.draw(narrowWidth),
	}
}

// lastCells is the row of one run, or of several together.
func lastCells(title string, last collector.LastPosition) []cell {
	low, high, after := none, none, none
	if in := last.GainInterval; in.Known {
		low, high = fixed(in.Low, 3), fixed(in.High, 3)
	}
	if last.AfterPrevious != nil {
		after = percent(*last.AfterPrevious)
	}
	return []cell{textCell(title), number(strconv.Itoa(last.Position)), number(fixed(last.Gain, 4)), number(low), number(high), number(percent(last.Accepted)), number(after)}
}
