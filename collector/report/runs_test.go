package report

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"spectap/collector"
	"spectap/collector/compare"
)

// Charts of acceptance have one mark for all runs of a point, at the mean of all and
// with the interval of all; each run stays in the data.
func TestRunsAreOnePoint(t *testing.T) {
	points, groups := threeRuns(t)
	mean := 0.0
	for _, p := range points {
		mean += p.spec.AL().AverageAL / 3
	}
	al := lengthFigure(points)
	if got := marks(al.Wide, "mark"); got != 1 || len(al.Data.Rows) != 4 || al.Data.Rows[0][0].Text != "t0_c4, 3 runs together" || al.Data.Rows[0][1].Text != fixed(mean, 4) || al.Data.Rows[0][2].Text == none {
		t.Errorf("got %d marks and %+v, want one and four rows", got, al.Data.Rows)
	}
	position := positionFigure("per-position", "P", "u", points, groups, false)
	accepted, steps := 0, 0
	for _, p := range points {
		for j, n := range p.spec.Accepted.Blocks {
			steps += n
			accepted += n * min(j, 1)
		}
	}
	rates, intervals := groups[0].rates(false)
	own, _ := points[0].rates(false)
	if got := marks(position.Wide, "mark"); len(groups) != 1 || got != len(rates) || len(rates) == 0 || len(position.Data.Rows) != 4 {
		t.Fatalf("got %d groups, %d marks, %d rows", len(groups), got, len(position.Data.Rows))
	}
	if want := float64(accepted) / float64(steps); math.Abs(rates[0]-want) > 1e-9 || math.Abs(own[0]-want) < 1e-3 || !intervals[0].Known {
		t.Errorf("got %v and %+v, want %v of all runs, where the first has %v", rates, intervals, want, own)
	}
	if categories, n := categoryFigure(points, groups); n != 2 || len(categories.Data.Rows) != 2 || categories.Data.Rows[0][5].Text != "18" {
		t.Errorf("got %d categories: %+v", n, categories.Data.Rows)
	}
}

// The runs of a point are one mark in what shorter drafts would have brought, at the
// mean of runs that differ.
func TestRunsAreOneWhatIf(t *testing.T) {
	points, groups := threeRuns(t)
	gain, al := 0.0, 0.0
	for _, p := range points {
		gain, al = gain+p.spec.WhatIf.Last.Gain/3, al+p.spec.WhatIf.Lengths[0].AverageAL/3
	}
	if first := points[0].spec.WhatIf; math.Abs(gain-first.Last.Gain) < 1e-3 || math.Abs(al-first.Lengths[0].AverageAL) < 1e-3 {
		t.Fatalf("the runs do not differ: %v and %v", gain, al)
	}
	last := lastFigure(points)
	if got := marks(last.Wide, "mark"); got != 1 || len(last.Data.Rows) != 4 || last.Data.Rows[0][0].Text != "t0_c4, 3 runs together" || last.Data.Rows[0][2].Text != fixed(gain, 4) {
		t.Errorf("got %d marks and %+v, want one at %v and four rows", got, last.Data.Rows, gain)
	}
	lengths := whatIfFigure(points, groups)
	k := len(points[0].spec.WhatIf.Lengths)
	if got := marks(lengths.Wide, "mark"); got != k || len(lengths.Data.Rows) != 4*k || lengths.Data.Rows[0][2].Text != fixed(al, 4) || lengths.Legend[0].Name != "temperature 0, concurrency 4, 3 runs" {
		t.Errorf("got %d marks, legend %+v and %+v, want %d, the first at %v", got, lengths.Legend, lengths.Data.Rows, k, al)
	}
	text := ""
	for _, b := range (&Source{points: points}).whatIfSection().Blocks {
		text += strings.Join(b.List, "\n")
	}
	if !strings.HasPrefix(text, "t0_c4, 3 runs together: ") || !strings.Contains(text, "brings "+fixed(gain, 3)) {
		t.Errorf("got %q, want what the last position brings in all runs", text)
	}
}

// The times of a point's runs are one sample, in ranges and in curves; runs without
// their samples stand alone.
func TestRunsAreOneDistribution(t *testing.T) {
	points, _ := threeRuns(t)
	var all []float64
	for _, p := range points {
		all = append(all, p.ttft.sample...)
	}
	list := timesOf(points, func(p *point) distribution { return p.ttft })
	if want := newDistribution(all); len(all) != 72 || len(list) != 1 || list[0].n != 72 || fmt.Sprint(list[0].at) != fmt.Sprint(want.at) { // NaN is where 72 are too few
		t.Fatalf("got %d values and %+v", len(all), list)
	}
	f := spreadFigure("ttft", "TTFT", list, "n")
	if got := marks(f.Wide, "box"); got != 1 || len(f.Data.Rows) != 4 || f.Data.Rows[0][1].Text != "72" || f.Data.Rows[1][1].Text != "24" || len(f.Notes) != 3 {
		t.Errorf("got %d boxes, %+v and %q", got, f.Data.Rows, f.Notes)
	}
	if curves := curveFigures("ttft", "TTFT", list); len(curves) != 1 || len(curves[0].Legend) != 1 || curves[0].Legend[0].Name != "concurrency 4, 3 runs" || len(curves[0].Data.Head) != 2 {
		t.Errorf("got %+v", curves)
	}
	points[1].ttft.sample = nil
	if list := timesOf(points, func(p *point) distribution { return p.ttft }); len(list) != 3 || list[1].curveName() != "concurrency 4, run 2" || list[1].title() != points[1].title() {
		t.Errorf("got %+v, want each run by itself", list)
	}
}

// The time to the first token of an open loop counts from the intended moment, and
// the chart says so.
func TestIntendedTTFT(t *testing.T) {
	f := newFixture(t)
	s := shape{name: "t0_q5", conversations: 4, categories: []string{"a"}, model: "m"}
	s.change = func(p *collector.Point) { // all began 3 s after they were to begin
		p.Run.Schedule = &collector.Schedule{Rate: 5, Arrivals: collector.ArrivalsConstant, Start: epoch.Add(-3 * time.Second)}
		for i := range s.conversations {
			p.Run.Schedule.Offsets = append(p.Run.Schedule.Offsets, time.Duration(2*i)*time.Second)
		}
	}
	f.add(s)
	closed := shape{name: "t0_c4", concurrency: 4, conversations: 4, categories: []string{"a"}, model: "m"}
	f.add(closed)
	src, err := Read(f.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]*point{}
	for _, p := range src.points {
		by[p.name] = p
	}
	open := by["t0_q5"]
	if o := open.spec.OpenLoop; o == nil || o.TTFT.P50 == nil || math.Abs(open.ttft.at[50]-*o.TTFT.P50) > 1e-9 || open.ttft.at[100] < 3 || by["t0_c4"].ttft.at[100] > 0.1 {
		t.Errorf("got %v and %v of an open and a closed loop, want %+v", open.ttft.at[50], by["t0_c4"].ttft.at[50], o)
	}
	for want, points := range map[string][]*point{
		"From the moment the request was written": {by["t0_c4"]}, "from the moment the request was to begin": {open}, "in an open loop from the moment the request was to begin": {open, by["t0_c4"]},
	} {
		if note := ttftNote(points); !strings.Contains(note, want) {
			t.Errorf("got %q, want %q", note, want)
		}
	}
	if page := f.page(); !strings.Contains(page, "TTFT of an open loop counts from the intended moment.") {
		t.Error("the table of points does not say from when TTFT counts")
	}
}

// threeRuns are the runs of one point, which differ, and their group.
func threeRuns(t *testing.T) ([]*point, []runs) {
	f := newFixture(t)
	for i := range 3 {
		s := shape{name: "t0_c4" + collector.Repeat(i).Suffix(), concurrency: 4, conversations: 12, categories: []string{"a", "b"}, model: "m", events: 6 + 3*i}
		s.change = func(p *collector.Point) { p.Run.Repeat = collector.Repeat(i) }
		f.add(s)
	}
	s, err := Read(f.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s.speculative(), lightestRuns(s.speculative())
}

// marks counts the marks of a class that have a title.
func marks(d drawing, class string) (n int) {
	for _, m := range d.Marks {
		if strings.HasPrefix(m.Class, class+" ") && m.Title != "" {
			n++
		}
	}
	return n
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
