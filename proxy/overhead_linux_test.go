package proxy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spectap/collector"
)

var overheadFlags = struct {
	full                     *bool
	streams, every, variants *string
	rounds                   *int
	window                   *time.Duration
	json, profile            *string
	calm                     *time.Duration
	pin                      *bool
}{
	full:     flag.Bool("overhead.full", false, "BenchmarkOverhead: 1, 64, 512 and 2,000 streams, three rounds; minutes"),
	streams:  flag.String("overhead.streams", "", "numbers of streams, as 64,512"),
	every:    flag.String("overhead.every", "", "time between two events of a stream, one for all or one for each number of streams, as 20ms,80ms"),
	variants: flag.String("overhead.variants", "direct,relay,nethttp,observe,usage,tokens", "what to compare; usage@FILE is that mode in another build of this test (go test -c)"),
	rounds:   flag.Int("overhead.rounds", 0, "rounds of all variants"),
	window:   flag.Duration("overhead.window", 0, "how long events are measured in each round"),
	json:     flag.String("overhead.json", "", "file for the table as JSON"),
	profile:  flag.String("overhead.profile", "", "folder for profiles of each relaying process: CPU of the window, heap at its end"),
	calm:     flag.Duration("overhead.calm", 0, "on a shared machine: how long each sample is repeated until other processes take less than a tenth of a core; the calmest one counts"),
	pin:      flag.Bool("overhead.pin", true, "keep what relays on core 1, and engine and client on core 0"),
}

// overheadPlan is what BenchmarkOverhead compares.
type overheadPlan struct {
	Variants []string
	Levels   []overheadLevel
	Rounds   int
	Window   time.Duration
	Settle   time.Duration // from the last stream's first event to the window
	Probes   int
	Pin      bool
	smoke    bool // no flag asked for figures: what is tested is that all comes whole
}

// overheadLevel is a load: so many streams with an event every so often.
type overheadLevel struct {
	Streams int
	Every   time.Duration
}

// planOverhead reads the flags. The intervals are what two cores carry through
// any variant: 25,000 events a second.
func planOverhead(b *testing.B) overheadPlan {
	f := overheadFlags
	p := overheadPlan{Rounds: 1, Window: 150 * time.Millisecond, Settle: 20 * time.Millisecond, Probes: 5, Pin: *f.pin && runtime.NumCPU() > 1}
	streams := "8"
	if p.smoke = !*f.full && *f.streams == ""; !p.smoke {
		p.Rounds, p.Window, p.Settle, p.Probes = 3, 3*time.Second, 300*time.Millisecond, 100
		streams = "1,64,512,2000"
	}
	if *f.streams != "" {
		streams = *f.streams
	}
	if *f.rounds > 0 {
		p.Rounds = *f.rounds
	}
	if *f.window > 0 {
		p.Window = *f.window
	}
	p.Variants = strings.Split(*f.variants, ",")
	every := strings.Split(*f.every, ",")
	for i, text := range strings.Split(streams, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatalf("cannot use -overhead.streams %q: want numbers", streams)
		}
		l := overheadLevel{Streams: n, Every: 20 * time.Millisecond}
		if n > 512 {
			l.Every = 80 * time.Millisecond
		}
		if *f.every != "" {
			if l.Every, err = time.ParseDuration(every[min(i, len(every)-1)]); err != nil {
				b.Fatalf("cannot use -overhead.every %q: want durations", *f.every)
			}
		}
		p.Levels = append(p.Levels, l)
	}
	return p
}

// BenchmarkOverhead measures what this proxy costs beside a bare relay and
// net/http's proxy, all in one run and in turns. Its table is its result: ns/op
// says nothing. Delays count from the write of the engine to the receive time of
// the client's kernel. CPU and memory are those of the relaying process alone.
//
//	go test -run '^$' -bench Overhead -timeout 30m ./proxy -overhead.full -overhead.json FILE
func BenchmarkOverhead(b *testing.B) {
	plan := planOverhead(b)
	defer holdStamps()()
	generator, relaying := -1, -1
	if plan.Pin {
		generator, relaying = 0, 1
	}
	bench := overheadBench{
		b: b, plan: plan, dir: b.TempDir(), cpu: relaying,
		engine: startOverheadRole(b, overheadRole{Kind: "engine"}, generator),
		client: startOverheadRole(b, overheadRole{Kind: "client"}, generator),
	}
	table := overheadTable{Plan: plan, Machine: machineOf()}
	for _, level := range plan.Levels {
		var samples []overheadSample
		for round := range plan.Rounds {
			for i := range plan.Variants {
				variant := plan.Variants[(i+round)%len(plan.Variants)]
				samples = append(samples, bench.calmest(level, round, variant))
			}
		}
		table.add(level, samples)
	}
	bench.engine.end()
	bench.client.end()
	table.print(os.Stdout)
	for _, r := range table.Rows {
		if r.Errors > 0 && table.Plan.smoke {
			b.Errorf("%s: %d errors, the first: %s", r.Variant, r.Errors, r.FirstError)
		}
	}
	if *overheadFlags.json != "" {
		table.write(b, *overheadFlags.json)
	}
	b.ReportMetric(0, "ns/op")
}

type overheadBench struct {
	b              *testing.B
	plan           overheadPlan
	dir            string
	cpu            int // of what relays
	engine, client *overheadChild
}

// overheadSample is one variant under one load in one round.
type overheadSample struct {
	Variant string
	Round   int
	Events  int // in the window

	Delay      []time.Duration // of each event of the window, sorted
	First      []time.Duration // from a request's write to its first event, sorted
	CPU, User  time.Duration   // of an event, in the relaying process
	Switches   float64         // context switches of an event
	Waited     time.Duration   // of an event: the relaying process was ready while others ran on its core
	RSS        float64         // KiB a stream at the peak, above the idle process
	Residence  time.Duration   // median of the streams' Record.ResidenceP50
	Difference time.Duration   // median of the streams' medians, from our kernel's receive time to the client's
	Generator  float64         // busy share of the busier of engine and client
	Others     float64         // cores that other processes took
	LateP99    time.Duration   // of the engine's sends
	Unstamped  int             // events without a receive time
	Errors     []string
}

// calmest repeats a sample while others use the machine, as long as -overhead.calm says.
func (o *overheadBench) calmest(level overheadLevel, round int, variant string) (best overheadSample) {
	until := time.Now().Add(*overheadFlags.calm)
	for n := 0; ; n++ {
		for !idleFor(100*time.Millisecond) && time.Now().Before(until) {
		}
		s := o.measure(level, round, variant)
		if n == 0 || s.Others < best.Others {
			best = s
		}
		if best.Others < 0.1 || !time.Now().Before(until) {
			return best
		}
	}
}

// measure runs one variant in a process of its own.
func (o *overheadBench) measure(level overheadLevel, round int, variant string) (s overheadSample) {
	b := o.b
	s = overheadSample{Variant: variant, Round: round}
	name := fmt.Sprintf("%s-%d-%d", strings.NewReplacer("/", "_", "@", "_").Replace(variant), level.Streams, round)
	role := o.role(variant, name)
	addr := o.engine.Addr
	meter := o.engine // whose CPU is taken
	if role.Kind != "" {
		meter = startOverheadRole(b, role, o.cpu)
		addr = meter.Addr
	}
	var ok string
	var first []time.Duration
	o.client.ask(b, overheadCommand{Do: "probe", Addr: addr, Probes: 3}, &first) // loads the code
	idle := meter.usage(b, "usage")
	o.engine.ask(b, overheadCommand{Do: "run", Streams: level.Streams, Every: level.Every}, &ok)
	o.client.ask(b, overheadCommand{Do: "run", Addr: addr, Streams: level.Streams, Every: level.Every}, &first)
	time.Sleep(o.plan.Settle)

	cores := busyCores()
	client0, engine0, meter0 := o.client.usage(b, "window"), o.engine.usage(b, "window"), meter.usage(b, "window")
	time.Sleep(o.plan.Window)
	others := busyCores() - cores
	meter1, engine1, client1 := meter.usage(b, "window"), o.engine.usage(b, "window"), o.client.usage(b, "window")

	o.client.ask(b, overheadCommand{Do: "probe", Addr: addr, Probes: o.plan.Probes}, &s.First)
	slices.Sort(s.First)
	o.engine.ask(b, overheadCommand{Do: "end"}, &ok)
	var run overheadRun
	file := filepath.Join(o.dir, name)
	o.client.ask(b, overheadCommand{Do: "wait", File: file}, &run)
	s.Errors = run.Errors
	if sent := o.engine.usage(b, "usage").Sent; sent != run.Events {
		s.Errors = append(s.Errors, fmt.Sprintf("%d events were sent and %d came", sent, run.Events))
	}
	s.Generator = max(busy(engine0, engine1), busy(client0, client1))
	own := engine1.cpu() - engine0.cpu() + client1.cpu() - client0.cpu()
	if role.Kind != "" {
		own += meter1.cpu() - meter0.cpu()
	}
	s.Others = max(0, float64(others-own)/float64(meter1.At-meter0.At))
	s.LateP99 = engine1.LateP99
	times, err := readOverheadTimes(file)
	if err != nil {
		b.Fatal(err)
	}
	s.delays(times, meter0.At, meter1.At)
	if role.Kind != "" {
		n := time.Duration(max(s.Events, 1))
		s.CPU, s.User = (meter1.cpu()-meter0.cpu())/n, (meter1.User-meter0.User)/n
		s.Waited = (meter1.Waited - meter0.Waited) / n
		s.Switches = float64(meter1.Switches-meter0.Switches) / float64(n)
		s.RSS = float64(meter1.HWM-idle.RSS) / float64(level.Streams)
		meter.stop(b)
	}
	if role.Kind == "proxy" {
		s.residence(b, role.Records, times)
	}
	return s
}

func (o *overheadBench) role(variant, name string) (r overheadRole) {
	variant, binary, _ := strings.Cut(variant, "@")
	r = overheadRole{Kind: "proxy", Measure: variant, Upstream: o.engine.Addr, Records: filepath.Join(o.dir, name+".jsonl"), Binary: binary}
	switch variant {
	case "direct":
		return overheadRole{}
	case "relay", "nethttp":
		r = overheadRole{Kind: variant, Upstream: o.engine.Addr}
	case "observe", "usage", "tokens":
	default:
		o.b.Fatalf("cannot use -overhead.variants: %q is none", variant)
	}
	if *overheadFlags.profile != "" {
		r.Profile = filepath.Join(*overheadFlags.profile, name+".pprof")
	}
	return r
}

// busy is the share of a core that a process took.
func busy(from, to overheadUsage) float64 {
	return float64(to.cpu()-from.cpu()) / float64(to.At-from.At)
}

// delays takes the events that were sent in the window.
func (s *overheadSample) delays(times map[int][]eventTimes, from, to int64) {
	for _, events := range times {
		for _, e := range events {
			switch {
			case e.Sent < from || e.Sent >= to:
				continue
			case e.Got == 0:
				s.Unstamped++
			default:
				s.Delay = append(s.Delay, time.Duration(e.Got-e.Sent))
			}
			s.Events++
		}
	}
	slices.Sort(s.Delay)
}

// residence compares what the Records say with what the two kernels say.
func (s *overheadSample) residence(b *testing.B, file string, times map[int][]eventTimes) {
	f, err := os.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	points, bad, err := collector.ReadPoints(f)
	if err != nil || len(bad) > 0 || len(points) != 1 {
		b.Fatalf("cannot read the records: %v, %d bad lines, %d points", err, len(bad), len(points))
	}
	recs := points[0].Records
	var ours, theirs []time.Duration
	for _, rec := range recs {
		n, err := strconv.Atoi(strings.TrimPrefix(rec.RequestID, "ov-"))
		events := times[n]
		if err != nil || n < 0 {
			continue // a probe
		}
		if extra := len(rec.Chunks) - len(events); rec.ErrorKind != "" || extra < 0 || extra > 1 { // the finish event can be one
			s.Errors = append(s.Errors, fmt.Sprintf("record of stream %d: %d chunks, %d events came; error %q", n, len(rec.Chunks), len(events), rec.Error))
			continue
		}
		var between []time.Duration
		for i, e := range events {
			if e.Got > 0 {
				between = append(between, time.Duration(e.Got-rec.Start.UnixNano())-rec.Chunks[i].At)
			}
		}
		slices.Sort(between)
		ours, theirs = append(ours, rec.ResidenceP50.Offset), append(theirs, quantile(between, 0.5))
	}
	if len(ours) != len(times) {
		s.Errors = append(s.Errors, fmt.Sprintf("%d records of %d streams", len(ours), len(times)))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	s.Residence, s.Difference = quantile(ours, 0.5), quantile(theirs, 0.5)
}
