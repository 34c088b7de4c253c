package sweep

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/url"
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
	pool pool
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
	Earlier     []bookRun         `json:"earlier_runs,omitempty"` // that measured points which are in the folder
}

// bookPlan has every setting on which the numbers of a point depend: a sweep that
// is resumed compares all members but freeOfPlan.
type bookPlan struct {
	Dataset       string           `json:"dataset"`
	DatasetPath   string           `json:"dataset_path"`
	Metric        collector.Metric `json:"metric"`
	Questions     string           `json:"questions_sha256,omitempty"` // of the whole data set, in its order
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
	Baseline      bool             `json:"baseline,omitempty"`
	Driver        string           `json:"driver"`                  // "builtin", or another program and its version
	Arrivals      string           `json:"arrivals,omitempty"`      // of an open loop
	ArrivalsSeed  *int64           `json:"arrivals_seed,omitempty"` // of its first run
	CacheSalt     bool             `json:"cache_salt"`
	IncludeStop   bool             `json:"include_stop_str_in_output"`
	SamplingSeed  *int64           `json:"sampling_seed,omitempty"` // of the first repeat
	ChatArgs      json.RawMessage  `json:"chat_template_args,omitempty"`
	Tokenizer     string           `json:"tokenizer,omitempty"` // where another driver counts with it
	BootstrapSeed int64            `json:"bootstrap_seed"`
	SLO           *collector.SLO   `json:"slo,omitempty"`
}

type bookServer struct {
	URL         string            `json:"url"`
	Model       string            `json:"model"`
	Engine      string            `json:"engine"`
	Version     string            `json:"version"`
	Card        json.RawMessage   `json:"model_card,omitempty"`
	CacheConfig map[string]string `json:"cache_config,omitempty"`
	DraftLength int               `json:"draft_length_tokens,omitempty"` // drafts a step, as far as seen
	Command     []string          `json:"command,omitempty"`             // that started it, where we did, with {port} for its port
}

// bookRow is one point: its summary, or why it failed.
type bookRow struct {
	Run    string `json:"run"`
	State  string `json:"state"` // one of the states below
	Folder string `json:"folder"`
	Reason string `json:"reason,omitempty"` // why it failed
	rowSettings
	collector.Summary
}

// What became of a point. One that was made of records may lack a part of them.
const (
	stateComplete   = "complete"
	stateIncomplete = "incomplete"
	stateFailed     = "failed"
)

// newBook starts the book of this sweep with the rows that earlier ones left, those
// of the points that are kept included.
func (s *Sweep) newBook(srv server, k kept) *book {
	cfg := s.Plan.Config
	b := &book{dir: cfg.SaveDir, head: bookHead{
		Schema: bookSchema, Run: s.runID, Started: collector.Timestamp(s.now()), Version: cfg.Version,
		Argv: publicArgs(cfg.Argv), Environment: provenance(cfg.Env), Warnings: append([]string{}, s.Plan.Warnings...),
		Plan: s.bookPlan(srv), Server: s.bookServer(srv),
	}}
	b.rows = s.earlierRows(k)
	for _, run := range append([]bookRun{k.book.bookRun}, k.book.Earlier...) {
		if slices.ContainsFunc(b.rows, func(r bookRow) bool { return r.Run == run.Run }) {
			b.head.Earlier = append(b.head.Earlier, run)
		}
	}
	return b
}

// bookPlan is the plan as sweep.json has it.
func (s *Sweep) bookPlan(srv server) bookPlan {
	p := s.Plan.bookPlan()
	p.Driver = s.driverName()
	p.CacheSalt = !s.Plan.Config.NoCacheSalt && srv.engine == engineVLLM
	return p
}

// bookPlan is the plan without what has to be asked for: the server's engine, the driver's version.
func (p *Plan) bookPlan() bookPlan {
	cfg := p.Config
	b := bookPlan{
		Dataset: p.Dataset, DatasetPath: p.datasetPath, Metric: p.Metric, Questions: p.questionsHash, Select: cfg.Select,
		Conversations: p.Conversations(), Requests: p.Turns(), TopP: p.TopP, TopK: p.TopK, ChatArgs: p.params.template,
		OutputLength: cfg.OutputLength, GPUs: cfg.GPUs, Postprocess: cfg.Postprocess, IgnoreEOS: cfg.IgnoreEOS,
		Completions: cfg.Completions, Measure: cfg.Measure, Acceptance: cfg.Acceptance, NoSpecStats: cfg.NoSpecStats || cfg.Baseline, Baseline: cfg.Baseline,
		IncludeStop: cfg.IncludeStop, SamplingSeed: cfg.SamplingSeed, BootstrapSeed: cfg.Seed, Warmup: cfg.Warmup, SLO: p.SLO,
	}
	if cfg.Repeats > 1 {
		b.Repeats = cfg.Repeats
	}
	if len(cfg.RequestRate) > 0 {
		b.Arrivals, b.ArrivalsSeed = cfg.Arrivals, &cfg.ArrivalsSeed
	}
	if cfg.Driver == DriverAIPerf {
		b.Tokenizer = cfg.Tokenizer
	}
	if p.Shard.divided() {
		b.Shard = p.Shard.String()
	}
	for _, point := range p.Points {
		b.Points = append(b.Points, point.Name)
	}
	return b
}

// bookServer is what was seen of the server.
func (s *Sweep) bookServer(srv server) bookServer {
	b := bookServer{URL: collector.StripUserinfo(s.Plan.Config.URL), Model: srv.model, Engine: srv.engine, Version: srv.version,
		Card: srv.card, CacheConfig: srv.cache, DraftLength: srv.draftLength}
	port := "" // that was free when the server was started, another one each time
	if u, err := url.Parse(s.Plan.Config.URL); err == nil {
		port = u.Port()
	}
	for _, word := range s.Plan.Config.ServerCommand {
		if port != "" && (word == port || strings.HasSuffix(word, "="+port) || strings.HasSuffix(word, ":"+port)) {
			word = strings.TrimSuffix(word, port) + "{port}"
		}
		b.Command = append(b.Command, word)
	}
	return b
}

// earlierRows reads the rows of an existing sweep.json whose folders exist. A
// file that cannot be read has none.
func earlierRows(dir string) []bookRow {
	old, _, _ := readBook(dir)
	return old.rowsOf(dir)
}

// rowsOf are the rows whose folders exist.
func (b savedBook) rowsOf(dir string) []bookRow {
	return slices.DeleteFunc(slices.Clone(b.Points), func(r bookRow) bool {
		return r.Folder == "" || !exists(filepath.Join(dir, r.Folder))
	})
}

// earlierRows are the rows of other points than the plan's, and those of the points
// that are kept.
func (s *Sweep) earlierRows(k kept) []bookRow {
	rows := slices.DeleteFunc(k.book.rowsOf(s.Plan.Config.SaveDir), func(r bookRow) bool { return s.Plan.runs(r.Point) })
	for _, p := range s.Plan.Points {
		if r, ok := k.rows[p.Name]; ok {
			rows = append(rows, r)
		}
	}
	return rows
}

// runs says that the plan has a point of that name.
func (p *Plan) runs(name string) bool {
	return slices.ContainsFunc(p.Points, func(point PlannedPoint) bool { return point.Name == name })
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
	b.settle()
	repeats := b.repeats()
	text, err := json.MarshalIndent(struct {
		bookHead
		Points  []bookRow             `json:"points"`
		Repeats []collector.Repeats   `json:"repeats,omitempty"` // of the points that ran more than once
		SLO     []collector.SLOAnswer `json:"slo_answers,omitempty"`
	}{b.head, append([]bookRow{}, b.rows...), repeats, collector.SLOAnswers(b.summaries(), repeats)}, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot make sweep.json: %w", err)
	}
	if err := writeWhole(filepath.Join(b.dir, collector.FileBook), append(text, '\n')); err != nil {
		return err
	}
	return writeWhole(filepath.Join(b.dir, "summary.csv"), b.csv(repeats))
}

// repeats sums up the runs of the points that ran more than once.
func (b *book) repeats() []collector.Repeats {
	b.pool.dir = b.dir
	return b.pool.repeats(b.rows)
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
func (b *book) csv(repeats []collector.Repeats) []byte {
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	_ = w.Write(append([]string{"run", "point", "state", "temperature", "concurrency", "conversations", "requests", "failed_requests",
		"average_al", "acceptance_view", "client_average_al", "server_average_al", "output_tokens_per_second",
		"output_tokens_per_second_per_gpu", "decode_tokens_per_second_per_user", "ttft_mean_s", "ttft_p50_s",
		"blocks_came", "blocks_expected", "audit", "repeat", "request_rate", "mean_in_flight", "steady_seconds", "steady_output_tokens_per_second",
		"steady_output_tokens_per_second_low", "steady_output_tokens_per_second_high", "steady_too_short",
		"share_within_slo", "share_within_slo_low", "share_within_slo_high", "slo_verdict",
		"finished_conversations_per_second", "schedule_error_p99_s", "ttft_from_intended_p50_s", "e2e_from_intended_p50_s",
		"runs_together", "share_within_slo_of_runs", "share_within_slo_of_runs_low", "share_within_slo_of_runs_high", "slo_verdict_of_runs"}, rowColumns...)) // a buffer takes all
	for _, r := range b.rows {
		f := func(v float64) string {
			if r.State == stateFailed {
				return ""
			}
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
		_ = w.Write(append([]string{r.Run, r.Point, r.State, shortest(r.Temperature), positive(float64(r.Concurrency)), strconv.Itoa(r.Conversations),
			strconv.Itoa(r.Requests), strconv.Itoa(r.Failed), positive(r.AverageAL), r.View, positive(r.ClientAL), positive(r.ServerAL), f(r.OutputTPS),
			f(r.OutputTPSPerGPU), f(r.DecodeTPSPerUser), f(r.TTFTMean), f(r.TTFTP50), strconv.Itoa(r.BlocksCame), strconv.Itoa(r.BlocksExpected), r.Audit, strconv.Itoa(r.Repeat.Number()), positive(r.RequestRate)}, slices.Concat(loadCells(r.Summary), openLoopCells(r.Summary), runsCells(r.Point, repeats),
			[]string{r.Dataset, r.Metric, positive(float64(r.GPUs)), positive(float64(r.OutputLength)), strconv.FormatBool(r.Baseline)})...))
	}
	w.Flush()
	return buf.Bytes()
}

// runsCells are the cells about all runs of a point together: the same for each of
// them, and empty where one was left out or there is one alone.
func runsCells(point string, repeats []collector.Repeats) []string {
	cells := make([]string, 5)
	i := slices.IndexFunc(repeats, func(r collector.Repeats) bool { return slices.Contains(r.Runs, point) })
	if i < 0 {
		return cells
	}
	cells[0] = strconv.Itoa(len(repeats[i].Runs))
	if g := repeats[i].Goodput; g != nil {
		shareCells(cells[1:], *g)
	}
	return cells
}

// shareCells fills four cells: a share, its interval, the verdict.
func shareCells(cells []string, g collector.Goodput) {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	cells[0], cells[3] = number(g.Share), g.Verdict
	if g.Interval.Known {
		cells[1], cells[2] = number(g.Interval.Low), number(g.Interval.High)
	}
}

// openLoopCells are the cells that only the points of an open loop fill.
func openLoopCells(s collector.Summary) []string {
	if s.OpenLoop == nil {
		return []string{"", "", "", ""}
	}
	f := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	known := func(v *float64) string {
		if v == nil {
			return ""
		}
		return f(*v)
	}
	return []string{known(s.OpenLoop.Finished), f(s.OpenLoop.ScheduleError.P99), known(s.OpenLoop.TTFT.P50), known(s.OpenLoop.E2E.P50)}
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
		shareCells(cells[6:], *g)
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
