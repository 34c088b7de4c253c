package collector

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// openPoint makes an open-loop point of n conversations of two turns: begun late
// by late(i) after its moment, the first turn takes d(i), the second one second
// and begins 3 ms after the end of the first.
func openPoint(n int, rate float64, late, d func(i int) time.Duration) Point {
	start := time.Unix(1700000000, 0).UTC()
	p := Point{Run: Run{Point: "t0_q", Metric: MetricAcceptanceRate, GPUs: 1, Baseline: true, NoSpecStats: true,
		Schedule: &Schedule{Rate: rate, Arrivals: ArrivalsConstant, Start: start}}}
	for i := range n {
		offset := time.Duration(float64(i) / rate * 1e9)
		p.Run.Schedule.Offsets = append(p.Run.Schedule.Offsets, offset)
		p.Run.Questions = append(p.Run.Questions, Question{ID: json.RawMessage(strconv.Itoa(i)), Turns: 2})
		at := start.Add(offset + late(i))
		for turn, took := range []time.Duration{d(i), time.Second} {
			p.Records = append(p.Records, &Record{
				Labels: Labels{Conversation: strconv.Itoa(i), Turn: turn, HasTurn: true}, Start: at,
				UpstreamWritten: At(time.Millisecond), Done: At(took), SawDone: true, Stream: true, Status: 200, Finish: "stop",
				Usage:  &Usage{CompletionTokens: 2},
				Chunks: []Chunk{{At: took / 2, Tokens: 1}, {At: took, Tokens: 1}},
			})
			at = at.Add(took + 3*time.Millisecond)
		}
	}
	return p
}

func constantly(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

func openLoopOf(t *testing.T, p Point) (*OpenLoop, []string) {
	t.Helper()
	files, row, err := p.Files()
	if err != nil {
		t.Fatal(err)
	}
	if row.OpenLoop == nil || !strings.Contains(string(files[FileSpeculation]), `"ttft_from_intended_s"`) {
		t.Fatalf("got no open loop: %+v\n%s", row, files[FileSpeculation])
	}
	return row.OpenLoop, row.Warnings
}

// Times count from the intended moment of the conversation, of a later turn from
// the end of the turn before; what the client was late is in them, and said.
func TestOpenLoopFromIntended(t *testing.T) {
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	late := func(i int) time.Duration { return time.Duration(i) * 100 * time.Microsecond }
	o, warnings := openLoopOf(t, openPoint(101, 10, late, constantly(200*time.Millisecond)))
	near("schedule error p50", o.ScheduleError.P50, 0.005)
	near("schedule error p99", o.ScheduleError.P99, 0.0099)
	near("schedule error max", o.ScheduleError.Max, 0.010)
	near("ttft p50", *o.TTFT.P50, (0.100+0.010+0.503)/2) // between the latest first turn and the second ones
	near("ttft max", o.TTFT.Max, 0.503)
	near("e2e max", o.E2E.Max, 1.003)
	near("e2e mean", o.E2E.Mean, (0.200+0.005+1.003)/2)
	near("begun", *o.Begun, 50/(10.1/2)) // of those meant from 5.1 to 10.0 s
	near("ended", *o.Finished, 50/(10.1/2))
	if o.TTFT.N != 202 || o.TTFT.P90 == nil || o.TTFT.P99 != nil || !slices.Equal(o.TTFT.NotShown, []string{"n = 202 is too few for p99"}) || o.Saturated || len(warnings) > 0 || o.KeepsUp != KeepsUpYes {
		t.Errorf("got %+v, warnings %q", o, warnings)
	}
	o, warnings = openLoopOf(t, openPoint(101, 10, func(i int) time.Duration { return 2 * late(i) }, constantly(200*time.Millisecond)))
	if !o.Saturated || len(warnings) != 1 || !strings.Contains(warnings[0], "conversations began 19.8 ms (p99; at most 20.0 ms) after their intended moments, in the second half of the arrivals 9.9/s of 10/s; it is saturated") {
		t.Errorf("got %+v, warnings %q", o, warnings)
	}
	if many, _ := openLoopOf(t, openPoint(184, 100, late, constantly(time.Second))); many.TTFT.N != 368 || many.TTFT.P99 == nil || len(many.TTFT.NotShown) > 0 {
		t.Errorf("got %+v, want a p99 of 368 requests", many.TTFT)
	}
	if few, _ := openLoopOf(t, openPoint(17, 10, late, constantly(time.Second))); few.E2E.N != 34 || few.E2E.P50 == nil || few.E2E.P90 != nil || len(few.E2E.NotShown) != 2 {
		t.Errorf("got %+v, want a p50 alone of 34 requests", few.E2E)
	}
	closed := openPoint(5, 10, late, constantly(time.Second))
	closed.Run.Schedule = nil
	if files, row, err := closed.Files(); err != nil || row.OpenLoop != nil || strings.Contains(string(files[FileSpeculation]), "open_loop") {
		t.Errorf("a closed loop has %+v, %v", row.OpenLoop, err)
	}
}

// A queue is simulated: c servers, each conversation takes about a second. Where
// 10 arrive a second, 20 servers keep up, and 5 do not; few seconds tell nothing.
func TestOpenLoopKeepsUp(t *testing.T) {
	simulate := func(servers, n int, seed uint64) (begun, ended []float64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for range n {
			begun = append(begun, rng.Float64()*float64(n)/10)
		}
		slices.Sort(begun)
		free := make([]float64, servers)
		for _, b := range begun {
			k := 0
			for i := range free {
				if free[i] < free[k] {
					k = i
				}
			}
			free[k] = max(b, free[k]) + 0.5 + rng.ExpFloat64()/2
			ended = append(ended, free[k])
		}
		return begun, ended
	}
	f := func(servers, n int, want string, least int) {
		t.Helper()
		got := map[string]int{}
		for seed := range uint64(200) {
			o := &OpenLoop{Rate: 10, Window: float64(n) / 10}
			o.judge(simulate(servers, n, seed))
			got[o.KeepsUp]++
		}
		if got[want] < least {
			t.Errorf("%d servers, %d conversations: got %v, want at least %d of %q", servers, n, got, least, want)
		}
	}
	f(20, 200, KeepsUpYes, 198)
	f(20, 1000, KeepsUpYes, 198)
	f(5, 200, KeepsUpNo, 190)
	f(5, 1000, KeepsUpNo, 200)
	f(2, 400, KeepsUpNo, 200)
	f(20, 20, KeepsUpUnknown, 195)
	o, warnings := openLoopOf(t, openPoint(200, 20, constantly(0), func(i int) time.Duration { return time.Duration(i) * 20 * time.Millisecond }))
	if o.KeepsUp != KeepsUpNo || !strings.Contains(warnings[len(warnings)-1], "does not keep up with 20 conversations/s: 14.2/s of 20/s ended and those in flight grew from 43 to 71 in the second half of the arrivals;") {
		t.Errorf("got %+v, warnings %q", o, warnings)
	}
}

// What began and what ended a second are of the same time: a server that keeps up
// does not end more than began. Few conversations have a reason in place of rates.
func TestOpenLoopRates(t *testing.T) {
	f := func(n int, begun, finished float64) {
		t.Helper()
		o, _ := openLoopOf(t, openPoint(n, 20, constantly(time.Millisecond), constantly(200*time.Millisecond)))
		if o.Begun == nil || o.Finished == nil || *o.Begun != begun || *o.Finished != finished || o.NoRates != "" {
			t.Errorf("got %+v, want %v begun and %v finished", o, begun, finished)
		}
	}
	f(200, 20, 20)
	f(80, 20, 20) // those meant from 0.8 to 2.75 s, each ends 1.204 s after its moment
	f(40, 20, 16) // of the first second 16 ended in the other
	for _, n := range []int{1, 2, 19} {
		o, _ := openLoopOf(t, openPoint(n, 20, constantly(time.Millisecond), constantly(200*time.Millisecond)))
		if o.Begun != nil || o.Finished != nil || !strings.Contains(o.NoRates, fmt.Sprintf("of %d conversations began in the second half of the arrivals, and a rate needs 10", n)) {
			t.Errorf("%d conversations: got %+v", n, o)
		}
	}
}

// Shards that began at different moments: each conversation counts from the
// moment of its own shard.
func TestOpenLoopMerged(t *testing.T) {
	whole := openPoint(40, 10, constantly(time.Millisecond), constantly(100*time.Millisecond))
	var shards []Point
	for i := range 2 {
		p := whole
		schedule := *whole.Run.Schedule
		schedule.Start = schedule.Start.Add(time.Duration(i) * 300 * time.Millisecond)
		p.Run.Schedule = &schedule
		p.Run.ID = "run" + strconv.Itoa(i)
		p.Run.Shard = &Shard{Index: i, Of: 2, Run: p.Run.ID, Host: "h"}
		p.Run.Questions = slices.Clone(whole.Run.Questions)
		p.Records = nil
		for j, r := range whole.Records {
			if (j/2)%2 != i {
				p.Run.Questions[j/2].NotAsked = true
				continue
			}
			moved := *r
			moved.Start, moved.Labels.Run = r.Start.Add(time.Duration(i)*300*time.Millisecond), p.Run.ID
			p.Records = append(p.Records, &moved)
		}
		if o, warnings := openLoopOf(t, p); o.Rate != 5 || !strings.Contains(strings.Join(warnings, "\n"), "20 of 40 conversations, its part of 10/s") {
			t.Errorf("shard %d: got %+v, warnings %q", i, o, warnings)
		}
		shards = append(shards, p)
	}
	merged, err := MergeShards(shards)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := openLoopOf(t, merged)
	if o.Rate != 10 || math.Abs(o.ScheduleError.Max-0.001) > 1e-9 || merged.Run.Schedule.Offsets[1] != 400*time.Millisecond {
		t.Errorf("got %+v, offsets %v", o, merged.Run.Schedule.Offsets[:3])
	}
	shards[1].Run.Schedule.Seed = 9
	if _, err := MergeShards(shards); err == nil || !strings.Contains(err.Error(), "arrivals (constant, seed 0 and constant, seed 9)") {
		t.Errorf("got %v", err)
	}
}
