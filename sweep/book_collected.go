package sweep

import (
	"cmp"
	"encoding/json"
	"errors"
	"path/filepath"

	"spectap/collector"
)

// Collected is a point whose files were made of records.
type Collected struct {
	Run     collector.Run // without the Records' texts
	Folder  string
	Summary collector.Summary
	Figures *collector.RunFigures // nil where it has none
}

// WriteBook writes sweep.json and summary.csv above the folders of points that were
// made of records, as the sweep did that asked for them: the plan and the server are
// the first point's, argv is the command that made the files. A point of which a
// part is missing is "incomplete". It returns what the SLO's answers are.
func WriteBook(dir, version string, argv []string, points []Collected) ([]collector.SLOAnswer, error) {
	if len(points) == 0 {
		return nil, errors.New("cannot write sweep.json without a point")
	}
	first := points[0]
	config := configured(first.Run)
	b := &book{dir: dir, rows: earlierRows(dir), head: bookHead{
		Schema: bookSchema, Run: first.Run.ID, Started: started(points), Version: version, Argv: publicArgs(argv),
		Plan: config.plan(first.Run), Environment: config.environment(), Warnings: []string{},
		Server: bookServer{URL: config.text("url"), Model: first.Run.Model, Engine: first.Run.Engine, Version: first.Run.EngineVersion},
	}}
	for _, p := range points {
		b.head.Plan.Points = append(b.head.Plan.Points, p.Run.Point)
		if n := p.Run.Repeat.Number(); n > 1 {
			b.head.Plan.Repeats = max(b.head.Plan.Repeats, n)
		}
	}
	for _, p := range points {
		row := bookRow{Run: p.Run.ID, State: stateComplete, Folder: filepath.Base(p.Folder), Summary: p.Summary,
			rowSettings: configured(p.Run).plan(p.Run).rowSettings()}
		if p.Summary.Incomplete {
			row.State = stateIncomplete
		}
		b.put(row)
		b.pool.know(row, p.Figures)
	}
	return collector.SLOAnswers(b.summaries(), b.repeats()), b.write()
}

// started is the start of the first point, by its configuration.json.
func started(points []Collected) string {
	first := ""
	for _, p := range points {
		if at := configured(p.Run).text("timestamp"); first == "" || at != "" && at < first {
			first = cmp.Or(at, first)
		}
	}
	return first
}

// configuration is a point's configuration.json, read for what a Run does not say.
type configuration struct{ collector.Object }

func configured(r collector.Run) configuration {
	v, _ := collector.DecodeOrdered(r.Configuration) // none, or our own text
	o, _ := v.(collector.Object)
	return configuration{o}
}

func (c configuration) text(name string) string {
	v, _ := c.Get(name)
	s, _ := v.(string)
	return s
}

func (c configuration) number(name string) float64 {
	v, _ := c.Get(name)
	n, _ := v.(json.Number)
	f, _ := n.Float64()
	return f
}

func (c configuration) is(name string) bool {
	v, _ := c.Get(name)
	b, _ := v.(bool)
	return b
}

func (c configuration) plan(r collector.Run) bookPlan {
	p := bookPlan{
		Dataset: r.Dataset, DatasetPath: cmp.Or(c.text("mtbench"), c.text("specbench"), c.text("dataset_path")), Metric: r.Metric,
		Select: c.text("select"), Conversations: len(r.Questions), TopP: c.number("top_p"), TopK: int(c.number("top_k")),
		OutputLength: int(c.number("output_length")), GPUs: r.GPUs, Postprocess: r.Postprocess, IgnoreEOS: r.IgnoreEOS,
		Completions: c.is("completions"), Measure: r.Measure, Acceptance: r.Acceptance, NoSpecStats: r.NoSpecStats, Baseline: r.Baseline,
		Driver: c.text("driver"), CacheSalt: c.is("cache_salt"), IncludeStop: c.is("include_stop_str_in_output"),
		Warmup: r.Warmup, BootstrapSeed: r.Seed, SLO: r.SLO,
	}
	if r.Schedule != nil {
		p.Arrivals, p.ArrivalsSeed = r.Schedule.Arrivals, firstSeed(r.Schedule.Seed, r)
	}
	if v, ok := c.Get("sampling_seed"); ok {
		if n, ok := v.(json.Number); ok {
			seed, _ := n.Int64() // our own text
			p.SamplingSeed = firstSeed(seed, r)
		}
	}
	if len(r.Shards) > 0 {
		p.Questions = r.Shards[0].Questions
	}
	for _, q := range r.Questions {
		p.Requests += q.Turns
	}
	return p
}

// firstSeed is the seed of a point's first run, by that of one of its runs.
func firstSeed(seed int64, r collector.Run) *int64 {
	seed -= int64(r.Repeat)
	return &seed
}

// environment is what of a sweep's environment went into configuration.json.
func (c configuration) environment() map[string]string {
	env := map[string]string{}
	for variable, member := range map[string]string{
		"SPECDEC_BENCH_SHA": "specdec_bench_sha", "MODELOPT_VERSION": "modelopt_version", "MODELOPT_SHA": "modelopt_sha",
		"NMM_SANDBOX_SHA": "nmm_sandbox_sha", "CONTAINER_IMAGE": "container_image", "JIRA_TICKET": "jira_ticket",
		"HUGGINGFACE_MODEL_ID": "huggingface_model_id",
	} {
		if v := c.text(member); v != "" {
			env[variable] = v
		}
	}
	return env
}
