package collector

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPointOfGolden sends every case through Records, records.jsonl and Write,
// and compares the files, in both views.
func TestPointOfGolden(t *testing.T) {
	for _, dir := range goldenCases(t, filepath.Join("testdata", "golden")) {
		for _, view := range []string{ViewClient, ViewServer} {
			if filepath.Base(dir) == "coalesced" && view == ViewClient {
				continue // its streams are not one step an event, so its lengths come from the block
			}
			t.Run(filepath.Base(dir)+"/"+view, func(t *testing.T) { testPointOfGolden(t, dir, view) })
		}
	}
}

func testPointOfGolden(t *testing.T, dir, view string) {
	run, p := goldenRecords(t, dir)
	p.Run.Acceptance = view
	p.Run.Configuration = json.RawMessage("{\n    \"x\": 1\n}")
	path := filepath.Join(t.TempDir(), FileRecords)
	if err := p.WriteRecords(path, KeepTexts); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	points, bad, err := ReadPoints(f)
	if err != nil || len(bad) > 0 || len(points) != 1 {
		t.Fatalf("got %d points, bad %v, %v; want 1", len(points), bad, err)
	}
	points[0].quick = true // no interval is compared
	out := t.TempDir()
	var summary Summary
	for range run.AppendedRuns + 1 {
		if summary, err = points[0].Write(out); err != nil {
			t.Fatal(err)
		}
	}
	got := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	names := []string{"acceptance_rate.py312.json", "acceptance_rate.json"}
	if view == ViewServer {
		names = []string{"acceptance_rate.server.py312.json", "acceptance_rate.server.json", "acceptance_rate.py312.json", "acceptance_rate.json"}
	}
	compareFile(t, dir, got(FileAcceptance), names...)
	compareFile(t, dir, got(ResponsesFile(run.Metric)), ResponsesFile(run.Metric))
	compareTimingNumbers(t, got(FileTiming), dir)
	if string(got(FileConfiguration)) != string(p.Run.Configuration) {
		t.Errorf("got configuration %s", got(FileConfiguration))
	}
	if _, err := os.Stat(filepath.Join(out, FileSpecBench)); (err == nil) != (run.Metric == MetricSpecBench) {
		t.Errorf("%s: %v with metric %s", FileSpecBench, err, run.Metric)
	}
	var list []struct{ Average_AL float64 }
	if err := json.Unmarshal(got(FileAcceptance), &list); err != nil || list[0].Average_AL != summary.AverageAL || summary.View != view {
		t.Errorf("got summary %v of view %s, file %v (%v)", summary.AverageAL, summary.View, list, err)
	}
	if left, err := filepath.Glob(filepath.Join(out, ".*")); len(left) > 0 || err != nil {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// compareTimingNumbers compares with timing.server.json, whose two rates have all
// digits and so the last one depends on the clock's origin.
func compareTimingNumbers(t *testing.T, got []byte, dir string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join(dir, "timing.server.json"))
	if err != nil {
		want, err = os.ReadFile(filepath.Join(dir, "timing.json"))
	}
	if err != nil {
		t.Fatal(err)
	}
	a, b := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	if len(a) != len(b) {
		t.Fatalf("timing: got %d lines, want %d:\n%s", len(a), len(b), got)
	}
	for i := range a {
		_, x, rate := strings.Cut(a[i], `": `)
		_, y, _ := strings.Cut(b[i], `": `)
		f, err := strconv.ParseFloat(strings.TrimSuffix(x, ","), 64)
		g, err2 := strconv.ParseFloat(strings.TrimSuffix(y, ","), 64)
		if rate && err == nil && err2 == nil && math.Abs(f-g) <= 1e-9*g {
			continue
		}
		if a[i] != b[i] {
			t.Errorf("timing line %d: got %s, want %s", i+1, a[i], b[i])
		}
	}
}

func speculationOf(t *testing.T, p Point) (Speculation, Summary) {
	t.Helper()
	files, summary, err := p.Files()
	if err != nil {
		t.Fatal(err)
	}
	var s Speculation
	if err := json.Unmarshal(files[FileSpeculation], &s); err != nil {
		t.Fatal(err)
	}
	return s, summary
}

// countersOf are the counters after all blocks of a point.
func countersOf(recs []*Record) Counters {
	sums := newBlockSums(recs)
	c := Counters{HasSpec: true, Drafts: float64(sums.drafts), DraftTokens: float64(sums.draftTokens), AcceptedTokens: float64(sums.accepted), RequestsFinished: float64(len(recs))}
	for _, n := range tails(sums.hist) {
		c.AcceptedPerPos = append(c.AcceptedPerPos, float64(n))
	}
	return c
}

// TestPointWithLostBlocks: the point of a real server that lost 8 of 12 blocks.
func TestPointWithLostBlocks(t *testing.T) {
	p := gpuPoint(t, "draft_t1_c1.json")
	after := countersOf(p.Records)
	after.Drafts, after.DraftTokens, after.AcceptedTokens = after.Drafts+100, after.DraftTokens+400, after.AcceptedTokens+30
	after.AcceptedPerPos[0] += 30
	p.Run.Before, p.Run.After = &Counters{HasSpec: true}, &after
	s, summary := speculationOf(t, p)
	if summary.Audit != AuditExact || summary.BlocksCame != 4 || summary.BlocksExpected != 12 || summary.Incomplete || summary.Conversations != 6 {
		t.Errorf("got %+v, want exact, 4 of 12 blocks, 6 conversations", summary)
	}
	if s.Blocks.Missing["lost_with_merged_last_event"] != 8 || s.Blocks.LengthsOf[SourceSplit] != 8 || s.Blocks.LengthsOf[SourceExact] != 4 {
		t.Errorf("got blocks %+v, want 8 lost and split, 4 exact", s.Blocks)
	}
	if s.Accepted.Source != "counters" || !slices.Equal(s.Accepted.Counters, after.Histogram()) || len(s.Position.Conditional) != 4 {
		t.Errorf("got %+v, %+v; want the counters' histogram and rates", s.Accepted, s.Position)
	}
	if got := summary.ClientAL; got < 1.3 || got > 1.7 || !summary.ClientALInterval.Known || summary.ClientALInterval.Low > got {
		t.Errorf("got client AL %v in %+v, want about 1.5", got, summary.ClientALInterval)
	}
	if !slices.ContainsFunc(summary.Warnings, func(w string) bool { return strings.Contains(w, "4 of 12") }) {
		t.Errorf("got warnings %q, want one on the blocks", summary.Warnings)
	}
}

func TestAuditVerdicts(t *testing.T) {
	f := func(want string, change func(*Point, *Counters)) {
		t.Helper()
		p := Point{Run: Run{Metric: MetricAcceptanceRate, GPUs: 1}}
		for i, c := range capturedRequests(t) {
			r := c.record(time.Unix(int64(i), 0))
			r.Labels = Labels{Conversation: strconv.Itoa(i), HasTurn: true}
			p.Records = append(p.Records, r)
		}
		before, after := readCounters(t, "metrics-before.txt"), readCounters(t, "metrics-after.txt")
		p.Run.Before, p.Run.After = &before, &after
		change(&p, &after)
		if s, summary := speculationOf(t, p); summary.Audit != want {
			t.Errorf("got %q (%s), want %q", summary.Audit, s.Audit.Reason, want)
		} else if said := strings.Contains(strings.Join(s.Warnings, "\n"), s.Audit.Reason); said == (want == AuditExact || p.Run.Before == nil) {
			t.Errorf("got warnings %q beside the verdict %q (%s)", s.Warnings, want, s.Audit.Reason)
		}
	}
	drop := func(p *Point) { p.Records[3].Spec, p.Records[3].SpecMissing = nil, MissingNotReported }
	f(AuditExact, func(p *Point, c *Counters) {})
	f(AuditDiffers, func(p *Point, c *Counters) { c.Drafts++ })
	f(AuditDiffers, func(p *Point, c *Counters) { c.AcceptedPerPos[2]-- })
	f(AuditDiffers, func(p *Point, c *Counters) { c.RequestsFinished-- })
	f(AuditForeign, func(p *Point, c *Counters) { c.RequestsFinished++ })
	f(AuditNone, func(p *Point, c *Counters) { p.Run.Before = nil })
	f(AuditNone, func(p *Point, c *Counters) { c.HasSpec = false })
	f(AuditNone, func(p *Point, c *Counters) { *c = Counters{HasSpec: true} }) // restarted
	f(AuditExact, func(p *Point, c *Counters) { drop(p) })
	f(AuditDiffers, func(p *Point, c *Counters) { drop(p); c.Drafts -= 20 })
	f(AuditForeign, func(p *Point, c *Counters) { drop(p); c.RequestsFinished++ })
	running := func(c *Counters) { // another client's request that has not ended
		c.Drafts, c.DraftTokens, c.AcceptedTokens, c.GenerationTokens = c.Drafts+9, c.DraftTokens+45, c.AcceptedTokens+8, c.GenerationTokens+17
	}
	f(AuditForeign, func(p *Point, c *Counters) { running(c) })
	f(AuditDiffers, func(p *Point, c *Counters) { running(c); c.RequestsFinished-- })
	f(AuditDiffers, func(p *Point, c *Counters) { running(c); p.Records[0].Usage = nil }) // its tokens could be ours
}

// TestPositionRates compares both rates with a count of the detailed lists.
func TestPositionRates(t *testing.T) {
	p := gpuPoint(t, "draft_t0_c1.json")
	var recs []*Record
	for _, r := range p.Records {
		if r.Spec != nil {
			recs = append(recs, r)
		}
	}
	sums := newBlockSums(recs)
	uniform := positionRates(sums, PointHistogram{Blocks: sums.hist, Source: "blocks"}, nil)
	sums.uniform = false
	lists := positionRates(sums, PointHistogram{Blocks: sums.hist, Source: "blocks"}, nil)
	if !slices.Equal(uniform.Conditional, lists.Conditional) || len(uniform.Conditional) != 4 || lists.Source != "per_step_lists" {
		t.Errorf("got conditional rates %v from the histogram, %v from the lists (%s)", uniform.Conditional, lists.Conditional, lists.Source)
	}
	product := 1.0
	for i, c := range uniform.Conditional {
		product *= c
		if math.Abs(product-uniform.PerPosition[i]) > 1e-12 {
			t.Errorf("position %d: got %v per position, want the product %v", i, uniform.PerPosition[i], product)
		}
	}
	sums.lists = 0
	if got := positionRates(sums, PointHistogram{Blocks: sums.hist}, nil); got.Conditional != nil || got.NoConditional == "" {
		t.Errorf("got %+v without lists, want no conditional rates and a reason", got)
	}
}

// TestPointFailures: strict points name what failed, lenient ones leave it out and say so.
func TestPointFailures(t *testing.T) {
	f := func(want string, left map[string]int, change func(*Point)) {
		t.Helper()
		p := gpuPoint(t, "draft_t0_c1.json")
		change(&p)
		if _, _, err := p.Files(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
		dir := t.TempDir()
		if _, err := p.Write(dir); err == nil {
			t.Error("Write of a failed point: no error")
		}
		if names, _ := os.ReadDir(dir); len(names) > 0 {
			t.Errorf("a failed point wrote %v", names)
		}
		p.Lenient = true
		s, summary := speculationOf(t, p)
		if !summary.Incomplete || summary.Conversations != 5 {
			t.Errorf("%s: got %+v, want 5 conversations, incomplete", want, summary)
		}
		for why, n := range left {
			if s.LeftOut[why] != n {
				t.Errorf("got left out %v, want %v", s.LeftOut, left)
			}
		}
	}
	f("1 in_band_error (conversation/turn 1/0): overloaded", map[string]int{ErrInBand: 1}, func(p *Point) { p.Records[2].ErrorKind, p.Records[2].Error = ErrInBand, "overloaded" })
	f("1 not_run (conversation/turn 5/1)", map[string]int{ReasonMissing: 1}, func(p *Point) { p.Records = p.Records[:11] })
	f("1 duplicate (conversation/turn 0/0): 2 records", map[string]int{ReasonDuplicate: 1}, func(p *Point) { p.Records = append(p.Records, p.Records[0]) })
	f("1 no_statistics", map[string]int{"no_statistics": 1}, func(p *Point) {
		p.Records[3].Spec = nil
		for i := range p.Records[3].Chunks {
			p.Records[3].Chunks[i].Tokens = 0
		}
	})
	p := gpuPoint(t, "draft_t0_c1.json")
	p.Records = append(p.Records, &Record{Status: 200, SpecMissing: MissingNotMeasured})
	if s, summary := speculationOf(t, p); s.LeftOut[ReasonForeign] != 1 || summary.Incomplete || summary.BlocksExpected != 12 {
		t.Errorf("got %v left out, %+v; want one foreign request and a complete point", s.LeftOut, summary)
	}
	if _, _, err := (Point{}).Files(); err == nil {
		t.Error("an empty point: no error")
	}
}

// TestPointWithoutQuestions takes the conversations from the labels, in the order of their numbers.
func TestPointWithoutQuestions(t *testing.T) {
	p := gpuPoint(t, "draft_t0_c1.json")
	p.Run.Questions, p.Run.Metric = nil, MetricSpecBench
	for _, r := range p.Records {
		r.Labels.Conversation += "0"
		r.Labels.Question, r.Labels.Category = "q"+r.Labels.Conversation, "c"
	}
	slices.Reverse(p.Records)
	convs, failures := p.Conversations(ViewClient)
	if len(failures) > 0 || len(convs) != 6 || string(convs[1].QuestionID) != `"q10"` || convs[5].Index != 5 || len(convs[5].Turns) != 2 {
		t.Errorf("got %d conversations, failures %v", len(convs), failures)
	}
	files, _, err := p.Files()
	if err != nil || files[FileSpecBench] == nil || !bytes.Contains(files[FileAcceptance], []byte(`"q10"`)) {
		t.Errorf("got %d files, %v", len(files), err)
	}
	if _, ok := files[ResponsesFile(MetricSpecBench)]; ok {
		t.Error("a responses file without texts")
	}
}

// TestPointViewsDiffer: steps without drafts pull the client view down, and the file says so.
func TestPointViewsDiffer(t *testing.T) {
	_, p := goldenRecords(t, filepath.Join("testdata", "golden", "specdec_bench", "draftless_steps"))
	s, summary := speculationOf(t, p)
	if s.Steps.Draftless == 0 || s.Turns.WithDraftless == 0 || summary.ServerAL-summary.ClientAL < 0.2 {
		t.Errorf("got %+v, server %v, client %v", s.Steps, summary.ServerAL, summary.ClientAL)
	}
	text := strings.Join(summary.Warnings, "\n")
	if !strings.Contains(text, "had no drafts") || !strings.Contains(text, "the views differ") {
		t.Errorf("got warnings %q", summary.Warnings)
	}
}
