package collector

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// loadOf makes a point of requests that each have conversation, start, end and
// tokens; one token event a second, the first one a second after the start.
func loadOf(concurrency int, requests ...[4]float64) Point {
	p := Point{Run: Run{Point: "t0_c" + strconv.Itoa(concurrency), Metric: MetricAcceptanceRate, GPUs: 1, Concurrency: concurrency}}
	turns := map[float64]int{}
	for _, q := range requests {
		p.Records = append(p.Records, recordOf(q[0], turns[q[0]], q[1], q[2], int(q[3])))
		turns[q[0]]++
	}
	return p
}

func recordOf(conversation float64, turn int, start, end float64, tokens int) *Record {
	origin := time.Unix(1796008942, 0)
	d := func(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }
	r := &Record{
		ID: strconv.FormatFloat(conversation, 'g', -1, 64) + "/" + strconv.Itoa(turn), Stream: true, Status: 200, Finish: "length", SawDone: true, Start: origin.Add(d(start)), UpstreamWritten: At(0),
		Labels:   Labels{Conversation: strconv.FormatFloat(conversation, 'g', -1, 64), Turn: turn, HasTurn: true},
		LastByte: At(d(end - start)), Done: At(d(end - start)), Usage: &Usage{CompletionTokens: tokens}, SpecMissing: MissingNotReported,
	}
	events := max(1, int(math.Floor(end-start)))
	for i := range events {
		n := tokens / events
		if i == 0 {
			n += tokens % events
		}
		at := d(float64(i + 1))
		if i == events-1 {
			at = d(end - start)
		}
		r.Chunks = append(r.Chunks, Chunk{At: at, Tokens: n})
	}
	r.FirstOutput = At(r.Chunks[0].At)
	return r
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

// Two users with two turns each, by hand:
//
//	user A  0------10|10.001------------20.001
//	user B  0---5|5.001-----------15
//
// Two are in flight from 0 to 15 with two dips of 1 ms, one to 20.001.
func TestSteadyByHand(t *testing.T) {
	p := loadOf(2, [4]float64{0, 0, 10, 100}, [4]float64{0, 10.001, 20.001, 100}, [4]float64{1, 0, 5, 50}, [4]float64{1, 5.001, 15, 90})
	s := p.Steady()
	if !near(s.Seconds, 20.001) || !near(s.MeanInFlight, (10+10+5+9.999)/20.001) || s.MostInFlight != 2 || s.Concurrency != 2 {
		t.Errorf("got %+v, want 34.999 request seconds over 20.001 s, two at most", s)
	}
	if s.RampUp == nil || *s.RampUp != 0 || s.RampDown == nil || !near(*s.RampDown, 5.001/20.001) {
		t.Errorf("got ramps %v, %v; want 0 and 5.001 of 20.001", s.RampUp, s.RampDown)
	}
	w := s.Window
	if w == nil || w.From != 0 || !near(w.Seconds, 15) || !near(w.Share, 15/20.001) || !near(w.DipsShare, 0.002/15) || !near(w.MeanInFlight, (10+4.999+5+9.999)/15) {
		t.Fatalf("got window %+v (%s), want 15 s with 2 ms of dips", w, s.NoWindow)
	}
	// A's first reply has 10 events of 10 up to second 10, its second one comes at
	// 11.001, 12.001, 13.001 and 14.001; B's come whole: 50, and 90 (9 events to 14.999).
	if !near(w.OutputTPS, (100+40+50+90)/15.) || w.Requests != 3 {
		t.Errorf("got %v tok/s and %d requests, want %v and 3", w.OutputTPS, w.Requests, 280/15.)
	}
	if w.TooShort == "" || w.Interval.Known || w.Interval.Reason == "" || w.Blocks != 0 {
		t.Errorf("got too short %q, interval %+v; want both refused: 3 requests, 15 s of 8.3 s each", w.TooShort, w.Interval)
	}
}

// A server that is asked by n users of which each sends its next request pause
// seconds after an answer, requests of 1 s with 10 tokens each.
func users(n, turns int, pause float64) Point {
	var list [][4]float64
	for u := range n {
		for k := range turns {
			at := float64(k)*(1+pause) + 0.01*float64(u)
			list = append(list, [4]float64{float64(u), at, at + 1, 10})
		}
	}
	return loadOf(n, list...)
}

func TestSteadyWindowOrWhyNot(t *testing.T) {
	f := func(name string, p Point, window bool, reason string) Steady {
		t.Helper()
		s := p.Steady()
		if (s.Window != nil) != window || !strings.Contains(s.NoWindow, reason) || (s.NoWindow == "") == !window {
			t.Errorf("%s: got window %+v, %q; want one: %v, %q", name, s.Window, s.NoWindow, window, reason)
		}
		return s
	}
	s := f("a millisecond between requests", users(4, 20, 0.001), true, "")
	if s.Window.TooShort != "" || !s.Window.Interval.Known || s.Window.Blocks < steadyBlocks {
		t.Errorf("got %+v, want a window that means something, with an interval", s.Window)
	}
	if low, high := s.Window.Interval.Low, s.Window.Interval.High; low > s.Window.OutputTPS || high < s.Window.OutputTPS || !near((low+high)/2, s.Window.OutputTPS) {
		t.Errorf("got interval %v to %v around %v", low, high, s.Window.OutputTPS)
	}
	f("dips of 49 ms that are bridged, all at once, leave enough in flight", users(4, 20, 0.049), true, "")
	if s := f("dips of 200 ms end it", users(4, 20, 0.2), true, ""); !near(s.Window.Seconds, 0.97) || s.Window.TooShort == "" || s.Window.DipsShare != 0 {
		t.Errorf("got %+v, want one request's time, too short", s.Window)
	}
	f("fewer conversations than the concurrency", func() Point { p := users(4, 20, 0); p.Run.Concurrency = 32; return p }(), false, "31 of 32 requests in flight are wanted, and never more than 4 were")
	f("no concurrency", func() Point { p := users(4, 20, 0); p.Run.Concurrency = 0; return p }(), false, "no concurrency")
	shard := users(4, 20, 0)
	shard.Run.Concurrency, shard.Run.Shard = 12, &Shard{Of: 3, Concurrency: 4}
	f("a shard's part of the concurrency", shard, true, "")

	short := loadOf(1) // replies of 20 ms, 40 ms apart
	for i := range 50 {
		short.Records = append(short.Records, recordOf(0, i, 0.06*float64(i), 0.06*float64(i)+0.02, 5))
	}
	f("a client that is slower than the server", short, false, "too slowly: with every dip shorter than 50 ms bridged, 0.34 of 1")
}

// Requests that are in no figure are load, and their tokens are nobody's: a window
// needs the measured ones.
func TestSteadySetApart(t *testing.T) {
	p := users(4, 20, 0.001)
	plain := p.Steady()
	warm := recordOf(99, 0, 0, 10, 1000)
	warm.SetApart = ApartWarmup
	p.Records = append(p.Records, warm)
	s := p.Steady()
	if !near(s.Seconds, plain.Seconds) || !near(s.MeanInFlight, plain.MeanInFlight+10/plain.Seconds) || s.MostInFlight != 4 {
		t.Errorf("got %+v, want the mean in flight of %+v with 10 request seconds more", s, plain)
	}
	if s.Window.OutputTPS != plain.Window.OutputTPS || s.Window.Requests != plain.Window.Requests || !near(s.Window.MeanInFlight, plain.Window.MeanInFlight+(10-s.Window.From)/s.Window.Seconds) {
		t.Errorf("got window %+v, want the figures of %+v and more in flight", s.Window, plain.Window)
	}
	before := recordOf(98, 0, -20, -5, 1000) // ended before the point began
	before.SetApart = ApartWarmup
	p.Records = append(p.Records, before)
	if again := p.Steady(); again.MeanInFlight != s.MeanInFlight || !near(again.Seconds, s.Seconds) {
		t.Errorf("got %+v, want %+v: it was not in flight", again, s)
	}
	for _, r := range p.Records {
		if r.Labels.Conversation == "1" {
			r.SetApart = ApartForeign
		}
	}
	if s := p.Steady(); s.Window != nil || s.MostInFlight != 3 || !near(s.MeanInFlight, 90/s.Seconds) {
		t.Errorf("got %+v, want no window: a quarter of the load is in no figure", s)
	}
}

// The counts of a grid of whole seconds are the oracle of the spans and the mean.
func TestInFlightAgainstGrid(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		const seconds = 30
		var flights []flight
		var grid [seconds]int
		for range rng.IntN(12) {
			from := rng.IntN(seconds - 1)
			to := from + 1 + rng.IntN(seconds-from-1)
			flights = append(flights, flight{start: float64(from), end: float64(to)})
			for i := from; i < to; i++ {
				grid[i]++
			}
		}
		n := 1 + rng.IntN(4)
		var want []span
		total := 0
		for i, running := range grid {
			total += running
			if running < n {
				continue
			}
			if k := len(want); k > 0 && want[k-1].to == float64(i) {
				want[k-1].to = float64(i + 1)
				continue
			}
			want = append(want, span{float64(i), float64(i + 1)})
		}
		spans, most := spansAtLeast(flights, n)
		if !slices.Equal(spans, want) || most != slices.Max(grid[:]) {
			t.Fatalf("%v with at least %d: got %v, most %d; want %v, %d", flights, n, spans, most, want, slices.Max(grid[:]))
		}
		if got := meanInFlight(flights, span{0, seconds}); !near(got, float64(total)/seconds) {
			t.Fatalf("%v: got mean %v, want %v", flights, got, float64(total)/seconds)
		}
	}
}

// All tokens of the point arrive: the rate over its whole time is Output TPS.
func TestArrivalsAreOutputTPS(t *testing.T) {
	for _, name := range []string{"draft_t0_c1.json", "draft_t1_c1.json"} {
		p := gpuPoint(t, name)
		_, summary := speculationOf(t, p)
		s := p.selected()
		whole, _ := s.span()
		if got := tokensIn(s.arrivals(), whole) / whole.seconds(); !near(got, summary.OutputTPS) {
			t.Errorf("%s: got %v tok/s, want %v", name, got, summary.OutputTPS)
		}
	}
}

// A window means something from two requests for each of the concurrency and a tenth
// of the point's time on.
func TestSteadyTooShort(t *testing.T) {
	f := func(requests int, share float64, want string) {
		t.Helper()
		if got := tooShort(SteadyWindow{Requests: requests, Share: share}, 8); want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%d requests, share %v: got %q, want %q", requests, share, got, want)
		}
	}
	f(15, 0.5, "15 requests ended in it, want 16 (2 for each of 8 at a time)")
	f(16, 0.099, "it is 9.9 % of the point's time, want 10 %")
	f(16, 0.1, "")
}

// An interval takes four blocks of a request's time or more, and makes thirty at most.
func TestSteadyBlocks(t *testing.T) {
	f := func(seconds float64, want int) {
		t.Helper()
		var w SteadyWindow
		if w.blocks([]arrival{{0.5, 1}, {1.5, 2}}, span{0, seconds}, 1); w.Blocks != want {
			t.Errorf("%v s: got %d blocks, want %d", seconds, w.Blocks, want)
		}
	}
	f(3.9, 0)
	f(4, 4)
	f(30, 30)
	f(100, 30)
}

// A point whose load was never there warns: a client that was told to send 32 at
// once and sends one at a time would be judged at 32.
func TestConcurrencyNeverReached(t *testing.T) {
	f := func(name string, concurrency int, want bool) {
		t.Helper()
		p := users(4, 20, 0.001)
		p.Run.Concurrency, p.Run.NoSpecStats = concurrency, true
		r, err := p.results()
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Contains(r.summary.Warnings, "concurrency "+strconv.Itoa(concurrency)+" was never reached: the most requests in flight were 4; all figures, and what is said of an SLO, are of that load")
		if got != want {
			t.Errorf("%s: got warnings %q, want one of the load: %v", name, r.summary.Warnings, want)
		}
	}
	f("as many as asked", 4, false)
	f("more were asked", 32, true)
	f("an open loop", 0, false)
}
