package report

import (
	"cmp"
	"fmt"
	"slices"

	"spectap/collector"
)

// pointsSection is the table of all complete points.
func (s *Source) pointsSection() section {
	sec := section{ID: "points", Title: "Figures by point"}
	points := s.complete()
	if len(points) == 0 {
		return sec
	}
	t := table{
		Caption: "One row a point. AL: tokens of an engine step, averaged as the data set's metric does, in the " + viewsName(points) +
			" view, with its 95 % interval over conversations (this run only). Times in milliseconds; p50 and p95 are quantiles.",
		Head: heads("Point", "Temperature", "Load", "AL", "Output tok/s", "per GPU", "tok/s per user", "TTFT p50", "TTFT p95", "Step p50", "Requests", "Failed", "Audit"),
	}
	if slices.ContainsFunc(points, func(p *point) bool { return p.run.Schedule != nil }) {
		t.Caption += " TTFT of an open loop counts from the intended moment."
	}
	for _, p := range points {
		t.Rows = append(t.Rows, p.cells())
	}
	if slices.ContainsFunc(points, func(p *point) bool { return p.ttft.lacks(50, 95) || p.step.lacks(50) }) {
		t.Notes = []string{tooFewNote(50, 95)}
	}
	sec.table(t)
	if drafted := s.speculative(); len(drafted) < len(points) {
		sec.quiet(counted(len(points)-len(drafted), "point") + " of a baseline: the server does not speculate there, so there is no acceptance.")
	}
	return sec
}

// viewsName names the view of AL that the points are in.
func viewsName(points []*point) string {
	views := map[string]bool{}
	for _, p := range points {
		if p.speculates() {
			views[p.spec.View] = true
		}
	}
	if len(views) == 1 {
		for view := range views {
			return view
		}
	}
	return "client or server"
}

// cells is the point's row.
func (p *point) cells() []cell {
	al := cell{Text: fixed(p.spec.AL().AverageAL, 3), Number: true}
	if !p.speculates() {
		al = cell{Text: none, Small: "baseline", Number: true}
	}
	if i := p.spec.AL().Interval; i != nil {
		al.Small = fixed(i.Low, 3) + "–" + fixed(i.High, 3)
	}
	cells := []cell{textCell(p.title()), number(temperature(p.run.Temperature)), number(p.load().label()), al}
	if p.tps == 0 {
		for range 6 {
			cells = append(cells, number(none))
		}
	} else {
		perUser := none
		if p.userTPS > 0 {
			perUser = rate(p.userTPS)
		}
		cells = append(cells, number(rate(p.tps)), number(rate(p.tpsPerGPU)), number(perUser),
			number(p.ttft.ms(50)), number(p.ttft.ms(95)), number(p.step.ms(50)))
	}
	return append(cells, number(p.count(p.requests)), cell{Text: p.count(p.failedRequests), Number: true, Bad: p.failedRequests > 0},
		cell{Text: p.audit(), Number: true, Bad: p.spec.Audit.Verdict == collector.AuditDiffers})
}

// count is a count of requests, which is not known without records.
func (p *point) count(n int) string {
	if p.filesOnly {
		return none
	}
	return count(n)
}

func (p *point) audit() string { return cmp.Or(p.spec.Audit.Verdict, none) }

// ms is a quantile in milliseconds.
func (d distribution) ms(percent int) string {
	if d.n == 0 && d.at[percent] == 0 {
		return none
	}
	return milliseconds(d.at[percent])
}

// temperatureIndex numbers the temperatures, for one style each.
func temperatureIndex(points []*point) (index map[float64]int, order []float64) {
	index = map[float64]int{}
	for _, p := range points {
		if _, known := index[p.run.Temperature]; !known {
			index[p.run.Temperature] = len(order)
			order = append(order, p.run.Temperature)
		}
	}
	return index, order
}

// lightest is, for each temperature, the point with the least load: where
// acceptance is shown once for all loads.
func lightest(points []*point) []*point {
	index, order := temperatureIndex(points)
	list := make([]*point, len(order))
	for _, p := range points { // in the order of their load
		if i := index[p.run.Temperature]; list[i] == nil {
			list[i] = p
		}
	}
	return list
}

func temperatureName(t float64) string { return fmt.Sprintf("temperature %s", temperature(t)) }
