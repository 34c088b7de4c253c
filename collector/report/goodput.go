package report

import (
	"slices"

	"spectap/collector"
)

// goodputSection shows how many requests kept the limits, where some were set.
func (s *Source) goodputSection() section {
	sec := section{ID: "goodput", Title: "Requests within limits"}
	points := slices.DeleteFunc(s.complete(), func(p *point) bool { return p.performance == nil || p.performance.Goodput == nil })
	if len(points) == 0 {
		return sec
	}
	t := table{
		Caption: "Requests that kept every limit of the SLO; the share with its 95 % interval over conversations, of several runs together over runs and conversations",
		Head:    []cell{textCell("Point"), textCell("Limits"), number("Within"), number("Share"), number("At least"), number("Within, per second"), textCell("Verdict")},
	}
	var rows []collector.Summary
	var together []collector.Repeats
	for _, group := range repeats(points) {
		if pooled, several := group.pooled(); several && pooled.Goodput != nil {
			together = append(together, pooled)
			t.Rows = append(t.Rows, goodputCells(group.together(), pooled.Goodput))
		}
		for _, p := range group {
			t.Rows = append(t.Rows, goodputCells(p.title(), p.performance.Goodput))
			rows = append(rows, p.sloRow())
		}
	}
	var sentences []string
	for _, a := range collector.SLOAnswers(rows, together) {
		sentences = append(sentences, sentence(a.Sentence))
	}
	if len(sentences) > 0 {
		sec.Blocks = append(sec.Blocks, block{List: sentences})
	}
	sec.table(t)
	return sec
}

// goodputCells is the row of one run, or of several together.
func goodputCells(title string, g *collector.Goodput) []cell {
	share := number(percent(g.Share))
	if g.Interval.Known {
		share.Small = percent(g.Interval.Low) + "–" + percent(g.Interval.High)
	}
	least := none
	if g.AtLeast != nil {
		least = percent(*g.AtLeast)
	}
	return []cell{textCell(title), textCell(short(g.SLO.String(), 120)), number(count(g.Within) + " of " + count(g.Requests)), share, number(least), number(rate(g.PerSecond)), {Text: g.Verdict, Small: short(g.Reason, 200)}}
}

// sloRow is what the answer to an SLO needs of a run.
func (p *point) sloRow() collector.Summary {
	row := collector.Summary{Point: p.name, Temperature: p.run.Temperature, Concurrency: p.run.Concurrency, Goodput: p.performance.Goodput, OpenLoop: p.spec.OpenLoop}
	if p.run.Schedule != nil {
		row.Concurrency, row.RequestRate = 0, p.run.Schedule.Rate
	}
	return row
}
