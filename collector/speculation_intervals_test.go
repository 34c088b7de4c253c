package collector

import (
	"slices"
	"strconv"
	"testing"

	"spectap/collector/estimate"
)

// TestPositionIntervals: both rates have the interval of what each conversation's
// steps, as the engine listed them one by one, say.
func TestPositionIntervals(t *testing.T) {
	p := gpuPoint(t, "draft_t0_c1.json")
	p.Run.Seed, p.Lenient = 11, true
	p.Records = slices.DeleteFunc(p.Records, func(r *Record) bool { return r.Spec == nil }) // the server lost a block
	lost := map[string]int{}
	for _, r := range p.Records {
		lost[r.Labels.Conversation]++
	}
	p.Records = slices.DeleteFunc(p.Records, func(r *Record) bool { return lost[r.Labels.Conversation] < 2 })
	s, _ := speculationOf(t, p)
	perPosition, conditional := make([][]estimate.Part, 4), make([][]estimate.Part, 4)
	for c := range 6 {
		if lost[strconv.Itoa(c)] < 2 {
			continue
		}
		steps, above := 0, [5]int{}
		for _, r := range p.Records {
			if r.Labels.Conversation != strconv.Itoa(c) || !r.Labels.HasTurn {
				continue
			}
			for _, accepted := range r.Spec.PerStepAccepted {
				steps++
				for i := range accepted {
					above[i]++
				}
			}
		}
		reached := steps
		for i := range 4 {
			perPosition[i] = append(perPosition[i], estimate.Part{Num: float64(above[i]), Den: float64(steps)})
			conditional[i] = append(conditional[i], estimate.Part{Num: float64(above[i]), Den: float64(reached)})
			reached = above[i]
		}
	}
	for i := range 4 {
		for _, f := range []struct {
			what string
			rate float64
			got  Interval
			want []estimate.Part
		}{
			{"per position", s.Position.PerPosition[i], s.Position.PerPositionIntervals[i], perPosition[i]},
			{"conditional", s.Position.Conditional[i], s.Position.ConditionalIntervals[i], conditional[i]},
		} {
			if want := estimate.Ratio(f.want, 11).Within(0, 1); f.got != want || f.got.Known && (f.rate < f.got.Low || f.rate > f.got.High) || f.got.Known == (f.got.Reason != "") {
				t.Errorf("%s %d: got %v in %+v, want %+v", f.what, i, f.rate, f.got, want)
			}
		}
	}
	if want := (IntervalMethod{0.95, estimate.Method, 10000, 11, "this run only"}); s.Intervals != want || s.Client.Interval.IntervalMethod != want {
		t.Errorf("got %+v and %+v, want %+v", s.Intervals, s.Client.Interval, want)
	}
	s.Position.Source = sourceLists
	if again := s.Position.withIntervals(p.selected().convs, 11); !slices.Equal(again.ConditionalIntervals, s.Position.ConditionalIntervals) {
		t.Errorf("got %+v from the lists, %+v from the histograms", again.ConditionalIntervals, s.Position.ConditionalIntervals)
	}
}

// TestAcceptedWithoutBlock: a turn whose block got lost still has its steps, by its
// events; only the last one may have been cut.
func TestAcceptedWithoutBlock(t *testing.T) {
	turns := 0
	for _, c := range gpuPoint(t, "draft_t0_c1.json").selected().convs {
		for _, turn := range c.turns {
			if turn.rec.Spec == nil {
				continue
			}
			turns++
			want := turn.accepted()
			without := *turn.rec
			without.Spec, without.SpecMissing = nil, MissingNotReported
			turn.rec = &without
			turn.server, _ = LengthRules{DraftLength: 4}.ServerLengths(&without)
			got := turn.accepted()
			moved := 0
			for i := range want {
				moved += max(int(at(got, i)-at(want, i)), int(at(want, i)-at(got, i)))
			}
			if moved > 2 || len(got) > len(want) {
				t.Errorf("got %v accepted from events, %v from the block", got, want)
			}
		}
	}
	if turns < 8 {
		t.Errorf("got %d turns with a block", turns)
	}
}

// TestIntervalOfOtherRate: a rate that is not the conversations' has no interval of theirs.
func TestIntervalOfOtherRate(t *testing.T) {
	rates := PositionRates{PerPosition: []float64{0.999}}.withIntervals(gpuPoint(t, "draft_t0_c1.json").selected().convs, 1)
	if in := rates.PerPositionIntervals[0]; in.Known || in.Reason != noConversation {
		t.Errorf("got %+v", in)
	}
}

// TestIntervalOfALIsPossible: no step brings less than one token or more than k + 1.
func TestIntervalOfALIsPossible(t *testing.T) {
	v := ViewAL{Interval: &IntervalFigure{Low: 0.7, High: 9}}
	v.keepPossible(0)
	if v.Interval.Low != 1 || v.Interval.High != 9 {
		t.Errorf("got %+v, want 1 to 9", v.Interval)
	}
	v.keepPossible(4)
	if v.Interval != nil || v.NoInterval == "" {
		t.Errorf("got %+v, want none: 1 to 5 is all that is possible", v.Interval)
	}
	v = ViewAL{Interval: &IntervalFigure{Low: 4.5, High: 5.2}}
	v.keepPossible(4)
	if v.Interval.Low != 4.5 || v.Interval.High != 5 {
		t.Errorf("got %+v, want at most 5", v.Interval)
	}
	v = ViewAL{Interval: &IntervalFigure{Low: -144.05, High: 3.39}}
	v.keepPossible(3)
	if v.Interval != nil || v.NoInterval == "" {
		t.Errorf("got %+v, want none of an interval that is nearly all below 1", v.Interval)
	}
}
