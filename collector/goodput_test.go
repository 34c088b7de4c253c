package collector

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseSLO(t *testing.T) {
	got, err := ParseSLO([]string{"ttft=200ms", "tpot=20ms", "e2e=1m", "gap=1.5s"}, 0.9)
	if err != nil || *got != (SLO{TTFT: 0.2, TPOT: 0.02, E2E: 60, Gap: 1.5, Share: 0.9}) || got.String() != "ttft=200ms,tpot=20ms,e2e=1m0s,gap=1.5s" {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := ParseSLO(nil, 2); got != nil || err != nil {
		t.Errorf("got %v, %v; want nothing: no limit, no share", got, err)
	}
	f := func(typed string, share float64, want ...string) {
		t.Helper()
		_, err := ParseSLO(strings.Split(typed, ","), share)
		if err == nil {
			t.Fatalf("%q: got no error, want %q", typed, want)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: got %v, want %q", typed, err, w)
			}
		}
	}
	f("ttft=200", 0.95, `cannot use --slo "ttft=200": want a duration above 0 with its unit, as in ttft=200ms`)
	f("tpot=-1ms", 0.95, "want a duration above 0")
	f("ttft", 0.95, "want a duration above 0")
	f("ttft=1s,ttft=2s", 0.95, "ttft has a limit already")
	f("itl=20ms", 0.95, "say tpot (time per output token without the first, a mean) or gap")
	f("latency=1s,ttft=x", 1, `cannot use --slo "latency=1s": known are ttft, tpot, e2e, gap`, `"ttft=x"`, "--slo_share 1") // all at once
}

// One request by hand: written 0.1 s after its start, events at 0.5, 0.7 and 1.5 s,
// 11 tokens.
func TestRequestTimes(t *testing.T) {
	r := &Record{Stream: true, UpstreamWritten: At(100 * time.Millisecond), Usage: &Usage{CompletionTokens: 11},
		Chunks: []Chunk{{At: 500 * time.Millisecond, Tokens: 1}, {At: 700 * time.Millisecond, Tokens: 4}, {At: 1500 * time.Millisecond, Tokens: 6}}}
	got, ok := r.requestTimes(0)
	if want := (requestTimes{ttft: 0.4, tpot: 0.1, e2e: 1.4, gap: 0.8}); !ok || got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, _ := r.requestTimes(2 * time.Second); !near(got.ttft, 2.4) || !near(got.e2e, 3.4) || got.tpot != 0.1 || got.gap != 0.8 {
		t.Errorf("2 s late: got %+v, want TTFT and the whole from the intended time, the rest as it was", got)
	}
	for _, c := range []struct {
		slo  SLO
		want []string
	}{
		{SLO{TTFT: 0.4, TPOT: 0.1, E2E: 1.4, Gap: 0.8}, nil}, // a limit itself is kept
		{SLO{TTFT: 0.39, TPOT: 0.09, E2E: 1.39, Gap: 0.79}, []string{"ttft", "tpot", "e2e", "gap"}},
		{SLO{TPOT: 0.05}, []string{"tpot"}},
		{SLO{}, nil},
	} {
		if b := c.slo.broken(got); !slices.Equal(b, c.want) {
			t.Errorf("%+v: got %v, want %v", c.slo, b, c.want)
		}
	}
	r.Usage.CompletionTokens, r.Chunks = 1, r.Chunks[:1]
	if one, ok := r.requestTimes(0); !ok || one.tpot != 0 || one.gap != 0 || (SLO{TPOT: 1e-9, Gap: 1e-9}).broken(one) != nil {
		t.Errorf("a reply of one token: got %+v, want no time per token, within", one)
	}
	r.Stream = false
	if _, ok := r.requestTimes(0); ok {
		t.Error("an answer in one piece has no times")
	}
}

// slow makes a point of n conversations of two turns, of which the first slow ones
// have a second turn whose first token takes 1 s; the others take 0.1 s.
func slow(n, slow int) Point {
	p := loadOf(1)
	p.Run.SLO = &SLO{TTFT: 0.2, Share: 0.95}
	for i := range n {
		for turn := range 2 {
			r := recordOf(float64(i), turn, float64(2*i+turn), float64(2*i+turn)+0.9, 10)
			r.Chunks = []Chunk{{At: 100 * time.Millisecond, Tokens: 5}, {At: 900 * time.Millisecond, Tokens: 5}}
			if turn == 1 && i < slow {
				r.Chunks[0].At = 800 * time.Millisecond
			}
			p.Records = append(p.Records, r)
		}
	}
	return p
}

func TestGoodput(t *testing.T) {
	f := func(n, late int, verdict, reason string) *Goodput {
		t.Helper()
		p := slow(n, late)
		g := p.goodput(p.selected())
		if g == nil || g.Verdict != verdict || !strings.Contains(g.Reason, reason) {
			t.Fatalf("%d of %d slow: got %+v, want %q, %q", late, n, g, verdict, reason)
		}
		if g.Requests != 2*n || g.Within != 2*n-late || g.Over[LimitTTFT] != late || !near(g.Share, 1-float64(late)/float64(2*n)) || g.Conversations != n {
			t.Errorf("%d of %d slow: got %+v", late, n, g)
		}
		if g.Interval.Low > g.Share || g.Interval.High < g.Share || g.AtLeast == nil || *g.AtLeast >= g.Share {
			t.Errorf("%d of %d slow: got interval %+v, at least %v, around %v", late, n, g.Interval, *g.AtLeast, g.Share)
		}
		return g
	}
	f(100, 0, SLOMet, "n = 200 requests of 100 conversations shows that at least")
	f(12, 0, SLONotShown, "cannot be shown from n = 24 requests of 12 conversations: 100.0 % were within, which shows at least")
	f(100, 8, SLONotShown, "96.0 % were within")
	f(100, 40, SLOMissed, "at most")

	// A failed request is not within; one that was set apart is no request of the point.
	p := slow(100, 0)
	p.Lenient = true
	p.Records[1].ErrorKind = ErrTruncated
	p.Records[3].SetApart = ApartRepeated
	if g := p.goodput(p.selected()); g.Requests != 199 || g.Within != 198 || g.Failed != 1 || len(g.Over) != 0 {
		t.Errorf("got %+v, want 198 of 199, one failed", g)
	}
	p = slow(100, 0)
	p.Records[7].Stream = false
	if g := p.goodput(p.selected()); g.Verdict != SLONotJudged || !strings.Contains(g.Reason, "1 of 200 answers did not stream") {
		t.Errorf("got %+v, want no verdict", g)
	}
	p.Run.SLO = nil
	if g := p.goodput(p.selected()); g != nil {
		t.Errorf("got %+v without an SLO", g)
	}
}

// A rate counts what was within: 200 requests of 0.9 s, one a second.
func TestGoodputRate(t *testing.T) {
	p := slow(100, 20)
	if got, want := p.goodput(p.selected()).PerSecond, 180/199.9; math.Abs(got-want) > 1e-9 {
		t.Errorf("got %v within a second, want %v", got, want)
	}
}

func TestSLOAnswers(t *testing.T) {
	row := func(temperature float64, concurrency int, verdict string) Summary {
		return Summary{Point: "p", Temperature: temperature, Concurrency: concurrency, Goodput: &Goodput{SLO: SLO{TTFT: 0.2, Share: 0.95}, Verdict: verdict, Reason: verdict + " because"}}
	}
	got := SLOAnswers([]Summary{
		row(1, 32, SLOMissed), row(1, 8, SLOMet), row(1, 1, SLONotShown), row(1, 16, SLONotShown),
		{Temperature: 3, Concurrency: 1}, // an older row
		row(0, 4, SLONotShown), row(0, 2, SLONotShown), row(2, 4, SLOMissed), row(2, 8, SLOMissed),
	}, nil)
	want := []SLOAnswer{
		{Temperature: 1, Point: "p", Concurrency: 8, Sentence: "temperature 1, ttft=200ms for 95.0 % of the requests: concurrency 8 is the largest measured that meets it; met because; concurrency 16: cannot be shown because; the lighter concurrency 1: cannot be shown because"},
		{Temperature: 0, Point: "", Concurrency: 0, Sentence: "temperature 0, ttft=200ms for 95.0 % of the requests: not shown to be met at any load that was measured; concurrency 2: cannot be shown because"},
		{Temperature: 2, Point: "", Concurrency: 0, Sentence: "temperature 2, ttft=200ms for 95.0 % of the requests: met at no load that was measured; concurrency 4: missed because"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// In open loop time counts from the intended moment: of a first turn the
// schedule's, of a second one the end of the first.
func TestGoodputFromIntendedTime(t *testing.T) {
	p := slow(30, 0) // turns last 0.9 s and begin a second apart, first tokens after 0.1 s
	begin := p.Records[0].Start
	p.Run.Schedule = &Schedule{Rate: 0.5, Arrivals: ArrivalsConstant, Start: begin, Offsets: make([]time.Duration, 30)}
	for i := range 30 {
		p.Run.Schedule.Offsets[i] = time.Duration(2*i) * time.Second
	}
	p.Run.Schedule.Offsets[3] -= 50 * time.Millisecond  // 0.15 s to the first token: within
	p.Run.Schedule.Offsets[4] -= 200 * time.Millisecond // 0.3 s: over
	p.Records[10].Chunks[0].At += 50 * time.Millisecond // conversation 5, first turn: 0.15 s
	p.Records[11].Chunks[0].At += 50 * time.Millisecond // its second turn, 0.1 s after the first's end: 0.25 s, over
	if g := p.goodput(p.selected()); g.Requests != 60 || g.Within != 58 || g.Over[LimitTTFT] != 2 {
		t.Errorf("got %+v, want two over: one by the schedule, one by the turn before it", g)
	}
	row := func(point string, rate float64) Summary {
		return Summary{Point: point, RequestRate: rate, Goodput: &Goodput{Verdict: SLOMet, Reason: "r"}, OpenLoop: &OpenLoop{KeepsUp: KeepsUpYes}}
	}
	rows := SLOAnswers([]Summary{row("t0_q20", 20), row("t0_q3", 3)}, nil)
	if len(rows) != 1 || rows[0].Point != "t0_q20" || rows[0].RequestRate != 20 || !strings.Contains(rows[0].Sentence, "rate 20/s is the largest") {
		t.Errorf("got %+v", rows)
	}
}

// The rate that is named is the largest that is met and that the server keeps up
// with; those above it that are within all the same are not judged, and said to be.
func TestSLOAnswersOfRates(t *testing.T) {
	row := func(rate float64, verdict, keepsUp string) Summary {
		return Summary{Point: fmt.Sprintf("t0_q%v", rate), RequestRate: rate, Goodput: &Goodput{Verdict: verdict, Reason: "r"}, OpenLoop: &OpenLoop{Window: 1.5, KeepsUp: keepsUp}}
	}
	f := func(point, want string, rows ...Summary) {
		t.Helper()
		got := SLOAnswers(rows, nil)
		if len(got) != 1 || got[0].Point != point || !strings.HasSuffix(got[0].Sentence, " of the requests: "+want) || got[0].RequestRate > 0 != (point != "") {
			t.Errorf("got %+v, want %q", got, want)
		}
		if said := strings.Count(want, "not judged"); len(got[0].NotJudged) != said {
			t.Errorf("got %+v, want %d that were not judged", got[0].NotJudged, said)
		}
	}
	const none = "none of the measured loads can be named that meets it; "
	const short = " not judged: 1.5 s of arrivals are too short to tell whether the server keeps up with it; r"
	const queue = " not judged: the server does not keep up with it, so that nothing holds for longer than the 1.5 s of arrivals; r"
	f("t0_q20", "rate 20/s is the largest measured that meets it and that the server keeps up with; r", row(20, SLOMet, KeepsUpYes))
	f("", none+"rate 20/s"+short, row(20, SLOMet, KeepsUpUnknown))
	f("", none+"rate 20/s"+queue, row(20, SLOMet, KeepsUpNo))
	f("", none+"rate 20/s"+short, row(20, SLOMet, KeepsUpYes), row(20, SLOMet, KeepsUpUnknown))
	f("", none+"rate 20/s"+short, row(20, SLOMet, KeepsUpUnknown), row(20, SLOMet, KeepsUpYes))
	f("t0_q5", "rate 5/s is the largest measured that meets it and that the server keeps up with; r; rate 20/s"+short+"; rate 40/s"+queue,
		row(5, SLOMet, KeepsUpYes), row(40, SLOMet, KeepsUpNo), row(20, SLOMet, KeepsUpUnknown))
	f("t0_q5", "rate 5/s is the largest measured that meets it and that the server keeps up with; r; rate 20/s: r; rate 40/s"+queue,
		row(5, SLOMet, KeepsUpYes), row(40, SLOMet, KeepsUpNo), row(20, SLOMissed, KeepsUpNo))
	f("", none+"rate 5/s: r; rate 40/s"+queue, row(5, SLOMissed, KeepsUpYes), row(40, SLOMet, KeepsUpNo))
	f("", "met at no load that was measured; rate 20/s: r", row(20, SLOMissed, KeepsUpYes), row(20, SLOMet, KeepsUpUnknown))
}

// The verdict of a point says the same, in performance.json too.
func TestGoodputOfAQueue(t *testing.T) {
	p := openPoint(400, 20, constantly(0), func(i int) time.Duration { return time.Duration(i) * 20 * time.Millisecond })
	p.Run.SLO = &SLO{E2E: 60, Share: 0.5}
	files, row, err := p.Files()
	if err != nil {
		t.Fatal(err)
	}
	if g := row.Goodput; g.Within != 800 || g.Verdict != SLONotJudged || !strings.HasPrefix(g.Reason, "the server does not keep up with it, so that nothing holds for longer than the 20 s of arrivals; n = 800 requests") {
		t.Errorf("got %+v", g)
	}
	if !strings.Contains(string(files[FilePerformance]), `"verdict": "not judged"`) {
		t.Errorf("got %s", files[FilePerformance])
	}
	p.Run.Schedule.Rate = 5 // its moments stay: only the length of the arrivals is another
	for i := range p.Run.Schedule.Offsets {
		p.Run.Schedule.Offsets[i] = time.Duration(i) * 200 * time.Millisecond
		p.Records[2*i].Start = p.Run.Schedule.Start.Add(p.Run.Schedule.Offsets[i])
		p.Records[2*i].Done, p.Records[2*i].Chunks = At(time.Second), p.Records[2*i+1].Chunks
		p.Records[2*i+1].Start = p.Records[2*i].Start.Add(time.Second)
	}
	if g := p.goodput(p.selected()); g.Verdict != SLOMet {
		t.Errorf("got %+v of a server that keeps up", g)
	}
}

// The SLO is in the first line of the records, and a collection judges by it.
func TestSLOInRecords(t *testing.T) {
	run := slow(1, 0).Run
	text, err := json.Marshal(run)
	if err != nil || !strings.Contains(string(text), `"slo":{"ttft_s":0.2,"share":0.95}`) {
		t.Fatalf("got %s, %v", text, err)
	}
	var again Run
	if err := json.Unmarshal(text, &again); err != nil || *again.SLO != *run.SLO {
		t.Errorf("got %+v, %v", again.SLO, err)
	}
	run.SLO = nil
	if text, _ := json.Marshal(run); strings.Contains(string(text), "slo") {
		t.Errorf("got %s, want nothing of an SLO that nobody asked for", text)
	}
}

// performance.json has its names and what a small n cannot show.
func TestPerformanceFile(t *testing.T) {
	files, _, err := slow(100, 8).Files()
	if err != nil {
		t.Fatal(err)
	}
	var got Performance
	if err := json.Unmarshal(files[FilePerformance], &got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != SchemaPerformance || got.Steady.Window == nil || got.Goodput == nil || len(got.Latency) != 4 {
		t.Fatalf("got %s", files[FilePerformance])
	}
	ttft := got.Latency[0]
	if ttft.Name != "ttft_s" || ttft.Requests != 200 || !near(ttft.Mean, (192*0.1+8*0.8)/200) || ttft.MeanInterval == nil || !ttft.MeanInterval.Known {
		t.Errorf("got %+v", ttft)
	}
	p50, p99 := ttft.Quantiles[0], ttft.Quantiles[3]
	if p50.Value == nil || *p50.Value != 0.1 || p99.Value != nil || p99.Interval.Reason != "n = 200 is too few for p99" {
		t.Errorf("got p50 %+v, p99 %+v", p50, p99)
	}
	if tpot := got.Latency[1]; !near(tpot.Mean, (192*0.8/9+8*0.1/9)/200) || tpot.Name != "tpot_excl_first_s" {
		t.Errorf("got %+v", tpot)
	}
}
