package compare

import (
	"strings"
	"testing"
	"time"

	"spectap/collector"
)

// late is a point of an open loop in which requests are written so long after they
// were to be: a conversation half of it more or less than the next.
func (e engine) late(by time.Duration) collector.Point {
	p := e.point()
	start := time.Unix(1700000000, 0)
	schedule := &collector.Schedule{Rate: 20, Arrivals: collector.ArrivalsConstant, Start: start}
	for i := 0; i < len(p.Records); i += 2 {
		offset := time.Duration(i/2) * 50 * time.Millisecond
		schedule.Offsets = append(schedule.Offsets, offset)
		first, second := p.Records[i], p.Records[i+1]
		late := by + by/2*time.Duration(i%4-1) // i is even
		first.Start = start.Add(offset + late)
		second.Start = first.Start.Add(first.Done.Offset + late)
	}
	for _, r := range p.Records {
		r.Labels.Point = "t1_q20"
	}
	p.Run.Point, p.Run.Concurrency, p.Run.Schedule = "t1_q20", 0, schedule
	return p
}

// small is a run of the first drafter with few questions.
func small(run string) engine {
	e := drafter
	e.questions, e.run = 12, run
	return e
}

func inputOf(t *testing.T, points ...collector.Point) Input {
	t.Helper()
	var runs []run
	for _, p := range points {
		one, err := runOf(p, p.Run.ID+p.Run.Point, nil)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, one)
	}
	return Input{Path: points[0].Run.ID, Points: group(runs)}
}

// The second side writes its requests 40 ms late on average: its TTFT from the writing is the
// first one's, and from the intended moment 40 ms more.
func TestLateInOpenLoops(t *testing.T) {
	few, slow := small("old"), small("new")
	const late = 0.04
	a, b := inputOf(t, few.late(0)), inputOf(t, slow.late(40*time.Millisecond))
	r, err := Compare([]Input{a, b}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := figure(t, r, "t1_q20", "ttft")
	near(t, "difference", f.Difference.Value, late, 1e-9)
	if f.Since != SinceIntended || f.Verdict != Higher || f.N != 12 {
		t.Errorf("got TTFT %+v, want it higher from the intended moment", f)
	}
	if tpot := figure(t, r, "t1_q20", "tpot"); tpot.Since != "" {
		t.Errorf("got time per token since %q, which counts from no moment of the client's", tpot.Since)
	}
	contains(t, r.Text(), "TTFT counts from the intended moment: both sides are open loops.")
	contains(t, string(r.CSV()), ",intended\n")

	for side, in := range map[string][2]Input{"A": {a, inputOf(t, slow.point())}, "B": {inputOf(t, slow.point()), a}} {
		r, err := Compare([]Input{in[0], in[1]}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := r.Comparisons[0].Points[0]
		f := p.find(Condition{Quantity: QuantityTTFT, Scope: ScopeOverall})
		near(t, "difference", f.Difference.Value, 0, 1e-9)
		if f.Since != SinceWritten {
			t.Errorf("%s alone is an open loop: got TTFT since %q, want the moment of writing", side, f.Since)
		}
		contains(t, r.Text(), "TTFT counts from the writing of a request, as one side alone is an open loop")
		contains(t, r.Text(), "warning  loop")
	}
}

// A pair of each kind: what is said names its points; closed loops say nothing.
func TestLoopsOfSeveralPoints(t *testing.T) {
	few, other := small("old"), small("new")
	r, err := Compare([]Input{inputOf(t, few.late(0), few.point()), inputOf(t, other.late(0), other.point())}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	contains(t, r.Text(), "TTFT counts from the intended moment in t1_q20: both")
	if f := figure(t, r, "t1_c8", "ttft"); f.Since != SinceWritten {
		t.Errorf("got TTFT of a closed loop since %q", f.Since)
	}
	if text := r.Text(); strings.Contains(text, "one side alone") || strings.Contains(text, " loop ") {
		t.Errorf("closed loops are warned of:\n%s", text)
	}
}

func contains(t *testing.T, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("got\n%s\nwant in it %q", text, want)
	}
}
