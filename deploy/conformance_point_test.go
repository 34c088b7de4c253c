package deploy

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// realRecord is what these tests read of a line of records.jsonl.
type realRecord struct {
	record
	Schema      string   `json:"schema"`
	Path        string   `json:"path"`
	Stream      bool     `json:"stream"`
	RequestID   string   `json:"x_request_id"`
	SpecMissing string   `json:"spec_missing"`
	ErrorKind   string   `json:"error_kind"`
	SetApart    string   `json:"set_apart"`
	Finish      string   `json:"finish_reason"`
	Injected    []string `json:"injected"`
}

// realPoint is a point of a real client in front of a real server.
type realPoint struct {
	dir     string
	records []realRecord
	spec    speculation
}

// speculation is what these tests read of speculation.json.
type speculation struct {
	Blocks struct {
		Expected int            `json:"expected"`
		Came     int            `json:"came"`
		Missing  map[string]int `json:"missing_by_reason"`
		Sources  map[string]int `json:"client_lengths_by_source"`
	} `json:"statistics_blocks"`
	Turns struct {
		AtEOS  int `json:"ended_at_eos"`
		Merged int `json:"with_merged_events"`
	} `json:"turns"`
	Steps struct {
		Draftless int `json:"draftless_steps"`
	} `json:"steps"`
	Audit struct {
		Verdict string `json:"verdict"`
		Reason  string `json:"reason"`
		Sums    []struct {
			Name   string  `json:"name"`
			Ours   float64 `json:"ours"`
			Server float64 `json:"server"`
		} `json:"sums"`
	} `json:"self_audit"`
	Cross *struct {
		Requests struct {
			Both       int `json:"seen_by_both"`
			Theirs     int `json:"only_in_the_clients_file"`
			Ours       int `json:"only_in_our_records"`
			Failed     int `json:"failed_by_the_client"`
			Unreadable int `json:"unreadable_rows"`
		} `json:"requests"`
		PerRequest []struct {
			Name   string  `json:"name"`
			N      int     `json:"n"`
			Median float64 `json:"median_difference"`
			Worst  float64 `json:"worst_difference"`
			Within bool    `json:"within"`
		} `json:"per_request"`
		Aggregates []struct {
			Theirs string  `json:"clients_name"`
			Ours   float64 `json:"ours"`
			Client float64 `json:"client"`
			Within bool    `json:"within"`
		} `json:"aggregates"`
	} `json:"cross_check"`
	Warnings []string `json:"warnings"`
}

func readRealPoint(t *testing.T, dir string) realPoint {
	t.Helper()
	p := realPoint{dir: dir}
	readJSON(t, filepath.Join(dir, "speculation.json"), &p.spec)
	for _, r := range readRealRecords(t, filepath.Join(dir, "records.jsonl")) {
		if r.SetApart == "" {
			p.records = append(p.records, r)
		}
	}
	return p
}

// readRealRecords reads the records of a file, with or without a run before them.
func readRealRecords(t *testing.T, path string) (out []realRecord) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r realRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(r.Schema, "spectap.record/") {
			out = append(out, r)
		}
	}
	return out
}

// blocks is the number of requests with statistics.
func (p realPoint) blocks() (n int) {
	for _, r := range p.records {
		if r.Spec != nil {
			n++
		}
	}
	return n
}

// complete wants a good record of every turn, with statistics or a reason.
func (p realPoint) complete(t *testing.T, c realClient) {
	t.Helper()
	if want := c.turns * len(conformanceQuestions); len(p.records) != want {
		t.Errorf("got %d requests, want %d", len(p.records), want)
	}
	reasons := map[string]int{}
	for _, r := range p.records {
		if r.ErrorKind != "" || r.Finish == "" || r.Stream != c.stream || r.Completion == 0 {
			t.Errorf("got %+v, want a finished reply, streamed: %v", r, c.stream)
		}
		if r.Spec == nil {
			reasons[r.SpecMissing]++
		}
	}
	blocks := p.spec.Blocks
	if reasons[""] > 0 || fmt.Sprint(reasons) != fmt.Sprint(blocks.Missing) || blocks.Expected != len(p.records) || blocks.Came != p.blocks() {
		t.Errorf("without statistics by reason: %v, speculation.json says %+v of %d records", reasons, blocks, len(p.records))
	}
	if a := p.spec.Audit; a.Verdict != "exact" {
		t.Errorf("got the audit %+v, want exact", a)
	}
}

// agree holds each record against the server's own answer.
func (p realPoint) agree(t *testing.T, replies []wireReply) {
	t.Helper()
	byID := map[string]wireReply{}
	for _, w := range replies {
		byID[w.ID] = w
	}
	for _, r := range p.records {
		w, ok := byID[r.ResponseID]
		var got *wireBlock
		if r.Spec != nil {
			got = &wireBlock{Steps: r.Spec.Steps, Accepted: r.Spec.Accepted, Drafted: r.Spec.Drafted, Histogram: r.Spec.Histogram}
		}
		if !ok || r.Prompt != w.Prompt || r.Completion != w.Completion || !reflect.DeepEqual(got, w.Block) {
			t.Errorf("%q: got %+v of %d and %d tokens, the server answered %+v of %d and %d", r.ResponseID, got, r.Prompt, r.Completion, w.Block, w.Prompt, w.Completion)
		}
	}
}

// crossChecked holds AIPerf's acceptance length against ours by its definition: the
// mean over requests, one without verify steps counts as 1.
func (p realPoint) crossChecked(t *testing.T) {
	t.Helper()
	cross := p.spec.Cross
	if cross == nil {
		t.Fatal("speculation.json has no cross_check")
	}
	if r := cross.Requests; r.Both != len(p.records) || r.Theirs+r.Ours+r.Failed+r.Unreadable != 0 {
		t.Errorf("got %+v, want %d requests that both saw", r, len(p.records))
	}
	for _, row := range cross.PerRequest {
		switch row.Name {
		case "acceptance_length_of_a_request", "output_tokens_by_usage":
			if row.N != len(p.records) || !row.Within || row.Worst > 1e-9 {
				t.Errorf("got %+v, want no difference", row)
			}
		case "ttft", "request_latency": // a busy machine's
			t.Logf("%s: AIPerf's less ours %.4f s at the median, %.4f s at worst", row.Name, row.Median, row.Worst)
		}
	}
	mean, steps, tokens := 0.0, 0.0, 0.0
	for _, r := range p.records {
		length := 1.0
		if r.Spec != nil && r.Spec.Steps > 0 {
			length += float64(r.Spec.Accepted) / float64(r.Spec.Steps)
			steps, tokens = steps+float64(r.Spec.Steps), tokens+float64(r.Spec.Steps+r.Spec.Accepted)
		}
		mean += length / float64(len(p.records))
	}
	var export map[string]json.RawMessage
	readJSON(t, filepath.Join(p.dir, "aiperf", "profile_export_aiperf.json"), &export)
	for name, want := range map[string]float64{"spec_decode_acceptance_length": mean, "spec_decode_token_weighted_acceptance_length": tokens / steps} {
		var figure struct{ Avg float64 }
		if err := json.Unmarshal(export[name], &figure); err != nil {
			t.Fatalf("AIPerf's %s: %v: %s", name, err, export[name])
		}
		if math.Abs(figure.Avg-want) > 1e-9 {
			t.Errorf("AIPerf's %s is %v, by its definition our records give %v", name, figure.Avg, want)
		}
		t.Logf("%s: AIPerf %.6f, our records %.6f", name, figure.Avg, want)
	}
}

// summary is one line of figures.
func (p realPoint) summary(replies []wireReply) string {
	s := wireSums(replies)
	return fmt.Sprintf("%d requests, %d with statistics, without: %v; by the wire, preflight included: drafts %v, drafted %v, accepted %v, by position %v; tokens %v, prompt %v; draft-less steps %d, ended at EOS %d, merged %d, lengths by %v; audit %s; warnings %q",
		len(p.records), p.blocks(), p.spec.Blocks.Missing, s.drafts, s.drafted, s.accepted, s.positions, s.generated, s.prompts,
		p.spec.Steps.Draftless, p.spec.Turns.AtEOS, p.spec.Turns.Merged, p.spec.Blocks.Sources, p.spec.Audit.Verdict, p.spec.Warnings)
}
