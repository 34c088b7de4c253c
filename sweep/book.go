package sweep

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"spectap/collector"
)

// book writes sweep.json and summary.csv beside the point folders, again after
// each point. It holds no content. Rows of an earlier sweep into the same
// folder stay as long as their point folders do.
type book struct {
	dir  string
	head bookHead
	rows []bookRow
}

// bookHead is sweep.json without its rows.
type bookHead struct {
	Schema      string            `json:"schema"`
	Run         string            `json:"run"`
	Started     string            `json:"started"` // UTC
	Version     string            `json:"spectap_version"`
	Argv        []string          `json:"argv"`
	Plan        bookPlan          `json:"plan"`
	Server      bookServer        `json:"server"`
	Environment map[string]string `json:"environment"`
	Warnings    []string          `json:"warnings"`
}

type bookPlan struct {
	Dataset       string           `json:"dataset"`
	DatasetPath   string           `json:"dataset_path"`
	Metric        collector.Metric `json:"metric"`
	Select        string           `json:"select"`
	Shard         string           `json:"shard,omitempty"` // "0/3"; conversations and requests are this shard's
	Conversations int              `json:"conversations"`
	Requests      int              `json:"requests_per_point"`
	Points        []string         `json:"points"`
	Repeats       int              `json:"repeats,omitempty"`              // runs of each point, where there are several
	Warmup        int              `json:"warmup_conversations,omitempty"` // before each point, of all shards together
	TopP          float64          `json:"top_p"`
	TopK          int              `json:"top_k"`
	OutputLength  int              `json:"output_length_tokens"`
	GPUs          int              `json:"gpus"`
	Postprocess   string           `json:"postprocess"`
	IgnoreEOS     bool             `json:"ignore_eos"`
	Completions   bool             `json:"completions"`
	Measure       string           `json:"measure"`
	Acceptance    string           `json:"acceptance"`
	NoSpecStats   bool             `json:"no_spec_stats"`
	Driver        string           `json:"driver"`                  // "builtin", or another program and its version
	Arrivals      string           `json:"arrivals,omitempty"`      // of an open loop
	ArrivalsSeed  *int64           `json:"arrivals_seed,omitempty"` // of its first run
	CacheSalt     bool             `json:"cache_salt"`
}

type bookServer struct {
	URL     string          `json:"url"`
	Model   string          `json:"model"`
	Engine  string          `json:"engine"`
	Version string          `json:"version"`
	Card    json.RawMessage `json:"model_card,omitempty"`
}

// bookRow is one point: its summary, or why it failed.
type bookRow struct {
	Run    string `json:"run"`
	State  string `json:"state"` // one of the states below
	Folder string `json:"folder"`
	Reason string `json:"reason,omitempty"` // why it failed
	collector.Summary
}

// What became of a point. One that was made of records may lack a part of them.
const (
	stateComplete   = "complete"
	stateIncomplete = "incomplete"
	stateFailed     = "failed"
)

// newBook starts the book of this sweep with the rows that an earlier one left.
func (s *Sweep) newBook(srv server) *book {
	cfg := s.Plan.Config
	b := &book{dir: cfg.SaveDir, head: bookHead{
		Schema: "spectap.sweep/1", Run: s.runID, Started: collector.Timestamp(s.now()), Version: cfg.Version,
		Argv: publicArgs(cfg.Argv), Environment: provenance(cfg.Env), Warnings: append([]string{}, s.Plan.Warnings...),
		Plan: bookPlan{
			Dataset: s.Plan.Dataset, DatasetPath: s.Plan.datasetPath, Metric: s.Plan.Metric, Select: cfg.Select,
			Conversations: s.Plan.Conversations(), Requests: s.Plan.Turns(), TopP: s.Plan.TopP, TopK: s.Plan.TopK,
			OutputLength: cfg.OutputLength, GPUs: cfg.GPUs, Postprocess: cfg.Postprocess, IgnoreEOS: cfg.IgnoreEOS,
			Completions: cfg.Completions, Measure: cfg.Measure, Acceptance: cfg.Acceptance, NoSpecStats: cfg.NoSpecStats, Driver: s.driverName(),
			Warmup: cfg.Warmup, CacheSalt: !cfg.NoCacheSalt && srv.engine == engineVLLM,
		},
		Server: bookServer{URL: collector.StripUserinfo(cfg.URL), Model: srv.model, Engine: srv.engine, Version: srv.version, Card: srv.card},
	}}
	if cfg.Repeats > 1 {
		b.head.Plan.Repeats = cfg.Repeats
	}
	if s.Plan.Shard.divided() {
		b.head.Plan.Shard = s.Plan.Shard.String()
	}
	if len(cfg.RequestRate) > 0 {
		b.head.Plan.Arrivals, b.head.Plan.ArrivalsSeed = cfg.Arrivals, &cfg.ArrivalsSeed
	}
	for _, p := range s.Plan.Points {
		b.head.Plan.Points = append(b.head.Plan.Points, p.Name)
	}
	b.rows = earlierRows(cfg.SaveDir)
	return b
}

// earlierRows reads the rows of an existing sweep.json whose folders exist. A
// file that cannot be read has none.
func earlierRows(dir string) []bookRow {
	text, err := os.ReadFile(filepath.Join(dir, "sweep.json"))
	if err != nil {
		return nil
	}
	var old struct {
		Points []bookRow `json:"points"`
	}
	if json.Unmarshal(text, &old) != nil {
		return nil
	}
	return slices.DeleteFunc(old.Points, func(r bookRow) bool {
		return r.Folder == "" || !exists(filepath.Join(dir, r.Folder))
	})
}

// add writes both files with one more row.
func (b *book) add(done pointResult) error {
	row := bookRow{Run: b.head.Run, State: stateComplete, Folder: done.point.Name, Summary: done.summary}
	if f := done.failed; f != nil {
		row.State, row.Folder, row.Reason = stateFailed, filepath.Base(f.Dir), f.Reason
		row.Summary = collector.Summary{Requests: f.Requests, Failed: f.FailedRequests}
	}
	row.Point, row.Temperature, row.Concurrency = done.point.Name, done.point.Temperature, done.point.Concurrency
	row.Repeat, row.RequestRate = done.point.Repeat, done.point.Rate
	b.put(row)
	return b.write()
}

// put adds the row of a point, in the place of an earlier one.
func (b *book) put(row bookRow) {
	b.rows = append(slices.DeleteFunc(b.rows, func(r bookRow) bool { return r.Point == row.Point }), row)
}

// write writes both files.
func (b *book) write() error {
	text, err := json.MarshalIndent(struct {
		bookHead
		Points []bookRow             `json:"points"`
		SLO    []collector.SLOAnswer `json:"slo_answers,omitempty"`
	}{b.head, b.rows, collector.SLOAnswers(b.summaries())}, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot make sweep.json: %w", err)
	}
	if err := writeWhole(filepath.Join(b.dir, "sweep.json"), append(text, '\n')); err != nil {
		return err
	}
	return writeWhole(filepath.Join(b.dir, "summary.csv"), b.csv())
}

// summaries are those of the points that did not fail.
func (b *book) summaries() []collector.Summary {
	var list []collector.Summary
	for _, r := range b.rows {
		if r.State != stateFailed {
			list = append(list, r.Summary)
		}
	}
	return list
}

// csv writes the rows as a table; units are in the names.
func (b *book) csv() []byte {
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	_ = w.Write([]string{"run", "point", "state", "temperature", "concurrency", "conversations", "requests", "failed_requests",
		"average_al", "acceptance_view", "client_average_al", "server_average_al", "output_tokens_per_second",
		"output_tokens_per_second_per_gpu", "decode_tokens_per_second_per_user", "ttft_mean_s", "ttft_p50_s",
		"blocks_came", "blocks_expected", "audit", "repeat", "request_rate", "mean_in_flight", "steady_seconds", "steady_output_tokens_per_second",
		"steady_output_tokens_per_second_low", "steady_output_tokens_per_second_high", "steady_too_short",
		"share_within_slo", "share_within_slo_low", "share_within_slo_high", "slo_verdict"}) // a buffer takes all
	for _, r := range b.rows {
		f := func(v float64) string {
			if r.State == stateFailed {
				return ""
			}
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
		_ = w.Write(append([]string{r.Run, r.Point, r.State, shortest(r.Temperature), positive(float64(r.Concurrency)), strconv.Itoa(r.Conversations),
			strconv.Itoa(r.Requests), strconv.Itoa(r.Failed), f(r.AverageAL), r.View, f(r.ClientAL), f(r.ServerAL), f(r.OutputTPS),
			f(r.OutputTPSPerGPU), f(r.DecodeTPSPerUser), f(r.TTFTMean), f(r.TTFTP50), strconv.Itoa(r.BlocksCame), strconv.Itoa(r.BlocksExpected), r.Audit, strconv.Itoa(r.Repeat.Number()), positive(r.RequestRate)}, loadCells(r.Summary)...))
	}
	w.Flush()
	return buf.Bytes()
}

// positive is a number, or nothing where it does not apply.
func positive(v float64) string {
	if v <= 0 {
		return ""
	}
	return shortest(v)
}

// loadCells are the cells about steady state and SLO; empty where nobody knows.
func loadCells(s collector.Summary) []string {
	cells := make([]string, 10)
	number := func(i int, v float64) { cells[i] = strconv.FormatFloat(v, 'g', -1, 64) }
	interval := func(i int, in collector.Interval) {
		if in.Known {
			number(i, in.Low)
			number(i+1, in.High)
		}
	}
	if s.Steady != nil {
		number(0, s.Steady.MeanInFlight)
		cells[5] = s.Steady.NoWindow
		if w := s.Steady.Window; w != nil {
			number(1, w.Seconds)
			number(2, w.OutputTPS)
			interval(3, w.Interval)
			cells[5] = w.TooShort
		}
	}
	if g := s.Goodput; g != nil {
		number(6, g.Share)
		interval(7, g.Interval)
		cells[9] = g.Verdict
	}
	return cells
}

// publicArgs redacts the command line and strips credentials from its URLs.
func publicArgs(argv []string) []string {
	args := collector.RedactArgs(argv)
	for i, arg := range args {
		if strings.Contains(arg, "://") || i > 0 && args[i-1] == "--url" {
			args[i] = collector.StripUserinfo(arg)
		}
	}
	return args
}

// provenance keeps the variables that configuration.json reads, nothing else of
// the environment.
func provenance(env map[string]string) map[string]string {
	kept := map[string]string{}
	for _, name := range []string{"SPECDEC_BENCH_SHA", "MODELOPT_VERSION", "MODELOPT_SHA", "NMM_SANDBOX_SHA",
		"CONTAINER_IMAGE", "JIRA_TICKET", "HUGGINGFACE_MODEL_ID"} {
		if v := env[name]; v != "" {
			kept[name] = v
		}
	}
	return kept
}
