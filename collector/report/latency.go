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
	figures := []figure{spreadFigure("ttft", "Time to first token", points, func(p *point) distribution { return p.ttft },
		"From the moment the request was written to the server to the first event with tokens.")}
	if len(stepped) > 0 {
		figures = append(figures, spreadFigure("step", "Step time", stepped, func(p *point) distribution { return p.step }, stepNote(stepped)))
	}
	figures = append(figures, curveFigures("ttft", "Time to first token", points, func(p *point) distribution { return p.ttft })...)
	figures = append(figures, curveFigures("step", "Step time", stepped, func(p *point) distribution { return p.step })...)
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
func spreadFigure(id, title string, points []*point, of func(*point) distribution, note string) figure {
	index, order := temperatureIndex(points)
	c := rowChart{xTitle: "logarithmic", log: true, label: seconds0}
	t := table{Caption: title + " in milliseconds", Head: heads("Point", "n", "mean", "least", "p5", "p25", "p50", "p75", "p95", "p99", "most")}
	for _, p := range points {
		d := of(p)
		c.rows = append(c.rows, row{name: p.name, value: seconds(d.at[50]), values: []rowValue{{
			style: index[p.run.Temperature], v: d.at[50], lo: d.at[5], hi: d.at[95], q1: d.at[25], q3: d.at[75],
			title: fmt.Sprintf("%s: p50 %s, p5 to p95 %s to %s", p.title(), seconds(d.at[50]), seconds(d.at[5]), seconds(d.at[95])),
		}}})
		cells := []cell{textCell(p.title()), number(count(d.n)), number(milliseconds(d.mean))}
		for _, q := range []int{0, 5, 25, 50, 75, 95, 99, 100} {
			cells = append(cells, number(d.ms(q)))
		}
		t.Rows = append(t.Rows, cells)
	}
	var legends []legend
	for i, temp := range order {
		l := newLegend(i, temperatureName(temp), false)
		l.Marker = "M2 7H30M8 2H24V12H8ZM16 0V14"
		legends = append(legends, l)
	}
	return figure{
		ID: id, Title: title, Unit: "p5 to p95, box p25 to p75, line and number p50", Legend: legends, Data: t,
		Desc: fmt.Sprintf("%s: range and quartiles of %s on a logarithmic axis.", title, counted(len(points), "point")),
		Wide: c.draw(wideWidth), Narrow: c.draw(narrowWidth), Notes: []string{note},
	}
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
func curveFigures(id, title string, points []*point, of func(*point) distribution) []figure {
	_, order := temperatureIndex(points)
	if len(order) > maxCurveFigures {
		order = []float64{order[0], order[len(order)-1]}
	}
	var figures []figure
	for i, temp := range order {
		same := slices.DeleteFunc(slices.Clone(points), func(p *point) bool { return p.run.Temperature != temp })
		figures = append(figures, curveFigure(id+"-curve-"+strconv.Itoa(i+1), title+", temperature "+temperature(temp), same, of))
	}
	return figures
}

// runName tells the runs of a point apart.
func runName(p *point) string {
	if p.run.Repeat.Suffix() == "" {
		return ""
	}
	return fmt.Sprintf(", run %d", p.run.Repeat.Number())
}

// curveFigure draws the share of a sample at or below each value, at every percent.
func curveFigure(id, title string, points []*point, of func(*point) distribution) figure {
	shown := spread(points, maxCurves)
	c := lineChart{xTitle: "logarithmic", yTitle: "share at or below", xLog: true, yZero: true, yMax: 1, steps: true, xLabel: seconds0,
		yLabel: func(v float64) string { return fixed(100*v, 0) + " %" }}
	head := []cell{textCell("Percent")}
	var legends []legend
	for i, p := range shown {
		line := series{style: i, name: p.load().label()}
		d := of(p)
		for q, v := range d.at {
			if v > 0 && q >= 1 && q <= 99 { // a single request may be many times slower
				line.points = append(line.points, newDataPoint(v, float64(q)/100, "", fmt.Sprintf("%s: %d %% within %s", p.title(), q, seconds(v))))
			}
		}
		c.series = append(c.series, line)
		legends = append(legends, newLegend(i, p.load().name()+runName(p), true))
		head = append(head, number(p.title()))
	}
	t := table{Caption: title + ": milliseconds at each percent", Head: head}
	for q := range 101 {
		cells := []cell{textCell(strconv.Itoa(q))}
		for _, p := range shown {
			d := of(p)
			cells = append(cells, number(d.ms(q)))
		}
		t.Rows = append(t.Rows, cells)
	}
	f := figure{
		ID: id, Title: title, Unit: "drawn from 1 % to 99 %", Legend: legends, Data: t,
		Desc: fmt.Sprintf("Share of the sample at or below each time, %s.", counted(len(shown), "curve")),
		Wide: c.draw(wideWidth, 320), Narrow: c.draw(narrowWidth, 300),
	}
	if len(shown) < len(points) {
		f.Notes = []string{fmt.Sprintf("%d of %d points, spread over their loads.", len(shown), len(points))}
	}
	return f
}

// spread takes n of the points, the first and the last among them.
func spread(points []*point, n int) []*point {
	if len(points) <= n {
		return points
	}
	list := make([]*point, n)
	for i := range list {
		list[i] = points[i*(len(points)-1)/(n-1)]
	}
	return list
}
