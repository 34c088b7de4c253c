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
		row := collector.Summary{Point: p.name, Temperature: p.run.Temperature, Concurrency: p.run.Concurrency, Goodput: g}
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
