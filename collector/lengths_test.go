package collector

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// record makes the Record of a captured turn.
func (c capturedTurn) record(start time.Time) *Record {
	r := &Record{
		Start: start, UpstreamWritten: At(0), Method: "POST", Stream: true, Status: 200, SawDone: true, Finish: c.Finish,
		Usage: &Usage{PromptTokens: 10, CompletionTokens: c.Completion},
	}
	if text := string(c.StopReason); text != "" && text != "null" {
		r.StopReason = "token:" + text
	}
	for i, n := range c.Counts {
		at := time.Duration(i+1) * 10 * time.Millisecond
		if i < len(c.Micros) {
			at = time.Duration(c.Micros[i]) * time.Microsecond
		}
		r.Chunks = append(r.Chunks, Chunk{At: at, Tokens: n})
	}
	if c.Spec == nil {
		r.SpecMissing = MissingNotReported
		return r
	}
	r.Spec = &Spec{
		Engine: "vllm", Accepted: c.Spec.Accepted, Steps: c.Spec.Steps, AcceptedTokens: c.Spec.Tokens, DraftedTokens: c.Spec.Drafted,
		DraftLength: c.Spec.DraftLength, PerStepAccepted: c.Spec.PerStep, PerStepDrafted: c.Spec.PerStepDraf,
	}
	return r
}

// gpuPoint is a point of a real server that lost blocks (captures of vLLM 0.29.0 on an H200).
func gpuPoint(t *testing.T, name string) Point {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "vllm-0.29-gpu", name))
	if err != nil {
		t.Fatal(err)
	}
	var convs [][]capturedTurn
	if err := json.Unmarshal(text, &convs); err != nil {
		t.Fatal(err)
	}
	p := Point{Run: Run{Point: "t0_c1", Metric: MetricMTBench, GPUs: 1, Concurrency: 1, Seed: 1}}
	start := time.Unix(1796008942, 0)
	for i, turns := range convs {
		p.Run.Questions = append(p.Run.Questions, Question{ID: json.RawMessage("81"), Turns: len(turns)})
		for j, c := range turns {
			r := c.record(start)
			start = start.Add(r.Chunks[len(r.Chunks)-1].At + time.Millisecond)
			r.Labels = Labels{Conversation: string(rune('0' + i)), Turn: j, HasTurn: true}
			p.Records = append(p.Records, r)
		}
	}
	return p
}

// TestLengthsOfGPUCapture holds a real server's detailed per-step lists against
// the lengths, and what is done for the turns that lost their block.
func TestLengthsOfGPUCapture(t *testing.T) {
	f := func(name string, wantSplit int) {
		t.Helper()
		p := gpuPoint(t, name)
		rules := p.LengthRules()
		if rules.DraftLength != 4 || !rules.BlocksReported {
			t.Fatalf("got rules %+v, want k 4 and blocks", rules)
		}
		split := 0
		for i, r := range p.Records {
			got, err := rules.ClientLengths(r)
			if err != nil {
				t.Fatal(err)
			}
			total := 0
			for _, n := range got.Lengths {
				total += n
			}
			if r.Spec == nil {
				split++
				if got.Source != SourceSplit || len(got.Lengths) != len(r.Chunks)+1 || total != r.Usage.CompletionTokens || slices.Max(got.Lengths) > 5 {
					t.Errorf("%s turn %d: got %s, %d lengths of %d tokens", name, i, got.Source, len(got.Lengths), total)
				}
				continue
			}
			want := []int{1} // the prefill's token, then each step of the detailed list, the last one cut
			for _, accepted := range r.Spec.PerStepAccepted {
				want = append(want, accepted+1)
			}
			want[len(want)-1] -= got.CutTokens
			if got.Source != SourceExact || got.DraftlessSteps != 0 || !slices.Equal(got.Lengths, want) {
				t.Errorf("%s turn %d: got %+v, want exact %v", name, i, got, want)
			}
		}
		if split != wantSplit {
			t.Errorf("%s: got %d turns without a block, want %d", name, split, wantSplit)
		}
	}
	f("draft_t0_c1.json", 1)
	f("draft_t1_c1.json", 8)
}

// goldenRecords makes the Records that a golden case would have been measured as.
func goldenRecords(t *testing.T, dir string) (goldenRun, Point) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "input.json"))
	if err != nil {
		t.Fatal(err)
	}
	var run goldenRun
	if err := json.Unmarshal(text, &run); err != nil {
		t.Fatal(err)
	}
	p := Point{Run: Run{Point: "t0_c1", Metric: run.Metric, GPUs: run.GPUs, IgnoreEOS: run.IgnoreEOS, Postprocess: "base"}}
	for i, q := range run.Requests {
		question := Question{ID: q.QuestionID, Turns: len(q.Turns)}
		if idText(q.Category) != "null" {
			question.Category = idKey(q.Category)
		}
		if q.System != nil {
			question.System = *q.System
		}
		p.Run.Questions = append(p.Run.Questions, question)
		for j, turn := range q.Turns {
			c := capturedTurn{Completion: turn.CompletionTokens, Finish: turn.FinishReason, StopReason: turn.StopReason}
			seen := 0
			for k, n := range turn.Counts {
				c.Counts = append(c.Counts, n-seen)
				c.Micros = append(c.Micros, int((turn.Arrivals[k]-turn.Start)*1e6+0.5))
				seen = n
			}
			r := c.record(time.UnixMicro(int64(turn.Start*1e6 + 0.5)))
			r.Labels = Labels{Conversation: jsonInt(i), Turn: j, HasTurn: true}
			r.Prompt, r.Reply, r.SpecMissing = turn.Prompt, turn.Reply, ""
			r.Spec = &Spec{Engine: "vllm", Accepted: turn.Server.Histogram}
			p.Records = append(p.Records, r)
		}
	}
	return run, p
}

func jsonInt(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// TestClientLengthsOfGolden: the identity finds every turn of every case exact,
// and equal to what specdec_bench's wrapper makes of the stream.
func TestClientLengthsOfGolden(t *testing.T) {
	for _, dir := range goldenCases(t, filepath.Join("testdata", "golden")) {
		run, p := goldenRecords(t, dir)
		rules, n, blocks := p.LengthRules(), 0, 0
		for _, q := range run.Requests {
			for _, turn := range q.Turns {
				got, err := rules.ClientLengths(p.Records[n])
				n++
				if err != nil {
					t.Fatal(err)
				}
				if filepath.Base(dir) == "coalesced" && got.Source == SourceSums {
					blocks++
					if !got.Merged || !slices.Equal(got.Lengths, HistogramLengths(turn.Server.Histogram)) {
						t.Errorf("%s: got %+v, want the block's lengths, marked as merged", dir, got)
					}
					continue
				}
				if got.Source != SourceExact || !slices.Equal(got.Lengths, turn.ChunkLengths) {
					t.Errorf("%s: got %s %v, want exact %v", dir, got.Source, got.Lengths, turn.ChunkLengths)
				}
			}
		}
		if filepath.Base(dir) == "coalesced" && blocks == 0 {
			t.Errorf("%s: no turn's merged events were noticed", dir)
		}
	}
}

// TestClientLengthsProperty builds a turn step by step, cuts its end, and asks for it back.
func TestClientLengthsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 8).Draw(t, "k")
		steps := rapid.SliceOfN(rapid.IntRange(-1, k), 0, 40).Draw(t, "accepted, or -1 without drafts")
		hist, counts, draftless := make([]int, k+1), []int{1}, 0
		for _, a := range steps {
			if a < 0 {
				draftless++
				counts = append(counts, 1)
				continue
			}
			hist[a]++
			counts = append(counts, a+1)
		}
		last := len(counts) - 1
		cut := rapid.IntRange(0, counts[last]-1).Draw(t, "cut")
		counts[last] -= cut
		eos := rapid.Bool().Draw(t, "ended at EOS")
		c := capturedTurn{Counts: slices.Clone(counts), Finish: "length"}
		if eos {
			c.Finish = "stop"
		}
		r := c.record(time.Time{})
		cumulative, arrivals := []int{}, make([]float64, len(counts))
		for _, n := range counts {
			r.Usage.CompletionTokens += n
			cumulative = append(cumulative, r.Usage.CompletionTokens)
		}
		r.Spec, r.SpecMissing = &Spec{Accepted: hist, DraftLength: k}, ""
		got, err := LengthRules{DraftLength: k}.ClientLengths(r)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := streamChunks(cumulative, 0, arrivals, eos)
		if got.Source != SourceExact || got.DraftlessSteps != draftless || got.CutTokens != cut || !slices.Equal(got.Lengths, want) {
			t.Fatalf("got %+v, want exact %v, %d draft-less, %d cut", got, want, draftless, cut)
		}
		server, err := LengthRules{}.ServerLengths(r)
		if err != nil || !slices.Equal(server.Lengths, HistogramLengths(hist)) {
			t.Fatalf("got %v, %v in the server's view, want those of %v", server.Lengths, err, hist)
		}
	})
}

func TestClientLengthsCases(t *testing.T) {
	reported := LengthRules{DraftLength: 4, BlocksReported: true}
	f := func(rules LengthRules, change func(*Record), counts []int, want TurnLengths) {
		t.Helper()
		c := capturedTurn{Counts: counts, Finish: "length"}
		for _, n := range counts {
			c.Completion += n
		}
		r := c.record(time.Time{})
		change(r)
		got, err := rules.ClientLengths(r)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Lengths, want.Lengths) || got.Source != want.Source || got.Merged != want.Merged || got.EOSEnded != want.EOSEnded ||
			got.DraftlessSteps != want.DraftlessSteps || got.CutTokens != want.CutTokens {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	same := func(*Record) {}
	stop := func(r *Record) { r.Finish = "stop" }
	f(reported, same, []int{1, 3, 6}, TurnLengths{Lengths: []int{1, 3, 5, 1}, Source: SourceSplit})    // above k+1
	f(reported, same, []int{1, 3, 8}, TurnLengths{Lengths: []int{1, 3, 5, 3}, Source: SourceSplit})    // more than one above
	f(reported, same, []int{1, 3, 4}, TurnLengths{Lengths: []int{1, 3, 3, 1}, Source: SourceSplit})    // not above
	f(reported, same, []int{1, 3, 1}, TurnLengths{Lengths: []int{1, 3, 1}, Source: SourceEvents})      // nothing to split
	f(LengthRules{}, same, []int{1, 3, 6}, TurnLengths{Lengths: []int{1, 3, 6}, Source: SourceEvents}) // a server without blocks
	f(LengthRules{DraftLength: 4}, same, []int{1, 6}, TurnLengths{Lengths: []int{1, 6}, Source: SourceEvents, Merged: true})
	f(reported, stop, []int{1, 3, 2}, TurnLengths{Lengths: []int{1, 3, 1}, Source: SourceSplit, EOSEnded: true}) // EOS alone in the second part
	f(reported, func(r *Record) { r.SpecMissing = MissingStopString; r.Finish, r.StopReason = "stop", "string" }, []int{1, 3, 2},
		TurnLengths{Lengths: []int{1, 3, 2}, Source: SourceEvents}) // the engine dropped the block for another reason
	f(reported, func(r *Record) {
		stop(r)
		r.SamplingSent = map[string]json.RawMessage{"ignore_eos": json.RawMessage("true")}
	}, []int{1, 1},
		TurnLengths{Lengths: []int{1, 1}, Source: SourceEvents})
	block := func(r *Record) { r.Spec, r.SpecMissing = &Spec{Accepted: []int{1, 0, 2}}, "" }
	f(reported, func(r *Record) { block(r); r.Chunks, r.Usage.CompletionTokens = nil, 7 }, []int{1, 1},
		TurnLengths{Lengths: []int{1, 1, 2, 3}, Source: SourceSums, CutTokens: 1}) // no counts
	f(reported, func(r *Record) { block(r); r.Stream = false }, []int{9},
		TurnLengths{Lengths: []int{1, 1, 1, 3, 3}, Source: SourceSums, DraftlessSteps: 1}) // one body
	f(reported, block, []int{1, 4, 3}, TurnLengths{Lengths: []int{1, 1, 3, 3}, Source: SourceSums, Merged: true})                                                                                   // merged
	f(reported, func(r *Record) { block(r); r.Usage.CompletionTokens++ }, []int{1, 3, 1, 3}, TurnLengths{Lengths: []int{1, 1, 1, 3, 3}, Source: SourceSums, Merged: true, DraftlessSteps: 1})       // a count is missing
	f(reported, func(r *Record) { block(r); r.Usage.CompletionTokens = 10 }, []int{1, 2, 1, 6}, TurnLengths{Lengths: []int{1, 1, 1, 1, 3, 3}, Source: SourceSums, Merged: true, DraftlessSteps: 2}) // steps without drafts that were merged
	f(reported, func(r *Record) { block(r); r.Usage = nil }, []int{1, 1, 6}, TurnLengths{Lengths: []int{1, 1, 3, 3}, Source: SourceBlock, Merged: true})                                            // nobody said the tokens
	for _, r := range []*Record{{}, {Stream: true, Chunks: []Chunk{{}}}, {Stream: true, Chunks: []Chunk{{Tokens: 1, Choice: 1}}}} {
		if got, err := reported.ClientLengths(r); err == nil {
			t.Errorf("%+v: got %+v, want an error", r, got)
		}
	}
}
