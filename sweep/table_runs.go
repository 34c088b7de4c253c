package sweep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spectap/collector"
)

// tableLine is one line of the table: a point, all its runs together.
type tableLine struct {
	collector.Summary
	runs   int
	pooled collector.Repeats // of several runs
}

// tableLines puts the runs of a point into one line.
func tableLines(rows []collector.Summary, repeats []collector.Repeats) []tableLine {
	var lines []tableLine
	for _, s := range byPoint(rows, func(s collector.Summary) (string, collector.Repeat) { return s.Point, s.Repeat }) {
		base := strings.TrimSuffix(s.Point, s.Repeat.Suffix())
		i := slices.IndexFunc(repeats, func(r collector.Repeats) bool { return r.Point == base && len(r.Figures) > 0 })
		if n := len(lines); i >= 0 && n > 0 && lines[n-1].pooled.Point == base {
			lines[n-1].join(s)
			continue
		}
		line := tableLine{Summary: s, runs: 1}
		if i >= 0 {
			line.pooled = repeats[i]
		}
		lines = append(lines, line)
	}
	return lines
}

// join adds another run: numbers of requests are summed up, rates that have no
// figure of their own are averaged.
func (l *tableLine) join(s collector.Summary) {
	n := float64(l.runs)
	l.runs++
	for _, f := range []struct {
		mean *float64
		more float64
	}{{&l.AverageAL, s.AverageAL}, {&l.ClientAL, s.ClientAL}, {&l.ServerAL, s.ServerAL}, {&l.OutputTPS, s.OutputTPS}, {&l.OutputTPSPerGPU, s.OutputTPSPerGPU}, {&l.DecodeTPSPerUser, s.DecodeTPSPerUser}, {&l.TTFTMean, s.TTFTMean}} {
		*f.mean = (*f.mean*n + f.more) / (n + 1)
	}
	l.Failed, l.BlocksCame, l.BlocksExpected = l.Failed+s.Failed, l.BlocksCame+s.BlocksCame, l.BlocksExpected+s.BlocksExpected
	if !slices.Contains(strings.Split(l.Audit, ", "), s.Audit) {
		l.Audit += ", " + s.Audit
	}
	l.Goodput = l.pooled.Goodput
}

// cell is the text of a column: of several runs the pooled figure and half of its interval.
func (l tableLine) cell(c column) string {
	if l.runs < 2 || c.figure == "" {
		return c.of(l.Summary)
	}
	figure, ok := l.pooled.Figure(c.figure)
	switch {
	case !ok && l.Baseline && c.figure == collector.FigureAL:
		return c.of(l.Summary)
	case !ok:
		return "-"
	}
	number := func(v float64) string { return strconv.FormatFloat(v*c.scale, 'f', c.places, 64) }
	if in := figure.Interval; in.Known {
		return number(figure.Pooled) + " ± " + number((in.High-in.Low)/2)
	}
	low, high := figure.Range()
	return fmt.Sprintf("%s (%s to %s)", number(figure.Pooled), number(low), number(high))
}

// repeatNotes are the lines below a table of repeats.
func repeatNotes(repeats []collector.Repeats) []string {
	var notes []string
	for _, r := range repeats {
		for _, w := range r.Warnings {
			notes = append(notes, r.Point+": "+w)
		}
	}
	if len(repeats) == 0 {
		return nil
	}
	notes = append(notes, "± is half of the 95 % interval over runs and conversations, of tokens per second over runs; sweep.json has each run's values and the spread within and between runs")
	if reasons := withoutInterval(repeats); len(reasons) > 0 {
		notes = append(notes, "(a to b) in place of ± are the least and the greatest run: "+strings.Join(reasons, "; "))
	}
	return notes
}

// withoutInterval says why figures of the table have no interval, each reason once.
func withoutInterval(repeats []collector.Repeats) []string {
	var reasons []string
	for _, r := range repeats {
		for _, c := range pooledColumns {
			if f, ok := r.Figure(c); ok && !f.Interval.Known && !slices.Contains(reasons, f.Interval.Reason) {
				reasons = append(reasons, f.Interval.Reason)
			}
		}
	}
	return reasons
}

// pooledColumns are the figures that the table has columns of.
var pooledColumns = [...]string{collector.FigureAL, collector.FigureOutputTPS, collector.FigureSteadyTPS, collector.FigureTTFT}
