package sweep

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"spectap/collector"
)

// Table prints the points of a sweep: complete ones, failed ones, and the names
// of those that were not run; then the warnings. Several runs of a point stand side
// by side and are numbered.
func Table(w io.Writer, res Result) {
	res.Summaries = byPoint(res.Summaries, func(s collector.Summary) (string, collector.Repeat) { return s.Point, s.Repeat })
	row := func(r collector.Repeat, cells ...any) table.Row { return cells }
	if res.repeated() {
		row = func(r collector.Repeat, cells ...any) table.Row { return slices.Insert(cells, 2, any(r.Number())) }
	}
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Options.SeparateRows = false
	t.Style().Format.Header = text.FormatDefault
	header := row(0, "temperature", "concurrency", "Average_AL", "output tok/s", "per GPU",
		"decode tok/s\nper user", "TTFT ms", "failed", "blocks came", "audit")
	if res.repeated() {
		header[2] = "run"
	}
	t.AppendHeader(header)
	for _, s := range res.Summaries {
		t.AppendRow(row(s.Repeat, shortest(s.Temperature), s.Load(), averageAL(s), fmt.Sprintf("%.1f", s.OutputTPS),
			fmt.Sprintf("%.1f", s.OutputTPSPerGPU), decodeRate(s), fmt.Sprintf("%.1f", s.TTFTMean*1e3), s.Failed, blocks(s), s.Audit))
	}
	for _, f := range res.Failed {
		t.AppendRow(row(f.Point.Repeat, shortest(f.Point.Temperature), f.Point.load(), "failed", "-", "-", "-", "-",
			f.FailedRequests, "-", "-"))
	}
	var columns []table.ColumnConfig
	for i := range len(header) - 1 {
		columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
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
		for _, warning := range s.Warnings {
			if showsBoth(s) && warning == s.ViewsWarning() {
				continue // the row has both values
			}
			fmt.Fprintf(w, "%s: %s\n", s.Point, warning)
		}
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

// showsBoth tells whether the row shows both views of AL. Without blocks there
// is only one.
func showsBoth(s collector.Summary) bool { return s.BlocksCame > 0 && s.ViewsWarning() != "" }

// averageAL shows the other view too where it differs by more than 0.01.
func averageAL(s collector.Summary) string {
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
