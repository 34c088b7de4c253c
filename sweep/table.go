package sweep

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"spectap/collector"
)

// column is one column of the table.
type column struct {
	name   string
	of     func(collector.Summary) string
	failed string // what a failed point has there; "": its number of failed requests

	// Of several runs: the figure that is pooled, how many decimals it is shown with
	// and in what unit; "": the runs are averaged or summed up (tableLine.join).
	figure string
	places int
	scale  float64
}

// columns are those that tell something about these points.
func columns(rows []collector.Summary) []column {
	fixed := func(v func(collector.Summary) float64) func(collector.Summary) string {
		return func(s collector.Summary) string { return fmt.Sprintf("%.1f", v(s)) }
	}
	list := []column{
		{name: "Average_AL", of: averageAL, failed: "failed", figure: collector.FigureAL, places: 3, scale: 1},
		{name: "output tok/s", of: fixed(func(s collector.Summary) float64 { return s.OutputTPS }), failed: "-", figure: collector.FigureOutputTPS, places: 1, scale: 1},
	}
	if slices.ContainsFunc(rows, func(s collector.Summary) bool { return s.OutputTPSPerGPU != s.OutputTPS }) {
		list = append(list, column{name: "per GPU", of: fixed(func(s collector.Summary) float64 { return s.OutputTPSPerGPU }), failed: "-"})
	}
	if slices.ContainsFunc(rows, func(s collector.Summary) bool { return s.Steady.Usable() != nil }) {
		list = append(list, column{name: "steady tok/s", of: steadyRate, failed: "-", figure: collector.FigureSteadyTPS, places: 1, scale: 1})
	}
	list = append(list, column{name: "decode tok/s\nper user", of: decodeRate, failed: "-"},
		column{name: "TTFT ms", of: fixed(func(s collector.Summary) float64 { return s.TTFTMean * 1e3 }), failed: "-", figure: collector.FigureTTFT, places: 1, scale: 1e3})
	if slices.ContainsFunc(rows, func(s collector.Summary) bool { return s.Goodput != nil }) {
		list = append(list, column{name: "within SLO", of: withinSLO, failed: "-"})
	}
	return append(list, column{name: "failed", of: func(s collector.Summary) string { return strconv.Itoa(s.Failed) }},
		column{name: "blocks came", of: blocks, failed: "-"}, column{name: "audit", of: func(s collector.Summary) string { return s.Audit }, failed: "-"})
}

// Table prints the points of a sweep: complete ones, failed ones, and the names
// of those that were not run; then the warnings. Several runs of a point are one line.
func Table(w io.Writer, res Result) {
	row := func(_ any, cells ...any) table.Row { return cells }
	if res.repeated() {
		row = func(runs any, cells ...any) table.Row { return slices.Insert(cells, 2, runs) }
	}
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Options.SeparateRows = false
	t.Style().Format.Header = text.FormatDefault
	list := columns(res.Summaries)
	header := row("runs", "temperature", "concurrency")
	for _, c := range list {
		header = append(header, c.name)
	}
	t.AppendHeader(header)
	for _, line := range tableLines(res.Summaries, res.Repeats) {
		cells := row(line.runs, shortest(line.Temperature), line.Load())
		for _, c := range list {
			cells = append(cells, line.cell(c))
		}
		t.AppendRow(cells)
	}
	for _, f := range res.Failed {
		cells := row(fmt.Sprintf("run %d", f.Point.Repeat.Number()), shortest(f.Point.Temperature), f.Point.load())
		for _, c := range list {
			cells = append(cells, cmp.Or(c.failed, strconv.Itoa(f.FailedRequests)))
		}
		t.AppendRow(cells)
	}
	var right []table.ColumnConfig
	for i := range len(header) - 1 {
		right = append(right, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	if t.Length() > 0 {
		t.Render()
	}
	notes(w, res)
}

// repeated says that a point ran more than once.
func (r Result) repeated() bool {
	return slices.ContainsFunc(r.Summaries, func(s collector.Summary) bool { return s.Repeat > 0 }) ||
		slices.ContainsFunc(r.Failed, func(f FailedPoint) bool { return f.Point.Repeat > 0 })
}

// notes are the lines below the table.
func notes(w io.Writer, res Result) {
	for _, s := range res.Summaries {
		if o := s.OpenLoop; o != nil {
			fmt.Fprintf(w, "%s: %s\n", s.Point, openLoopText(o))
		}
		for _, warning := range s.Warnings {
			if showsBoth(s) && warning == s.ViewsWarning() {
				continue // the row has both values
			}
			fmt.Fprintf(w, "%s: %s\n", s.Point, warning)
		}
	}
	for _, note := range repeatNotes(res.Repeats) {
		fmt.Fprintln(w, note)
	}
	for _, answer := range collector.SLOAnswers(res.Summaries, res.Repeats) {
		fmt.Fprintln(w, answer.Sentence)
	}
	if names := withoutSteady(res.Summaries); len(names) > 0 {
		fmt.Fprintf(w, "no steady state that means something in %s: performance.json says why\n", strings.Join(names, ", "))
	}
	for _, note := range steadyWithoutInterval(res) {
		fmt.Fprintln(w, note)
	}
	for _, f := range res.Failed {
		fmt.Fprintf(w, "%s failed: %s\n", f.Point.Name, f.Reason)
		if f.Dir != "" {
			fmt.Fprintf(w, "%s: records and error.json are in %s\n", f.Point.Name, f.Dir)
		}
	}
	if len(res.NotRun) > 0 {
		fmt.Fprintf(w, "not run: %s\n", strings.Join(res.NotRun, ", "))
	}
}

// openLoopText is what the table has no column for.
func openLoopText(o *collector.OpenLoop) string {
	rates := fmt.Sprintf("how many of %g conversations/s began and ended cannot be said: %s", o.Rate, o.NoRates)
	if o.Begun != nil && o.Finished != nil {
		rates = fmt.Sprintf("of %g conversations/s %.1f began and %.1f ended in the second half of the %.3g s of arrivals", o.Rate, *o.Begun, *o.Finished, o.Window)
	}
	return fmt.Sprintf("from the intended moment TTFT %s ms, request %s ms (p50 / p90); %s; schedule error p99 %.1f ms",
		halves(o.TTFT), halves(o.E2E), rates, o.ScheduleError.P99*1e3)
}

// halves are p50 and p90, "-" where there are too few requests.
func halves(f collector.FromIntended) string {
	text := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return strconv.FormatFloat(*v*1e3, 'f', 1, 64)
	}
	return text(f.P50) + " / " + text(f.P90)
}

// showsBoth tells whether the row shows both views of AL. Without blocks there
// is only one.
func showsBoth(s collector.Summary) bool { return s.BlocksCame > 0 && s.ViewsWarning() != "" }

// averageAL shows the other view too where it differs by more than 0.01.
func averageAL(s collector.Summary) string {
	if s.Baseline {
		return "baseline"
	}
	value := fmt.Sprintf("%.3f", s.AverageAL)
	if !showsBoth(s) {
		return value
	}
	if s.View == collector.ViewServer {
		return fmt.Sprintf("%s (client %.3f)", value, s.ClientAL)
	}
	return fmt.Sprintf("%s (server %.3f)", value, s.ServerAL)
}

func decodeRate(s collector.Summary) string {
	if s.DecodeTPSPerUser == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", s.DecodeTPSPerUser)
}

// blocks says how many requests came with a statistics block.
func blocks(s collector.Summary) string {
	if s.BlocksExpected == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", s.BlocksCame, s.BlocksExpected)
}

// steadyRate is the throughput at full load with half the width of its interval.
func steadyRate(s collector.Summary) string {
	w := s.Steady.Usable()
	switch {
	case w == nil:
		return "-"
	case !w.Interval.Known:
		return fmt.Sprintf("%.1f", w.OutputTPS)
	}
	return fmt.Sprintf("%.1f ± %.1f", w.OutputTPS, (w.Interval.High-w.Interval.Low)/2)
}

// steadyWithoutInterval says why steady tok/s stands without ±, once for each reason.
func steadyWithoutInterval(res Result) []string {
	names := map[string][]string{}
	var reasons []string
	for _, s := range res.Summaries {
		pooled := slices.ContainsFunc(res.Repeats, func(r collector.Repeats) bool { return slices.Contains(r.Runs, s.Point) })
		if w := s.Steady.Usable(); w != nil && !w.Interval.Known && !pooled {
			if names[w.Interval.Reason] == nil {
				reasons = append(reasons, w.Interval.Reason)
			}
			names[w.Interval.Reason] = append(names[w.Interval.Reason], s.Point)
		}
	}
	var notes []string
	for _, reason := range reasons {
		notes = append(notes, fmt.Sprintf("steady tok/s without ± in %s: %s", strings.Join(names[reason], ", "), cmp.Or(reason, "no interval is known")))
	}
	return notes
}

// withoutSteady names the points whose window means nothing, or that have none.
func withoutSteady(rows []collector.Summary) []string {
	var names []string
	for _, s := range rows {
		if s.Steady != nil && s.Steady.Usable() == nil {
			names = append(names, s.Point)
		}
	}
	return names
}

// withinSLO is the share of requests within, with its interval.
func withinSLO(s collector.Summary) string {
	g := s.Goodput
	switch {
	case g == nil:
		return "-"
	case !g.Interval.Known:
		return fmt.Sprintf("%.1f %%", 100*g.Share)
	}
	return fmt.Sprintf("%.1f %% (%.1f to %.1f)", 100*g.Share, 100*g.Interval.Low, 100*g.Interval.High)
}
