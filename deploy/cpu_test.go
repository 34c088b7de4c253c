package deploy

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	cpuBound   = 1.15 // of processor time with telemetry, against none, for replies of 256 tokens; the aim is 1.05
	shortBound = 1.4  // for replies of 64 tokens: what telemetry costs, it costs a request, not a token
	delayBound = 1.5  // of the 99th percentile of TTFT, against no telemetry
	delaySlack = 20 * time.Millisecond
	ticks      = 100 // a second, in /proc/PID/stat (USER_HZ)
)

// arm is a proxy with one configuration of telemetry.
type arm struct {
	name    string
	environ []string
	watched bool      // scraped every second, with a live page open
	sink    *receiver // that must have two spans of each request at the end of a round; nil: none

	proxy   *proxyProcess
	cpu     []float64 // seconds a request, one value a round
	timings []timings
}

// off has no telemetry at all: what the others are compared with.
func off() *arm {
	return &arm{name: "off (OTEL_SDK_DISABLED)", environ: []string{"OTEL_SDK_DISABLED=true"}}
}

// BenchmarkTelemetry compares the processor time of spectap proxy at 512
// streams with telemetry off and on, for long and for short replies. It prints a
// table; -benchtime 1x is one run of all rounds.
func BenchmarkTelemetry(b *testing.B) {
	for _, l := range []load{{streams: 512, each: 1, tokens: 256, bound: cpuBound}, {streams: 512, each: 4, tokens: 64, bound: shortBound}} {
		b.Run(fmt.Sprintf("tokens=%d", l.tokens), func(b *testing.B) {
			for b.Loop() {
				sink := startReceiver(b, 0)
				compareArms(b, l, 10, []*arm{
					off(),
					{name: "default (no OTEL_*)"},
					{name: "on", environ: otlp(sink.address), watched: true, sink: sink},
				})
			}
		})
	}
}

// BenchmarkBrokenCollector compares what clients see with collectors that do not
// take what they are sent with what they see without telemetry.
func BenchmarkBrokenCollector(b *testing.B) {
	for b.Loop() {
		compareArms(b, load{streams: 512, each: 1, tokens: 256, bound: cpuBound}, 4, []*arm{
			off(),
			{name: "collector refuses", environ: otlp(refused(b)), watched: true},
			{name: "collector never answers", environ: otlp(blackHole(b)), watched: true},
			{name: "collector takes 2 s", environ: otlp(startReceiver(b, 2*time.Second).address), watched: true},
		})
	}
}

// compareArms plays rounds of the load, in each of which every arm has its turn.
// The first round warms up and does not count. Rounds begin with the arm after
// that of the round before, and every other one goes backwards, so that no arm
// gains by its place.
func compareArms(b *testing.B, l load, rounds int, arms []*arm) {
	b.Helper()
	engine := startEngine(b, "--prefill", "20ms", "--step", "40ms", "--step_per_request", "0", "--eos", "0")
	for _, a := range arms {
		a.proxy = startProxy(b, a.environ, engine, "--pprof")
		if a.watched {
			watchPage(b, a.proxy.Admin)
			scrapeEverySecond(b, a.proxy.Admin)
		}
	}
	direct := l.run(b, engine)
	for round := range rounds + 1 {
		first := round % len(arms)
		order := append(slices.Clone(arms[first:]), arms[:first]...)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, a := range order {
			a.play(b, l, round > 0)
		}
	}
	report(b, l, direct, arms)
}

// otlp are the standard variables of traces and metrics to a collector.
func otlp(address string) []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + address, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_TRACES_SAMPLER=always_on", "OTEL_BSP_SCHEDULE_DELAY=1000", "OTEL_SERVICE_NAME=spectap"}
}

// play runs the load through an arm's proxy once and keeps what it took. Short
// replies before it bring back what an idle proxy has given up: connections,
// pooled buffers, heap.
func (a *arm) play(b *testing.B, l load, keep bool) {
	b.Helper()
	warm := load{streams: l.streams, each: 1, tokens: 16}
	a.await(b, warm, func() { warm.run(b, a.proxy.URL) })
	before := a.proxy.processor(b)
	profile := a.profile(b, keep)
	var seen timings
	a.await(b, l, func() { seen = l.run(b, a.proxy.URL) })
	after := a.proxy.processor(b)
	<-profile
	if seen.failed > 0 {
		b.Fatalf("%s: %d clients failed", a.name, seen.failed)
	}
	if keep {
		a.cpu = append(a.cpu, (after-before).Seconds()/float64(l.streams*l.each))
		a.timings = append(a.timings, seen)
	}
}

// await runs a load and waits until its spans have come.
func (a *arm) await(b *testing.B, l load, run func()) {
	b.Helper()
	if a.sink == nil {
		run()
		return
	}
	want := a.sink.spans.Load() + int64(2*l.streams*l.each)
	run()
	poll(b, "all spans", func() bool { return a.sink.spans.Load() >= want })
}

// processor is the processor time that a process has used, user and system.
func (p *process) processor(t testing.TB) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may hold spaces
	fields := strings.Fields(rest)
	const utime = 14 - 3 // the fields are counted from 1, and rest begins with the third
	sum := 0
	for _, field := range fields[utime : utime+2] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return time.Duration(sum) * time.Second / ticks
}

// profileDir names the folder for a processor profile of each arm's second round, if one is wanted.
const profileDir = "SPECTAP_PROFILE_DIR"

// profile takes a profile while the load runs; the channel is closed at its end.
func (a *arm) profile(b *testing.B, keep bool) <-chan struct{} {
	done := make(chan struct{})
	dir := os.Getenv(profileDir)
	if dir == "" || !keep || len(a.cpu) != 1 {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		text, err := fetch(a.proxy.Admin + "/debug/pprof/profile?seconds=5")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, strings.Map(letters, a.name)+".pprof"), text, 0o644)
		}
		if err != nil {
			b.Error(err)
		}
	}()
	return done
}

func letters(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
		return r
	}
	return '_'
}

// watchPage keeps the stream of a live page open until the test ends.
func watchPage(t testing.TB, admin string) {
	t.Helper()
	answer, err := http.Get(admin + "/live")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, answer.Body) // ends with the body
	}()
	t.Cleanup(func() {
		answer.Body.Close()
		<-ended
	})
}

// scrapeEverySecond asks for the metrics as Prometheus does, until the test ends.
func scrapeEverySecond(t testing.TB, admin string) {
	t.Helper()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for {
			select {
			case <-stop:
				return
			case <-every.C:
				if err := scrape(admin); err != nil {
					t.Errorf("cannot scrape: %v", err)
				}
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
	})
}

// scrape reads the metrics in the form that Prometheus asks for.
func scrape(admin string) error {
	request, err := http.NewRequest(http.MethodGet, admin+"/metrics", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
	request.Header.Set("Accept-Encoding", "gzip")
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
