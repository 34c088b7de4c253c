package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// overheadTable is the result of BenchmarkOverhead.
type overheadTable struct {
	Plan    overheadPlan
	Machine string
	Rows    []overheadRow
	Bars    []overheadBar
}

// overheadRow is one variant under one load: the median of the rounds. Added is
// against direct, OverRelay and Ratio against the relay, each within one round.
type overheadRow struct {
	Streams int     `json:"streams"`
	Every   float64 `json:"every_ms"`
	Variant string  `json:"variant"`

	DelayP50       float64 `json:"delay_p50_us"`
	AddedP50       float64 `json:"added_p50_us"`
	AddedP99       float64 `json:"added_p99_us"`
	AddedP999      float64 `json:"added_p999_us"`
	OverRelay      float64 `json:"over_relay_p50_us"`
	OverNetHTTP    float64 `json:"over_nethttp_p50_us"`
	AddedFirst     float64 `json:"added_first_event_p50_us"`
	AddedFirstP99  float64 `json:"added_first_event_p99_us"`
	CPU            float64 `json:"cpu_us_per_event"`
	User           float64 `json:"user_us_per_event"`
	Ratio          float64 `json:"cpu_over_relay"`
	RatioNetHTTP   float64 `json:"cpu_over_nethttp"`
	Switches       float64 `json:"context_switches_per_event"`
	Waited         float64 `json:"run_queue_us_per_event"`
	RSS            float64 `json:"peak_rss_kib_per_stream"`
	Residence      float64 `json:"residence_p50_us"`
	Difference     float64 `json:"kernel_difference_p50_us"`
	Errors         int     `json:"errors"`
	Events         int     `json:"events"`
	Unstamped      int     `json:"events_without_time"`
	Generator      float64 `json:"generator_cores"`
	Others         float64 `json:"other_processes_cores"`
	LateP99        float64 `json:"engine_late_p99_us"`
	GeneratorLimit bool    `json:"generator_was_the_limit"`

	FirstError string `json:"first_error,omitempty"`
}

// overheadBar is one thing to reach.
type overheadBar struct {
	Variant string  `json:"variant"`
	Bar     string  `json:"bar"`
	Got     float64 `json:"got"`
	Reached bool    `json:"reached"`
}

func machineOf() string {
	var u unix.Utsname
	_ = unix.Uname(&u)
	return fmt.Sprintf("%d CPUs, Linux %s, %s", runtime.NumCPU(), unix.ByteSliceToString(u.Release[:]), runtime.Version())
}

func µs(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// ratio is 0 where there is nothing to compare with.
func ratio(a, b time.Duration) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// add makes the rows of one load.
func (t *overheadTable) add(level overheadLevel, samples []overheadSample) {
	find := func(variant string, round int) *overheadSample {
		i := slices.IndexFunc(samples, func(s overheadSample) bool { return s.Variant == variant && s.Round == round })
		if i < 0 {
			return &overheadSample{}
		}
		return &samples[i]
	}
	for _, variant := range t.Plan.Variants {
		r := overheadRow{Streams: level.Streams, Every: µs(level.Every) / 1000, Variant: variant}
		over := func(of func(s, direct, relay, nethttp *overheadSample) float64) float64 {
			var values []float64
			for round := range t.Plan.Rounds {
				values = append(values, of(find(variant, round), find("direct", round), find("relay", round), find("nethttp", round)))
			}
			slices.Sort(values)
			return quantile(values, 0.5)
		}
		one := func(of func(s *overheadSample) float64) float64 {
			return over(func(s, _, _, _ *overheadSample) float64 { return of(s) })
		}
		added := func(of func(s *overheadSample) []time.Duration, q float64) float64 {
			return over(func(s, direct, _, _ *overheadSample) float64 {
				return µs(quantile(of(s), q) - quantile(of(direct), q))
			})
		}
		delay := func(s *overheadSample) []time.Duration { return s.Delay }
		first := func(s *overheadSample) []time.Duration { return s.First }
		r.DelayP50 = one(func(s *overheadSample) float64 { return µs(quantile(s.Delay, 0.5)) })
		r.AddedP50, r.AddedP99, r.AddedP999 = added(delay, 0.5), added(delay, 0.99), added(delay, 0.999)
		r.AddedFirst, r.AddedFirstP99 = added(first, 0.5), added(first, 0.99)
		r.OverRelay = over(func(s, _, relay, _ *overheadSample) float64 {
			return µs(quantile(s.Delay, 0.5) - quantile(relay.Delay, 0.5))
		})
		r.OverNetHTTP = over(func(s, _, _, nethttp *overheadSample) float64 {
			return µs(quantile(s.Delay, 0.5) - quantile(nethttp.Delay, 0.5))
		})
		r.CPU = one(func(s *overheadSample) float64 { return µs(s.CPU) })
		r.User = one(func(s *overheadSample) float64 { return µs(s.User) })
		r.Switches = one(func(s *overheadSample) float64 { return s.Switches })
		r.Ratio = over(func(s, _, relay, _ *overheadSample) float64 { return ratio(s.CPU, relay.CPU) })
		r.RatioNetHTTP = over(func(s, _, _, nethttp *overheadSample) float64 { return ratio(s.CPU, nethttp.CPU) })
		r.Waited = one(func(s *overheadSample) float64 { return µs(s.Waited) })
		r.RSS = one(func(s *overheadSample) float64 { return s.RSS })
		r.Residence = one(func(s *overheadSample) float64 { return µs(s.Residence) })
		r.Difference = one(func(s *overheadSample) float64 { return µs(s.Difference) })
		r.Generator = one(func(s *overheadSample) float64 { return s.Generator })
		r.Others = one(func(s *overheadSample) float64 { return s.Others })
		r.LateP99 = one(func(s *overheadSample) float64 { return µs(s.LateP99) })
		for round := range t.Plan.Rounds {
			s := find(variant, round)
			r.Errors += len(s.Errors)
			r.Events += s.Events
			r.Unstamped += s.Unstamped
			if len(s.Errors) > 0 && r.FirstError == "" {
				r.FirstError = s.Errors[0]
			}
		}
		r.GeneratorLimit = r.Generator > 0.8 || r.LateP99 > µs(level.Every)/2
		t.Rows = append(t.Rows, r)
	}
	t.judge(level)
}

// judge says which bars each mode of the proxy has reached.
func (t *overheadTable) judge(level overheadLevel) {
	bar := func(r overheadRow, text string, got, limit float64) {
		t.Bars = append(t.Bars, overheadBar{r.Variant, fmt.Sprintf("%d streams: %s", level.Streams, text), got, got <= limit})
	}
	for _, r := range t.Rows {
		if r.Streams != level.Streams || !slices.Contains([]string{"observe", "usage", "tokens"}, r.Variant) {
			continue
		}
		if level.Streams >= 2000 {
			bar(r, "no error", float64(r.Errors), 0)
		}
		if level.Streams != 512 || r.Ratio == 0 || r.RatioNetHTTP == 0 {
			continue
		}
		bar(r, "delay p50 at most 15 µs above the relay's", r.OverRelay, 15)
		bar(r, "delay p50 not above net/http's", r.OverNetHTTP, 0)
		bar(r, "CPU at most 1.25 of the relay's", r.Ratio, 1.25)
		bar(r, "CPU below net/http's", r.RatioNetHTTP, 1)
		bar(r, "at most 45 KiB a stream", r.RSS, 45)
		bar(r, "residence within 10 µs of the kernels' difference", max(r.Residence-r.Difference, r.Difference-r.Residence), 10)
	}
}

// print writes the table for people. added is against direct, in one round each; times are in µs.
func (t *overheadTable) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s; %d rounds of %v, pinned: %v. Times in µs, medians of the rounds.\n", t.Machine, t.Plan.Rounds, t.Plan.Window, t.Plan.Pin)
	const format = "%7s %8s %-8s | %7s %8s %8s %9s | %8s %9s | %7s %6s %6s %6s %6s %7s | %7s | %6s %6s | %6s %5s %6s %7s %s\n"
	fmt.Fprintf(w, format, "streams", "every_ms", "variant", "p50", "+p50", "+p99", "+p99.9", "+first50", "+first99",
		"CPU/ev", "user", "×relay", "×net", "sw/ev", "wait/ev", "RSS KiB", "resid", "differ", "errors", "gen", "others", "late99", "")
	for i, r := range t.Rows {
		if i > 0 && r.Streams != t.Rows[i-1].Streams {
			fmt.Fprintln(w)
		}
		f := func(digits int, v float64) string { return fmt.Sprintf("%.*f", digits, v) }
		note := ""
		if r.GeneratorLimit {
			note = "GENERATOR WAS THE LIMIT"
		}
		if r.Unstamped > 0 {
			note += fmt.Sprintf(" %d events without a time", r.Unstamped)
		}
		fmt.Fprintf(w, format, f(0, float64(r.Streams)), f(0, r.Every), r.Variant, f(1, r.DelayP50), f(1, r.AddedP50), f(1, r.AddedP99), f(1, r.AddedP999),
			f(0, r.AddedFirst), f(0, r.AddedFirstP99), f(1, r.CPU), f(1, r.User), f(2, r.Ratio), f(2, r.RatioNetHTTP), f(2, r.Switches), f(1, r.Waited), f(1, r.RSS),
			f(1, r.Residence), f(1, r.Difference), f(0, float64(r.Errors)), f(2, r.Generator), f(2, r.Others), f(0, r.LateP99), strings.TrimSpace(note+" "+r.FirstError))
	}
	for _, bar := range t.Bars {
		reached := "reached"
		if !bar.Reached {
			reached = "NOT reached"
		}
		fmt.Fprintf(w, "%-8s %-70s %8.2f  %s\n", bar.Variant, bar.Bar, bar.Got, reached)
	}
}

func (t *overheadTable) write(b *testing.B, file string) {
	text, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		b.Fatal(err)
	}
}
