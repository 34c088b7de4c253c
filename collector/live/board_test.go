package live

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"spectap/collector"
)

// streamed is a Record of a stream that succeeded: its first output after ttft,
// then tokens more, one every gap, and steps by accepted drafts.
func streamed(ttft, gap time.Duration, tokens int, accepted ...int) *collector.Record {
	rec := &collector.Record{
		Start: start, Route: collector.RouteChat, Model: "m", Status: 200, Stream: true,
		FirstOutput: collector.At(ttft), LastByte: collector.At(ttft + time.Duration(tokens-1)*gap), Done: collector.At(ttft + time.Duration(tokens-1)*gap),
		Usage: &collector.Usage{CompletionTokens: tokens},
	}
	for i := range tokens {
		rec.Chunks = append(rec.Chunks, collector.Chunk{At: ttft + time.Duration(i)*gap, Tokens: 1})
	}
	rec.Spec = &collector.Spec{Accepted: accepted}
	for j, n := range accepted {
		rec.Spec.Steps += n
		rec.Spec.AcceptedTokens += j * n
	}
	return rec
}

// failed is a Record of a request that failed.
func failed(kind, missing string) *collector.Record {
	return &collector.Record{Start: start, Route: collector.RouteChat, Status: 500, ErrorKind: kind, SpecMissing: missing, Done: collector.At(time.Second)}
}

var start = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// at returns the board's figures at an offset.
func (b *board) at(at time.Duration) *snapshot {
	s := &snapshot{}
	b.fill(at, start, s)
	return s
}

func near(t *testing.T, what string, got figure, want float64) {
	t.Helper()
	if math.IsNaN(want) != math.IsNaN(float64(got)) || math.Abs(float64(got)-want) > 1e-9 {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// within says that a quantile is at most 1 % above what was measured.
func within(t *testing.T, what string, got figure, want time.Duration) {
	t.Helper()
	if low, high := want.Seconds(), want.Seconds()*1.01; float64(got) < low || float64(got) > high {
		t.Errorf("%s: got %v s, want %v to %v", what, got, low, high)
	}
}

func TestFiguresOfAMinute(t *testing.T) {
	b := newBoard()
	b.add(61*time.Second, streamed(100*time.Millisecond, 10*time.Millisecond, 21, 1, 0, 3)) // 4 steps, 6 accepted
	b.add(62*time.Second, streamed(200*time.Millisecond, 20*time.Millisecond, 11, 2, 2))    // 4 steps, 2 accepted
	b.add(63*time.Second, failed(collector.ErrHTTPStatus, collector.MissingError))
	s := b.at(87500 * time.Millisecond)               // the current step is 85 to 90, the first of the minute 30 to 35
	span := 57.5                                      // seconds
	near(t, "requests", figure(s.Minute.Requests), 3) //
	near(t, "failed", figure(s.Minute.Failed), 1)     //
	near(t, "rate", s.Minute.RequestRate, 3/span)     //
	near(t, "tokens", s.Minute.OutputTokenRate, 32/span)
	near(t, "AL", s.Minute.AL, 1+8.0/8)
	near(t, "steps", figure(s.Minute.VerifySteps), 8)
	within(t, "TTFT p50", s.Minute.TTFTP50, 100*time.Millisecond)
	within(t, "TTFT p99", s.Minute.TTFTP99, 200*time.Millisecond)
	within(t, "time per token p50", s.Minute.TPOTP50, 10*time.Millisecond)
	within(t, "time per token p99", s.Minute.TPOTP99, 20*time.Millisecond)
	want := totalFigures{Requests: 3, Failed: 1, Measured: 2, OutputTokens: 32, VerifySteps: 8, Accepted: 8, AL: 2}
	if diff := cmp.Diff(want, s.Total); diff != "" {
		t.Error(diff)
	}
	position := series{5.0 / 8, 3.0 / 8} // accepted more than 0, more than 1
	if diff := cmp.Diff(positionFigures{RecentSteps: 8, Recent: position, TotalSteps: 8, Total: position}, s.Positions); diff != "" {
		t.Error(diff)
	}
}

// The first figures come before a minute has passed: a rate is over the time that there was.
func TestRateOfAYoungProcess(t *testing.T) {
	b := newBoard()
	b.add(3*time.Second, streamed(time.Millisecond, time.Millisecond, 40))
	near(t, "rate after 4 s", b.at(4*time.Second).Minute.RequestRate, 1.0/4)
	near(t, "rate after 20 s", b.at(20*time.Second).Minute.OutputTokenRate, 40.0/20)
	young := newBoard()
	young.add(time.Millisecond, streamed(time.Millisecond, time.Millisecond, 2))
	near(t, "rate after 1 ms, over a second", young.at(time.Millisecond).Minute.RequestRate, 1)
}

func TestChartRollsOver(t *testing.T) {
	b := newBoard()
	nan := math.NaN()
	last := func(s *snapshot, i int) []float64 { // of the i-th newest step
		c, n := s.Chart, chartSteps-i
		return []float64{float64(c.AL[n]), float64(c.RequestRate[n]), float64(c.OutputTokenRate[n])}
	}
	f := func(what string, got []float64, want ...float64) {
		t.Helper()
		if !cmp.Equal(got, want, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-9)) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	b.add(7*time.Second, streamed(time.Millisecond, time.Millisecond, 20, 0, 10))
	f("the current step is not shown", last(b.at(9*time.Second), 1), nan, 0, 0)
	f("before the start", last(b.at(9*time.Second), 2), nan, nan, nan)
	f("once it is complete", last(b.at(10*time.Second), 1), 2, 1.0/5, 20.0/5)
	f("a gap is zero", last(b.at(600*time.Second), 3), nan, 0, 0)
	f("ten minutes later it is the oldest", last(b.at(609*time.Second), chartSteps), 2, 1.0/5, 20.0/5)
	if s := b.at(605 * time.Second); s.Positions.RecentSteps != 10 {
		t.Errorf("steps by position: got %d, want 10", s.Positions.RecentSteps)
	}
	s := b.at(610 * time.Second)
	f("then it is gone", last(s, chartSteps), nan, 0, 0)
	if s.Positions.RecentSteps != 0 || s.Total.VerifySteps != 10 {
		t.Errorf("got %d recent and %d total steps, want 0 and 10", s.Positions.RecentSteps, s.Total.VerifySteps)
	}
}

// A slot of the ring is used again without what was in it.
func TestEveryStepEndsUpInTheChart(t *testing.T) {
	b := newBoard()
	for i := range 300 {
		for range 1 + i%3 {
			b.add(time.Duration(i)*stepWidth+time.Second, streamed(time.Millisecond, time.Millisecond, 5))
		}
	}
	s := b.at(300 * stepWidth)
	for i, got := range s.Chart.RequestRate {
		near(t, "step "+strconv.Itoa(i), got, float64(1+(300-chartSteps+i)%3)/5)
	}
}

func TestLatencyWindowsRotate(t *testing.T) {
	b := newBoard()
	b.add(1*time.Second, streamed(400*time.Millisecond, 40*time.Millisecond, 5))
	b.add(31*time.Second, streamed(100*time.Millisecond, 10*time.Millisecond, 5))
	within(t, "both are in", b.at(59*time.Second).Minute.TTFTP99, 400*time.Millisecond)
	s := b.at(60 * time.Second) // the step from 0 to 5 is out, the one from 30 to 35 is in
	within(t, "p99 of the rest", s.Minute.TTFTP99, 100*time.Millisecond)
	within(t, "time per token of the rest", s.Minute.TPOTP99, 10*time.Millisecond)
	within(t, "the step that ended at 60 s has both", s.Chart.TTFTP99[chartSteps-1], 400*time.Millisecond)
	within(t, "and their median", s.Chart.TTFTP50[chartSteps-1], 100*time.Millisecond)
	within(t, "the one that ended at 65 s has one", b.at(65 * time.Second).Chart.TTFTP99[chartSteps-1], 100*time.Millisecond)
	near(t, "a minute later there is none", b.at(90*time.Second).Minute.TTFTP50, math.NaN())
	within(t, "the chart still shows it", b.at(90 * time.Second).Chart.TTFTP50[chartSteps-1], 100*time.Millisecond)
	near(t, "its last step", b.at(95 * time.Second).Chart.TTFTP50[chartSteps-1], math.NaN())
}

// After a pause longer than the chart nothing of before is left, at whatever step it ends.
func TestLongPause(t *testing.T) {
	for _, pause := range []time.Duration{chartSteps * stepWidth, (chartSteps + 1) * stepWidth, 24 * time.Hour, 24*time.Hour + 37*time.Second} {
		b := newBoard()
		b.add(time.Second, streamed(400*time.Millisecond, time.Millisecond, 5, 0, 1))
		s := b.at(pause + 5*time.Second)
		if s.Minute.Requests != 0 || s.Total.Requests != 1 {
			t.Errorf("after %v: got %d in the minute and %d in all, want 0 and 1", pause, s.Minute.Requests, s.Total.Requests)
		}
		near(t, "TTFT", s.Minute.TTFTP50, math.NaN())
		for i := range chartSteps {
			near(t, "rate", s.Chart.RequestRate[i], 0)
			near(t, "AL", s.Chart.AL[i], math.NaN())
		}
		b.add(pause+6*time.Second, streamed(100*time.Millisecond, time.Millisecond, 5, 1))
		within(t, "the next one counts alone", b.at(pause+7*time.Second).Minute.TTFTP99, 100*time.Millisecond)
	}
}

// A clock that is set back loses nothing.
func TestClockGoesBack(t *testing.T) {
	b := newBoard()
	b.add(100*time.Second, streamed(time.Millisecond, time.Millisecond, 5))
	b.add(20*time.Second, streamed(time.Millisecond, time.Millisecond, 5))
	b.add(-time.Hour, streamed(time.Millisecond, time.Millisecond, 5))
	if s := b.at(-2 * time.Hour); s.Minute.Requests != 3 {
		t.Errorf("got %d requests in the minute, want 3", s.Minute.Requests)
	}
}

func TestWhatCounts(t *testing.T) {
	f := func(what string, change func(*collector.Record), ttft, tpot, al, tokens float64) {
		t.Helper()
		rec := streamed(100*time.Millisecond, 10*time.Millisecond, 11, 1, 1)
		change(rec)
		b := newBoard()
		b.add(0, rec)
		s := b.at(0)
		round := func(x figure) float64 { return math.Floor(float64(x)*1e3) / 1e3 }
		got := []float64{round(s.Minute.TTFTP50), round(s.Minute.TPOTP50), float64(s.Minute.AL), float64(s.Recent[0].Tokens)}
		if !cmp.Equal(got, []float64{ttft, tpot, al, tokens}, cmpopts.EquateNaNs()) {
			t.Errorf("%s: got TTFT, time per token, AL and tokens %v, want %v", what, got, []float64{ttft, tpot, al, tokens})
		}
	}
	nan := math.NaN()
	f("a stream", func(*collector.Record) {}, 0.1, 0.01, 1.5, 11)
	f("a body in one piece has no first token", func(r *collector.Record) { r.Stream = false }, nan, nan, 1.5, 11)
	f("a stream that broke off", func(r *collector.Record) { r.ErrorKind = collector.ErrTruncated }, 0.1, nan, 1.5, 11)
	f("no output", func(r *collector.Record) { r.FirstOutput, r.Chunks, r.Usage = collector.Moment{}, nil, nil }, nan, nan, 1.5, nan)
	f("no usage: the events say the tokens", func(r *collector.Record) { r.Usage = nil }, 0.1, nan, 1.5, 11)
	f("several choices", func(r *collector.Record) { r.SpecMissing = collector.MissingSeveralChoices }, 0.1, nan, 1.5, 11)
	f("no last byte: the end of the answer", func(r *collector.Record) { r.LastByte, r.Done = collector.Moment{}, collector.At(300*time.Millisecond) }, 0.1, 0.02, 1.5, 11)
	f("an end before the first output", func(r *collector.Record) { r.LastByte = collector.At(0) }, 0.1, nan, 1.5, 11)
	f("one token", func(r *collector.Record) {
		r.Chunks, r.Usage.CompletionTokens, r.Spec = r.Chunks[:1], 1, &collector.Spec{Accepted: []int{1}, Steps: 1}
	}, 0.1, nan, 1, 1)
	f("more steps than tokens", func(r *collector.Record) { r.Spec.Accepted, r.Spec.Steps = []int{12}, 12 }, 0.1, 0.01, nan, 11)
	f("no statistics", func(r *collector.Record) { r.Spec, r.SpecMissing = nil, collector.MissingNotReported }, 0.1, 0.01, nan, 11)
	f("an engine that does not say its steps", func(r *collector.Record) { r.Spec = &collector.Spec{DraftedTokens: 9, AcceptedTokens: 3} }, 0.1, 0.01, nan, 11)
	f("negative steps", func(r *collector.Record) { r.Spec.Steps = -4 }, 0.1, 0.01, nan, 11)
	f("absurd drafts", func(r *collector.Record) { r.Spec.AcceptedTokens = 1 << 60 }, 0.1, 0.01, nan, 11)
	f("absurd usage", func(r *collector.Record) { r.Usage.CompletionTokens = 1 << 60 }, 0.1, nan, 1.5, nan)
	f("negative usage", func(r *collector.Record) { r.Usage.CompletionTokens = -1 }, 0.1, nan, 1.5, nan)
	f("a latency above the histogram's range", func(r *collector.Record) { r.FirstOutput, r.Chunks = collector.At(100*time.Hour), nil }, 3607.101, nan, 1.5, 11)
	f("a negative one", func(r *collector.Record) {
		r.FirstOutput, r.LastByte = collector.At(-time.Hour), collector.At(-2*time.Hour)
	}, 0, nan, 1.5, 11)
}

func TestPositions(t *testing.T) {
	b := newBoard()
	long := make([]int, 41) // 40 drafts a step
	long[40], long[0] = 3, 1
	b.add(0, streamed(0, 0, 125, long...))
	s := b.at(0)
	if len(s.Positions.Total) != maxPositions || s.Positions.TotalSteps != 4 || s.Positions.Total[maxPositions-1] != 0.75 {
		t.Errorf("got %d positions of %d steps, the last %v; want %d, 4, 0.75", len(s.Positions.Total), s.Positions.TotalSteps, s.Positions.Total[len(s.Positions.Total)-1], maxPositions)
	}
	b.add(0, streamed(0, 0, 2, 2, -1, 2))
	if after := b.at(0); after.Positions.TotalSteps != 4 {
		t.Errorf("a histogram with a negative count was taken: %d steps", after.Positions.TotalSteps)
	}
}

func TestKinds(t *testing.T) {
	b := newBoard()
	b.add(1*time.Second, failed(collector.ErrClientGone, collector.MissingClientGone))
	b.add(2*time.Second, failed(collector.ErrHTTPStatus, collector.MissingError))
	b.add(3*time.Second, failed(collector.ErrHTTPStatus, collector.MissingError))
	ms := func(seconds int64) int64 { return start.UnixMilli() + seconds*1000 }
	want := []kindFigures{{collector.ErrHTTPStatus, 2, ms(3)}, {collector.ErrClientGone, 1, ms(1)}}
	if diff := cmp.Diff(want, b.at(4*time.Second).Errors); diff != "" {
		t.Error(diff)
	}
	want = []kindFigures{{collector.MissingError, 2, ms(3)}, {collector.MissingClientGone, 1, ms(1)}}
	if diff := cmp.Diff(want, b.at(4*time.Second).Missing); diff != "" {
		t.Error(diff)
	}
	for i := range 100 {
		b.add(5*time.Second, failed("kind "+strconv.Itoa(i), strings.Repeat("x", 1000)))
	}
	s := b.at(5 * time.Second)
	total := uint64(0)
	for _, k := range s.Errors {
		total += k.Count
	}
	if len(s.Errors) != maxKinds || total != 103 || s.Errors[0].Kind != other {
		t.Errorf("got %d kinds that count %d, first %q; want %d, 103, %q", len(s.Errors), total, s.Errors[0].Kind, maxKinds, other)
	}
	if i := slices.IndexFunc(s.Missing, func(k kindFigures) bool { return k.Kind == other }); i < 0 || s.Missing[i].Count != 100 {
		t.Errorf("a reason that is too long does not count as %q: %v", other, s.Missing)
	}
}

// Statistics whose counts cannot be are in no figure, and are said to be missing.
func TestUnbelievedStatistics(t *testing.T) {
	b := newBoard()
	f := func(change func(*collector.Spec)) {
		t.Helper()
		rec := streamed(time.Millisecond, time.Millisecond, 11, 1, 1)
		change(rec.Spec)
		b.add(time.Second, rec)
	}
	f(func(s *collector.Spec) { s.Steps = -4 })
	f(func(s *collector.Spec) { s.AcceptedTokens = 1 << 60 })
	f(func(s *collector.Spec) { s.Accepted = []int{2, -1, 2} })
	s := b.at(time.Second)
	want := []kindFigures{{unbelieved, 3, start.UnixMilli() + 1000}}
	if diff := cmp.Diff(want, s.Missing); diff != "" || s.Total.Measured != 0 || s.Positions.TotalSteps != 0 {
		t.Errorf("got %d measured, %d steps by position, reasons: %s", s.Total.Measured, s.Positions.TotalSteps, diff)
	}
}

func TestRecentRequests(t *testing.T) {
	b := newBoard()
	for i := range 120 {
		rec := streamed(10*time.Millisecond, time.Millisecond, 3, 1, 1)
		rec.Model, rec.Labels.Point, rec.Start = strconv.Itoa(i), "t0_c8", start.Add(time.Duration(i)*time.Second)
		b.add(time.Duration(i)*time.Second, rec)
	}
	rows := b.at(120 * time.Second).Recent
	if len(rows) != recentRows {
		t.Fatalf("got %d rows, want %d", len(rows), recentRows)
	}
	for i, r := range rows {
		if want := strconv.Itoa(119 - i); r.Model != want {
			t.Errorf("row %d: got model %q, want %q", i, r.Model, want)
		}
	}
	want := rowFigures{
		Ended: start.UnixMilli() + 119_012, Model: "119", Route: "chat", Point: "t0_c8", Status: 200, Stream: true,
		TTFT: 0.01, Duration: 0.012, Tokens: 3, AL: 1.5,
	}
	if diff := cmp.Diff(want, rows[0]); diff != "" {
		t.Error(diff)
	}
}

// What a client or a server chose is cut and cleaned, and keeps no larger text alive.
func TestShownTexts(t *testing.T) {
	f := func(what, in, want string) {
		t.Helper()
		if got := shown(in); got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	f("plain", "Qwen/Qwen3-8B", "Qwen/Qwen3-8B")
	f("markup stays text", "<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>")
	f("control characters", "a\x1b[31mb\nc\x00", "a\ufffd[31mb\ufffdc\ufffd")
	f("direction marks", "abc\u202egnp.exe", "abc\ufffdgnp.exe")
	f("line separators", "a\u2028b", "a\ufffdb")
	f("not UTF-8", "a\xffb", "a\ufffdb")
	f("as long as may be", strings.Repeat("x", maxText), strings.Repeat("x", maxText))
	f("longer", strings.Repeat("x", 1000), strings.Repeat("x", maxText)+"…")
	f("cut inside a character", strings.Repeat("x", maxText-1)+"ééé", strings.Repeat("x", maxText-1)+"…")
	long := strings.Repeat("y", 1<<20)
	if got := shown(long[:maxText]); unsafe.StringData(got) == unsafe.StringData(long) {
		t.Error("a short text keeps the long one that it was cut from")
	}
}
