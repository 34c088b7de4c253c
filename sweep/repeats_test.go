package sweep

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spectap/collector"
)

// Each point runs N times: all once, then all again, each second time backwards.
func TestRepeats(t *testing.T) {
	s := newScripted(t, echo)
	seed := int64(7)
	p := plan(t, s, Config{Temperatures: []string{"1"}, Concurrency: []string{"1", "2"}, Repeats: 3, SamplingSeed: &seed})
	w := newSweep(p, s)
	runs := map[string]collector.Run{}
	w.write = func(p collector.Point, dir string) (collector.Summary, error) {
		runs[p.Run.Point] = p.Run
		summary, err := writeStub(p, dir)
		summary.Repeat = p.Run.Repeat
		return summary, err
	}
	result, err := w.Run(context.Background())
	if err != nil || len(result.Summaries) != 6 {
		t.Fatalf("got %d points, error %v", len(result.Summaries), err)
	}
	var order []string
	salts := map[string]string{}
	for _, q := range s.requests() {
		name := q.labels["spectap.point"]
		if len(order) == 0 || order[len(order)-1] != name {
			order = append(order, name)
		}
		salt := string(q.body["cache_salt"])
		if was, seen := salts[salt]; seen && was != name {
			t.Errorf("%s has the salt of %s", name, was)
		}
		salts[salt] = name
		want := map[collector.Repeat]string{0: "7", 1: "8", 2: "9"}[repeatOf(name)]
		if got := string(q.body["seed"]); got != want {
			t.Errorf("%s: got seed %s, want %s", name, got, want)
		}
	}
	want := []string{"t1_c1", "t1_c2", "t1_c2_r2", "t1_c1_r2", "t1_c1_r3", "t1_c2_r3"}
	if !slices.Equal(order, want) || len(salts) != 6 {
		t.Errorf("got order %v with %d salts, want %v and a salt each", order, len(salts), want)
	}
	for name, run := range runs {
		if run.Repeat != repeatOf(name) || run.BasePoint() != name[:5] || !strings.Contains(string(run.Configuration), `"repeat": `+string(rune('1'+run.Repeat))) {
			t.Errorf("%s: got repeat %d, base %s", name, run.Repeat, run.BasePoint())
		}
	}
	if got, want := entries(t, p.Config.SaveDir), []string{"summary.csv", "sweep.json", "t1_c1", "t1_c1_r2", "t1_c1_r3", "t1_c2", "t1_c2_r2", "t1_c2_r3"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	checkRepeatRows(t, p.Config.SaveDir, want)
	var table strings.Builder
	Table(&table, result)
	var shown []string
	for line := range strings.Lines(table.String()) {
		if cells := strings.Split(line, "│"); len(cells) > 5 {
			shown = append(shown, strings.TrimSpace(cells[2])+"/"+strings.TrimSpace(cells[3]))
		}
	}
	if want := []string{"concurrency/runs", "/", "1/3", "2/3"}; !slices.Equal(shown, want) || len(result.Repeats) != 2 {
		t.Errorf("got rows %v, want %v:\n%s", shown, want, table.String())
	}
}

func repeatOf(name string) collector.Repeat {
	_, n, found := strings.Cut(name, "_r")
	if !found {
		return 0
	}
	return collector.Repeat(n[0] - '1')
}

// checkRepeatRows reads the number of the run from both files of the sweep.
func checkRepeatRows(t *testing.T, dir string, want []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "sweep.json"))
	var book struct {
		Points []struct {
			Point  string
			Repeat int
		}
	}
	if err != nil || json.Unmarshal(text, &book) != nil || len(book.Points) != len(want) {
		t.Fatalf("got %d rows in sweep.json (%v)", len(book.Points), err)
	}
	table, _ := os.Open(filepath.Join(dir, "summary.csv"))
	defer table.Close()
	rows, err := csv.NewReader(table).ReadAll()
	if err != nil || len(rows) != len(want)+1 {
		t.Fatalf("got %d rows in summary.csv (%v)", len(rows), err)
	}
	column := slices.Index(rows[0], "repeat")
	for i, name := range want {
		number := repeatOf(name).Number()
		if b := book.Points[i]; b.Point != name || b.Repeat != number || column < 0 || rows[i+1][column] != string(rune('0'+number)) {
			t.Errorf("got rows %+v and %v, want run %d of %s", b, rows[i+1], number, name)
		}
	}
}

// A drift of the server that is steady in time falls on all points alike.
func TestRepeatsCancelDrift(t *testing.T) {
	f := func(repeats int, left float64) {
		t.Helper()
		cfg := valid(t)
		cfg.Concurrency, cfg.Repeats = []string{"1", "2", "4", "8", "16"}, repeats
		p, err := NewPlan(cfg)
		if err != nil {
			t.Fatal(err)
		}
		mean := map[int]float64{}
		for i, point := range p.Points {
			mean[point.Concurrency] += float64(i) / float64(repeats)
		}
		if got := (mean[16] - mean[1]) / 4; got < left-1e-9 || got > left+1e-9 {
			t.Errorf("%d repeats: got %v of the drift between points, want %v", repeats, got, left)
		}
	}
	f(1, 1)
	f(2, 0)
	f(3, 1./3)
	f(4, 0)
	f(5, 1./5)
}
