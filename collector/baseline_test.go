package collector

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// baselineOf makes a baseline of a golden case: the same times and tokens, no statistics.
func baselineOf(t *testing.T, dir string) Point {
	t.Helper()
	_, p := goldenRecords(t, dir)
	p.Run.Baseline, p.Run.NoSpecStats = true, true
	p.Run.Before, p.Run.After = nil, nil
	for _, r := range p.Records {
		r.Spec, r.SpecMissing = nil, MissingNotReported
	}
	return p
}

// A baseline has the timing.json that specdec_bench writes for the same streams,
// whatever their tokens an event, and its responses; it has neither
// acceptance_rate.json nor an acceptance length anywhere.
func TestBaselineOfGolden(t *testing.T) {
	for _, name := range []string{"mtbench_23", "specbench_mixed", "generic", "one_chunk_each"} {
		dir := filepath.Join("testdata", "golden", "specdec_bench", name)
		files, row, err := baselineOf(t, dir).Files()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		compareTimingNumbers(t, files[FileTiming], dir)
		names := slices.Sorted(maps.Keys(files))
		if len(names) != 4 || !slices.Contains(names, FileSpeculation) || !slices.Contains(names, FilePerformance) || slices.Contains(names, FileAcceptance) {
			t.Errorf("%s: got files %v, want timing, performance, speculation and responses", name, names)
		}
		text, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{files[FileSpeculation], text} {
			for _, word := range []string{"_al\"", "client_view", "histogram", "draft", "acceptance", "eos", "tokens_cut"} {
				if bytes.Contains(text, []byte(word)) {
					t.Errorf("%s: a baseline says %s:\n%s", name, word, text)
				}
			}
			if !bytes.Contains(bytes.ReplaceAll(text, []byte(" "), nil), []byte(`"baseline":true`)) || !bytes.Contains(text, []byte("ttft_mean_s")) {
				t.Errorf("%s: want baseline and times:\n%s", name, text)
			}
		}
		if !row.Baseline || row.AverageAL != 0 || row.OutputTPS <= 0 || row.Requests == 0 {
			t.Errorf("%s: got row %+v", name, row)
		}
	}
}

// A baseline's requests are held against the server's counters; drafts there, or
// blocks, mean that it is none, and events of several tokens make it doubtful.
func TestBaselineAudit(t *testing.T) {
	f := func(change func(p *Point), verdict string, want ...string) {
		t.Helper()
		p := baselineOf(t, filepath.Join("testdata", "golden", "specdec_bench", "one_chunk_each"))
		p.Run.Before, p.Run.After = &Counters{}, &Counters{RequestsFinished: float64(len(p.Records))}
		change(&p)
		_, row, err := p.Files()
		if err != nil {
			t.Fatal(err)
		}
		if row.Audit != verdict {
			t.Errorf("got audit %s, want %s", row.Audit, verdict)
		}
		got := strings.Join(row.Warnings, "\n")
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("got warnings %q, want %q", got, w)
			}
		}
		if len(want) == 0 && len(row.Warnings) > 0 {
			t.Errorf("got warnings %q, want none", row.Warnings)
		}
	}
	f(func(*Point) {}, AuditExact)
	f(func(p *Point) { p.Run.After.RequestsFinished++ }, AuditForeign, "the server finished 6 requests, 5 of them ours")
	f(func(p *Point) { p.Run.After.RequestsFinished-- }, AuditDiffers, "the server finished 4 requests, we saw 5")
	f(func(p *Point) { p.Run.After.Drafts, p.Run.After.HasSpec = 7, true }, AuditExact, "no baseline: the server made 7 drafts")
	f(func(p *Point) { p.Records[0].Spec = &Spec{Accepted: []int{1}, Steps: 1} }, AuditExact, "no baseline: 1 of 5 requests came with statistics")
	f(func(p *Point) { p.Records[0].Chunks[0].Tokens, p.Records[0].Usage.CompletionTokens = 3, 3 }, AuditExact, "events brought 1.40 tokens on the average")
	f(func(p *Point) { p.Run.Before, p.Run.After = nil, nil }, AuditNone)
}

// A turn whose tokens nobody said takes its conversation with it.
func TestBaselineWithoutTokens(t *testing.T) {
	p := baselineOf(t, filepath.Join("testdata", "golden", "specdec_bench", "mtbench_23"))
	p.Records[3].Usage = nil
	for i := range p.Records[3].Chunks {
		p.Records[3].Chunks[i].Tokens = 0
	}
	if _, _, err := p.Files(); err == nil || !strings.Contains(err.Error(), reasonNoTokens) {
		t.Errorf("got %v, want %s", err, reasonNoTokens)
	}
	p.Lenient = true
	if _, row, err := p.Files(); err != nil || row.LeftOut[reasonNoTokens] != 1 || !row.Incomplete {
		t.Errorf("got %+v, %v", row, err)
	}
}
