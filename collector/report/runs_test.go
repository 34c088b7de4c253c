package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"spectap/collector"
	"spectap/collector/compare"
)

// Charts of acceptance have one mark for all runs of a point, at the mean of all and
// with the interval of all; each run stays in the data.
func TestRunsAreOnePoint(t *testing.T) {
	f := newFixture(t)
	for i := range 3 {
		s := shape{name: "t0_c4" + collector.Repeat(i).Suffix(), concurrency: 4, conversations: 12, categories: []string{"a", "b"}, model: "m"}
		s.change = func(p *collector.Point) { p.Run.Repeat = collector.Repeat(i) }
		f.add(s)
	}
	s, err := Read(f.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	points := s.speculative()
	mean := 0.0
	for _, p := range points {
		mean += p.spec.AL().AverageAL / 3
	}
	count := func(fig figure, class string) (n int) {
		for _, m := range fig.Wide.Marks {
			if strings.HasPrefix(m.Class, class) && m.Title != "" {
				n++
			}
		}
		return n
	}
	al := lengthFigure(points)
	if got := count(al, "mark"); got != 1 || len(al.Data.Rows) != 4 || al.Data.Rows[0][0].Text != "t0_c4, 3 runs together" || al.Data.Rows[0][1].Text != fixed(mean, 4) || al.Data.Rows[0][2].Text == none {
		t.Errorf("got %d marks and %+v, want one and four rows", got, al.Data.Rows)
	}
	groups := lightestRuns(points)
	position := positionFigure("per-position", "P", "u", points, groups, false)
	rates, intervals := groups[0].rates(false)
	own, _ := points[0].rates(false)
	if got := count(position, "mark"); len(groups) != 1 || got != len(rates) || len(rates) == 0 || len(position.Data.Rows) != 4 {
		t.Fatalf("got %d groups, %d marks, %d rows", len(groups), got, len(position.Data.Rows))
	}
	if math.Abs(rates[0]-own[0]) > 1e-9 || !intervals[0].Known { // the runs are alike
		t.Errorf("got %v and %+v of runs that have %v each", rates, intervals, own)
	}
	if categories, n := categoryFigure(points, groups); n != 2 || len(categories.Data.Rows) != 2 || categories.Data.Rows[0][5].Text != "18" {
		t.Errorf("got %d categories: %+v", n, categories.Data.Rows)
	}
}

// Values that differ by rounding alone have an axis with few ticks.
func TestScaleOfRounding(t *testing.T) {
	v := 20.0 / 9
	if got := linear([]float64{v, math.Nextafter(v, 3)}, false, 6).ticks(6); len(got) == 0 || len(got) > 20 {
		t.Errorf("got %d ticks", len(got))
	}
}

// A speed-up's line is named by its temperature and what it is drawn by.
func TestSpeedUpLegend(t *testing.T) {
	value := 1.5
	e := compare.Estimate{Value: &value}
	list := []compare.SpeedUp{{Temperature: "0", Load: "concurrency", Points: []compare.SpeedUpPoint{{Point: "t0_c1", Load: 1, Throughput: e}}}}
	f := speedUpFigure("s", "S", "u", list, func(p compare.SpeedUpPoint) compare.Estimate { return p.Throughput })
	if f.Legend[0].Name != "temperature 0, by concurrency" {
		t.Errorf("got legend %q", f.Legend[0].Name)
	}
}

// A table that is too wide for a narrow place says that it scrolls; on paper it does not.
func TestScrollHint(t *testing.T) {
	for columns, want := range map[int]string{2: "", 4: "some", 7: "some", 13: "many"} {
		if got := (table{Head: make([]cell, columns)}).Hint(); got != want {
			t.Errorf("%d columns: got %q, want %q", columns, got, want)
		}
	}
	f := newFixture(t)
	f.add(shape{name: "t0_c1", concurrency: 1, conversations: 3, categories: []string{"a"}, model: "m"})
	page := f.page()
	for _, want := range []string{`<span class="more many">More columns to the right`, "background: linear-gradient(to right, var(--card)", fmt.Sprintf("@container (max-width: %dpx) { caption .many", 820), "caption .more { display: none !important; }"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
