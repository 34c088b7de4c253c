package sweep

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"spectap/collector"
)

// campaign is a sweep that is started again and again with one folder.
type campaign struct {
	t   *testing.T
	s   *scripted
	cfg Config
	out io.Writer
}

func newCampaign(t *testing.T) *campaign {
	s := newScripted(t, echo)
	return &campaign{t: t, s: s, cfg: Config{URL: s.server.URL, SaveDir: filepath.Join(t.TempDir(), "out"), MTBench: questions(t, 3), Concurrency: []string{"1", "2"}, Resume: true}}
}

// run returns what the sweep did, and the points that it asked for.
func (c *campaign) run(change func(*Config)) (Result, []string, error) {
	c.t.Helper()
	cfg := c.cfg
	if change != nil {
		change(&cfg)
	}
	p, err := NewPlan(cfg)
	if err != nil {
		return Result{}, nil, err
	}
	before := len(c.s.requests())
	w := newSweep(p, c.s)
	w.write = nil // real files: a point is kept if they are whole
	w.Progress = c.out
	result, err := w.Run(context.Background())
	var asked []string
	for _, q := range c.s.requests()[before:] {
		if name := q.labels["spectap.point"]; !slices.Contains(asked, name) {
			asked = append(asked, name)
		}
	}
	return result, asked, err
}

// must runs what has to end well, with these points asked.
func (c *campaign) must(change func(*Config), want ...string) Result {
	c.t.Helper()
	result, asked, err := c.run(change)
	if err != nil || ExitCode(result, err) != 0 || !slices.Equal(asked, want) {
		c.t.Fatalf("got %v asked, failed %+v, error %v; want %v", asked, result.Failed, err, want)
	}
	return result
}

// refuses runs what has to be refused with these words, and nothing asked but short first requests.
func (c *campaign) refuses(change func(*Config), words ...string) {
	c.t.Helper()
	result, asked, err := c.run(change)
	if !errors.Is(err, ErrUsage) || ExitCode(result, err) != 2 || len(asked) > 0 {
		c.t.Errorf("got %v asked, error %v; want it refused", asked, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			c.t.Errorf("got %v\nwant %q in it", err, w)
		}
	}
}

func pointsOf(r Result) []string {
	var names []string
	for _, s := range r.Summaries {
		names = append(names, s.Point)
	}
	return names
}

// One command always works: it starts a sweep, goes on with it, and has nothing to do.
func TestResume(t *testing.T) {
	c := newCampaign(t)
	first := c.must(nil, "t0_c1", "t0_c2")
	again := c.must(nil)
	if got, want := asJSON(t, again.Summaries), asJSON(t, first.Summaries); got != want {
		t.Errorf("got\n%s\nwant the first sweep's\n%s", got, want)
	}
	c.refuses(func(cfg *Config) { cfg.Resume = false }, "the point is complete", "run the others, add --resume")
	c.s.server.Close() // which nobody needs to see that all is done
	var said strings.Builder
	c.out = &said
	c.must(nil)
	if want := "kept, because complete: 2 of 2 points (t0_c1, t0_c2); the server was not asked"; !strings.Contains(said.String(), want) {
		t.Errorf("got %q, want %q in it", said.String(), want)
	}
	if got, want := entries(t, c.cfg.SaveDir), []string{"summary.csv", "sweep.json", "t0_c1", "t0_c2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Failed and missing points run, complete ones are kept, and what failed is set aside.
func TestResumeAfterFailure(t *testing.T) {
	c := newCampaign(t)
	c.cfg.Concurrency, c.cfg.MTBench = []string{"1", "2", "4"}, questions(t, 1)
	c.s.script = func(q sent) answer {
		if q.labels["spectap.point"] == "t0_c2" && q.labels["spectap.turn"] == "1" {
			return answer{status: http.StatusInternalServerError}
		}
		return echo(q)
	}
	for n := 1; n < 3; n++ {
		result, asked, err := c.run(nil)
		if err != nil || ExitCode(result, err) != 1 || len(result.Failed) != 1 {
			t.Fatalf("got %+v, %v", result, err)
		}
		if n == 2 && !slices.Equal(asked, []string{"t0_c2"}) {
			t.Errorf("got %v asked, want the failed point alone", asked)
		}
	}
	c.s.script = echo
	result := c.must(func(cfg *Config) { cfg.Temperatures, cfg.Repeats = []string{"0", "1"}, 2 }, "t0_c2", "t1_c1", "t1_c2", "t1_c4",
		"t1_c4_r2", "t1_c2_r2", "t1_c1_r2", "t0_c4_r2", "t0_c2_r2", "t0_c1_r2")
	if got := pointsOf(result); len(got) != 12 || !slices.Equal(got[:3], []string{"t0_c1", "t0_c2", "t0_c4"}) {
		t.Errorf("got points %v, want all in their order", got)
	}
	for _, name := range []string{"t0_c2.1", "t0_c2.2"} {
		if got := entries(t, filepath.Join(c.cfg.SaveDir, "set_aside", name)); !slices.Equal(got, []string{"error.json", "records.jsonl"}) {
			t.Errorf("%s: got %v", name, got)
		}
	}
	book, _, err := readBook(c.cfg.SaveDir)
	if err != nil || len(book.Points) != 12 || len(book.Earlier) != 1 {
		t.Fatalf("got %d rows, %d earlier runs, %v; want 12 and the first run, of which two points are kept", len(book.Points), len(book.Earlier), err)
	}
	if runs := rowRuns(book); runs["t0_c1"] != book.Earlier[0].Run || runs["t0_c4"] != runs["t0_c1"] || runs["t0_c2"] != book.Run {
		t.Errorf("got rows of the runs %v", runs)
	}
	table, err := os.ReadFile(filepath.Join(c.cfg.SaveDir, "summary.csv"))
	if err != nil || strings.Count(string(table), ",complete,") != 12 {
		t.Errorf("got %s, want 12 points (%v)", table, err)
	}
	c.must(nil) // compared with both runs
}

func rowRuns(b savedBook) map[string]string {
	runs := map[string]string{}
	for _, r := range b.Points {
		runs[r.Point] = r.Run
	}
	return runs
}

// What was left by a process that was killed: a point that ran, one that had not
// begun, one that was complete but for its row.
func TestResumeAfterKill(t *testing.T) {
	c := newCampaign(t)
	first := c.must(nil, "t0_c1", "t0_c2")
	dir := c.cfg.SaveDir
	partial := func(name string, files ...string) {
		for _, file := range files {
			path := filepath.Join(dir, "."+name+".partial", file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte("{}\n"), 0o666)); err != nil {
				t.Fatal(err)
			}
		}
	}
	partial("t0_c4", "records.jsonl", "acceptance_rate.json", ".spectap-123")
	partial("t0_c8", "records.jsonl", "timing.json", "aiperf/output.log")
	if err := os.WriteFile(filepath.Join(dir, ".t0_c8.partial", "records.jsonl"), []byte("{}\n{}\n{"), 0o666); err != nil {
		t.Fatal(err)
	}
	book, _, _ := readBook(dir)
	book.Points = slices.DeleteFunc(book.Points, func(r bookRow) bool { return r.Point == "t0_c1" })
	rewrite(t, filepath.Join(dir, collector.FileBook), book)
	result := c.must(func(cfg *Config) { cfg.Concurrency = []string{"1", "2", "4", "8"} }, "t0_c4", "t0_c8")
	if got := result.Summaries[:2]; asJSON(t, got) != asJSON(t, first.Summaries) {
		t.Errorf("got\n%s\nwant the row that was not written\n%s", asJSON(t, got), asJSON(t, first.Summaries))
	}
	if got, want := entries(t, filepath.Join(dir, "set_aside")), []string{"t0_c8.1"}; !slices.Equal(got, want) {
		t.Errorf("got %v set aside, want %v: the other has no Record", got, want)
	}
	if got, want := entries(t, filepath.Join(dir, "set_aside", "t0_c8.1")), []string{"aiperf", "error.json", "records.jsonl"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func asJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func rewrite(t *testing.T, path string, v any) {
	t.Helper()
	if err := os.WriteFile(path, []byte(asJSON(t, v)), 0o666); err != nil {
		t.Fatal(err)
	}
}

// A sweep.json that cannot be relied on stops a resumed sweep, and says why.
func TestResumeWithBadBook(t *testing.T) {
	f := func(change func(path string, text []byte) error, words ...string) {
		t.Helper()
		c := newCampaign(t)
		c.cfg.MTBench = questions(t, 1)
		c.must(nil, "t0_c1", "t0_c2")
		path := filepath.Join(c.cfg.SaveDir, collector.FileBook)
		text, err := os.ReadFile(path)
		if err := errors.Join(err, change(path, text)); err != nil {
			t.Fatal(err)
		}
		c.refuses(nil, words...)
	}
	write := func(path string, text string) error { return os.WriteFile(path, []byte(text), 0o666) }
	f(func(p string, b []byte) error { return write(p, string(b[:len(b)/2])) }, "cannot read", "sweep.json", "choose another --save_dir")
	f(func(p string, b []byte) error { return write(p, "") }, "cannot read")
	f(func(p string, b []byte) error { return write(p, "[]") }, "cannot read")
	f(func(p string, b []byte) error { return write(p, strings.Replace(string(b), "sweep/1", "sweep/2", 1)) }, `its schema is "spectap.sweep/2", want "spectap.sweep/1"`)
	f(func(p string, b []byte) error { return write(p, strings.Replace(string(b), `"run": "`, `"ran": "`, 1)) }, "it names no run")
	f(func(p string, b []byte) error {
		return write(p, strings.Replace(string(b), `"top_p": 1`, `"top_p": 0.5`, 1))
	}, "measured otherwise (t0_c1, t0_c2, run 2026", "top_p: was 0.5, is 1\n")
	f(func(p string, b []byte) error {
		return write(p, strings.Replace(string(b), `"plan": {`, `"plan": 7, "x": {`, 1))
	}, "output_length_tokens: was not set, is 4096")
	f(func(p string, b []byte) error { return os.Remove(p) }, "sweep.json does not say what its run", "t0_c1", "t0_c2")
	f(func(p string, b []byte) error {
		dir := filepath.Dir(p)
		return errors.Join(os.Rename(filepath.Join(dir, "t0_c2"), filepath.Join(dir, "x")), os.Rename(filepath.Join(dir, "t0_c1"), filepath.Join(dir, "t0_c2")))
	}, `is of point "t0_c1"`)
}

// Every setting either has to be as it was or does not matter. A field of Config
// that is in neither list has to be put into one: if a point's numbers depend on
// it, into bookPlan and here; else into free.
func TestResumeComparesEverySetting(t *testing.T) {
	c := newCampaign(t)
	two, half, ten, seven := 2, 0.5, 10, int64(7)
	c.cfg.Driver = DriverBuiltin
	c.must(nil, "t0_c1", "t0_c2")
	yaml := filepath.Join(t.TempDir(), "r.yaml")
	if err := os.WriteFile(yaml, []byte("chat_template_args:\n  enable_thinking: false\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	compared := map[string]struct {
		change func(*Config)
		says   string
	}{
		"MTBench":       {func(c *Config) { c.MTBench = otherQuestions(t) }, "questions_sha256: was \""},
		"SpecBench":     {func(c *Config) { c.SpecBench, c.MTBench = c.MTBench, "" }, `dataset: was "mtbench", is "specbench"`},
		"Dataset":       {func(c *Config) { c.Dataset, c.DatasetPath, c.MTBench = "specbench", c.MTBench, "" }, `metric: was "MTBench", is "SpecBench"`},
		"DatasetPath":   {func(c *Config) { c.Dataset, c.DatasetPath, c.MTBench = "mtbench", otherQuestions(t), "" }, "questions_sha256: was \""},
		"Questions":     {func(c *Config) { c.MTBench, c.Questions = "", []byte(`{"turns": ["a", "b"]}`) }, "conversations: was 3, is 1"},
		"NumRequests":   {func(c *Config) { c.NumRequests = &two }, "conversations: was 3, is 2"},
		"Select":        {func(c *Config) { c.Select = SelectFirst }, `select: was "auto", is "first"`},
		"RuntimeParams": {func(c *Config) { c.RuntimeParams = yaml }, `chat_template_args: was not set, is { "enable_thinking": false }`},
		"Warmup":        {func(c *Config) { c.Warmup = 4 }, "warmup_conversations: was not set, is 4"},
		"OutputLength":  {func(c *Config) { c.OutputLength = 128 }, "output_length_tokens: was 4096, is 128"},
		"TopP":          {func(c *Config) { c.TopP = &half }, "top_p: was 1, is 0.5"},
		"TopK":          {func(c *Config) { c.TopK = &ten }, "top_k: was 0, is 10"},
		"IgnoreEOS":     {func(c *Config) { c.IgnoreEOS = true }, "ignore_eos: was not set, is true"},
		"Completions":   {func(c *Config) { c.Completions = true }, "completions: was not set, is true"},
		"IncludeStop":   {func(c *Config) { c.IncludeStop = true }, "include_stop_str_in_output: was not set, is true"},
		"NoCacheSalt":   {func(c *Config) { c.NoCacheSalt, c.Concurrency = true, []string{"1", "4"} }, "cache_salt: was true, is not set"},
		"SamplingSeed":  {func(c *Config) { c.SamplingSeed = &seven }, "sampling_seed: was not set, is 7"},
		"GPUs":          {func(c *Config) { c.GPUs = 8 }, "gpus: was 1, is 8"},
		"Postprocess":   {func(c *Config) { c.Postprocess = "gptoss" }, `postprocess: was "base", is "gptoss"`},
		"Measure":       {func(c *Config) { c.Measure = "usage" }, `measure: was "tokens", is "usage"`},
		"Acceptance":    {func(c *Config) { c.Acceptance = "server" }, `acceptance: was "client", is "server"`},
		"NoSpecStats":   {func(c *Config) { c.NoSpecStats = true }, "no_spec_stats: was not set, is true"},
		"Baseline":      {func(c *Config) { c.Baseline = true }, "baseline: was not set, is true"},
		"Seed":          {func(c *Config) { c.Seed = 3 }, "bootstrap_seed: was 0, is 3"},
		"SLO":           {func(c *Config) { c.SLO = []string{"ttft=200ms"} }, `slo: was not set, is { "ttft_s": 0.2, "share": 0.95 }`},
		"SLOShare":      {func(c *Config) { c.SLO, c.SLOShare = []string{"ttft=200ms"}, 0.9 }, `slo: was not set, is { "ttft_s": 0.2, "share": 0.9 }`},
		"Arrivals":      {func(c *Config) { c.Arrivals = collector.ArrivalsConstant }, `arrivals: was "poisson", is "constant"`},
		"ArrivalsSeed":  {func(c *Config) { c.ArrivalsSeed = 4 }, "arrivals_seed: was 0, is 4"},
		"Model":         {func(c *Config) { c.Model, c.Concurrency = "adapter", []string{"1", "4"} }, `model: was "m", is "adapter"`},
	}
	free := []string{"URL", "Temperatures", "Concurrency", "RequestRate", "Repeats", "OpenFiles", "NoReport", "SaveDir", "Resume", "KeepTexts", "APIKey", "Wait", "DryRun", "StallTimeout", "Mistakes", "Argv", "Env", "Version", "Gone",
		"Shard", "Host", // a shard has a folder of its own
		"Driver", "AIPerf", "Tokenizer", // TestResumeComparesTheDriver
		"ServerCommand", "Speculation", // TestResumeComparesTheServer
	}
	for i := range reflect.TypeFor[Config]().NumField() {
		name := reflect.TypeFor[Config]().Field(i).Name
		each, ok := compared[name]
		if ok == slices.Contains(free, name) {
			t.Errorf("Config.%s: decide whether a resumed sweep has to have it as it was", name)
		}
		if ok {
			if name == "Model" {
				c.s.models = strings.Replace(oneModel, `]}`, `,{"id":"adapter","object":"model","owned_by":"vllm","root":"m","parent":"m"}]}`, 1)
				c.cfg.Model = "m"
			}
			c := c
			if strings.HasPrefix(name, "Arrivals") {
				c = newCampaign(t)
				c.cfg.Concurrency, c.cfg.RequestRate = nil, []string{"50"}
				c.must(nil, "t0_q50")
			}
			c.refuses(each.change, "cannot resume: complete points in --save_dir", each.says, "or choose another --save_dir")
		}
	}
	seed := c.cfg // one that was set, and is 0
	zero := int64(0)
	c.cfg.SaveDir = filepath.Join(t.TempDir(), "seeded")
	c.cfg.SamplingSeed = &zero
	c.must(nil, "t0_c1", "t0_c2")
	c.refuses(func(c *Config) { c.SamplingSeed = nil }, "sampling_seed: was 0, is not set")
	c.cfg = seed
	// What may change does: another copy of the questions, texts kept, more points.
	c.must(func(cfg *Config) {
		cfg.MTBench, cfg.KeepTexts, cfg.Wait, cfg.StallTimeout = questions(t, 3), true, 7, 8e9
		cfg.Temperatures, cfg.Concurrency, cfg.Repeats = []string{"0", "0.5"}, []string{"2"}, 2
	}, "t0.5_c2", "t0.5_c2_r2", "t0_c2_r2")
}

// otherQuestions differs in one character of the last text.
func otherQuestions(t *testing.T) string {
	t.Helper()
	path := questions(t, 3)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "q2 second <b>", "q2 second <i>", 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// The server has to be what it was, as far as it tells, wherever it is.
func TestResumeComparesTheServer(t *testing.T) {
	f := func(change func(*campaign), words ...string) {
		t.Helper()
		c := newCampaign(t)
		c.cfg.MTBench = questions(t, 1) // of which no interval is made, which takes time
		c.s.cache = `block_size="16",kv_cache_size_tokens="46592",num_gpu_blocks="2912"`
		c.cfg.ServerCommand = []string{"vllm", "serve", "m", "--port", strings.TrimPrefix(c.s.server.URL, "http://127.0.0.1:")}
		c.must(nil, "t0_c1", "t0_c2")
		change(c)
		more := func(cfg *Config) { cfg.Concurrency = []string{"1", "2", "4"} }
		if len(words) == 0 {
			c.must(more, "t0_c4")
			return
		}
		c.refuses(more, append(words, "measured otherwise (t0_c1, t0_c2, run ")...)
	}
	model := func(was, is string) func(*campaign) {
		return func(c *campaign) { c.s.models = strings.ReplaceAll(c.s.models, was, is) }
	}
	f(model(`"id":"m"`, `"id":"n"`), `model: was "m", is "n"`, `model_card.id: was "m", is "n"`)
	f(model(`"root":"m"`, `"root":"/other/m"`), `model_card.root: was "m", is "/other/m"`)
	f(model(`2048`, `4096`), `model_card.max_model_len: was 2048, is 4096`)
	f(model(`"parent"`, `"created":1796008621,"permission":[{"id":"modelperm-1"}],"parent"`))
	f(func(c *campaign) { c.s.version = "0.33.0" }, `version: was "0.32.0", is "0.33.0"`)
	f(func(c *campaign) { c.s.cache = strings.Replace(c.s.cache, `"16"`, `"32"`, 1) }, `cache_config.block_size: was "16", is "32"`)
	f(func(c *campaign) { c.s.cache = strings.Replace(c.s.cache, `46592`, `46500`, 1) }) // profiled anew
	f(func(c *campaign) { c.s.cache = strings.Replace(c.s.cache, `46592`, `23296`, 1) }, `cache_config.kv_cache_size_tokens: was "46592", is "23296"`)
	f(func(c *campaign) { c.s.positions = 3 }, "draft_length_tokens: was 5, is 3")
	f(func(c *campaign) { c.cfg.ServerCommand[2] = "n" }, `command: was [ "vllm", "serve", "m", "--port", "{port}" ], is [ "vllm", "serve", "n", "--port", "{port}" ]`)
	f(func(c *campaign) { // another port, and no command that is ours
		c.cfg.ServerCommand = nil
		moved := newScripted(t, echo)
		moved.cache = c.s.cache
		c.s, c.cfg.URL = moved, moved.server.URL
	})
}

// What only one of two sweeps saw is told, not judged.
func TestResumeTellsWhatItCannotCompare(t *testing.T) {
	c := newCampaign(t)
	c.s.positions = 1 // as the blocks say
	c.must(nil, "t0_c1", "t0_c2")
	c.cfg.ServerCommand = []string{"vllm", "serve"}
	c.s.noMetrics = true
	result := c.must(func(cfg *Config) { cfg.Concurrency = []string{"1", "4"} }, "t0_c4")
	if got := fmt.Sprint(result.Warnings); !strings.Contains(got, "cannot tell whether the server is as it was in cache_config, command, which was seen only once") {
		t.Errorf("got warnings %s", got)
	}
}

// A sweep that is not resumed adds its points as before, and each point keeps the
// description of the run that measured it.
func TestResumeAfterOtherSweeps(t *testing.T) {
	c := newCampaign(t)
	c.must(nil, "t0_c1", "t0_c2")
	other := func(cfg *Config) { cfg.Concurrency, cfg.OutputLength, cfg.Resume = []string{"8"}, 64, false }
	mixed := c.must(other, "t0_c8")
	want := "(t0_c1, t0_c2, run "
	for _, text := range []string{want, "): output_length_tokens: was 4096, is 64; they stand in one table with this sweep's: to keep them apart, choose another --save_dir"} {
		if len(mixed.Warnings) != 1 || !strings.Contains(mixed.Warnings[0], text) {
			t.Errorf("got warnings %q, want one with %q", mixed.Warnings, text)
		}
	}
	c.tells("t0_c8", "64", "false")
	c.tells("t0_c1", "4096", "false")
	alike := c.must(func(cfg *Config) { cfg.Concurrency, cfg.Resume = []string{"16"}, false }, "t0_c16")
	if got := strings.Join(alike.Warnings, "\n"); strings.Contains(got, "t0_c1,") || !strings.Contains(got, "(t0_c8, run ") {
		t.Errorf("got warnings %q, want one of the point that is not alike", got)
	}
	c.refuses(func(cfg *Config) { cfg.Concurrency = []string{"1", "8"} }, "measured otherwise (t0_c8, run", "output_length_tokens: was 64, is 4096")
	c.refuses(func(cfg *Config) { cfg.Concurrency, cfg.OutputLength = []string{"1", "8"}, 64 }, "measured otherwise (t0_c1, run", "output_length_tokens: was 4096, is 64")
	c.must(func(cfg *Config) { cfg.Concurrency = []string{"1", "2", "4"} }, "t0_c4")
	book, _, err := readBook(c.cfg.SaveDir)
	if err != nil || len(book.Earlier) != 3 || len(book.Points) != 5 {
		t.Errorf("got %d earlier runs and %d rows, want 3 and 5 (%v)", len(book.Earlier), len(book.Points), err)
	}
	var summary collector.Summary
	for _, r := range book.Points {
		if r.Point == "t0_c8" {
			summary = r.Summary
		}
	}
	if summary.Concurrency != 8 {
		t.Errorf("got %+v, want the other sweep's point", summary)
	}
}

// tells checks what the rows of a point say that it was measured with.
func (c *campaign) tells(point, length, baseline string) {
	c.t.Helper()
	book, _, err := readBook(c.cfg.SaveDir)
	if err != nil {
		c.t.Fatal(err)
	}
	i := slices.IndexFunc(book.Points, func(r bookRow) bool { return r.Point == point })
	if i < 0 || fmt.Sprint(book.Points[i].rowSettings) != "{mtbench MTBench 1 "+length+"}" {
		c.t.Errorf("%s: got rows %+v", point, book.Points)
	}
	f, err := os.Open(filepath.Join(c.cfg.SaveDir, "summary.csv"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		c.t.Fatal(err)
	}
	i = slices.IndexFunc(rows, func(r []string) bool { return r[1] == point })
	if i < 0 || !slices.Equal(rows[0][len(rows[0])-5:], rowColumns) || !slices.Equal(rows[i][len(rows[i])-5:], []string{"mtbench", "MTBench", "1", length, baseline}) {
		c.t.Errorf("%s: got %q", point, rows)
	}
}

// What checkWritable left is removed from a folder of any name, and nothing else.
func TestRemoveTrials(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out [a]")
	for name, text := range map[string]string{".spectap-1": "", ".spectap-2": "mine", ".spectap-report-4": "a page", "spectap-3": ""} {
		if err := errors.Join(os.MkdirAll(dir, 0o777), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	removeTrials(dir)
	if got, want := entries(t, dir), []string{".spectap-2", "spectap-3"}; !slices.Equal(got, want) {
		t.Errorf("got %q left, want %q", got, want)
	}
}
