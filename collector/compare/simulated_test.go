package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"spectap/collector"
	"spectap/collector/estimate"
)

// engine simulates what a server does with speculation, with a known truth.
type engine struct {
	accept    []float64 // chance that the draft at a position is accepted if the one before was
	step      float64   // seconds of a verify step
	questions int
	seed      uint64
	spread    float64 // how much easier or harder questions are, the same ones for every engine
	run       string
}

// point asks two turns of every question.
func (e engine) point() collector.Point {
	rng := rand.New(rand.NewPCG(e.seed, 1))
	p := collector.Point{Run: collector.Run{
		ID: e.run, Point: "t1_c8", Dataset: "mtbench", Metric: collector.MetricMTBench, GPUs: 1, Temperature: 1, Concurrency: 8,
		Acceptance: collector.ViewClient, Measure: "tokens", Postprocess: "base", Model: "m", Engine: "vllm", EngineVersion: "0.32.0",
	}}
	start := time.Unix(1700000000, 0)
	for q := range e.questions {
		ease := e.spread * (float64(q%10) - 4.5) / 4.5
		p.Run.Questions = append(p.Run.Questions, collector.Question{ID: []byte(fmt.Sprint(81 + q)), Turns: 2})
		for turn := range 2 {
			p.Records = append(p.Records, e.record(rng, q, turn, ease, start))
			start = start.Add(time.Millisecond)
		}
	}
	return p
}

// record is one reply of 60 verify steps.
func (e engine) record(rng *rand.Rand, q, turn int, ease float64, start time.Time) *collector.Record {
	const steps = 60
	r := &collector.Record{
		ID: fmt.Sprint(q, turn), Start: start, Route: collector.RouteChat, Stream: true, Status: 200, Finish: "length",
		Labels:          collector.Labels{Point: "t1_c8", Conversation: fmt.Sprint(q), Turn: turn, HasTurn: true},
		UpstreamWritten: collector.At(0), UserHash: collector.HashText(nil, fmt.Sprint("question ", q)),
	}
	hist := make([]int, len(e.accept)+1)
	at, tokens := 0.02+0.01*rng.Float64(), 1
	r.Chunks = append(r.Chunks, collector.Chunk{At: seconds(at), Tokens: 1})
	accepted := 0
	for range steps {
		n := 0
		for n < len(e.accept) && rng.Float64() < e.accept[n]+ease {
			n++
		}
		hist[n]++
		accepted += n
		tokens += n + 1
		at += e.step * (0.9 + 0.2*rng.Float64())
		r.Chunks = append(r.Chunks, collector.Chunk{At: seconds(at), Tokens: n + 1})
	}
	r.Usage = &collector.Usage{CompletionTokens: tokens}
	k := len(e.accept)
	r.Spec = &collector.Spec{Engine: "vllm", Accepted: hist, Steps: steps, AcceptedTokens: accepted, DraftedTokens: steps * k, DraftLength: k}
	r.FirstOutput, r.LastByte, r.Done = collector.At(r.Chunks[0].At), collector.At(seconds(at)), collector.At(seconds(at))
	return r
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// al is the expected AL of the engine: 61 chunks, the prefill's with one token.
func (e engine) al() float64 {
	sum := 0.0
	for q := range 10 {
		ease, reached := e.spread*(float64(q)-4.5)/4.5, 1.0
		perStep := 1.0
		for _, a := range e.accept {
			reached *= min(1, max(0, a+ease))
			perStep += reached
		}
		sum += (1 + 60*perStep) / 61
	}
	return sum / 10
}

// input is an Input of simulated runs.
func input(t testing.TB, engines ...engine) Input {
	t.Helper()
	var runs []run
	for i, e := range engines {
		one, err := runOf(e.point(), fmt.Sprintf("%s-%d", e.run, i), nil)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, one)
	}
	return Input{Path: engines[0].run, Points: group(runs)}
}

var (
	drafter = engine{accept: []float64{0.8, 0.7, 0.6}, step: 0.004, questions: 80, seed: 1, spread: 0.1, run: "old"}
	better  = engine{accept: []float64{0.85, 0.75, 0.6}, step: 0.005, questions: 80, seed: 2, spread: 0.1, run: "new"}
)

// The truth of two simulated engines lies in the intervals, and what differs is seen.
func TestSimulatedEngines(t *testing.T) {
	r, err := Compare([]Input{input(t, drafter), input(t, better)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	covers := func(name string, e Estimate, truth float64) {
		t.Helper()
		if !e.Known || e.Low > truth || e.High < truth {
			t.Errorf("%s: got %v (%v to %v), which does not hold the truth, %v", name, *e.Value, e.Low, e.High, truth)
		}
	}
	al := figure(t, r, "t1_c8", "AL")
	covers("AL", al.Difference, better.al()-drafter.al())
	if al.Verdict != Higher || al.N != 80 || al.Difference.Scope != theseRuns {
		t.Errorf("got AL %+v, want higher from 80 questions of these runs", al)
	}
	covers("AL of turn 2", figure(t, r, "t1_c8", "AL.turn[2]").Difference, better.al()-drafter.al())
	// The mean of (p + ease) over the ten kinds of question, and of its products.
	covers("accepted at 1", figure(t, r, "t1_c8", "acceptance[1]").Difference, 0.05)
	covers("accepted at 2", figure(t, r, "t1_c8", "acceptance[2]").Difference, 0.85*0.75-0.8*0.7)
	covers("accepted at 3, of those that got there", figure(t, r, "t1_c8", "conditional[3]").Difference, 0)
	covers("time per token", figure(t, r, "t1_c8", "tpot").Ratio, 5/better.al()/(4/drafter.al()))
	covers("TTFT", figure(t, r, "t1_c8", "ttft").Ratio, 1)
	if v := figure(t, r, "t1_c8", "conditional[3]").Verdict; v != NotShown {
		t.Errorf("got verdict %q of a position that does not differ", v)
	}
}

// alone computes one figure of two inputs of a point each.
func alone(t testing.TB, a, b Input, name string, seed int64) *Figure {
	t.Helper()
	p := newPoint(a.Points[0], b.Points[0])
	for _, m := range measures(p.a, p.b, p.pairs, p.View) {
		if quantityName(m.quantity, m.scope, m.key) == name {
			f := m.figure(p.pairs, seed)
			f.P = f.chance()
			return &f
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}

// Two engines of another seed are the same engine: the interval of their
// difference excludes 0 in 5 % of the cases, and that of any of the eight categories
// does so after Holm's adjustment in no more. SPECTAP_SLOW asks for 1,000 pairs,
// where 5 % has a standard error of 0.7 %; without it a few pairs see that nothing
// is far off.
func TestFalseAlarms(t *testing.T) {
	pairs, names, low, high := 20, []string{"AL"}, 0.0, 0.2
	slow := os.Getenv("SPECTAP_SLOW") != ""
	if slow {
		pairs, names, low, high = 1000, []string{"AL", "AL.turn[2]", "acceptance[1]", "conditional[2]", "ttft", "tpot", "tps_user"}, 0.02, 0.075
	}
	alarms, holm := map[string]int{}, 0
	for i := range pairs {
		a, b := drafter, drafter
		a.seed, b.seed = uint64(2*i+10), uint64(2*i+11)
		if !slow {
			a.questions, b.questions = 20, 20
		}
		x, y := input(t, a), input(t, b)
		for _, name := range names {
			if f := alone(t, x, y, name, int64(i)); f.excludes() {
				alarms[name]++
			}
		}
		if !slow {
			continue
		}
		// ten questions are few: the interval must not exclude 0 more often than it says
		if f := alone(t, x, y, "AL[coding]", int64(i)); f.excludes() {
			alarms["AL[coding]"]++
		}
		var family []*Figure
		for _, category := range mtbenchTopics {
			family = append(family, alone(t, x, y, "AL["+category+"]", int64(i)))
		}
		if f := judge(family); f[0].Holm > 0 {
			holm++
		}
	}
	for _, name := range names {
		if rate := float64(alarms[name]) / float64(pairs); rate < low || rate > high {
			t.Errorf("%s: %d of %d equal pairs were told apart, want about 5 %%", name, alarms[name], pairs)
		}
	}
	if rate := float64(alarms["AL[coding]"]) / float64(pairs); rate > high {
		t.Errorf("one category: %d of %d equal pairs were told apart, want at most 5 %%", alarms["AL[coding]"], pairs)
	}
	if rate := float64(holm) / float64(pairs); rate > high {
		t.Errorf("categories: %d of %d equal pairs were told apart after Holm's adjustment, want at most 5 %%", holm, pairs)
	}
	t.Logf("of %d equal pairs were told apart: %v; any of eight categories after Holm: %d", pairs, alarms, holm)
}

// Runs that differ by more than their questions show it only in repeats: single
// runs are told apart far too often, three runs a side are not.
func TestRunsThatDrift(t *testing.T) {
	pairs := 6
	if os.Getenv("SPECTAP_SLOW") != "" {
		pairs = 400
	}
	single, repeated := 0, 0
	for i := range pairs {
		rng := rand.New(rand.NewPCG(uint64(i), 9))
		side := func(name string) []engine {
			var runs []engine
			for range 3 {
				e := drafter
				e.questions, e.run, e.seed = 20, name, rng.Uint64()
				e.step *= math.Exp(0.1 * rng.NormFloat64()) // how fast the machine is today
				runs = append(runs, e)
			}
			return runs
		}
		a, b := side("a"), side("b")
		if alone(t, input(t, a[0]), input(t, b[0]), "tpot", 1).excludes() {
			single++
		}
		f := alone(t, input(t, a...), input(t, b...), "tpot", 1)
		if f.RunsA != 3 || f.Ratio.Scope != otherRuns {
			t.Fatalf("got %+v, want three runs a side", f)
		}
		if f.excludes() {
			repeated++
		}
	}
	if single < pairs/2 || repeated > pairs/6 {
		t.Errorf("of %d equal pairs single runs told %d apart, three runs %d: want most, and about 5 %%", pairs, single, repeated)
	}
	t.Logf("of %d equal pairs single runs told %d apart, three runs %d", pairs, single, repeated)
}

// The interval of a smallest difference is what the power says: at this true
// difference four of five seeds see it.
func TestSmallestDifference(t *testing.T) {
	seen, smallest, n := 0, 0.0, 15
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(i), 5))
		var a, b [][]estimate.Part
		a, b = append(a, nil), append(b, nil)
		for range 60 {
			base := 3 + rng.NormFloat64()
			a[0] = append(a[0], estimate.Part{Num: base + 0.2*rng.NormFloat64(), Den: 1})
			b[0] = append(b[0], estimate.Part{Num: base + 0.104 + 0.2*rng.NormFloat64(), Den: 1}) // 2.85 standard errors of 0.0365
		}
		s, ok := estimate.Smallest(b, a, 1)
		if !ok {
			t.Fatal("no smallest difference")
		}
		smallest += s / float64(n)
		if in := estimate.Difference(b, a, 1); in.Low > 0 {
			seen++
		}
	}
	if math.Abs(smallest-0.104) > 0.01 || seen < n/2 || seen == n {
		t.Errorf("got smallest difference %v, seen in %d of %d, want 0.104 in about 80 %%", smallest, seen, n)
	}
}

// Below forty questions an interval is not narrower than Student's t, from there on
// it is the bootstrap's own.
func TestFewQuestions(t *testing.T) {
	for _, n := range []int{8, 39, 40} {
		a, b := drafter, better
		a.questions, b.questions = n, n
		f := alone(t, input(t, a), input(t, b), "AL", 1)
		narrow := *f
		narrow.Difference.Interval = estimate.Interval{Low: *f.Difference.Value - 1e-6, High: *f.Difference.Value + 1e-6, Known: true}
		x, y := partsOf(t, a), partsOf(t, b)
		narrow.asStudent(x, y)
		student, ok := estimate.StudentDifference(y, x)
		if !ok {
			t.Fatal("no interval by Student's t")
		}
		if wide := narrow.Difference.Low == student.Interval.Low && narrow.Difference.High == student.Interval.High; wide != (n < 40) {
			t.Errorf("%d questions: got %+v, Student's t is %+v", n, narrow.Difference.Interval, student.Interval)
		}
	}
}

func partsOf(t *testing.T, e engine) [][]estimate.Part {
	t.Helper()
	p := input(t, e).Points[0]
	return measure{part: alPart(p.Metric(), collector.ViewClient)}.parts(all(p))
}
