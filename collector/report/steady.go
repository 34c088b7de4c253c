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
		Caption: "Several runs of a point together: the least and the greatest run below their number; 95 % interval over runs and conversations, of tokens per second over runs; the deviation between runs, and what the conversations alone would make of it",
		Head:    []cell{textCell("Point"), textCell("Figure"), number("Runs"), number("All runs"), number("Low"), number("High"), number("Between runs"), number("By conversations")},
	}
	names := []struct {
		figure, name string
		scale        float64
		decimals     int
	}{{collector.FigureAL, "AL", 1, 3}, {collector.FigureOutputTPS, "Output tok/s", 1, 1}, {collector.FigureSteadyTPS, "Steady tok/s", 1, 1}, {collector.FigureTTFT, "TTFT, ms", 1e3, 2}, {collector.FigureTPOT, "Per token, ms", 1e3, 3}}
	var reasons []string
	for _, group := range repeats(points) {
		pooled, several := group.pooled()
		if !several {
			continue
		}
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
			} else if !slices.Contains(reasons, f.Interval.Reason) {
				reasons = append(reasons, f.Interval.Reason)
			}
			number, least, greatest := number(count(len(f.Values))), slices.Min(f.Values), slices.Max(f.Values)
			number.Small = text(&least).Text + "–" + text(&greatest).Text
			t.Rows = append(t.Rows, []cell{textCell(short(pooled.Point, 48)), textCell(n.name), number, text(&f.Pooled), low, high, text(f.Between), text(f.Expected)})
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	for _, reason := range reasons {
		t.Notes = append(t.Notes, "Where there is no interval: "+reason+".")
	}
	return &t
}

// openLoopTable shows the times from the intended moments, and whether client and
// server kept up with the rate; nil where no point has one.
func openLoopTable(points []*point) *table {
	t := table{
		Caption: "Open loop: times from the intended moment in milliseconds, conversations a second, and how late they began. What began and ended is counted in the second half of the arrivals",
		Head:    []cell{textCell("Point"), number("TTFT p50"), number("TTFT p90"), number("Request p50"), number("Request p90"), number("Asked"), number("Began"), number("Ended"), number("Schedule error p99"), textCell("Server keeps up")},
	}
	few := false
	for _, p := range points {
		o := p.spec.OpenLoop
		if o == nil {
			continue
		}
		few = few || o.TTFT.P90 == nil || o.E2E.P90 == nil
		t.Rows = append(t.Rows, []cell{textCell(p.title()), number(quantileMS(o.TTFT.P50)), number(quantileMS(o.TTFT.P90)), number(quantileMS(o.E2E.P50)), number(quantileMS(o.E2E.P90)),
			number(fixed(o.Rate, 1)), number(perSecond(o.Begun)), number(perSecond(o.Finished)), number(milliseconds(o.ScheduleError.P99)), textCell(o.KeepsUp)})
	}
	if len(t.Rows) == 0 {
		return nil
	}
	if few {
		t.Notes = []string{tooFewNote(50, 90)}
	}
	return &t
}

// perSecond is a rate that too few conversations may have left unknown.
func perSecond(v *float64) string {
	if v == nil {
		return none
	}
	return fixed(*v, 1)
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
