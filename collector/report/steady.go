package report

import (
	"slices"

	"spectap/collector"
)

// steadyTable shows how loaded the server was, and its throughput while it was fully
// loaded; nil where no point knows.
func steadyTable(points []*point) *table {
	t := table{
		Caption: "Steady state: the longest time in which at least 95 % of the concurrency was in flight, and its throughput with a 95 % interval over time blocks of this run",
		Head:    []cell{textCell("Point"), number("Output tok/s"), number("Steady tok/s"), number("Mean in flight"), number("Ramp-up"), number("Ramp-down"), number("Window"), number("Share of the point"), textCell("Remark")},
	}
	for _, p := range points {
		if p.performance == nil || p.performance.Steady.Seconds == 0 {
			continue
		}
		t.Rows = append(t.Rows, p.steadyCells())
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return &t
}

// repeatsTable shows what several runs of a point have in common; nil where there are none.
func repeatsTable(points []*point) *table {
	t := table{
		Caption: "Several runs of a point together: 95 % interval over runs and conversations, of tokens per second over runs; the deviation between runs, and what the conversations alone would make of it",
		Head:    []cell{textCell("Point"), textCell("Figure"), number("Runs"), number("All runs"), number("Low"), number("High"), number("Between runs"), number("By conversations")},
	}
	names := []struct {
		figure, name string
		scale        float64
		decimals     int
	}{{collector.FigureAL, "AL", 1, 3}, {collector.FigureOutputTPS, "Output tok/s", 1, 1}, {collector.FigureSteadyTPS, "Steady tok/s", 1, 1}, {collector.FigureTTFT, "TTFT, ms", 1e3, 2}, {collector.FigureTPOT, "Per token, ms", 1e3, 3}}
	for _, group := range repeats(points) {
		var figures []collector.RunFigures
		for _, p := range group {
			if p.figures != nil {
				figures = append(figures, *p.figures)
			}
		}
		if len(figures) < 2 {
			continue
		}
		pooled := collector.PoolRuns(figures)
		for _, n := range names {
			f, ok := pooled.Figure(n.figure)
			if !ok {
				continue
			}
			text := func(v *float64) cell {
				if v == nil {
					return number(none)
				}
				return number(fixed(*v*n.scale, n.decimals))
			}
			low, high := text(nil), text(nil)
			if f.Interval.Known {
				low, high = text(&f.Interval.Low), text(&f.Interval.High)
			}
			t.Rows = append(t.Rows, []cell{textCell(short(pooled.Point, 48)), textCell(n.name), number(count(len(figures))), text(&f.Pooled), low, high, text(f.Between), text(f.Expected)})
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return &t
}

// openLoopTable shows the times from the intended moments, and whether client and
// server kept up with the rate; nil where no point has one.
func openLoopTable(points []*point) *table {
	t := table{
		Caption: "Open loop: times from the intended moment in milliseconds, conversations a second, and how late they began",
		Head:    []cell{textCell("Point"), number("TTFT p50"), number("TTFT p90"), number("Request p50"), number("Request p90"), number("Asked"), number("Began"), number("Ended"), number("Schedule error p99"), textCell("Server keeps up")},
	}
	for _, p := range points {
		o := p.spec.OpenLoop
		if o == nil {
			continue
		}
		t.Rows = append(t.Rows, []cell{textCell(p.title()), number(milliseconds(o.TTFT.P50)), number(milliseconds(o.TTFT.P90)), number(milliseconds(o.E2E.P50)), number(milliseconds(o.E2E.P90)),
			number(fixed(o.Rate, 1)), number(fixed(o.Begun, 1)), number(fixed(o.Finished, 1)), number(milliseconds(o.ScheduleError.P99)), textCell(o.KeepsUp)})
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return &t
}

func (p *point) steadyCells() []cell {
	s := p.performance.Steady
	share := func(v *float64) string {
		if v == nil {
			return none
		}
		return percent(*v)
	}
	tps, window, part, remark := number(none), none, none, s.NoWindow
	if w := s.Window; w != nil {
		tps.Text, window, part, remark = rate(w.OutputTPS), seconds(w.Seconds), percent(w.Share), w.TooShort
		if w.Interval.Known {
			tps.Small = rate(w.Interval.Low) + "–" + rate(w.Interval.High)
		}
	}
	return []cell{textCell(p.title()), number(rate(p.performance.OutputTPS)), tps, number(fixed(s.MeanInFlight, 1)), number(share(s.RampUp)), number(share(s.RampDown)),
		number(window), number(part), textCell(short(remark, 200))}
}

// goodputSection shows how many requests kept the limits, where some were set.
func (s *Source) goodputSection() section {
	sec := section{ID: "goodput", Title: "Requests within limits"}
	points := slices.DeleteFunc(s.complete(), func(p *point) bool { return p.performance == nil || p.performance.Goodput == nil })
	if len(points) == 0 {
		return sec
	}
	t := table{
		Caption: "Requests that kept every limit of the SLO; the share with its 95 % interval over conversations",
		Head:    []cell{textCell("Point"), textCell("Limits"), number("Within"), number("Share"), number("At least"), number("Within, per second"), textCell("Verdict")},
	}
	var rows []collector.Summary
	for _, p := range points {
		g := p.performance.Goodput
		share := number(percent(g.Share))
		if g.Interval.Known {
			share.Small = percent(g.Interval.Low) + "–" + percent(g.Interval.High)
		}
		least := none
		if g.AtLeast != nil {
			least = percent(*g.AtLeast)
		}
		t.Rows = append(t.Rows, []cell{textCell(p.title()), textCell(short(g.SLO.String(), 120)), number(count(g.Within) + " of " + count(g.Requests)), share, number(least), number(rate(g.PerSecond)), {Text: g.Verdict, Small: short(g.Reason, 200)}})
		row := collector.Summary{Point: p.name, Temperature: p.run.Temperature, Concurrency: p.run.Concurrency, Goodput: g, OpenLoop: p.spec.OpenLoop}
		if p.run.Schedule != nil {
			row.Concurrency, row.RequestRate = 0, p.run.Schedule.Rate
		}
		rows = append(rows, row)
	}
	var sentences []string
	for _, a := range collector.SLOAnswers(rows) {
		sentences = append(sentences, sentence(a.Sentence))
	}
	if len(sentences) > 0 {
		sec.Blocks = append(sec.Blocks, block{List: sentences})
	}
	sec.table(t)
	return sec
}
