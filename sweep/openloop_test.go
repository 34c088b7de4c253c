package sweep

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spectap/collector"
)

// Constant arrivals are 1/rate apart; Poisson arrivals are drawn uniformly from
// the n/rate seconds (Kolmogorov's test at 1 in 1,000), the same for the same
// seed, and at another rate the same moments on another scale.
func TestArrivals(t *testing.T) {
	got := arrivals(4, 0.8, collector.ArrivalsConstant, 7)
	if want := []time.Duration{0, 1250 * time.Millisecond, 2500 * time.Millisecond, 3750 * time.Millisecond}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	const n, rate = 5000, 20
	for seed := range int64(3) {
		got := arrivals(n, rate, collector.ArrivalsPoisson, seed)
		if !slices.IsSorted(got) || got[0] < 0 || got[n-1] >= n/rate*time.Second {
			t.Fatalf("seed %d: from %v to %v, want them in order within %d s", seed, got[0], got[n-1], n/rate)
		}
		distance := 0.0
		for k, at := range got {
			u := at.Seconds() * rate / n
			distance = max(distance, math.Abs(u-float64(k)/n), math.Abs(u-float64(k+1)/n))
		}
		if limit := 1.95 / math.Sqrt(n); distance > limit {
			t.Errorf("seed %d: Kolmogorov's distance from uniform is %.4f, want at most %.4f", seed, distance, limit)
		}
		if !slices.Equal(got, arrivals(n, rate, collector.ArrivalsPoisson, seed)) || slices.Equal(got, arrivals(n, rate, collector.ArrivalsPoisson, seed+1)) {
			t.Errorf("seed %d: want the same moments for the same seed alone", seed)
		}
		slow := arrivals(n, rate/4, collector.ArrivalsPoisson, seed)
		if d := slow[n/2] - 4*got[n/2]; d < -4 || d > 4 {
			t.Errorf("seed %d: at a quarter of the rate the middle one is at %v, want four times %v", seed, slow[n/2], got[n/2])
		}
	}
	if got := arrivals(1, 2, collector.ArrivalsPoisson, 0); len(got) != 1 || got[0] > 500*time.Millisecond {
		t.Errorf("got %v, want one within 0.5 s", got)
	}
}

// Conversations begin at their moments in the order of the data set though none
// is answered before all have begun; later turns follow the turn before them. The
// run line has the schedule.
func TestOpenLoop(t *testing.T) {
	const n = 40
	var mu sync.Mutex
	begun := 0
	all := make(chan struct{})
	s := newScripted(t, func(q sent) answer {
		a := echo(q)
		if q.preflight() || q.labels["spectap.turn"] != "0" {
			return a
		}
		mu.Lock()
		defer mu.Unlock()
		if begun++; begun == n {
			close(all)
		}
		a.wait = func(ctx context.Context) {
			select {
			case <-all:
			case <-ctx.Done():
			}
		}
		return a
	})
	p := plan(t, s, Config{MTBench: questions(t, n), RequestRate: []string{"20"}, ArrivalsSeed: 5})
	sw := newSweep(p, s)
	var waits []time.Duration
	pause := sw.pause
	sw.pause = func(ctx context.Context, d time.Duration) error {
		mu.Lock()
		if begun < n {
			waits = append(waits, d)
		}
		mu.Unlock()
		return pause(ctx, d)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // a closed loop would wait for ever
	defer cancel()
	if _, err := sw.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if got := len(s.requests()); got != 2*n {
		t.Errorf("got %d requests, want %d", got, 2*n)
	}
	offsets := arrivals(n, 20, collector.ArrivalsPoisson, 5)
	want := []time.Duration{scheduleLead + offsets[0]}
	for i := 1; i < n; i++ {
		want = append(want, offsets[i]-offsets[i-1])
	}
	if len(waits) < n || !slices.Equal(waits[len(waits)-n:], want) { // the ones before are preflight's
		t.Errorf("got waits %v\nwant %v", waits, want)
	}
	points := readRecords(t, filepath.Join(p.Config.SaveDir, "t0_q20"))
	schedule := points[0].Run.Schedule
	if schedule == nil || schedule.Rate != 20 || schedule.Seed != 5 || schedule.Arrivals != collector.ArrivalsPoisson ||
		!slices.Equal(schedule.Offsets, offsets) || schedule.Start.IsZero() || points[0].Run.Concurrency != 0 {
		t.Errorf("got schedule %+v at concurrency %d", schedule, points[0].Run.Concurrency)
	}
}

func readRecords(t *testing.T, dir string) []collector.Point {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, collector.FileRecords))
	if err != nil {
		t.Fatal(err)
	}
	points, bad, err := collector.ReadPoints(bytes.NewReader(text))
	if err != nil || len(bad) > 0 || len(points) != 1 {
		t.Fatalf("got %d points, %v, %v", len(points), bad, err)
	}
	return points
}

// When the sweep is stopped no further conversation begins.
func TestOpenLoopStopped(t *testing.T) {
	s := newScripted(t, echo)
	p := plan(t, s, Config{MTBench: questions(t, 20), RequestRate: []string{"1"}, Arrivals: collector.ArrivalsConstant})
	sw := newSweep(p, s)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pause, seconds := sw.pause, 0
	sw.pause = func(c context.Context, d time.Duration) error {
		if d == time.Second {
			if seconds++; seconds == 3 {
				cancel()
			}
		}
		return pause(c, d)
	}
	if _, err := sw.Run(ctx); ExitCode(Result{}, err) != 130 {
		t.Errorf("got %v, want an interruption", err)
	}
	for _, q := range s.requests() {
		if !slices.Contains([]string{"0", "1", "2"}, q.labels["spectap.conversation"]) {
			t.Errorf("conversation %s began after the end", q.labels["spectap.conversation"])
		}
	}
}

// The points of an open loop, their files, and what is refused.
func TestOpenLoopPlan(t *testing.T) {
	cfg := valid(t)
	cfg.Temperatures, cfg.RequestRate = []string{"0", "1"}, []string{"20", "0.50"}
	p, err := NewPlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, point := range p.Points {
		names = append(names, point.Name)
	}
	if want := []string{"t0_q20", "t0_q0.5", "t1_q20", "t1_q0.5"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	var text strings.Builder
	if err := p.Describe(&text); err != nil || !strings.Contains(text.String(), "temperature 0, 0.5 conversations/s (poisson), 20 begin within 40 s -> ") {
		t.Errorf("got %v\n%s", err, text.String())
	}
	f := func(change func(*Config), want ...string) {
		t.Helper()
		cfg := valid(t)
		cfg.RequestRate = []string{"20"}
		change(&cfg)
		refused(t, cfg, want...)
	}
	f(func(c *Config) { c.Concurrency = []string{"8"} }, "--request_rate and --concurrency are both set")
	f(func(c *Config) { c.RequestRate = []string{"0", "-1", "NaN", "inf", "1e9", "x"} }, `--request_rate "0"`, `"-1"`, `"NaN"`, `"inf"`, `"1e9"`, `"x"`)
	f(func(c *Config) { c.RequestRate = []string{"20", "20.0"} }, "two points are equal: temperature 0 at request rate 20")
	f(func(c *Config) { c.Arrivals = "gamma" }, `--arrivals "gamma": want one of poisson, constant`)
	f(func(c *Config) { c.Driver = DriverAIPerf }, "--request_rate with --driver aiperf")
	f(func(c *Config) { c.OpenFiles = 159 }, "--request_rate 20: 20 conversations may be in flight at once, which takes 160 files, and this process may open 159; raise the limit (ulimit -n 160)")
	f(func(c *Config) { c.RequestRate, c.Concurrency, c.OpenFiles = nil, []string{"1", "8"}, 123 }, "--concurrency 8: 8 conversations may be in flight at once, which takes 124 files")
}

// A shard asks its own conversations at their moments of the whole schedule.
func TestOpenLoopShards(t *testing.T) {
	var schedules []*collector.Schedule
	asked := map[string]int{}
	for _, shard := range []string{"0/2", "1/2"} {
		s := newScripted(t, echo)
		p := plan(t, s, Config{MTBench: questions(t, 9), RequestRate: []string{"3"}, Shard: shard})
		if _, err := newSweep(p, s).Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, q := range s.requests() {
			asked[q.labels["spectap.conversation"]]++
		}
		schedules = append(schedules, readRecords(t, filepath.Join(p.Config.SaveDir, "t0_q3"))[0].Run.Schedule)
	}
	if len(asked) != 9 || len(schedules[0].Offsets) != 9 || !slices.Equal(schedules[0].Offsets, schedules[1].Offsets) {
		t.Errorf("asked %v; schedules %v and %v", asked, schedules[0], schedules[1])
	}
}

// A warm-up of an open loop comes at the point's rate, and each repeat has
// arrivals of its own.
func TestOpenLoopWarmupAndRepeats(t *testing.T) {
	s := newScripted(t, echo)
	p := plan(t, s, Config{MTBench: questions(t, 4), RequestRate: []string{"3"}, ArrivalsSeed: 8, Warmup: 2, Repeats: 2})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := newSweep(p, s).Run(ctx); err != nil {
		t.Fatal(err)
	}
	if got := len(s.requests()); got != 2*2*(4+2) {
		t.Errorf("got %d requests, want %d", got, 2*2*(4+2))
	}
	for folder, seed := range map[string]int64{"t0_q3": 8, "t0_q3_r2": 9} {
		got := readRecords(t, filepath.Join(p.Config.SaveDir, folder))[0].Run.Schedule
		if got.Seed != seed || !slices.Equal(got.Offsets, arrivals(4, 3, collector.ArrivalsPoisson, seed)) {
			t.Errorf("%s: got %+v, want seed %d", folder, got, seed)
		}
	}
}
