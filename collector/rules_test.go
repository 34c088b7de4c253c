package collector

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// readRules decodes one file of testdata/golden/specdec_rules.
func readRules(t *testing.T, name string, into any) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "golden", "specdec_rules", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return text
}

func TestRulesChunks(t *testing.T) {
	var rules []struct {
		Name     string    `json:"name"`
		Start    float64   `json:"request_start"`
		Counts   []int     `json:"cumulative_tokens"`
		Arrivals []float64 `json:"arrival_times"`
		EOS      bool      `json:"last_token_is_eos"`
		Lengths  []int     `json:"chunk_lengths"`
		Times    []float64 `json:"token_times"`
	}
	readRules(t, "chunks.json", &rules)
	for _, r := range rules {
		t.Run(r.Name, func(t *testing.T) {
			lengths, times := streamChunks(r.Counts, r.Start, r.Arrivals, r.EOS)
			if !slices.Equal(lengths, r.Lengths) || !slices.Equal(times, r.Times) {
				t.Errorf("got %v %v, want %v %v", lengths, times, r.Lengths, r.Times)
			}
		})
	}
}

func TestRulesStatistics(t *testing.T) {
	var rules []struct {
		Name  string          `json:"name"`
		Data  []float64       `json:"data"`
		Stats json.RawMessage `json:"stats"`
		Exact *struct {
			Mean      string   `json:"mean"`
			Std       string   `json:"std"`
			Quantiles []string `json:"quantiles"`
		} `json:"exact"`
	}
	readRules(t, "statistics.json", &rules)
	for _, r := range rules {
		t.Run(r.Name, func(t *testing.T) {
			if got, want := string(AppendCompact(nil, StatsBlock(r.Data))), string(AppendCompact(nil, r.Stats)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if r.Exact == nil {
				return
			}
			sorted := slices.Sorted(slices.Values(r.Data))
			sameFloat(t, "mean", Mean(r.Data), r.Exact.Mean)
			sameFloat(t, "std", Std(r.Data), r.Exact.Std)
			for i, q := range []float64{0.25, 0.5, 0.75} {
				sameFloat(t, "quantile", Quantile(sorted, q), r.Exact.Quantiles[i])
			}
		})
	}
}

func sameFloat(t *testing.T, what string, got float64, want string) {
	t.Helper()
	if text := string(AppendCompact(nil, got)); text != want {
		t.Errorf("got %s %s, want %s", what, text, want)
	}
}

func TestRulesJSONText(t *testing.T) {
	var rules struct {
		Floats   [][2]string `json:"floats"`
		Fixed4   [][2]string `json:"fixed4"`
		Strings  [][2]string `json:"strings"`
		Specials [][2]string `json:"specials"`
	}
	readRules(t, "json_text.json", &rules)
	f := func(kind string, pairs [][2]string, text func(string) string) {
		t.Run(kind, func(t *testing.T) {
			for _, p := range pairs {
				t.Run(p[1], func(t *testing.T) {
					if got := text(p[0]); got != p[1] {
						t.Errorf("%q: got %s, want %s", p[0], got, p[1])
					}
				})
			}
		})
	}
	number := func(s string) float64 {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	repr := func(s string) string { return string(AppendCompact(nil, number(s))) }
	f("floats", rules.Floats, repr)
	f("specials", rules.Specials, repr)
	f("fixed4", rules.Fixed4, func(s string) string { return fixed4(number(s)) })
	f("strings", rules.Strings, func(s string) string { return string(AppendIndented(nil, s)) })
}

func TestRulesPostprocess(t *testing.T) {
	var rules map[string][][2]string
	readRules(t, "postprocess.json", &rules)
	for _, kind := range slices.Sorted(maps.Keys(rules)) {
		for i, p := range rules[kind] {
			t.Run(kind+" "+strconv.Itoa(i), func(t *testing.T) {
				if got, err := Postprocess(kind, p[0]); err != nil || got != p[1] {
					t.Errorf("%q: got %q (%v), want %q", p[0], got, err, p[1])
				}
			})
		}
	}
	if _, err := Postprocess("llama", ""); err == nil || !strings.Contains(err.Error(), "--postprocess") {
		t.Errorf("unknown kind: got %v, want an error that names --postprocess", err)
	}
}

func TestRulesRedaction(t *testing.T) {
	var rules struct {
		Keys   [][2]any             `json:"keys"`
		Values [][2]json.RawMessage `json:"values"`
		Argv   [][2][]string        `json:"argv"`
	}
	readRules(t, "redaction.json", &rules)
	for _, p := range rules.Keys {
		t.Run(p[0].(string), func(t *testing.T) {
			if got := SecretKey(p[0].(string)); got != p[1].(bool) {
				t.Errorf("got secret %v, want %v", got, p[1])
			}
		})
	}
	for i, p := range rules.Values {
		t.Run("value "+strconv.Itoa(i), func(t *testing.T) {
			if got, want := string(AppendCompact(nil, Redact(p[0]))), string(AppendCompact(nil, p[1])); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	for i, p := range rules.Argv {
		t.Run("argv "+strconv.Itoa(i), func(t *testing.T) {
			if got := RedactArgs(p[0]); !slices.Equal(got, p[1]) {
				t.Errorf("%q: got %q, want %q", p[0], got, p[1])
			}
		})
	}
}

// TestRulesConfiguration fills a Configuration with the vector's values, secrets
// in plain text, and compares the whole file.
func TestRulesConfiguration(t *testing.T) {
	var rules struct {
		Files       map[string]string `json:"checkpoint_files"`
		Environment map[string]string `json:"environment"`
		Result      json.RawMessage   `json:"result"`
	}
	readRules(t, "configuration.json", &rules)
	dir := t.TempDir()
	for name, text := range rules.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fill := strings.NewReplacer("<model_dir>", dir, "<timestamp>", "2026-01-02T03:04:05.000600+00:00")
	result := fill.Replace(string(rules.Result))
	var c Configuration
	if err := json.Unmarshal([]byte(strings.ReplaceAll(result, redacted, "in plain text")), &c); err != nil {
		t.Fatal(err)
	}
	var parts struct {
		Params  json.RawMessage `json:"runtime_params"`
		Serving json.RawMessage `json:"serving_config"`
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(result, redacted, "in plain text")), &parts); err != nil {
		t.Fatal(err)
	}
	c.RuntimeParams, c.ServingConfig = parts.Params, parts.Serving
	c.Provenance = ProvenanceOf(rules.Environment, Checkpoint(dir), time.Date(2026, 1, 2, 5, 4, 5, 600_000, time.FixedZone("east", 7200)))
	want := AppendIndented(nil, json.RawMessage(result))
	if got := c.JSON(); string(got) != string(want) {
		t.Errorf("configuration.json differs:\n%s", firstDifference(got, want))
	}
}

// TestRulesRefusals: each name of refusals.json has its run here; a name without
// one fails.
func TestRulesRefusals(t *testing.T) {
	turn := func(lengths ...int) Turn { return Turn{Lengths: lengths} }
	conv := func(index int, turns ...Turn) Conversation { return Conversation{Index: index, Turns: turns} }
	ran := func(turns int) error { // of six conversations of two turns
		p := gpuPoint(t, "draft_t0_c1.json")
		p.Run.Metric, p.Records = MetricSpecBench, p.Records[:turns]
		_, _, err := p.Files()
		return err
	}
	acceptance := func(m Metric, convs ...Conversation) error {
		_, err := Acceptance(m, convs)
		return err
	}
	times := func(times ...[]float64) error {
		turns := make([]Turn, len(times))
		for i := range times {
			turns[i] = Turn{Tokens: 3, Times: times[i]}
		}
		_, err := Timing(turns, 1)
		return err
	}
	ok := turn(1, 2)
	many := make([]Conversation, 81)
	for i := range many {
		many[i] = conv(i, ok, ok)
	}
	// says is a part of the message; "" where the reference writes the files.
	runs := map[string]struct {
		says string
		run  func() error
	}{
		"generic: no request at all":                            {"no conversation", func() error { return acceptance(MetricAcceptanceRate) }},
		"generic: a turn without chunks":                        {"turn 1 of conversation 1 ", func() error { return acceptance(MetricAcceptanceRate, conv(0, ok), conv(1, ok, turn())) }},
		"mtbench: no request at all":                            {"no conversation", func() error { return acceptance(MetricMTBench) }},
		"mtbench: a request of one turn":                        {"conversation 1 ", func() error { return acceptance(MetricMTBench, conv(0, ok, ok), conv(1, ok)) }},
		"mtbench: one of two turns without chunks":              {"", func() error { return acceptance(MetricMTBench, conv(0, ok, turn())) }},
		"mtbench: both turns without chunks":                    {"conversation 1 ", func() error { return acceptance(MetricMTBench, conv(0, ok, ok), conv(1, turn(), turn())) }},
		"mtbench: three turns, the third is not read":           {"", func() error { return acceptance(MetricMTBench, conv(0, ok, ok, turn())) }},
		"mtbench: 81 requests":                                  {"conversation 80 ", func() error { return acceptance(MetricMTBench, many...) }},
		"specbench: no request at all":                          {"no conversation", func() error { return acceptance(MetricSpecBench) }},
		"specbench: fewer turns than the data set":              {"1 not_run (conversation/turn 5/1)", func() error { return ran(11) }},
		"specbench: request without chunks":                     {"conversation 1 ", func() error { return acceptance(MetricSpecBench, conv(0, ok), conv(1, turn())) }},
		"specbench: request that never ran":                     {"2 not_run (conversation/turn 5/0, 5/1)", func() error { return ran(10) }},
		"timing: no turn at all":                                {"no turn", func() error { return times() }},
		"timing: only turns with one time point":                {"none of 2 turns", func() error { return times([]float64{1}, []float64{2}) }},
		"timing: only turns with one time point, at one moment": {"no time between", func() error { return times([]float64{1}, []float64{1}) }},
		"timing: two points at one moment":                      {"no time between", func() error { return times([]float64{1, 1}) }},
		"timing: two points":                                    {"", func() error { return times([]float64{1, 2}) }},
		// The reference raises; ours leaves the turn out of one block and says so (TestTimingOneMoment).
		"timing: three points, all tokens at one moment": {"", func() error { return times([]float64{1, 2, 2}) }},
	}
	ours := "timing: three points, all tokens at one moment"
	var rules [][2]string
	readRules(t, "refusals.json", &rules)
	for _, r := range rules {
		t.Run(r[0], func(t *testing.T) {
			entry, known := runs[r[0]]
			if !known {
				t.Fatalf("no run for %q", r[0])
			}
			if written := r[1] == "written" || r[0] == ours; written != (entry.says == "") {
				t.Fatalf("the vector says %s, the run here expects %q", r[1], entry.says)
			}
			err := entry.run()
			if entry.says == "" && err != nil {
				t.Errorf("got %v, want no error", err)
			}
			if entry.says != "" && (err == nil || !strings.Contains(err.Error(), entry.says)) {
				t.Errorf("got %v, want an error with %q", err, entry.says)
			}
		})
	}
}

func TestTimingOneMoment(t *testing.T) {
	r, err := Timing([]Turn{{Tokens: 5, Times: []float64{1, 2, 4}}, {Tokens: 3, Times: []float64{1, 2, 2, 2}}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Warnings) != 1 || r.Warnings[0] != "1 of 2 turns have no generation rate, because their events with tokens came at one moment: turn 2" {
		t.Errorf("got warnings %q, want one that names turn 2", r.Warnings)
	}
	if want := []float64{2}; !slices.Equal(r.GenerationTPS, want) {
		t.Errorf("got rates %v, want %v", r.GenerationTPS, want)
	}
	if want := []float64{1, 2, 1, 0, 0}; !slices.Equal(r.StepTime, want) {
		t.Errorf("got steps %v, want %v", r.StepTime, want)
	}
	if r.OutputTPS != 8.0/3 || r.OutputTPSPerGPU != 8.0/6 {
		t.Errorf("got %v and %v tokens/s, want 8/3 and 8/6", r.OutputTPS, r.OutputTPSPerGPU)
	}
	alone, err := Timing([]Turn{{Tokens: 3, Times: []float64{1, 2, 2}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := alone.Object().Get("Request Generation Tokens Per Second"); ok {
		t.Error("got a rate block without samples, want none")
	}
	if _, ok := alone.Object().Get("Request Generation Step Time"); !ok {
		t.Error("got no step block, want one")
	}
}

func TestAppendResultRefuses(t *testing.T) {
	f := func(old string, want string) {
		t.Helper()
		_, err := AppendResult([]byte(old), Object{{"a", 1}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", old, err, want)
		}
	}
	f(`{"a": 1}`, "a JSON object, want a list") // specbench_results.json has no list
	f(`3`, "a JSON number")
	f(`[1`, "cannot parse JSON")
	f(``, "cannot parse JSON") // an empty file is not an absent one
}

// TestAppendResultKeeps: old entries are written again as they are, whatever
// their layout was.
func TestAppendResultKeeps(t *testing.T) {
	old := `[{"b": 1, "a": 1.50, "b": [1e2, -0, -0.0, 12345678901234567890, 1E400], "\u00fc": {}}, []]`
	got, err := AppendResult([]byte(old), Object{{"x", math.Copysign(0, -1)}})
	if err != nil {
		t.Fatal(err)
	}
	want := `[
    {
        "b": [
            100.0,
            0,
            -0.0,
            12345678901234567890,
            Infinity
        ],
        "a": 1.5,
        "\u00fc": {}
    },
    [],
    {
        "x": -0.0
    }
]`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if same, err := AppendResult([]byte(old), nil); err != nil || string(same) != old {
		t.Errorf("an empty result: got %s (%v), want the file unchanged", same, err)
	}
}

// What a sweep leaves behind is what specdec_bench's uploader takes.
func TestRulesUpload(t *testing.T) {
	var rules struct {
		Discovery []struct {
			Name  string      `json:"name"`
			Files []string    `json:"files"`
			Runs  [][2]string `json:"runs"`
		} `json:"discovery"`
		Provenance [][2]any `json:"provenance"`
	}
	readRules(t, "upload.json", &rules)
	if len(rules.Discovery) < 7 || len(rules.Provenance) < 6 {
		t.Fatalf("got %d and %d entries, want 7 and 6 or more", len(rules.Discovery), len(rules.Provenance))
	}
	for _, r := range rules.Discovery {
		got := [][2]string{}
		for _, run := range RunFolders(r.Files, "prefix", "results") {
			got = append(got, [2]string{run.Path, run.Key})
		}
		if !slices.Equal(got, r.Runs) {
			t.Errorf("%s: got %q, want %q", r.Name, got, r.Runs)
		}
	}
	for _, r := range rules.Provenance {
		var text []byte
		if body, ok := r[0].(string); ok {
			text = []byte(body)
		}
		want := len(r[1].([]any))
		if got := MissingProvenance(text); len(got) != want {
			t.Errorf("%v: got %q missing, want %v", r[0], got, r[1])
		}
	}
}
