package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	shown := lightest(points)
	if len(shown) > maxSeries {
		shown = shown[:maxSeries]
	}
	var sentences, assumed []string
	for _, p := range shown {
		sentences = append(sentences, p.title()+": "+sentence(short(p.spec.WhatIf.TryNext, 400)))
		for _, a := range p.spec.WhatIf.Assumes {
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

// whatIfFigure is AL by draft length at the least load of each temperature.
func whatIfFigure(points, shown []*point) figure {
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
	t := table{Caption: "Acceptance length by draft length, all points", Head: heads("Point", "Draft length", "AL", "95 % from", "to", "Of the full AL", "Tokens per verify step")}
	for _, p := range points {
		line := series{style: index[p.run.Temperature], name: "T " + temperature(p.run.Temperature)}
		for _, l := range p.spec.WhatIf.Lengths {
			d := newDataPoint(float64(l.DraftLength), l.AverageAL, "", fmt.Sprintf("%s, draft length %d: %s", p.title(), l.DraftLength, fixed(l.AverageAL, 3)))
			low, high := none, none
			if l.Interval != nil {
				d.lo, d.hi = l.Interval.Low, l.Interval.High
				low, high = fixed(d.lo, 3), fixed(d.hi, 3)
			}
			line.points = append(line.points, d)
			t.Rows = append(t.Rows, []cell{textCell(p.title()), number(strconv.Itoa(l.DraftLength)), number(fixed(l.AverageAL, 4)), number(low), number(high), number(percent(l.Kept)), number(fixed(l.TokensPerStep, 4))})
		}
		if slices.Contains(shown, p) {
			c.series = append(c.series, line)
			legends = append(legends, newLegend(line.style, temperatureName(p.run.Temperature)+", "+p.load().name(), true))
		}
	}
	return figure{
		ID: "draft-length", Title: "Acceptance length by draft length", Unit: "from the steps that were measured; 95 % interval; least load of each temperature",
		Desc:   fmt.Sprintf("Acceptance length that drafts of 1 to %d tokens would have had, one line a temperature.", most),
		Legend: legends, Wide: c.draw(wideWidth, 320), Narrow: c.draw(narrowWidth, 300), Data: t,
	}
}

// lastFigure is what the last draft position brings, by point.
func lastFigure(points []*point) figure {
	index, order := temperatureIndex(points)
	c := rowChart{xTitle: "acceptance length gained by the last position"}
	t := table{Caption: "What the last draft position brings", Head: heads("Point", "Position", "AL gained", "95 % from", "to", "Accepted, of all steps", "Accepted where reached")}
	for _, p := range points {
		last := p.spec.WhatIf.Last
		v := rowValue{style: index[p.run.Temperature], v: last.Gain, lo: nan, hi: nan, q1: nan, q3: nan, title: p.title() + ": " + fixed(last.Gain, 3)}
		low, high, after := none, none, none
		if last.GainInterval.Known {
			v.lo, v.hi = last.GainInterval.Low, last.GainInterval.High
			low, high = fixed(v.lo, 3), fixed(v.hi, 3)
		}
		if last.AfterPrevious != nil {
			after = percent(*last.AfterPrevious)
		}
		c.rows = append(c.rows, row{name: p.name, value: fixed(last.Gain, 3), values: []rowValue{v}})
		t.Rows = append(t.Rows, []cell{textCell(p.title()), number(strconv.Itoa(last.Position)), number(fixed(last.Gain, 4)), number(low), number(high), number(percent(last.Accepted)), number(after)})
	}
	var legends []legend
	for i, temp := range order {
		legends = append(legends, newLegend(i, temperatureName(temp), false))
	}
	return figure{
		ID: "last-position", Title: "What the last draft position brings", Unit: "AL with it less AL without it, 95 % interval", Legend: legends, Data: t,
		Desc: fmt.Sprintf("Acceptance length gained by the last draft position of %s.", counted(len(points), "point")),
		Wide: c.draw(wideWidth), Narrow: c.draw(narrowWidth),
	}
}
