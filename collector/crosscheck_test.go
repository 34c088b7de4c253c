package collector

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// aiperfFile reads a file of a real AIPerf 0.13.0 (testdata/aiperf-0.13/README.md).
func aiperfFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "aiperf-0.13", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// aiperfPoint is a point that the real AIPerf drove.
func aiperfPoint(t *testing.T) Point {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "aiperf-0.13", FileRecords))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	points, bad, err := ReadPoints(f)
	if err != nil || len(bad) > 0 || len(points) != 1 {
		t.Fatalf("got %d points, %v, %v", len(points), bad, err)
	}
	export, err := ParseAIPerf(aiperfFile(t, FileAIPerfSummary), aiperfFile(t, FileAIPerfRows))
	if err != nil {
		t.Fatal(err)
	}
	points[0].AIPerf = &export
	return points[0]
}

func TestParseAIPerf(t *testing.T) {
	a := aiperfPoint(t).AIPerf
	if a.Version != "0.13.0" || a.Cancelled || !a.Complete || a.BadRows != 1 || len(a.Rows) != 10 {
		t.Errorf("got %+v, want version 0.13.0, complete, 10 rows and a bad one", a)
	}
	if m := a.Metrics["time_to_first_token"]; m.Unit != "ms" || !(m.Avg > 20 && m.Avg < 100) {
		t.Errorf("got %+v for the mean TTFT", m)
	}
	warm, row, failed := a.Rows[0], a.Rows[1], a.Rows[9]
	if !warm.Warmup || row.Warmup || row.Failed || !failed.Failed {
		t.Errorf("got %+v, %+v, %+v; want warm-up, a good row, a failed one", warm, row, failed)
	}
	if row.ConversationID == "" || row.CorrelationID == "" || len(row.RequestID) != 36 || row.StartUnixNs == 0 {
		t.Errorf("got ids %+v", row)
	}
	if row.TTFT == nil || !(*row.TTFT > 0.02 && *row.TTFT < 0.1) || *row.Latency <= *row.TTFT || *row.UsageTokens != 10 || *row.AcceptanceLength != 2.666666666666667 {
		t.Errorf("got figures %+v", row)
	}
	if failed.TTFT != nil || failed.UsageTokens != nil {
		t.Errorf("got figures of a failed request: %+v", failed)
	}
}

// What is missing, of another type or unknown does not stop the rest from being read.
func TestParseAIPerfTolerates(t *testing.T) {
	a, err := ParseAIPerf([]byte(`{"aiperf_version":"9","new":[1],"x":{"unit":"s","avg":"n"},"y":{"avg":1},"request_count":{"unit":"requests","avg":1,"more":{}}}`),
		[]byte("{\"metadata\":{\"x_request_id\":\"a\",\"new\":{}},\"metrics\":{\"time_to_first_token\":{\"value\":[1],\"unit\":\"ms\"},\"request_latency\":{\"value\":2,\"unit\":\"s\"}},\"error\":null}\n\nnull\n{}\n"))
	if err != nil || len(a.Metrics) != 1 || len(a.Rows) != 1 || a.BadRows != 2 || !a.Complete {
		t.Fatalf("got %+v, %v", a, err)
	}
	if r := a.Rows[0]; r.TTFT != nil || r.Latency == nil || *r.Latency != 2 || r.Failed {
		t.Errorf("got row %+v, want only a latency of 2 s", r)
	}
	if _, err := ParseAIPerf([]byte(`[`), nil); err == nil || !strings.Contains(err.Error(), FileAIPerfSummary) {
		t.Errorf("got %v, want the file named", err)
	}
}

func TestAIPerfFailure(t *testing.T) {
	parse := func(text []byte) AIPerf {
		a, err := ParseAIPerf(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	f := func(text []byte, requests int, want string) {
		t.Helper()
		if got := parse(text).Failure(requests); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(aiperfFile(t, FileAIPerfSummary), 8, "")
	f(aiperfFile(t, FileAIPerfSummary), 10, "AIPerf counts another number of requests: 8 of 10")
	f(aiperfFile(t, "failed_profile_export_aiperf.json"), 8, "AIPerf counts failed requests: 5 of 8 requests good, 3 failed (3 500 Internal Server Error)")
	f([]byte(`{"was_cancelled":true,"is_complete":false}`), 8, "AIPerf was cancelled: 0 of 8")
	f([]byte(`{"is_complete":false}`), 8, "AIPerf says that its run is not complete")
	if got := parse(aiperfFile(t, "failed_profile_export_aiperf.json")).Failure(8); strings.Contains(got, "scripted fault") {
		t.Errorf("the server's message is told: %s", got)
	}
}

// A real run: what both count is equal, AIPerf's times are a little later, and
// its mean acceptance length counts requests without steps as 1.
func TestCrossCheckOfARealRun(t *testing.T) {
	p := aiperfPoint(t)
	files, summary, err := p.Files()
	if err != nil {
		t.Fatal(err)
	}
	var file Speculation
	if err := json.Unmarshal(files[FileSpeculation], &file); err != nil {
		t.Fatal(err)
	}
	c := file.CrossCheck
	if r := c.Requests; r.Both != 8 || r.OnlyClient != 1 || r.OnlyOurs != 0 || r.BadRows != 1 || len(r.Named) != 1 {
		t.Errorf("got %+v, want 8 of both, 1 of AIPerf's and a bad row", r)
	}
	for _, d := range c.PerRequest {
		exact := d.Name == "output_tokens_by_usage" || d.Name == "acceptance_length_of_a_request"
		if d.N != 8 || exact && d.Worst != 0 || !exact && d.Unit == "s" && !(d.Median > 0 && d.Median < 0.05) {
			t.Errorf("got %+v", d)
		}
	}
	i := slices.IndexFunc(c.Aggregates, func(a CrossAggregate) bool { return a.Theirs == "spec_decode_acceptance_length" })
	if a := c.Aggregates[i]; a.Client != 2.375 || a.Ours != 2.375 || !a.Within {
		t.Errorf("got %+v, want 2.375 of both", a)
	}
	i = slices.IndexFunc(c.Aggregates, func(a CrossAggregate) bool { return a.Theirs == "spec_decode_token_weighted_acceptance_length" })
	if a := c.Aggregates[i]; a.Client != 3 || a.Ours != 3 {
		t.Errorf("got %+v, want 3 of both", a)
	}
	if !slices.ContainsFunc(summary.Warnings, func(w string) bool {
		return strings.HasPrefix(w, "aiperf 0.13.0's figures differ from ours") && strings.Contains(w, "1 requests are only in its file (and 1 of its rows cannot be read), 0 only in our records")
	}) {
		t.Errorf("got warnings %q", summary.Warnings)
	}
}

// crossRecords are requests whose figures are round numbers.
func crossRecords(n int) (recs []*Record, rows []AIPerfRow) {
	number := func(v float64) *float64 { return &v }
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range n {
		id := string(rune('a' + i))
		recs = append(recs, &Record{RequestID: id, Start: start, FirstOutput: At(100 * time.Millisecond), Usage: &Usage{CompletionTokens: 10},
			Chunks: []Chunk{{At: 100 * time.Millisecond}, {At: 200 * time.Millisecond}}, Spec: &Spec{Steps: 4, AcceptedTokens: 6}})
		rows = append(rows, AIPerfRow{RequestID: id, StartUnixNs: start.UnixNano() - 1e6, TTFT: number(0.104), Latency: number(0.209),
			OutputTokens: number(9), UsageTokens: number(10), AcceptanceLength: number(2.5)})
	}
	return recs, rows
}

// The medians, worst differences and tolerances, and what is beyond them.
func TestCrossCheckTolerances(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	f := func(change func(recs []*Record, rows []AIPerfRow, a *AIPerf), want ...string) {
		t.Helper()
		recs, rows := crossRecords(5)
		a := &AIPerf{Version: "x", Rows: rows, Metrics: map[string]AIPerfMetric{}}
		change(recs, rows, a)
		timing := TimingResult{OutputTPS: 100, OutputTokens: make([]float64, 5), TTFT: []float64{0.1}, E2E: []float64{0.2}}
		c := Point{Records: recs, AIPerf: a}.crossCheck(timing)
		got := strings.Join(c.warnings(), "\n")
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("got %q, want %q", got, w)
			}
		}
		if len(want) == 0 && got != "" {
			t.Errorf("got %q, want no warning", got)
		}
	}
	none := func([]*Record, []AIPerfRow, *AIPerf) {}
	f(none) // 4 ms later at the first token, 9 ms of 200 ms at the end, 1 token less
	each := func(change func(i int, r *AIPerfRow)) func([]*Record, []AIPerfRow, *AIPerf) {
		return func(_ []*Record, rows []AIPerfRow, _ *AIPerf) {
			for i := range rows {
				change(i, &rows[i])
			}
		}
	}
	f(each(func(_ int, r *AIPerfRow) { r.TTFT = number(0.1055) }), "ttft 5.5 ms at the median and 5.5 ms at worst (tolerated 5.0 ms and 50.0 ms)")
	f(each(func(_ int, r *AIPerfRow) { r.TTFT = number(0.094) }), "ttft -6.0 ms at the median")
	f(each(func(i int, r *AIPerfRow) {
		if i == 3 {
			r.TTFT = number(0.16)
		}
	}), "ttft 4.0 ms at the median and 60.0 ms at worst")
	f(each(func(_ int, r *AIPerfRow) { r.Latency = number(0.2105) }), "request_latency 10.5 ms at the median and 10.5 ms at worst (tolerated 10.0 ms and 100.0 ms)")
	f(each(func(_ int, r *AIPerfRow) { r.OutputTokens = number(7) }), "output_tokens_by_its_tokenizer -3 tokens at the median")
	f(each(func(i int, r *AIPerfRow) {
		if i == 0 {
			r.UsageTokens = number(11)
		}
	}), "output_tokens_by_usage 0 tokens at the median and 1 tokens at worst")
	f(each(func(i int, r *AIPerfRow) {
		if i == 4 {
			r.AcceptanceLength = number(2.4)
		}
	}), "acceptance_length_of_a_request 0 tokens per step at the median and -0.1 tokens per step at worst")
	f(func(recs []*Record, _ []AIPerfRow, _ *AIPerf) { recs[1].RequestID = "ours" }, "1 requests are only in its file", "1 only in our records")
	metric := func(tag, unit string, v float64) func([]*Record, []AIPerfRow, *AIPerf) {
		return func(_ []*Record, _ []AIPerfRow, a *AIPerf) { a.Metrics[tag] = AIPerfMetric{unit, v} }
	}
	f(metric("output_token_throughput", "tokens/sec", 96))
	f(metric("output_token_throughput", "tokens/sec", 94), "output_token_throughput 94 to our 100 (-6.0 %)")
	f(metric("time_to_first_token", "ms", 104.9)) // 5 ms are tolerated of small times
	f(metric("time_to_first_token", "ms", 106), "time_to_first_token 0.106 to our 0.1 (+6.0 %)")
	f(metric("request_latency", "ms", 211), "request_latency 0.211 to our 0.2 (+5.5 %)")
	f(metric("spec_decode_acceptance_length", "ratio", 2.5))
	f(metric("spec_decode_acceptance_length", "ratio", 2.51), "spec_decode_acceptance_length 2.51 to our 2.5")
	f(metric("request_count", "requests", 5))
	f(metric("request_count", "requests", 4), "request_count 4 to our 5")
}

// AIPerf's latency ends with the last text, which an event of EOS alone has none of.
func TestCrossCheckLatencyWithoutEOS(t *testing.T) {
	f := func(name, finish string, lastTokens int, wantN int, wantMedian float64) {
		t.Helper()
		recs, rows := crossRecords(3)
		for _, r := range recs {
			r.Finish = finish
			r.Chunks = append(r.Chunks, Chunk{At: 250 * time.Millisecond, Tokens: lastTokens})
		}
		d := Point{Records: recs, AIPerf: &AIPerf{Rows: rows}}.crossCheck(TimingResult{}).PerRequest[1]
		if d.Name != "request_latency" || d.N != wantN || math.Abs(d.Median-wantMedian) > 1e-9 {
			t.Errorf("%s: got %+v, want n %d and a median of %v s", name, d, wantN, wantMedian)
		}
	}
	f("EOS alone", "stop", 1, 3, 0.009)
	f("EOS after text", "stop", 2, 3, -0.041)
	f("the limit", "length", 1, 3, -0.041)
	f("nobody knows", "stop", 0, 0, 0)
}

// Failed and warm-up requests are in no difference; one without statistics is in no AL.
func TestCrossCheckLeavesOut(t *testing.T) {
	recs, rows := crossRecords(5)
	rows[0].Failed = true
	rows[1].Warmup = true
	recs[2].ErrorKind = ErrTruncated
	recs[3].Spec, rows[3].AcceptanceLength = nil, nil
	c := Point{Records: recs, AIPerf: &AIPerf{Rows: rows}}.crossCheck(TimingResult{})
	if c.Requests.Both != 4 || c.Requests.Failed != 1 || c.Requests.OnlyOurs != 0 {
		t.Errorf("got %+v, want 4 of both, 1 failed", c.Requests)
	}
	for _, d := range c.PerRequest {
		want := 2
		if d.Name == "acceptance_length_of_a_request" {
			want = 1
		}
		if d.N != want {
			t.Errorf("%s is of %d requests, want %d", d.Name, d.N, want)
		}
	}
	if d := c.PerRequest[2]; math.Abs(d.Median-0.001) > 1e-9 || d.Judged || !d.Within {
		t.Errorf("got %+v, want 1 ms to the proxy, not judged", d)
	}
	if (Point{}).crossCheck(TimingResult{}) != nil || (*CrossCheck)(nil).warnings() != nil {
		t.Error("got a cross-check where no other client measured")
	}
}
