package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"spectap/collector"
)

// Foreign is one point whose requests somebody else's client makes. It does what a
// sweep does around a point: reads the questions, waits for the server, asks what it
// is and what it has counted, and makes the point's folder.
//
//	NewForeign ─▶ Open ─▶ Emit (each Record) ─▶ Recognise ─▶ Complete or Fail
type Foreign struct {
	Label    string // name of the point and of its folder
	Warnings []string

	cfg         ForeignConfig
	plan        *Plan
	temperature *float64
	concurrency *int
	strict      bool // the number of questions was asked for: all are expected

	sweep *Sweep
	srv   server
	run   collector.Run
	files *pointFiles
}

// ForeignConfig is what a Foreign is made of. Of Config it takes the server, the
// data set (which may be left out), the folder, at most one temperature and one
// concurrency, and how figures are made.
type ForeignConfig struct {
	Config
	Label string           // "": made of temperature and concurrency, as t0_c32
	Extra collector.Object // members of configuration.json, after ours
}

// NewForeign checks everything that can be checked without the server. Its error
// joins all problems and is an ErrUsage.
func NewForeign(cfg ForeignConfig) (*Foreign, error) {
	typed := cfg.Config
	cfg.Config = cfg.withDefaults()
	f := &Foreign{cfg: cfg, plan: &Plan{}, strict: cfg.NumRequests != nil}
	errs := cfg.check()
	url, err := normalURL(cfg.URL)
	f.cfg.URL = url
	f.plan.Config = f.cfg.Config
	errs = append(errs, err, f.oneOfEach(typed))
	if typed.Dataset+typed.DatasetPath+typed.MTBench+typed.SpecBench != "" {
		errs = append(errs, f.plan.loadQuestions())
	} else if f.plan.Metric = collector.MetricAcceptanceRate; f.strict {
		errs = append(errs, errors.New("--num_requests takes questions of a file: want --mtbench, --specbench or --dataset too"))
	}
	if f.plan.SLO, err = collector.ParseSLO(cfg.SLO, cfg.SLOShare); err != nil {
		errs = append(errs, err)
	}
	if f.Label, err = f.name(); err != nil {
		errs = append(errs, err)
	}
	if cfg.SaveDir != "" {
		f.plan.Points = []PlannedPoint{{Name: f.Label}}
		errs = append(errs, f.plan.checkFolders()...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%w:\n%w", ErrUsage, err)
	}
	return f, nil
}

// oneOfEach reads the temperature and the concurrency that the point is named by.
func (f *Foreign) oneOfEach(typed Config) error {
	ts, errs := temperatures(typed.Temperatures)
	cs, more := concurrencies(typed.Concurrency)
	errs = append(errs, more...)
	if len(ts) > 1 || len(cs) > 1 {
		errs = append(errs, errors.New("several temperatures or concurrencies: a command is one point; run it once for each"))
	}
	if len(ts) == 1 {
		f.temperature = &ts[0]
	}
	if len(cs) == 1 {
		f.concurrency = &cs[0]
	}
	return errors.Join(errs...)
}

// name is the name of the point.
func (f *Foreign) name() (string, error) {
	label := f.cfg.Label
	if label == "" {
		var parts []string
		if f.temperature != nil {
			parts = append(parts, "t"+shortest(*f.temperature))
		}
		if f.concurrency != nil {
			parts = append(parts, "c"+strconv.Itoa(*f.concurrency))
		}
		if label = strings.Join(parts, "_"); label == "" {
			label = "exec"
		}
	}
	if label != filepath.Base(label) || strings.HasPrefix(label, ".") || strings.HasSuffix(label, collector.FailedSuffix) || strings.ContainsAny(label, `\:`) {
		return label, fmt.Errorf("cannot use --label %q: want the name of a folder, such as t0_c32", label)
	}
	return label, nil
}

// Open waits for the server, learns what it is, reads its counters and makes the
// point's folder. client reaches the server without the measuring proxy. The
// Engine that it returns is "" where it is unknown.
func (f *Foreign) Open(ctx context.Context, client *http.Client, progress io.Writer, terminal bool, log zerolog.Logger) (engine string, err error) {
	s := &Sweep{Plan: f.plan, HTTP: client, BaseURL: publicURL(f.cfg.URL), Progress: progress, Terminal: terminal, Log: log}
	s.runID = newRunID(s.now())
	s.progress = newProgress(progress, terminal, s.now)
	f.sweep = s
	stop := s.progress.start()
	cards, err := s.ready(ctx)
	stop()
	if err == nil {
		err = f.identify(ctx, cards)
	}
	if errors.Is(err, context.Canceled) {
		return "", errors.Join(errors.New("interrupted before the command was started"), err)
	}
	if err != nil {
		return "", err
	}
	cfg := f.cfg.Config
	f.run = collector.Run{
		ID: s.runID, Point: f.Label, Dataset: f.plan.Dataset, Metric: f.plan.Metric, Questions: f.plan.Questions,
		GPUs: cfg.GPUs, Acceptance: cfg.Acceptance, Measure: cfg.Measure, Postprocess: cfg.Postprocess,
		IgnoreEOS: cfg.IgnoreEOS, NoSpecStats: cfg.NoSpecStats, Seed: cfg.Seed, SLO: f.plan.SLO,
		Model: f.srv.model, Engine: f.srv.engine, EngineVersion: f.srv.version,
	}
	f.run.Before = s.settledCounters(ctx, f.srv.engine, nil, 0)
	if f.files, err = newPointFiles(cfg.SaveDir, f.Label, cfg.KeepTexts); err != nil {
		return "", err
	}
	if err := f.files.start(f.run); err != nil {
		return "", f.files.discard(err)
	}
	return f.srv.engine, nil
}

// identify learns what the server is. A client may ask a server of several models,
// or one that lists none.
func (f *Foreign) identify(ctx context.Context, cards []modelCard) (err error) {
	f.srv, err = f.sweep.identify(ctx, cards)
	if err != nil && ctx.Err() == nil && f.cfg.Model == "" {
		f.srv.version = f.sweep.engineVersion(ctx, f.srv.engine)
		err = nil
	}
	return err
}

// Dir is the folder that the point's folder is made in.
func (f *Foreign) Dir() string { return f.cfg.SaveDir }

// Emit implements collector.Sink: it keeps a Record on disk as it came. The
// questions' texts are not there, so only this process can recognise it.
func (f *Foreign) Emit(r *collector.Record) { f.files.emit(r) }

// Close implements collector.Sink; Recognise closes the records.
func (f *Foreign) Close() error { return nil }

// Recognise reads the server's counters after the load, closes the records, and
// recognises them. The Point has no figures yet.
func (f *Foreign) Recognise(ctx context.Context, recs []*collector.Record) (collector.Point, error) {
	kept := records{all: recs}
	f.run.After = f.sweep.settledCounters(ctx, f.srv.engine, f.run.Before, kept.finished())
	f.files.closed = true
	if err := f.files.records.Close(); err != nil {
		return collector.Point{}, f.files.rescue(err)
	}
	f.learn(recs)
	p := collector.Recognise(f.run, recs)
	if f.strict {
		for i := range p.Run.Questions {
			p.Run.Questions[i].NotAsked = false
		}
	}
	return p, nil
}

// learn takes from the Records what nobody said about the point.
func (f *Foreign) learn(recs []*collector.Record) {
	seen := observed(recs)
	f.Warnings = seen.warnings(f.temperature)
	if f.run.Model == "" {
		f.run.Model = seen.first
	}
	if f.run.Engine == "" {
		f.run.Engine = seen.engine
	}
	f.run.Temperature, f.run.Concurrency = seen.temperature, seen.inFlight
	if f.temperature != nil {
		f.run.Temperature = *f.temperature
	}
	if f.concurrency != nil {
		f.run.Concurrency = *f.concurrency
	}
	f.run.Configuration = f.configuration(seen)
}

// Complete writes the files of the point and gives the folder its name. Where no
// figure can be made the folder is set aside, and set aside says why.
func (f *Foreign) Complete(p collector.Point) (summary collector.Summary, setAside string, err error) {
	if err := f.writeRecords(p); err != nil {
		return summary, "", err
	}
	if summary, err = p.Write(f.files.partial); err == nil {
		summary.Warnings = append(summary.Warnings, f.Warnings...)
		return summary, "", f.files.complete()
	}
	if isDiskError(err) {
		return summary, "", f.files.rescue(fmt.Errorf("cannot write the files of point %s: %w", f.Label, err))
	}
	reason := fmt.Sprintf("its figures cannot be made: %v", err)
	_, err = f.files.fail(reason, failuresOf(p))
	return summary, reason, err
}

// Fail sets the point aside: LABEL.failed has its labelled records and error.json.
func (f *Foreign) Fail(p collector.Point, reason string) (dir string, err error) {
	if err := f.writeRecords(p); err != nil {
		return "", err
	}
	return f.files.fail(reason, failuresOf(p))
}

// Discard removes what there is of the point.
func (f *Foreign) Discard() error { return f.files.discard(nil) }

// writeRecords replaces the records by the labelled ones.
func (f *Foreign) writeRecords(p collector.Point) error {
	texts := collector.DropTexts
	if f.cfg.KeepTexts {
		texts = collector.KeepTexts
	}
	path := filepath.Join(f.files.partial, collector.FileRecords)
	if err := errors.Join(p.WriteRecords(path, texts), os.Chmod(path, 0o640)); err != nil {
		return f.files.rescue(err)
	}
	return nil
}

// failuresOf lists the requests of a point that failed, for error.json.
func failuresOf(p collector.Point) []failedRequest {
	var list []failedRequest
	for _, r := range p.Records {
		if r.ErrorKind == "" || r.SetApart != "" {
			continue
		}
		index, _ := strconv.Atoi(r.Labels.Conversation)
		list = append(list, failedRequest{
			Conversation: index, Question: r.Labels.Question, Turn: r.Labels.Turn, RequestID: r.RequestID,
			Status: r.Status, Kind: r.ErrorKind, Error: r.Error,
		})
	}
	return list
}

// configuration is the text of the point's configuration.json.
func (f *Foreign) configuration(seen observation) []byte {
	cfg := f.cfg.Config
	c := collector.Configuration{
		Tokenizer: optional(cfg.Tokenizer), Dataset: optional(cfg.Dataset), DatasetPath: optional(cfg.DatasetPath),
		MTBench: optional(cfg.MTBench), SpecBench: optional(cfg.SpecBench), NumRequests: cfg.NumRequests,
		Engine: optional(engineNames[f.run.Engine]), ModelDir: optional(f.srv.root),
		Temperature: f.temperature, TPSize: &cfg.GPUs, Concurrency: f.concurrency, Postprocess: &cfg.Postprocess,
		SaveDir: optional(cfg.SaveDir), ServingConfig: servingConfig(f.srv, f.run.Before, nil),
		EngineVersion: optional(f.srv.version), Argv: cfg.Argv,
		Provenance: collector.ProvenanceOf(cfg.Env, checkpoint(f.srv.root), f.sweep.now()),
	}
	var o collector.Object
	o.Set("spectap_version", cfg.Version)
	o.Set("spectap_run", f.run.ID)
	o.Set("url", collector.StripUserinfo(cfg.URL))
	o.Set("served_model", f.run.Model)
	o.Set("measure", cfg.Measure)
	o.Set("acceptance", cfg.Acceptance)
	o.Set("per_request_statistics", !cfg.NoSpecStats)
	o.Set("requests", seen.requests)
	o.Set("most_requests_in_flight", seen.inFlight)
	c.Extra = append(o, f.cfg.Extra...)
	return c.JSON()
}
