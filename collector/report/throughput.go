package report

import (
	"fmt"
	"math"
	"slices"
)

// throughputSection shows throughput against per-user speed, and both by load.
func (s *Source) throughputSection() section {
	sec := section{ID: "throughput", Title: "Throughput"}
	points := slices.DeleteFunc(s.complete(), func(p *point) bool { return p.timing == nil })
	if len(points) == 0 {
		if len(s.complete()) > 0 {
			sec.say("Not shown: no answer was streamed, so nothing is known of its times.")
		}
		return sec
	}
	timed := slices.DeleteFunc(slices.Clone(points), func(p *point) bool { return p.perUser() == 0 })
	if len(timed) == 0 {
		sec.say("Throughput against per-user speed is not shown: no answer has three events or more with tokens, so no request has a decode rate.")
	} else {
		sec.figures(paretoFigure(timed), loadFigure(points))
	}
	return sec
}

// byTemperature makes one series of each temperature's points.
func byTemperature(points []*point, of func(*point) (dataPoint, bool)) ([]series, []legend) {
	index, order := temperatureIndex(points)
	list, legends := make([]series, len(order)), make([]legend, len(order))
	for i, t := range order {
		list[i] = series{style: i, name: "T " + temperature(t)}
		legends[i] = newLegend(i, temperatureName(t), true)
	}
	for _, p := range points {
		if d, ok := of(p); ok {
			i := index[p.run.Temperature]
			list[i].points = append(list[i].points, d)
		}
	}
	return list, legends
}

// paretoFigure is the curve that people draw: up is more work of a GPU, right is a
// faster answer.
func paretoFigure(points []*point) figure {
	c := lineChart{
		xTitle: "tok/s of one user, decoding", yTitle: "output tok/s per GPU", xZero: true, yZero: true,
		xLabel: func(v float64) string { return fixed(v, 0) }, xDecimals: true, yDecimals: true,
	}
	var legends []legend
	c.series, legends = byTemperature(points, func(p *point) (dataPoint, bool) {
		title := fmt.Sprintf("%s: %s tok/s per GPU, %s tok/s of a user", p.title(), rate(p.outputPerGPU()), rate(p.perUser()))
		return newDataPoint(p.perUser(), p.outputPerGPU(), p.load().label(), title), true
	})
	t := table{Caption: "Throughput against per-user speed", Head: heads("Point", "Temperature", "Concurrency", "Output tok/s per GPU", "tok/s per user")}
	for _, p := range points {
		t.Rows = append(t.Rows, []cell{textCell(p.title()), number(temperature(p.run.Temperature)), number(p.load().label()), number(rate(p.outputPerGPU())), number(rate(p.perUser()))})
	}
	return figure{
		ID: "pareto", Title: "Throughput against per-user speed", Unit: "numbers at the points: concurrency",
		Desc:   fmt.Sprintf("Output tokens per second and GPU over the decode speed of one user, one line a temperature, %d points.", len(points)),
		Legend: legends, Wide: c.draw(wideWidth, 400), Narrow: c.draw(narrowWidth, 330), Data: t,
		Notes: []string{"tok/s of a user: mean over turns of (tokens − 1) / (last − first event). Up and to the right is better."},
	}
}

// loadFigure is throughput by load.
func loadFigure(points []*point) figure {
	c := lineChart{
		xTitle: "concurrency, conversations at a time", yTitle: "output tok/s", xLog: true, yZero: true,
		xLabel: func(v float64) string { return fixed(v, 0) }, yDecimals: true,
	}
	for _, p := range points {
		if v := p.load().value; !slices.ContainsFunc(c.xTicks, func(t tick) bool { return t.value == v }) {
			c.xTicks = append(c.xTicks, tick{v, p.load().label()})
		}
	}
	slices.SortFunc(c.xTicks, func(a, b tick) int { return int(math.Copysign(1, a.value-b.value)) })
	var legends []legend
	c.series, legends = byTemperature(points, func(p *point) (dataPoint, bool) {
		return newDataPoint(p.load().value, p.outputTPS(), "", p.title()+": "+rate(p.outputTPS())+" tok/s"), true
	})
	t := table{Caption: "Output tok/s by concurrency", Head: heads("Point", "Temperature", "Concurrency", "Output tok/s")}
	for _, p := range points {
		t.Rows = append(t.Rows, []cell{textCell(p.title()), number(temperature(p.run.Temperature)), number(p.load().label()), number(rate(p.outputTPS()))})
	}
	return figure{
		ID: "load", Title: "Throughput by concurrency", Unit: "all GPUs together",
		Desc:   fmt.Sprintf("Output tokens per second over concurrency, one line a temperature, %d points.", len(points)),
		Legend: legends, Wide: c.draw(wideWidth, 400), Narrow: c.draw(narrowWidth, 330), Data: t,
		Notes: []string{"Output tok/s: tokens of all turns over the time from the first start to the last end, ramp-up and ramp-down included."},
	}
}
