package sweep

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// refused checks that a Config is refused for all of the reasons at once.
func refused(t *testing.T, cfg Config, want ...string) {
	t.Helper()
	_, err := NewPlan(cfg)
	if !errors.Is(err, ErrUsage) || ExitCode(Result{}, err) != 2 {
		t.Errorf("got %v, want ErrUsage and exit code 2", err)
		return
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error has no %q:\n%v", text, err)
		}
	}
}

// valid is a Config without a fault.
func valid(t *testing.T) Config {
	return Config{URL: "http://127.0.0.1:8000", SaveDir: filepath.Join(t.TempDir(), "out"), MTBench: questions(t, 20)}
}

// All problems are reported at once, before the first request.
func TestAllProblemsAtOnce(t *testing.T) {
	zero, topP, topK := 0, 1.5, -2
	refused(t, Config{
		URL: "localhost:8000", MTBench: questions(t, 2), SpecBench: "x", Temperatures: []string{"0", "hot", "0.0"}, Concurrency: []string{"1", "0", "many"},
		NumRequests: &zero, OutputLength: -1, GPUs: -4, Postprocess: "none", Measure: "all", Acceptance: "both", Select: "random", TopP: &topP, TopK: &topK, RuntimeParams: "/no/such/file",
	}, "--url", "several data sets", `--temperature "hot"`, `--concurrency "0"`, `--concurrency "many"`, "two points are equal: temperature 0 at concurrency 1",
		"--output_length", "--num_gpus", `--postprocess "none"`, `--measure "all"`, `--acceptance "both"`, `--select "random"`, "--top_p 1.5", "--top_k -2", "--runtime_params", "--save_dir is not set")
}

// One fault each.
func TestRefusals(t *testing.T) {
	f := func(change func(*Config), want string) {
		t.Helper()
		cfg := valid(t)
		change(&cfg)
		refused(t, cfg, want)
	}
	n := func(i int) func(*Config) { return func(c *Config) { c.NumRequests = &i } }
	f(n(0), "--num_requests 0: want 1 to 20")
	f(n(-1), "--num_requests -1")
	f(func(c *Config) { c.Repeats = -2 }, "cannot use --repeats -2: want 1 to 1000")
	f(func(c *Config) { c.Warmup = -1 }, "cannot use --warmup -1: want 0 (none)")
	f(n(21), "--num_requests 21: want 1 to 20")
	f(func(c *Config) { c.MTBench = questions(t, 100); n(81)(c) }, "--num_requests 81: want 1 to 80")
	f(func(c *Config) { c.MTBench = "" }, "no data set is named")
	f(func(c *Config) { c.MTBench = filepath.Join(t.TempDir(), "none.jsonl") }, "cannot read question file")
	f(func(c *Config) { c.Dataset = "speed" }, `--dataset "speed" needs --dataset_path`)
	f(func(c *Config) { c.MTBench, c.DatasetPath = "", "x" }, "needs --dataset")
	f(func(c *Config) { c.MTBench, c.Dataset, c.DatasetPath = "", "random", "x" }, `--dataset "random": want one of mtbench, specbench, speed`)
	f(func(c *Config) { c.Dataset, c.DatasetPath = "mtbench", c.MTBench }, "several data sets")
	f(func(c *Config) { c.Select = SelectStratified }, "stratified")
	f(func(c *Config) { c.Temperatures = []string{"-1"} }, `--temperature "-1"`)
	f(func(c *Config) { c.Temperatures = []string{"NaN"} }, `--temperature "NaN"`)
	f(func(c *Config) { c.Temperatures = []string{"1", "1.00"} }, "two points are equal")
	f(func(c *Config) { c.Concurrency = []string{"8", "08"} }, "two points are equal")
	f(func(c *Config) { c.URL = "" }, "--url is not set")
	f(func(c *Config) { c.URL = "ftp://h" }, "--url")
	f(func(c *Config) { c.URL = "http://h:99999" }, "want a port of 1 to 65535")
	f(func(c *Config) { c.URL = "http://h:0" }, "want a port of 1 to 65535")
	f(func(c *Config) { c.NoSpecStats, c.Measure = true, "usage" }, "--no_spec_stats needs token counts")
	f(func(c *Config) { c.NoSpecStats, c.Acceptance = true, "server" }, "--acceptance server")
}

// Points asked for many times are named once.
func TestEqualPointsOnce(t *testing.T) {
	cfg := valid(t)
	cfg.Temperatures, cfg.Concurrency = []string{"0", "0.0"}, []string{"1", "1"}
	if _, err := NewPlan(cfg); err == nil || strings.Count(err.Error(), "two points are equal") != 1 {
		t.Errorf("got %v, want one message", err)
	}
}

// A password in the URL is in no message.
func TestURLSecrets(t *testing.T) {
	for _, url := range []string{"ftp://u:secret@h", "http://u:secret@h:port", "http://u:secret@", "http://u:secret@h:99999"} {
		cfg := valid(t)
		cfg.URL = url
		if _, err := NewPlan(cfg); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want an error without the password", url, err)
		}
	}
}

// A folder that exists is never written over, and the message says how to go on.
func TestExistingFolders(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		cfg := valid(t)
		cfg.Concurrency = []string{"1", "2"}
		if err := os.MkdirAll(filepath.Join(cfg.SaveDir, name), 0o777); err != nil {
			t.Fatal(err)
		}
		refused(t, cfg, name, want)
	}
	f("t0_c1", "leave this point out, or choose another --save_dir")
	f("t0_c2.failed", "remove the folder to run the point again")
	f(".t0_c1.partial", "remove the folder if no sweep runs")
	cfg := valid(t)
	for _, name := range []string{"t0_c4", "t1_c1", "unrelated"} {
		if err := os.MkdirAll(filepath.Join(cfg.SaveDir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := NewPlan(cfg); err != nil {
		t.Errorf("other points exist: got %v, want none", err)
	}
	if err := os.WriteFile(filepath.Join(cfg.SaveDir, "timing.json"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	refused(t, cfg, "timing.json of a single run")
}

// A folder that cannot be written is refused at once; a good one is not made yet.
func TestUnwritableFolder(t *testing.T) {
	cfg := valid(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	cfg.SaveDir = filepath.Join(file, "sub")
	refused(t, cfg, "cannot write to --save_dir")
	cfg.SaveDir = file
	refused(t, cfg, "cannot write to --save_dir")
	cfg = valid(t)
	if _, err := NewPlan(cfg); err != nil || exists(cfg.SaveDir) {
		t.Errorf("got %v, folder made: %v", err, exists(cfg.SaveDir))
	}
	if got := entries(t, filepath.Dir(cfg.SaveDir)); len(got) != 0 {
		t.Errorf("got %v left behind", got)
	}
}

// Points are named by the shortest form and run in the order given.
func TestPoints(t *testing.T) {
	f := func(temperatures, concurrency []string, want ...string) {
		t.Helper()
		cfg := valid(t)
		cfg.Temperatures, cfg.Concurrency = temperatures, concurrency
		p, err := NewPlan(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, point := range p.Points {
			got = append(got, point.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	f(nil, nil, "t0_c1")
	f([]string{"1", "0.0", "0.60", ".25", "1e-1", "-0"}[:5], []string{"32", "1"}, "t1_c32", "t1_c1", "t0_c32", "t0_c1", "t0.6_c32", "t0.6_c1", "t0.25_c32", "t0.25_c1", "t0.1_c32", "t0.1_c1")
	f([]string{"-0"}, nil, "t0_c1")
}

// The URL loses what people paste with it.
func TestNormalURL(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got, err := normalURL(in); err != nil || got != want {
			t.Errorf("%s: got %s, %v; want %s", in, got, err, want)
		}
	}
	f("http://h:8000", "http://h:8000")
	f("http://h:8000/", "http://h:8000")
	f("http://h:8000/v1", "http://h:8000")
	f("https://h/gateway/v1/", "https://h/gateway")
}

// Questions in memory need no file.
func TestQuestionsInMemory(t *testing.T) {
	cfg := valid(t)
	cfg.MTBench, cfg.Questions = "", []byte(`{"turns": ["a", "b"]}`+"\n")
	p, err := NewPlan(cfg)
	if err != nil || len(p.Questions) != 1 || p.Dataset != "mtbench" {
		t.Errorf("got %+v, %v", p, err)
	}
}
