package sweep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func withYAML(t *testing.T, text string) Config {
	t.Helper()
	cfg := valid(t)
	cfg.RuntimeParams = filepath.Join(t.TempDir(), "runtime.yaml")
	if err := os.WriteFile(cfg.RuntimeParams, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// The sampling of a YAML, with specdec_bench's defaults and the flags over it.
func TestRuntimeParams(t *testing.T) {
	f := func(text, wantPoint string, wantTopP float64, wantTopK, wantQuestions, wantWarnings int, change ...func(*Config)) {
		t.Helper()
		cfg := withYAML(t, text)
		for _, c := range change {
			c(&cfg)
		}
		p, err := NewPlan(cfg)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			return
		}
		if p.Points[0].Name != wantPoint || p.TopP != wantTopP || p.TopK != wantTopK || len(p.Questions) != wantQuestions || len(p.Warnings) != wantWarnings {
			t.Errorf("%q: got %s, top_p %v, top_k %v, %d questions, warnings %q; want %s %v %v %d %d", text, p.Points[0].Name, p.TopP, p.TopK, len(p.Questions), p.Warnings,
				wantPoint, wantTopP, wantTopK, wantQuestions, wantWarnings)
		}
	}
	f("", "t0_c1", 1, 0, 20, 0)
	f("# nothing\n", "t0_c1", 1, 0, 20, 0)
	f("{}", "t0_c1", 1, 0, 20, 0)
	f("sampling_kwargs:\n", "t0_c1", 1, 0, 20, 0)
	f("sampling_kwargs: {}\n", "t1_c1", 1, 0, 20, 0) // a mapping without temperature
	f("sampling_kwargs:\n  top_p: 0.9\n  top_k: 40\n", "t1_c1", 0.9, 40, 20, 0)
	f("sampling_kwargs:\n  temperature: 0.70\n", "t0.7_c1", 1, 0, 20, 0)
	f("sampling_kwargs:\n  temperature: 0.7\n", "t0_c1", 1, 0, 20, 0, func(c *Config) { c.Temperatures = []string{"0"} })
	f("sampling_kwargs:\n  min_p: 0.1\n  beam_width: 1\n", "t1_c1", 1, 0, 20, 2) // ignored by specdec_bench's vLLM wrapper
	f("engine_args:\n  max_model_len: 4096\n", "t0_c1", 1, 0, 20, 1)
	f("dataset_kwargs:\n  num_samples: 5\n", "t0_c1", 1, 0, 5, 0)
	f("dataset_kwargs:\n  num_samples: 50\n", "t0_c1", 1, 0, 20, 0) // more than there are, as specdec_bench takes it
	f("dataset_kwargs:\n  num_samples: 5\n  other: 1\n", "t0_c1", 1, 0, 7, 1, func(c *Config) { n := 7; c.NumRequests = &n })
	f("sampling_kwargs: &b\n  temperature: 0.5\nchat_template_args: {a: [1, yes, null]}\n", "t0.5_c1", 1, 0, 20, 0)
}

func TestRuntimeParamsRefusals(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		refused(t, withYAML(t, text), want...)
	}
	f("sampling: {}\nengine: {}\n", `line 1: unknown section "sampling"`, `line 2: unknown section "engine"`)
	f("- a\n", "want a mapping of sections")
	f("a: [\n", "not YAML")
	f("sampling_kwargs: 3\n", "line 1: sampling_kwargs: want a mapping")
	f("sampling_kwargs:\n  temperature: hot\n  top_p: 2\n  top_k: x\n", `temperature "hot"`, `top_p "2"`, `top_k "x"`)
	f("dataset_kwargs:\n  num_samples: 0\n", "num_samples of --runtime_params 0: want 1 to 20")
	f("chat_template_args:\n  x: .inf\n", "want a finite number")
	f("chat_template_args: &a {x: 1}\nsampling_kwargs:\n  <<: *a\n", "line 3: merge keys (<<) are not read")
}

// configuration.json records the YAML in its order, with what the flags override.
func TestRuntimeText(t *testing.T) {
	text := "sampling_kwargs:\n  top_p: 1\n  temperature: 0\nzeta: 1\n"
	p, err := parseRuntimeParams([]byte(strings.Replace(text, "zeta: 1\n", "chat_template_args: {b: 1.0, a: '2', c: [1, true, null], d: []}\ndataset_kwargs: {}\n", 1)))
	if err != nil {
		t.Fatal(err)
	}
	f := func(temperature, samples, want string) {
		t.Helper()
		raw := func(s string) []byte {
			if s == "" {
				return nil
			}
			return []byte(s)
		}
		if got := string(p.text(raw(temperature), raw(samples))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	rest := `"chat_template_args":{"b":1.0,"a":"2","c":[1,true,null],"d":[]}`
	f("", "", `{"sampling_kwargs":{"top_p":1,"temperature":0},`+rest+`,"dataset_kwargs":{}}`)
	f("0.5", "3", `{"sampling_kwargs":{"top_p":1,"temperature":0.5},`+rest+`,"dataset_kwargs":{"num_samples":3}}`)
	if got := string(runtimeParams{}.text([]byte("1"), nil)); got != "{}" {
		t.Errorf("no file: got %s, want {}", got)
	}
}

// Scalars of the template's variables are what PyYAML makes of them.
func TestRuntimeScalars(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		p, err := parseRuntimeParams([]byte("chat_template_args: {x: " + in + "}\n"))
		if got := string(p.template); err != nil || got != `{"x":`+want+"}" {
			t.Errorf("%s: got %s (%v), want %s", in, got, err, want)
		}
	}
	f("off", "false") // YAML 1.1
	f("No", "false")
	f("yes", "true")
	f("ON", "true")
	f("'off'", `"off"`)
	f("false", "false")
	f("y", `"y"`) // not a word of PyYAML
	f("~", "null")
	f("010", "8")
	f("1", "1")
	f("1.", "1.0")
	f("high", `"high"`)
}
