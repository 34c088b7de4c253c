package collector

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Profile is speculation_profile.json, schema 1.0 of NVIDIA Model-Optimizer's
// specdec_bench (pull request 2247, speculation_profile.py): how good a drafter is,
// as simulators take it. Dynamo's mocker and AIConfigurator want the conditional
// rates (--aic-nextn-accept-rates), vLLM's synthetic rejection sampling the marginal
// ones (synthetic_acceptance_rates), SGLang's simulator the mean
// (SGLANG_SIMULATE_ACC_LEN).
//
// They draw one length for each verify step, so the rates here are of verify steps
// alone: the histogram that describes the point, without the prefill's token, which
// specdec_bench's own profile counts as a step that accepted nothing.
type Profile struct {
	SchemaVersion string         `json:"schema_version"`
	Measured      bool           `json:"measured"`
	Method        *string        `json:"method"`
	Draft         *ProfileModel  `json:"draft_checkpoint"`
	Target        *ProfileModel  `json:"target_model"`
	DraftLength   int            `json:"num_speculative_tokens"`
	BlockSize     *int           `json:"block_size"`
	MaxK          int            `json:"max_supported_k"` // none is known above what was measured
	Verification  string         `json:"verification_method"`
	Conditional   []float64      `json:"conditional_accept_rates"` // draft i+1 accepted where the i before it were
	Marginal      []float64      `json:"marginal_accept_rates"`    // the first i+1 drafts all accepted, of all verify steps
	MeanLength    float64        `json:"mean_accept_length"`       // tokens of a verify step, the target's own one included
	MeanByRequest float64        `json:"mean_accept_length_per_request"`
	Model         string         `json:"accept_length_model"`
	ByK           map[string]any `json:"accept_length_by_k"` // as measured: no extrapolation
	Histogram     map[string]int `json:"acceptance_length_histogram"`
	PerCategory   any            `json:"per_category"`
	Conditions    ProfileOf      `json:"measurement_conditions"`
	Validation    ProfileCheck   `json:"validation"`
}

// ProfileModel names a model by the last two parts of its path.
type ProfileModel struct {
	ID string `json:"id"`
}

// ProfileOf says what was measured.
type ProfileOf struct {
	Tool          string  `json:"tool"`
	Dataset       string  `json:"dataset"`
	Temperature   float64 `json:"temperature"`
	Concurrency   int     `json:"concurrency"`
	Engine        string  `json:"engine"`
	EngineVersion string  `json:"engine_version"`
	Conversations int     `json:"conversations"`
	Steps         int     `json:"verify_steps"`
	Draftless     float64 `json:"decode_steps_without_drafts_share"` // a simulator that drafts in every step does not know them
	Source        string  `json:"histogram_source"`
	FewerDrafts   *int    `json:"requests_with_fewer_drafts"` // whose steps count as if their missing drafts had been rejected
	PerRequest    string  `json:"mean_accept_length_per_request_is"`
}

// ProfileCheck are the checks that the schema asks for.
type ProfileCheck struct {
	Mean struct {
		Implied   float64 `json:"implied_mean_accept_length"`
		Reported  float64 `json:"reported_mean_accept_length"`
		Delta     float64 `json:"abs_delta"`
		Tolerance float64 `json:"tolerance"`
		Passed    bool    `json:"passed"`
	} `json:"mean_consistency"`
	Monotone struct {
		Passed     bool  `json:"passed"`
		Violations []any `json:"violations"`
	} `json:"marginal_monotonicity"`
}

// profile makes the file's content; nil where no step verified a draft.
func (p Point) profile(spec Speculation, w *WhatIf) *Profile {
	if w == nil {
		return nil
	}
	hist := spec.Accepted.describing()
	steps, tokens := histogramSums(hist)
	f := &Profile{
		SchemaVersion: "1.0", Measured: true, Target: profileModel(p.Run.Model), DraftLength: len(w.Lengths), MaxK: len(w.Lengths),
		Draft: profileModel(p.Run.speculative().Model), Verification: "longest_prefix", Histogram: map[string]int{}, MeanLength: rounded(float64(tokens) / float64(steps)),
		MeanByRequest: rounded(spec.AL().AverageAL), Model: "measured_per_k",
		Conditions: ProfileOf{
			Tool: "spectap", Dataset: p.Run.Dataset, Temperature: p.Run.Temperature, Concurrency: p.Run.Concurrency, Engine: p.Run.Engine,
			EngineVersion: p.Run.EngineVersion, Conversations: spec.Client.Conversations, Steps: steps, Draftless: spec.Steps.DraftlessPart,
			Source: spec.Accepted.Source, FewerDrafts: w.FewerSteps, PerRequest: "Average_AL of acceptance_rate.json, " + w.View + " view",
		},
	}
	if w.Method != "" {
		f.Method = &w.Method
	}
	if w.Drafter == DrafterChain {
		f.Model = "chain_analytic"
	}
	above := tails(hist)
	before := 1.0
	for i := range f.DraftLength {
		marginal := 0.0
		if i < len(above) {
			marginal = share(above[i], steps)
		}
		conditional := 0.0
		if before > 0 {
			conditional = marginal / before
		}
		f.Marginal, f.Conditional = append(f.Marginal, rounded(marginal)), append(f.Conditional, rounded(conditional))
		before = marginal
	}
	for j, n := range hist {
		if n > 0 {
			f.Histogram[strconv.Itoa(j+1)] = n
		}
	}
	f.ByK = map[string]any{strconv.Itoa(f.DraftLength): f.MeanLength}
	f.check()
	return f
}

// check fills Validation: 1 + the sum of the marginal rates is the mean, and they never rise.
func (f *Profile) check() {
	m := &f.Validation.Mean
	m.Implied, m.Reported, m.Tolerance = 1, f.MeanLength, 0.02
	for _, v := range f.Marginal {
		m.Implied += v
	}
	m.Implied = rounded(m.Implied)
	m.Delta = rounded(math.Abs(m.Implied - m.Reported))
	m.Passed = m.Delta <= m.Tolerance
	f.Validation.Monotone.Passed = slices.IsSortedFunc(f.Marginal, func(a, b float64) int { return cmp.Compare(b, a) })
	f.Validation.Monotone.Violations = []any{}
}

// rounded keeps six decimals, as the schema's other producers do.
func rounded(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// profileModel names a model for a file that may be published: no path of a machine.
func profileModel(name string) *ProfileModel {
	parts := strings.FieldsFunc(strings.ReplaceAll(name, "\\", "/"), func(r rune) bool { return r == '/' })
	if len(parts) == 0 {
		return nil
	}
	return &ProfileModel{ID: strings.Join(parts[max(0, len(parts)-2):], "/")}
}

// describing is the histogram that describes the whole point.
func (h PointHistogram) describing() []int {
	if h.Source == "counters" {
		return h.Counters
	}
	return h.Blocks
}
