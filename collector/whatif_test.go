package collector

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

// capturedPoint are the conversations of a real server all of whose turns have a block.
func capturedPoint(t *testing.T) Point {
	p := gpuPoint(t, "draft_t0_c1.json")
	p.Run.Questions[3].NotAsked = true // one of its turns lost it
	p.Records = slices.DeleteFunc(p.Records, func(r *Record) bool { return r.Labels.Conversation == "3" })
	return p
}

// Figures of the captured lists, by Python: for c in conversations, with L the
// events' counts and h the histograms of its turns,
//
//	client: mean(sum(min(x, k+1) for x in L) / len(L))
//	server: mean(sum(1 + sum((min(j, k)+1)*n for j, n in enumerate(h))) / (turns + sum(h)))
//	tokens a verify step: 1 + sum(n*min(j, k)) / sum(n) of the whole histogram
var (
	capturedWhatIf = [4][3]float64{
		{1.9024079295471974, 1.9045355891216653, 1.9215686274509802},
		{2.713383262370554, 2.7176385815194903, 2.7557932263814617},
		{3.452882726211382, 3.464282079690099, 3.5240641711229945},
		{4.14256346361317, 4.162759743983652, 4.244206773618538},
	}
	capturedMarginal    = []float64{0.921569, 0.834225, 0.768271, 0.720143}
	capturedConditional = []float64{0.921569, 0.905222, 0.92094, 0.937355}
	capturedMean        = 4.244207
)

// A real server's replies (vLLM 0.29, draft model, k = 4), against figures made of
// the captured lists of steps by a few lines of Python: chunk lengths cut at k' + 1,
// pooled by conversation, averaged.
func TestWhatIfOfCapture(t *testing.T) {
	p := capturedPoint(t)
	s, _ := speculationOf(t, p)
	w := s.WhatIf
	if w == nil || w.View != ViewClient || len(w.Lengths) != 4 || w.Drafter != DrafterUnknown || w.Method != "unknown" {
		t.Fatalf("got %+v, want four lengths of an unknown drafter", w)
	}
	for i, want := range capturedWhatIf {
		got := w.Lengths[i]
		if got.DraftLength != i+1 || !close12(got.AverageAL, want[0]) || !close12(got.OtherAL, want[1]) || !close12(got.TokensPerStep, want[2]) {
			t.Errorf("k' = %d: got %+v, want %v", i+1, got, want)
		}
		possibleInterval(t, got)
	}
	last := w.Lengths[3]
	if last.AverageAL != s.Client.AverageAL || *last.Interval != *s.Client.Interval || last.OtherAL != s.Server.AverageAL || last.Kept != 1 || last.TokensPerStep != s.Steps.TokensPerStep {
		t.Errorf("got %+v at the full length, want what was measured: %+v", last, s.Client)
	}
	if g := w.Last; g.Position != 4 || !close12(g.Gain, last.AverageAL-w.Lengths[2].AverageAL) || !g.GainInterval.Known || g.GainInterval.Low <= 0 || g.GainInterval.High-g.GainInterval.Low >= last.Interval.High-last.Interval.Low {
		t.Errorf("got %+v, want a gain that is paired, so its interval is narrower than that of AL", g)
	}
	if w.FewerSteps == nil || *w.FewerSteps != 0 {
		t.Errorf("got %v requests with fewer drafts, want none", w.FewerSteps)
	}
	for _, want := range []string{"position 4 of 4 was accepted in", "more than 4 were not measured", "what a draft costs is not known here"} {
		if !strings.Contains(w.TryNext, want) {
			t.Errorf("got %q, want %q", w.TryNext, want)
		}
	}
	p.Run.Acceptance = ViewServer
	if s, _ := speculationOf(t, p); !close12(s.WhatIf.Lengths[1].AverageAL, capturedWhatIf[1][1]) || !close12(s.WhatIf.Lengths[1].OtherAL, capturedWhatIf[1][0]) || s.WhatIf.View != ViewServer {
		t.Errorf("server view: got %+v", s.WhatIf.Lengths[1])
	}
}

// possibleInterval wants an interval within what so many drafts can bring; five
// conversations have none where a bound would be farther away than they can say.
func possibleInterval(t *testing.T, d ShorterDraft) {
	t.Helper()
	in := d.Interval
	switch {
	case d.DraftLength == 2 && (in != nil || !strings.Contains(d.NoInterval, "n = 5 conversations are too few")):
		t.Errorf("k' = 2: got %+v, want no interval of five conversations", in)
	case d.DraftLength != 2 && (in == nil || in.Low >= d.AverageAL || in.High <= d.AverageAL || in.Low < 1 || in.High > float64(d.DraftLength+1)):
		t.Errorf("k' = %d: got interval %+v around %v", d.DraftLength, in, d.AverageAL)
	}
}

// The same twice has the figures of once, from the pooled parts; a run with another
// acceptance moves them by the half of what it differs by.
func TestWhatIfOfRuns(t *testing.T) {
	p := capturedPoint(t)
	s, _ := speculationOf(t, p)
	f, err := p.RunFigures()
	if err != nil {
		t.Fatal(err)
	}
	all, ok := s.WhatIf.OfRuns(PoolRuns([]RunFigures{f, f}))
	if !ok || len(all.Lengths) != 4 || all.TryNext == "" || all.Drafter != s.WhatIf.Drafter {
		t.Fatalf("got %v: %+v", ok, all)
	}
	for i, want := range capturedWhatIf {
		got := all.Lengths[i]
		if got.DraftLength != i+1 || !close12(got.AverageAL, want[0]) || !close12(got.Kept, want[0]/capturedWhatIf[3][0]) || !close12(got.TokensPerStep, want[2]) {
			t.Errorf("k' = %d: got %+v, want %v", i+1, got, want)
		}
		possibleInterval(t, got)
	}
	one := s.WhatIf.Last
	if g := all.Last; g.Position != 4 || !close12(g.Gain, one.Gain) || !close12(g.Accepted, one.Accepted) || !close12(*g.AfterPrevious, *one.AfterPrevious) || !g.GainInterval.Known || g.GainInterval.Low <= 0 {
		t.Errorf("got %+v, want %+v", g, one)
	}
	other := capturedPoint(t)
	other.Records = slices.Clone(other.Records)
	for i, r := range other.Records { // every chunk of 5 becomes one of 2
		r := *r
		r.Chunks, r.Spec = slices.Clone(r.Chunks), new(*r.Spec)
		r.Spec.Accepted, r.Usage = slices.Clone(r.Spec.Accepted), new(*r.Usage)
		for j := range r.Chunks {
			if r.Chunks[j].Tokens == 5 {
				r.Chunks[j].Tokens = 2
				r.Usage.CompletionTokens -= 3
			}
		}
		h := r.Spec.Accepted
		r.Spec.AcceptedTokens -= 3 * h[4]
		h[1], h[4] = h[1]+h[4], 0
		r.Spec.PerStepAccepted, r.Spec.PerStepDrafted = nil, nil
		other.Records[i] = &r
	}
	so, _ := speculationOf(t, other)
	g, err := other.RunFigures()
	if err != nil {
		t.Fatal(err)
	}
	all, ok = s.WhatIf.OfRuns(PoolRuns([]RunFigures{f, g}))
	if !ok || so.WhatIf.Last.Gain != 0 || !close12(all.Last.Gain, one.Gain/2) || !close12(all.Lengths[2].AverageAL, (s.WhatIf.Lengths[2].AverageAL+so.WhatIf.Lengths[2].AverageAL)/2) || all.Last.GainInterval.Known || !strings.Contains(all.Last.GainInterval.Reason, "all that is possible") {
		t.Errorf("got %v: %+v of %+v and %+v", ok, all, s.WhatIf, so.WhatIf)
	}
	if _, ok := s.WhatIf.OfRuns(PoolRuns([]RunFigures{{}, {}})); ok {
		t.Error("got figures of runs that have none")
	}
}

func close12(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(b) }

// By hand: two steps that accepted 3, one that accepted 0, a prefill, two steps
// without drafts, and a reply whose last step of 4 was cut to 2.
func TestWhatIfByHand(t *testing.T) {
	p := loadOf(1)
	r := recordOf(0, 0, 0, 6, 10)
	r.Chunks = r.Chunks[:6]
	for i, n := range []int{1, 4, 1, 1, 1, 2} { // prefill, 3 accepted, none, two without drafts, 3 accepted of which 1 is left
		r.Chunks[i].Tokens = n
	}
	r.Spec, r.SpecMissing = &Spec{Accepted: []int{1, 0, 0, 2}, Steps: 3, AcceptedTokens: 6, DraftedTokens: 8, DraftLength: 3}, ""
	p.Records = []*Record{r}
	s, _ := speculationOf(t, p)
	w := s.WhatIf
	for i, want := range [][3]float64{
		{(1 + 2 + 1 + 1 + 1 + 2) / 6., (1 + 2 + 1 + 2) / 4., (2 + 1 + 2) / 3.},
		{(1 + 3 + 1 + 1 + 1 + 2) / 6., (1 + 3 + 1 + 3) / 4., (3 + 1 + 3) / 3.},
		{(1 + 4 + 1 + 1 + 1 + 2) / 6., (1 + 4 + 1 + 4) / 4., (4 + 1 + 4) / 3.},
	} {
		if got := w.Lengths[i]; !close12(got.AverageAL, want[0]) || !close12(got.OtherAL, want[1]) || !close12(got.TokensPerStep, want[2]) {
			t.Errorf("k' = %d: got %+v, want %v", i+1, got, want)
		}
	}
	if w.FewerSteps == nil || *w.FewerSteps != 1 {
		t.Errorf("got %v, want one request with 8 drafts in 3 steps of 3", w.FewerSteps)
	}
	if w.Lengths[0].Interval != nil || w.Lengths[0].NoInterval != "fewer than two conversations" || w.Last.GainInterval.Known {
		t.Errorf("got %+v, want no interval of one conversation", w.Lengths[0])
	}
}

// A short draft that keeps nearly all is named; without a verify step there is nothing to say.
func TestWhatIfTryNext(t *testing.T) {
	p := loadOf(1)
	for i := range 3 {
		r := recordOf(float64(i), 0, float64(100*i), float64(100*i+99), 99)
		for j := range r.Chunks {
			r.Chunks[j].Tokens = 1
		}
		r.Chunks[5].Tokens = 2 + i%2
		r.Usage.CompletionTokens += 1 + i%2
		hist := []int{97, 1 - i%2, i % 2, 0, 0, 0}
		r.Spec, r.SpecMissing = &Spec{Accepted: hist, Steps: 98, AcceptedTokens: 1 + i%2, DraftedTokens: 5 * 98, DraftLength: 5}, ""
		p.Records = append(p.Records, r)
	}
	s, _ := speculationOf(t, p)
	if got := s.WhatIf.TryNext; !strings.Contains(got, "position 5 of 5 was accepted in 0.0 %") || !strings.Contains(got, "1 drafts keep 99.7 % of it, so 1 is worth a measurement") || strings.Contains(got, "more than 5") {
		t.Errorf("got %q", got)
	}
	if s.WhatIf.Last.AfterPrevious != nil {
		t.Errorf("got %v, want nothing where position 4 was never accepted", *s.WhatIf.Last.AfterPrevious)
	}
	for _, r := range p.Records {
		r.Spec, r.SpecMissing = nil, MissingNotReported
	}
	if files, _, err := p.Files(); err != nil || files[FileProfile] != nil || strings.Contains(string(files[FileSpeculation]), "what_if") {
		t.Errorf("got %v, %s; want no profile without a verify step", err, files[FileProfile])
	}
}

// The profile of the capture has the rates that Python made of the per-step lists.
func TestProfileOfCapture(t *testing.T) {
	p := capturedPoint(t)
	p.Run.Model, p.Run.Dataset, p.Run.Temperature = "/mnt/models/org/target", "mtbench", 0
	p.Run.Configuration = json.RawMessage(`{"serving_config": {"command": ["vllm", "serve", "m", "--speculative-config", "{\"method\": \"draft_model\", \"model\": \"/x/org/draft\", \"num_speculative_tokens\": 4}"]}}`)
	files, _, err := p.Files()
	if err != nil {
		t.Fatal(err)
	}
	var got Profile
	if err := json.Unmarshal(files[FileProfile], &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Marginal, capturedMarginal) || !slices.Equal(got.Conditional, capturedConditional) || got.MeanLength != capturedMean {
		t.Errorf("got %v, %v, %v", got.Marginal, got.Conditional, got.MeanLength)
	}
	if got.SchemaVersion != "1.0" || !got.Measured || *got.Method != "draft_model" || got.Model != "chain_analytic" || got.DraftLength != 4 || got.Verification != "longest_prefix" ||
		*got.Target != (ProfileModel{"org/target"}) || *got.Draft != (ProfileModel{"org/draft"}) || !got.Validation.Mean.Passed || !got.Validation.Monotone.Passed || len(got.ByK) != 1 {
		t.Errorf("got %s", files[FileProfile])
	}
	if strings.Contains(string(files[FileProfile]), "/mnt") || strings.Contains(string(files[FileProfile]), "/x/") {
		t.Errorf("a path of the machine is in %s", files[FileProfile])
	}
	var keys map[string]json.RawMessage // those of build_profile, all of them
	if err := json.Unmarshal(files[FileProfile], &keys); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields(`schema_version measured method draft_checkpoint target_model num_speculative_tokens block_size max_supported_k
		verification_method conditional_accept_rates marginal_accept_rates mean_accept_length mean_accept_length_per_request accept_length_model
		accept_length_by_k acceptance_length_histogram per_category measurement_conditions validation`) {
		if _, ok := keys[key]; !ok {
			t.Errorf("the schema's %s is missing", key)
		}
		delete(keys, key)
	}
	if len(keys) > 0 {
		t.Errorf("the schema does not know %v", keys)
	}
}

func TestDrafter(t *testing.T) {
	f := func(command, method, kind string) {
		t.Helper()
		words, _ := json.Marshal(strings.Split(command, "|"))
		r := Run{Configuration: json.RawMessage(`{"serving_config": {"command": ` + string(words) + `}}`)}
		if m, k := r.drafter(); m != method || k != kind {
			t.Errorf("%s: got %q, %q; want %q, %q", command, m, k, method, kind)
		}
	}
	f(`vllm|serve|m|--speculative-config|{"method": "eagle3", "num_speculative_tokens": 3}`, "eagle3", DrafterChain)
	f(`vllm|serve|m|--speculative_config={"method": "dflash"}`, "dflash", DrafterBlock)
	f(`vllm|serve|m|--speculative-config.method|ngram|--port|1`, "ngram", DrafterChain)
	f(`vllm|serve|m|-sc|{"method": "eagle", "parallel_drafting": true}`, "eagle", DrafterBlock)
	f(`vllm|serve|m|--speculative-config|{"method": "deepseek_mtp"}`, "deepseek_mtp", DrafterChain)
	f(`vllm|serve|m|--speculative-config|{"method": "suffix"}`, "suffix", DrafterUnknown)
	f(`vllm|serve|m|--speculative-config|not json`, "", DrafterUnknown)
	f(`vllm|serve|m|--speculative-config`, "", DrafterUnknown)
	if m, k := (Run{}).drafter(); m != "" || k != DrafterUnknown {
		t.Errorf("got %q, %q of a run without a configuration", m, k)
	}
}

// A shorter draft is named from 98 % of AL on, a longer one where at least half of the
// drafts that reach the last position are accepted.
func TestToTryNext(t *testing.T) {
	const shorter, longer = "is worth a measurement", "more than 2 were not measured"
	f := func(kept, after float64, wantShorter, wantLonger bool) {
		t.Helper()
		w := WhatIf{Lengths: []ShorterDraft{{DraftLength: 1, Kept: kept}, {DraftLength: 2, Kept: 1}}, Last: LastPosition{Position: 2, AfterPrevious: &after}}
		got := w.toTryNext()
		if strings.Contains(got, shorter) != wantShorter || strings.Contains(got, longer) != wantLonger {
			t.Errorf("kept %v, accepted %v: got %q", kept, after, got)
		}
	}
	f(0.98, 0.49, true, false)
	f(0.979, 0.5, false, true)
}

// The schema's checks fail where the rates do not make the mean, or rise.
func TestProfileCheckFails(t *testing.T) {
	f := func(mean float64, marginal []float64, wantMean, wantMonotone bool) {
		t.Helper()
		p := Profile{MeanLength: mean, Marginal: marginal}
		p.check()
		if v := p.Validation; v.Mean.Passed != wantMean || v.Monotone.Passed != wantMonotone {
			t.Errorf("mean %v, marginal rates %v: got %+v", mean, marginal, v)
		}
	}
	f(1.9, []float64{0.6, 0.3}, true, true)
	f(1.93, []float64{0.6, 0.3}, false, true)
	f(1.9, []float64{0.3, 0.6}, true, false)
	f(1.6, []float64{0.3, 0.3}, true, true)
}
