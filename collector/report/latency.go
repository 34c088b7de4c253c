package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// The lines and the charts that distributions are drawn with at most.
const (
	maxCurves       = 6
	maxCurveFigures = 2
)

// latencySection shows how long users waited.
func (s *Source) latencySection() section {
	sec := section{ID: "latency", Title: "Latency"}
	complete := s.complete()
	points := slices.DeleteFunc(complete, func(p *point) bool { return p.ttft.n == 0 })
	if len(points) == 0 {
		if len(complete) > 0 {
			sec.say("Not shown: no answer was streamed, so nothing is known of its times.")
		}
		return sec
	}
	stepped := slices.DeleteFunc(slices.Clone(points), func(p *point) bool { return p.step.n == 0 })
	ttft, step := timesOf(points, func(p *point) distribution { return p.ttft }), timesOf(stepped, func(p *point) distribution { return p.step })
	figures := []figure{spreadFigure("ttft", "Time to first token", ttft, ttftNote(points))}
	if len(stepped) > 0 {
		figures = append(figures, spreadFigure("step", "Step time", step, stepNote(stepped)))
	}
	figures = append(figures, curveFigures("ttft", "Time to first token", ttft)...)
	figures = append(figures, curveFigures("step", "Step time", step)...)
	sec.figures(figures...)
	if t := openLoopTable(points); t != nil {
		sec.table(*t)
	}
	if len(stepped) == 0 {
		sec.quiet("Step times are not shown: no answer has two events with tokens.")
	}
	if _, order := temperatureIndex(points); len(order) > maxCurveFigures {
		sec.quiet(fmt.Sprintf("Curves are drawn for the lowest and the highest of %d temperatures; the ranges above have all points.", len(order)))
	}
	return sec
}

// times is a distribution as it is drawn: of a point's runs together, or of one run.
type times struct {
	runs
	distribution
	each []distribution // of the runs
}

// timesOf are the distributions of points; those of several runs are of the requests
// of all.
func timesOf(points []*point, of func(*point) distribution) []times {
	var list []times
	for _, group := range drawn(points, func(r runs) bool {
		return !slices.ContainsFunc(r, func(p *point) bool { return len(of(p).sample) == 0 })
	}) {
		t := times{runs: group, distribution: of(group[0])}
		if len(group) > 1 {
			var all []float64
			for _, p := range group {
				t.each, all = append(t.each, of(p)), append(all, of(p).sample...)
			}
			t.distribution = newDistribution(all)
		}
		list = append(list, t)
	}
	return list
}

// title names the point and its runs, or the one run.
func (t times) title() string {
	if len(t.runs) == 1 {
		return t.runs[0].title()
	}
	return fmt.Sprintf("%s, %s together", t.name(), counted(len(t.runs), "run"))
}

// ttftNote says from when the time to the first token counts.
func ttftNote(points []*point) string {
	open := 0
	for _, p := range points {
		open += count01(p.run.Schedule != nil)
	}
	written, intended := "the moment the request was written to the server", "the moment the request was to begin (the scheduled one, of a later turn the end of the turn before), so that one that was late is not fast"
	switch open {
	case 0:
		return "From " + written + " to the first event with tokens."
	case len(points):
		return "To the first event with tokens from " + intended + "; timing.json counts from the moment it was written."
	}
	return "To the first event with tokens from " + written + "; in an open loop from " + intended + "."
}

// stepNote says what a step time is, and what is not in it.
func stepNote(points []*point) string {
	note := "Gaps between events with tokens, the first token's wait left out (timing.json's step times have it in)."
	shared, all := 0, 0
	for _, p := range points {
		shared, all = shared+p.shared, all+p.shared+p.step.n
	}
	if shared > 0 {
		note += fmt.Sprintf(" %s of %s gaps are no measurement, as both events came in one read, and are left out.", count(shared), count(all))
	}
	return note
}

// spreadFigure is a distribution of each point in a row.
func spreadFigure(id, title string, list []times, note string) figure {
	index, order := temperatureIndex(firsts(list))
	c := rowChart{xTitle: "logarithmic", log: true, label: seconds0}
	t := table{Caption: title + " in milliseconds", Head: heads("Point", "n", "mean", "least", "p5", "p25", "p50", "p75", "p95", "p99", "most")}
	notes := []string{note}
	few := false
	for _, each := range list {
		d := each.distribution
		c.rows = append(c.rows, row{name: each.name(), value: seconds(d.at[50]), values: []rowValue{{
			style: index[each.runs[0].run.Temperature], v: d.at[50], lo: d.at[5], hi: d.at[95], q1: d.at[25], q3: d.at[75],
			title: d.sentence(each.title()),
		}}})
		t.Rows = append(t.Rows, d.cells(each.title()))
		few = few || d.lacks(5, 25, 50, 75, 95, 99)
		for i, run := range each.each {
			t.Rows = append(t.Rows, run.cells(each.runs[i].title()))
			few = few || run.lacks(5, 25, 50, 75, 95, 99)
			notes = []string{note, "Several runs of a point are drawn together, their requests as one sample; the table has each run."}
		}
	}
	if few {
		notes = append(notes, tooFewNote(50, 25, 75, 5, 95, 99))
	}
	var legends []legend
	for i, temp := range order {
		l := newLegend(i, temperatureName(temp), false)
		l.Marker = "M2 7H30M8 2H24V12H8ZM16 0V14"
		legends = append(legends, l)
	}
	return figure{
		ID: id, Title: title, Unit: "p5 to p95, box p25 to p75, line and number p50", Legend: legends, Data: t,
		Desc: fmt.Sprintf("%s: range and quartiles of %s on a logarithmic axis.", title, counted(len(list), "point")),
		Wide: c.draw(wideWidth), Narrow: c.draw(narrowWidth), Notes: notes,
	}
}

// sentence is the title of a distribution's mark.
func (d distribution) sentence(title string) string {
	text := title + ": p50 " + seconds(d.at[50])
	if !d.lacks(5, 95) {
		text += fmt.Sprintf(", p5 to p95 %s to %s", seconds(d.at[5]), seconds(d.at[95]))
	}
	return text
}

// cells is the row of a distribution in milliseconds.
func (d distribution) cells(title string) []cell {
	cells := []cell{textCell(title), number(count(d.n)), number(milliseconds(d.mean))}
	for _, q := range []int{0, 5, 25, 50, 75, 95, 99, 100} {
		cells = append(cells, number(d.ms(q)))
	}
	return cells
}

// firsts are the points of distributions, the first run of each.
func firsts(list []times) []*point {
	points := make([]*point, len(list))
	for i, t := range list {
		points[i] = t.runs[0]
	}
	return points
}

// seconds0 is a round duration on an axis.
func seconds0(v float64) string {
	trim := func(v float64) string { return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'g', 6, 64) }
	switch {
	case v >= 1:
		return trim(v) + " s"
	case v >= 1e-3*(1-1e-9):
		return trim(v*1e3) + " ms"
	default:
		return trim(v*1e6) + " µs"
	}
}

// curveFigures are the distributions as curves, a chart a temperature.
func curveFigures(id, title string, list []times) []figure {
	_, order := temperatureIndex(firsts(list))
	if len(order) > maxCurveFigures {
		order = []float64{order[0], order[len(order)-1]}
	}
	var figures []figure
	for i, temp := range order {
		same := slices.DeleteFunc(slices.Clone(list), func(t times) bool { return t.runs[0].run.Temperature != temp })
		if !slices.ContainsFunc(same, func(t times) bool { return !t.lacks(50) }) {
			continue // no curve has a point
		}
		figures = append(figures, curveFigure(id+"-curve-"+strconv.Itoa(i+1), title+", temperature "+temperature(temp), same))
	}
	return figures
}

// curveName is the load of a curve, with the number of its runs, or of the run that
// stands alone.
func (t times) curveName() string {
	p, name := t.runs[0], t.runs[0].load().name()
	switch {
	case len(t.runs) > 1:
		return name + ", " + counted(len(t.runs), "run")
	case p.run.Repeat.Suffix() != "":
		return fmt.Sprintf("%s, run %d", name, p.run.Repeat.Number())
	}
	return name
}

// curveFigure draws the share of a sample at or below each value, at every percent.
func curveFigure(id, title string, list []times) figure {
	shown := spread(list, maxCurves)
	c := lineChart{xTitle: "logarithmic", yTitle: "share at or below", xLog: true, yZero: true, yMax: 1, steps: true, xLabel: seconds0,
		yLabel: func(v float64) string { return fixed(100*v, 0) + " %" }}
	head := []cell{textCell("Percent")}
	var legends []legend
	for i, t := range shown {
		line := series{style: i, name: t.runs[0].load().label()}
		for q, v := range t.at {
			if v > 0 && q >= 1 && q <= 99 { // a single request may be many times slower
				line.points = append(line.points, newDataPoint(v, float64(q)/100, "", fmt.Sprintf("%s: %d %% within %s", t.title(), q, seconds(v))))
			}
		}
		c.series = append(c.series, line)
		legends = append(legends, newLegend(i, t.curveName(), true))
		head = append(head, number(t.title()))
	}
	t := table{Caption: title + ": milliseconds at each percent", Head: head}
	for q := range 101 {
		cells := []cell{textCell(strconv.Itoa(q))}
		for _, t := range shown {
			cells = append(cells, number(t.ms(q)))
		}
		t.Rows = append(t.Rows, cells)
	}
	f := figure{
		ID: id, Title: title, Unit: "drawn from 1 % to 99 %", Legend: legends, Data: t,
		Desc: fmt.Sprintf("Share of the sample at or below each time, %s.", counted(len(shown), "curve")),
		Wide: c.draw(wideWidth, 320), Narrow: c.draw(narrowWidth, 300),
	}
	if slices.ContainsFunc(shown, func(t times) bool { return t.lacks(1, 99) }) {
		f.Notes = append(f.Notes, "A curve goes as far as its n allows. "+tooFewNote(50, 5, 95, 1, 99))
	}
	if len(shown) < len(list) {
		f.Notes = append(f.Notes, fmt.Sprintf("%d of %d points, spread over their loads.", len(shown), len(list)))
	}
	return f
}

// spread takes n of the points, the first and the last among them.
func spread[T any](points []T, n int) []T {
	if len(points) <= n {
		return points
	}
	list := make([]T, n)
	for i := range list {
		list[i] = points[i*(len(points)-1)/(n-1)]
	}
	return list
}
