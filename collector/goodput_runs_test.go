package collector

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// runsOf makes runs of one point of which each has other conversations that are slow.
func runsOf(t *testing.T, n int, late ...int) (rows []Summary, runs []RunFigures) {
	t.Helper()
	for i, slowOnes := range late {
		p := slow(n, 0)
		p.Run.Point, p.Run.Repeat = "t0_c1"+Repeat(i).Suffix(), Repeat(i)
		for j := range slowOnes {
			r := p.Records[2*((j+i*n/3)%n)+1] // its second turn
			r.Chunks[0].At = 800 * time.Millisecond
		}
		f, err := p.RunFigures()
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, f)
		rows = append(rows, Summary{Point: p.Run.Point, Concurrency: 1, Goodput: p.goodput(p.selected())})
	}
	return rows, runs
}

// Three runs of 100 conversations are judged together: 591 of 600 requests, and the
// answer names the point and not a run.
func TestGoodputOfRuns(t *testing.T) {
	rows, runs := runsOf(t, 100, 2, 3, 4)
	r := PoolRuns(runs)
	g := r.Goodput
	if g == nil || g.Requests != 600 || g.Within != 591 || g.Over[LimitTTFT] != 9 || g.Conversations != 100 || g.Runs != 3 || !near(g.Share, 591./600) {
		t.Fatalf("got %+v, want 591 of 600 requests of 100 conversations", g)
	}
	if !near(g.PerSecond, 591/(3*199.9)) || g.Failed != 0 {
		t.Errorf("got %v within a second, want that of all runs' time", g.PerSecond)
	}
	if g.Verdict != SLOMet || !strings.HasPrefix(g.Reason, "n = 600 requests of 100 conversations in 3 runs shows that at least 96.") {
		t.Errorf("got %q: %s", g.Verdict, g.Reason)
	}
	alone := rows[0].Goodput
	if g.Interval.High-g.Interval.Low >= alone.Interval.High-alone.Interval.Low {
		t.Errorf("got %+v of three runs that are alike, no narrower than %+v of one", g.Interval, alone.Interval)
	}
	got := SLOAnswers(rows, []Repeats{r})
	if len(got) != 1 || got[0].Point != "t0_c1" || got[0].Concurrency != 1 || !strings.Contains(got[0].Sentence, "concurrency 1 is the largest measured that meets it; n = 600 requests") {
		t.Errorf("got %+v", got)
	}
}

// A run that is much worse than the others makes the share of a next run uncertain.
func TestGoodputOfRunsApart(t *testing.T) {
	_, alike := runsOf(t, 100, 10, 10, 10)
	_, apart := runsOf(t, 100, 0, 0, 30)
	a, b := PoolRuns(alike).Goodput, PoolRuns(apart).Goodput
	if a.Within != b.Within || b.Interval.High-b.Interval.Low < 3*(a.Interval.High-a.Interval.Low) || *b.AtLeast > *a.AtLeast-0.05 {
		t.Errorf("got %+v and %+v, want the second far wider", a, b)
	}
}

// What of a run is no request of the point, failed, or was not asked stays what it is.
func TestGoodputOfRunsLeavesOut(t *testing.T) {
	var runs []RunFigures
	for i := range 2 {
		p := slow(100, 0)
		p.Run.Point, p.Run.Repeat = "t0_c1"+Repeat(i).Suffix(), Repeat(i)
		if i == 1 {
			p.Records[1].ErrorKind = ErrTruncated
			p.Records[3].SetApart = ApartRepeated
			p.Records = slices.Delete(p.Records, 10, 12) // a conversation that nobody asked
		}
		f, err := p.RunFigures()
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, f)
	}
	if g := PoolRuns(runs).Goodput; g.Requests != 397 || g.Within != 396 || g.Failed != 1 || g.Conversations != 100 {
		t.Errorf("got %+v, want 396 of 397 requests of 100 conversations", g)
	}
	runs[1].goodput.unknown = 1
	if g := PoolRuns(runs).Goodput; g.Verdict != SLONotJudged || !strings.Contains(g.Reason, "1 of 397 answers did not stream") {
		t.Errorf("got %+v", g)
	}
	runs[1].goodput.counts.SLO.TTFT = 9
	if r := PoolRuns(runs); r.Goodput != nil || !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "different limits") }) {
		t.Errorf("got %+v, %v; want no verdict of two SLOs", r.Goodput, r.Warnings)
	}
}

// If any run's server does not keep up, or that cannot be told, all are not judged.
func TestRunsOfARate(t *testing.T) {
	f := func(want string, keepsUp ...string) {
		t.Helper()
		rows, runs := runsOf(t, 100, 0, 0, 0)
		for i := range runs {
			rows[i].Concurrency, rows[i].RequestRate = 0, 20
			runs[i].openLoop = &OpenLoop{Window: float64(i + 1), KeepsUp: keepsUp[i]}
			rows[i].OpenLoop = runs[i].openLoop
		}
		got := SLOAnswers(rows, []Repeats{PoolRuns(runs)})
		if len(got) != 1 || !strings.Contains(got[0].Sentence, "rate 20/s "+want) {
			t.Errorf("%v: got %+v, want %q", keepsUp, got, want)
		}
	}
	f("is the largest measured that meets it and that the server keeps up with; n = 600", KeepsUpYes, KeepsUpYes, KeepsUpYes)
	f("not judged: 2 s of arrivals are too short to tell whether the server keeps up with it; n = 600", KeepsUpYes, KeepsUpUnknown, KeepsUpYes)
	f("not judged: the server does not keep up with it, so that nothing holds for longer than the 1 s of arrivals; n = 600", KeepsUpNo, KeepsUpUnknown, KeepsUpYes)
}
