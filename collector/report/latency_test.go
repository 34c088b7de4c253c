package report

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spectap/collector"
)

// A quantile that n is too few for is not shown, in no table and no chart, and the
// note says why: the same rule as in performance.json.
func TestQuantilesThatFewRequestsAllow(t *testing.T) {
	f := newFixture(t)
	f.add(shape{name: "t0_c1", concurrency: 1, conversations: 5, categories: []string{"a"}, model: "m"}) // 10 requests
	page := f.page()
	sound(t, page)
	src, err := Read(f.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := src.points[0]
	list := timesOf(src.points, func(p *point) distribution { return p.ttft })
	spread := spreadFigure("ttft", "TTFT", list, "n")
	row := spread.Data.Rows[0]
	for i, head := range spread.Data.Head {
		if shown, want := row[i].Text != none, !slices.Contains([]string{"p5", "p25", "p75", "p95", "p99"}, head.Text); shown != want {
			t.Errorf("%s of 10 requests: got %q", head.Text, row[i].Text)
		}
	}
	if marks(spread.Wide, "whisker") > 0 || marks(spread.Wide, "box") > 0 || marks(spread.Wide, "mark") != 1 {
		t.Errorf("got %+v, want a mark at p50 alone", spread.Wide.Marks)
	}
	const note = "A quantile is not shown (–) where n is too few for it: it takes n of p50 6, p25 13, p75 13, p5 72, p95 72 and p99 368."
	if !slices.Contains(spread.Notes, note) {
		t.Errorf("got %q, want %q", spread.Notes, note)
	}
	cells := p.cells()
	if heads := src.pointsSection().Blocks[0].Table.Head; heads[7].Text != "TTFT p50" || cells[7].Text == none || heads[8].Text != "TTFT p95" || cells[8].Text != none {
		t.Errorf("got %+v", cells)
	}
	contains(t, page, "it takes n of p50 6 and p95 72.")
	for _, q := range p.performance.Latency[0].Quantiles {
		if at := p.ttft.at[int(100*q.Q+0.5)]; (q.Value != nil) != (at == at) {
			t.Errorf("performance.json has %v of p%v, the report %v", q.Value, 100*q.Q, at)
		}
	}
	few := newFixture(t)
	few.records(filepath.Join(few.dir, "t0_c1"), shape{name: "t0_c1", concurrency: 1, conversations: 2, categories: []string{"a"}, model: "m"}.point())
	page = few.page() // 4 requests: not even p50
	sound(t, page)
	if strings.Contains(page, `id="ttft-curve-1"`) {
		t.Error("a curve without a point is drawn")
	}
}

// The times from the intended moment keep the same rule.
func TestOpenLoopTableOfFewRequests(t *testing.T) {
	p := &point{name: "t0_q5", spec: &collector.Speculation{OpenLoop: &collector.OpenLoop{TTFT: collector.FromIntended{N: 10, P50: new(0.5)}}}}
	table := openLoopTable([]*point{p})
	if row := table.Rows[0]; row[1].Text != "500" || row[2].Text != none || row[3].Text != none || len(table.Notes) != 1 {
		t.Errorf("got %+v and %q, want p50 alone", row, table.Notes)
	}
}
