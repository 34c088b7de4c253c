package report

import (
	"fmt"
	"math"
	"strconv"

	"spectap/collector"
)

// maxSeries is how many lines a chart of one point for each temperature has at most.
const maxSeries = shapes

// maxCategories is how many categories a table has columns for.
const maxCategories = 16

// acceptanceSection shows the acceptance length by point, by category and the
// acceptance by draft position.
func (s *Source) acceptanceSection() section {
	sec := section{ID: "acceptance", Title: "Acceptance"}
	points := s.speculative()
	if len(points) == 0 {
		if len(s.complete()) > 0 {
			sec.say("Not shown: the server does not speculate, so these points are a baseline.")
		}
		return sec
	}
	var figures []figure
	shown := lightestRuns(points)
	if len(shown) > maxSeries {
		shown = shown[:maxSeries]
	}
	if drafted := withPositions(points); len(drafted) > 0 {
		figures = append(figures, positionFigure("per-position", "Acceptance per draft position", "accepted there ÷ all verify steps, as vLLM counts; least load of each temperature", drafted, shown, false))
		figures = append(figures, positionFigure("conditional", "Conditional acceptance by draft position", "accepted there ÷ steps that came so far; least load of each temperature", drafted, shown, true))
	}
	sec.figures(figures...)
	figures = []figure{lengthFigure(points)}
	byCategory, columns := categoryFigure(points, shown)
	if columns > 1 {
		figures = append(figures, byCategory)
	}
	sec.figures(figures...)
	if len(withPositions(points)) == 0 {
		sec.quiet("Acceptance by draft position is not shown: no verify step was reported.")
	}
	for _, why := range s.distinct(func(p *point) string {
		if p.failed || len(p.spec.Position.PerPosition) == 0 {
			return ""
		}
		return p.spec.Position.NoConditional
	}) {
		sec.quiet("No conditional rate at some points: " + why + ".")
	}
	if columns > 1 {
		sec.table(categoryTable(points))
	} else {
		sec.quiet("No table by category: all conversations are of one category, or of none that was named.")
	}
	return sec
}

// nan is a bound that is not known.
var nan = math.NaN()

// lengthFigure is AL by point with its interval, of several runs together; the table
// has each run's.
func lengthFigure(points []*point) figure {
	index, order := temperatureIndex(points)
	c := rowChart{xTitle: "acceptance length, tokens a step"}
	t := table{Caption: "Acceptance length by point", Head: heads("Point", "AL", "95 % from", "to", "Conversations", "Client view", "Server view")}
	note := "Intervals are over conversations of this run only: another run of the same server may differ by more."
	for _, group := range repeats(points) {
		p := group[0]
		v, low, high := rowValue{style: index[p.run.Temperature], lo: nan, hi: nan, q1: nan, q3: nan}, none, none
		if f, ok := group.figure(collector.FigureAL); ok {
			if f.Interval.Known {
				v.lo, v.hi = f.Interval.Low, f.Interval.High
				low, high = fixed(v.lo, 3), fixed(v.hi, 3)
			}
			v.v, v.title = f.Pooled, group.together()+": "+fixed(f.Pooled, 3)+between(low, high)
			t.Rows = append(t.Rows, []cell{textCell(group.together()), number(fixed(f.Pooled, 4)), number(low), number(high), number(none), number(none), number(none)})
			note = "Several runs of a point are drawn together, with the interval over runs and conversations; the table has each run with its interval over conversations."
			c.rows = append(c.rows, row{name: short(p.run.BasePoint(), 48), value: fixed(v.v, 3), values: []rowValue{v}})
			for _, p := range group {
				t.Rows = append(t.Rows, p.lengthCells())
			}
			continue
		}
		for _, p := range group {
			al := p.spec.AL()
			v := rowValue{style: index[p.run.Temperature], v: al.AverageAL, lo: nan, hi: nan, q1: nan, q3: nan, title: p.title() + ": " + fixed(al.AverageAL, 3) + ", " + intervalText(al)}
			if al.Interval != nil {
				v.lo, v.hi = al.Interval.Low, al.Interval.High
			}
			c.rows = append(c.rows, row{name: p.name, value: fixed(al.AverageAL, 3), values: []rowValue{v}})
			t.Rows = append(t.Rows, p.lengthCells())
		}
	}
	var legends []legend
	for i, temp := range order {
		legends = append(legends, newLegend(i, temperatureName(temp), false))
	}
	return figure{
		ID: "al", Title: "Acceptance length by point", Unit: viewsName(points) + " view, 95 % interval",
		Desc:   fmt.Sprintf("Average acceptance length of %s with its interval.", counted(len(c.rows), "point")),
		Legend: legends, Wide: c.draw(wideWidth), Narrow: c.draw(narrowWidth), Data: t,
		Notes: []string{note},
	}
}

// lengthCells is the row of one run in the table of AL.
func (p *point) lengthCells() []cell {
	al := p.spec.AL()
	low, high := none, none
	if al.Interval != nil {
		low, high = fixed(al.Interval.Low, 3), fixed(al.Interval.High, 3)
	}
	return []cell{textCell(p.title()), number(fixed(al.AverageAL, 4)), number(low), number(high), number(count(al.Conversations)),
		number(fixed(p.spec.Client.AverageAL, 4)), number(fixed(p.spec.Server.AverageAL, 4))}
}

// withPositions are the points that have rates by draft position.
func withPositions(points []*point) []*point {
	var list []*point
	for _, p := range points {
		if len(p.spec.Position.PerPosition) > 0 {
			list = append(list, p)
		}
	}
	return list
}

// positionFigure shows one rate by draft position, at the least load of each temperature.
func positionFigure(id, title, unit string, points []*point, shown []runs, conditional bool) figure {
	most := 0
	for _, p := range points {
		rates, _ := p.rates(conditional)
		most = max(most, len(rates))
	}
	c := lineChart{xTitle: "draft position", yTitle: "accepted", yZero: true, yMax: 1, apart: true, yLabel: func(v float64) string { return fixed(100*v, 0) + " %" }, xLabel: func(v float64) string { return fixed(v, 0) }}
	for i := range max(1, most) {
		c.xTicks = append(c.xTicks, tick{float64(i + 1), strconv.Itoa(i + 1)})
	}
	index, _ := temperatureIndex(points)
	var legends []legend
	for _, group := range shown {
		p := group[0]
		line := series{style: index[p.run.Temperature], name: "T " + temperature(p.run.Temperature)}
		rates, intervals := group.rates(conditional)
		for i, r := range rates {
			d := newDataPoint(float64(i+1), r, "", fmt.Sprintf("%s, position %d: %s", group.together(), i+1, percent(r)))
			if i < len(intervals) && intervals[i].Known {
				d.lo, d.hi = intervals[i].Low, intervals[i].High
			}
			line.points = append(line.points, d)
		}
		if len(line.points) > 0 {
			c.series = append(c.series, line)
			legends = append(legends, newLegend(line.style, temperatureName(p.run.Temperature)+", "+group.loadName(), true))
		}
	}
	head := []cell{textCell("Point")}
	for i := range most {
		head = append(head, number(strconv.Itoa(i+1)))
	}
	t := table{Caption: title + ", all points", Head: head}
	for _, group := range repeats(points) {
		if rates, intervals, several := group.pooledRates(conditional); several {
			t.Rows = append(t.Rows, rateCells(group.together(), most, rates, intervals))
		}
		for _, p := range group {
			rates, intervals := p.rates(conditional)
			t.Rows = append(t.Rows, rateCells(p.title(), most, rates, intervals))
		}
	}
	return figure{
		ID: id, Title: title, Unit: unit, Legend: legends, Data: t,
		Desc: fmt.Sprintf("%s, positions 1 to %d, one line a temperature.", title, most),
		Wide: c.draw(wideWidth, 320), Narrow: c.draw(narrowWidth, 300),
	}
}

// rateCells is the row of rates by draft position.
func rateCells(title string, most int, rates []float64, intervals []collector.Interval) []cell {
	cells := []cell{textCell(title)}
	for i := range most {
		c := number(none)
		if i < len(rates) {
			c.Text = percent(rates[i])
		}
		if i < len(intervals) && intervals[i].Known {
			c.Small = percent(intervals[i].Low) + "–" + percent(intervals[i].High)
		}
		cells = append(cells, c)
	}
	return cells
}

// categoryNames are the categories of all points in the order in which they come.
func categoryNames(points []*point) []string {
	var names []string
	seen := map[string]bool{}
	for _, p := range points {
		for _, c := range p.categories {
			if !seen[c.name] {
				seen[c.name] = true
				names = append(names, c.name)
			}
		}
	}
	return names
}

// categoryName is a category as a table shows it.
func categoryName(name string) string {
	if name == "" {
		return "none named"
	}
	return short(name, 40)
}

// of returns the point's figures of a category; nil where it has none.
func (p *point) of(name string) *category {
	for i := range p.categories {
		if p.categories[i].name == name {
			return &p.categories[i]
		}
	}
	return nil
}

// categoryFigure shows AL by category at the least load of each temperature.
func categoryFigure(points []*point, shown []runs) (figure, int) {
	names := categoryNames(points)
	all := len(names)
	if len(names) > maxCategories {
		names = names[:maxCategories]
	}
	index, _ := temperatureIndex(points)
	c := rowChart{xTitle: "acceptance length, tokens a step"}
	t := table{Caption: "Acceptance length by category, as drawn", Head: []cell{textCell("Category"), textCell("Point"), number("AL"), number("95 % from"), number("to"), number("Conversations")}}
	for _, name := range names {
		r := row{name: categoryName(name)}
		for _, group := range shown {
			cat, in, ok := group.category(name)
			if !ok {
				continue
			}
			p, title := group[0], group.together()
			v := rowValue{style: index[p.run.Temperature], v: cat.mean(), lo: nan, hi: nan, q1: nan, q3: nan,
				title: fmt.Sprintf("%s, %s: %s, %s", categoryName(name), title, fixed(cat.mean(), 3), cat.conversations()+" conversations")}
			low, high := none, none
			if i := in; i.Known {
				v.lo, v.hi = i.Low, i.High
				low, high = fixed(i.Low, 3), fixed(i.High, 3)
			}
			r.values = append(r.values, v)
			t.Rows = append(t.Rows, []cell{textCell(categoryName(name)), textCell(title), number(fixed(cat.mean(), 4)), number(low), number(high), number(cat.conversations())})
		}
		c.rows = append(c.rows, r)
	}
	var legends []legend
	for _, group := range shown {
		p := group[0]
		legends = append(legends, newLegend(index[p.run.Temperature], temperatureName(p.run.Temperature)+", "+group.loadName(), false))
	}
	f := figure{
		ID: "categories", Title: "Acceptance length by category", Unit: "95 % interval; least load of each temperature", Legend: legends, Data: t,
		Desc: fmt.Sprintf("Average acceptance length of %s.", fmt.Sprintf("%d categories", len(names))),
		Wide: c.draw(wideWidth), Narrow: c.draw(narrowWidth),
	}
	if all > len(names) {
		f.Notes = append(f.Notes, fmt.Sprintf("The first %d of %d categories.", len(names), all))
	}
	return f, all
}

// categoryTable has a row a point and a column a category.
func categoryTable(points []*point) table {
	names := categoryNames(points)
	t := table{Caption: "Acceptance length by category: mean over its conversations, their number below it."}
	if len(names) > maxCategories {
		t.Notes = append(t.Notes, fmt.Sprintf("The first %d of %d categories.", maxCategories, len(names)))
		names = names[:maxCategories]
	}
	t.Head = []cell{textCell("Point")}
	for _, name := range names {
		t.Head = append(t.Head, number(categoryName(name)))
	}
	for _, p := range points {
		cells := []cell{textCell(p.title())}
		for _, name := range names {
			c := cell{Text: none, Number: true}
			if cat := p.of(name); cat != nil {
				c.Text, c.Small = fixed(cat.mean(), 3), "n "+cat.conversations()
			}
			cells = append(cells, c)
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}
