package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"spectap/collector"
)

// throughputSection shows throughput against per-user speed, and by load.
func (s *Source) throughputSection() section {
	sec := section{ID: "throughput", Title: "Throughput"}
	points := slices.DeleteFunc(s.complete(), func(p *point) bool { return p.tps == 0 })
	if len(points) == 0 {
		if len(s.complete()) > 0 {
			sec.say("Not shown: no answer was streamed, so nothing is known of its times.")
		}
		return sec
	}
	timed := slices.DeleteFunc(slices.Clone(points), func(p *point) bool { return p.userTPS == 0 })
	var figures []figure
	if len(timed) > 0 {
		figures = append(figures, paretoFigure(timed))
	} else {
		sec.say("Throughput against per-user speed is not shown: no answer has three events or more with tokens, so no request has a decode rate.")
	}
	for _, kind := range []string{loadClosed, loadOpen} {
		if same := slices.DeleteFunc(slices.Clone(points), func(p *point) bool { return p.load().kind != kind || p.load().value <= 0 }); len(same) > 0 {
			figures = append(figures, loadFigure(kind, same))
		}
	}
	sec.figures(figures...)
	if t := repeatsTable(points); t != nil {
		sec.table(*t)
	}
	if t := steadyTable(points); t != nil {
		sec.table(*t)
	} else {
		sec.quiet("Steady-state throughput is not shown: the points have no performance.json.")
	}
	return sec
}

// runs are the repeats of one point.
type runs []*point

// repeats groups the points of which one is a repeat of the other.
func repeats(points []*point) []runs {
	var groups []runs
	at := map[string]int{}
	for _, p := range points {
		key := fmt.Sprint(p.run.BasePoint(), p.run.Baseline, p.run.Temperature, p.load())
		i, known := at[key]
		if !known {
			i = len(groups)
			at[key], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], p)
	}
	return groups
}

// pooled takes the runs together that have records.
func (r runs) pooled() (collector.Repeats, bool) {
	var figures []collector.RunFigures
	var names []string
	for _, p := range r {
		if p.figures != nil {
			figures, names = append(figures, *p.figures), append(names, p.run.Point)
		}
	}
	if len(figures) < 2 {
		return collector.Repeats{}, false
	}
	if t := r[0].together; t == nil || !slices.Equal(t.Runs, names) {
		r[0].together = new(collector.PoolRuns(figures))
	}
	return *r[0].together, true
}

// mean is the mean over the runs, with the range of several.
func (r runs) mean(of func(*point) float64) (mean, lo, hi float64) {
	values := make([]float64, len(r))
	for i, p := range r {
		values[i] = of(p)
	}
	if len(r) == 1 {
		return values[0], nan, nan
	}
	return collector.Mean(values), slices.Min(values), slices.Max(values)
}

// title names the point, and says where a value is a mean of its runs.
func (r runs) title() string {
	if len(r) == 1 {
		return r[0].title()
	}
	return fmt.Sprintf("%s, mean of %d runs", short(r[0].run.BasePoint(), 48), len(r))
}

// lineKey is what the points of one line have in common.
type lineKey struct {
	temperature float64
	kind        string
	baseline    bool
}

func (p *point) line() lineKey {
	if p.load().value <= 0 {
		return lineKey{p.run.Temperature, loadUnknown, p.run.Baseline}
	}
	return lineKey{p.run.Temperature, p.load().kind, p.run.Baseline}
}

// loadUnknown is a load that nobody said: no line joins such points.
const loadUnknown = "unknown load"

// lineNames name a line beside it and in a legend.
func (k lineKey) names(kinds int) (short, long string) {
	short, long = "T "+temperature(k.temperature), temperatureName(k.temperature)
	if kinds > 1 {
		long += ", by " + k.kind
	}
	if k.baseline {
		short, long = short+" baseline", long+", baseline"
	}
	return short, long
}

// lines makes one series of each temperature and kind of load, a point a group.
func lines(points []*point, of func(runs) dataPoint) ([]series, []legend) {
	var order []lineKey
	kinds := map[string]bool{}
	byLine := map[lineKey][]dataPoint{}
	for _, group := range repeats(points) {
		key := group[0].line()
		if !slices.Contains(order, key) {
			order = append(order, key)
		}
		kinds[key.kind] = true
		byLine[key] = append(byLine[key], of(group))
	}
	slices.SortStableFunc(order, func(a, b lineKey) int {
		return cmp.Or(count01(a.baseline)-count01(b.baseline), strings.Compare(a.kind, b.kind), cmp.Compare(a.temperature, b.temperature))
	})
	list, legends := make([]series, len(order)), make([]legend, len(order))
	for i, key := range order {
		short, long := key.names(len(kinds))
		list[i] = series{style: i, name: short, points: byLine[key], loose: key.kind == loadUnknown}
		legends[i] = newLegend(i, long, key.kind != loadUnknown)
	}
	return list, legends
}

func count01(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// repeatNote says what whiskers are, where a point was run more than once.
func repeatNote(points []*point) []string {
	for _, group := range repeats(points) {
		if len(group) > 1 {
			return []string{"A point that was run several times is drawn at the mean of its runs, with their range."}
		}
	}
	return nil
}

// paretoFigure is the curve that people draw: up is more work of a GPU, right is a
// faster answer.
func paretoFigure(points []*point) figure {
	c := lineChart{
		xTitle: "tok/s of one user, decoding", yTitle: "output tok/s per GPU", xZero: true, yZero: true,
		xLabel: func(v float64) string { return fixed(v, 0) }, xDecimals: true, yDecimals: true,
	}
	var legends []legend
	t := table{Caption: "Throughput against per-user speed", Head: heads("Point", "Temperature", "Load", "Output tok/s per GPU", "tok/s per user", "Runs")}
	c.series, legends = lines(points, func(group runs) dataPoint {
		p := group[0]
		gpu, lo, hi := group.mean(func(p *point) float64 { return p.tpsPerGPU })
		user, _, _ := group.mean(func(p *point) float64 { return p.userTPS })
		title := fmt.Sprintf("%s: %s tok/s per GPU, %s tok/s of a user", p.title(), rate(gpu), rate(user))
		t.Rows = append(t.Rows, []cell{textCell(short(p.run.BasePoint(), 48)), number(temperature(p.run.Temperature)), number(p.load().label()), number(rate(gpu)), number(rate(user)), number(count(len(group)))})
		label := p.load().label()
		if label == none {
			label = ""
		}
		return dataPoint{x: user, y: gpu, lo: lo, hi: hi, label: label, title: title}
	})
	return figure{
		ID: "pareto", Title: "Throughput against per-user speed", Unit: "numbers at the points: " + loadKinds(points),
		Desc:   fmt.Sprintf("Output tokens per second and GPU over the decode speed of one user, one line a temperature, %s.", counted(len(points), "point")),
		Legend: legends, Wide: c.draw(wideWidth, 400), Narrow: c.draw(narrowWidth, 330), Data: t,
		Notes: append(repeatNote(points), "tok/s of a user: mean over turns of (tokens − 1) / (last − first event). Up and to the right is better."),
	}
}

// loadKinds says what the numbers at the points are.
func loadKinds(points []*point) string {
	kinds := map[string]bool{}
	for _, p := range points {
		kinds[p.load().kind] = true
	}
	switch {
	case !kinds[loadOpen]:
		return "concurrency"
	case !kinds[loadClosed]:
		return "conversations that begin in a second"
	}
	return "concurrency, or conversations that begin in a second"
}

// loadFigure is throughput by load of one kind.
func loadFigure(kind string, points []*point) figure {
	c := lineChart{
		xTitle: "concurrency, conversations at a time", yTitle: "output tok/s", xLog: true, yZero: true,
		xLabel: func(v float64) string { return fixed(v, 0) }, yDecimals: true,
	}
	f := figure{ID: "load", Title: "Throughput by concurrency", Unit: "all GPUs together"}
	if kind == loadOpen {
		f.ID, f.Title, c.xTitle = "rate", "Throughput by request rate", "conversations that begin in a second"
	}
	for _, p := range points {
		c.addTick(p.load().value, p.load().label())
	}
	t := table{Caption: f.Title, Head: heads("Point", "Temperature", "Load", "Output tok/s", "Runs")}
	c.series, f.Legend = lines(points, func(group runs) dataPoint {
		p := group[0]
		tps, lo, hi := group.mean(func(p *point) float64 { return p.tps })
		t.Rows = append(t.Rows, []cell{textCell(short(p.run.BasePoint(), 48)), number(temperature(p.run.Temperature)), number(p.load().label()), number(rate(tps)), number(count(len(group)))})
		return dataPoint{x: p.load().value, y: tps, lo: lo, hi: hi, title: p.title() + ": " + rate(tps) + " tok/s"}
	})
	f.Desc = fmt.Sprintf("Output tokens per second over the load, one line a temperature, %s.", counted(len(points), "point"))
	f.Wide, f.Narrow, f.Data = c.draw(wideWidth, 400), c.draw(narrowWidth, 330), t
	f.Notes = append(repeatNote(points), "Output tok/s: tokens of all turns over the time from the first start to the last end, ramp-up and ramp-down included.")
	return f
}
