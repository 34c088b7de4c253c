package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spectap/collector"
	"spectap/collector/report"
	"spectap/sweep"
)

// sweepFlags are the flags as typed; specdec_bench's names where it has the flag.
type sweepFlags struct {
	config      sweep.Config
	temperature list
	concurrency list
	requestRate list
	slo         list
	numRequests int
	topP        float64
	topK        int
	seed        int64
	apiKeyFile  string
	logLevel    string
}

func (p program) sweepCommand() *cobra.Command {
	f := &sweepFlags{}
	c := &cobra.Command{
		Use:   "sweep",
		Short: "ask a data set's questions at temperatures x concurrencies and write specdec_bench's files",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.sweep(c.Context(), f.read(p, c.Flags()), f.logLevel)
		},
	}
	f.add(c.Flags())
	return c
}

func (f *sweepFlags) add(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringVar(&c.URL, "url", "", "the server, http://host:port")
	flags.StringVar(&c.Model, "model", "", "model name; default: the one that the server lists")
	flags.StringVar(&c.MTBench, "mtbench", "", "MT-Bench question file (JSON lines)")
	flags.StringVar(&c.SpecBench, "specbench", "", "Spec-Bench question file (JSON lines)")
	flags.StringVar(&c.Dataset, "dataset", "", "data set by name: mtbench, specbench or speed; needs --dataset_path")
	flags.StringVar(&c.DatasetPath, "dataset_path", "", "file or folder of --dataset")
	flags.IntVar(&f.numRequests, "num_requests", 0, "number of conversations; default: all (80 of MT-Bench, 480 of Spec-Bench)")
	flags.StringVar(&c.Select, "select", "auto", "which conversations --num_requests takes: auto (as specdec_bench does for the data set), stratified or first")
	flags.StringVar(&c.RuntimeParams, "runtime_params", "", "specdec_bench's YAML file: sampling_kwargs, chat_template_args, dataset_kwargs")
	addList(flags, &f.temperature, "temperature", "temperatures, for example 0 1 (default 0)")
	addList(flags, &f.concurrency, "concurrency", "conversations at a time, for example 1 8 32 (default 1)")
	addList(flags, &f.requestRate, "request_rate", "open loop, in place of --concurrency: conversations that begin per second whatever is in flight, for example 5 10 20; later turns follow the turn before them")
	flags.StringVar(&c.Arrivals, "arrivals", collector.ArrivalsPoisson, "when the conversations of --request_rate begin: poisson (at random, seeded) or constant")
	flags.Int64Var(&c.ArrivalsSeed, "arrivals_seed", 0, "seed of --arrivals poisson, one more for each repeat")
	flags.IntVar(&c.Warmup, "warmup", 0, "conversations to ask before each point, at its load; their records are set apart and in no figure")
	flags.IntVar(&c.Repeats, "repeats", 1, "runs of each point: all points once, then all again, in folders t0_c32, t0_c32_r2, ...")
	flags.IntVar(&c.OutputLength, "output_length", 4096, "most tokens a turn")
	flags.Float64Var(&f.topP, "top_p", 1, "top_p of every request")
	flags.IntVar(&f.topK, "top_k", 0, "top_k of every request; 0 is off")
	flags.Int64Var(&f.seed, "seed", 0, "seed of every request; default: none is sent")
	flags.IntVar(&c.GPUs, "num_gpus", 1, "GPUs that the server uses: divisor of Output TPS/gpu")
	flags.StringVar(&c.SaveDir, "save_dir", "", "folder for the files; one folder a point is made in it")
	flags.BoolVar(&c.Resume, "resume", false, "go on in --save_dir: keep its complete points if they were measured the same way, run what failed, was killed or is missing")
	flags.BoolVar(&c.NoReport, "no_report", false, noReportHelp)
	flags.StringVar(&c.Postprocess, "postprocess", "base", "what a reply loses before it goes into the history: base (nothing) or gptoss")
	flags.BoolVar(&c.IgnoreEOS, "ignore_eos", false, "send ignore_eos: true, so that every reply reaches --output_length")
	flags.BoolVar(&c.Completions, "completions", false, "send the last user text to /v1/completions, without template and history")
	flags.StringVar(&c.Shard, "shard", "", "I/N: ask part I (from 0, as $JOB_COMPLETION_INDEX) of N alone, at its part of each concurrency; spectap collect merges the parts")
	flags.StringVar(&c.Driver, "driver", sweep.DriverBuiltin, "who asks the questions: builtin, or aiperf (NVIDIA AIPerf 0.13, which must be installed)")
	flags.StringVar(&c.AIPerf, "aiperf", "", "the aiperf program of --driver aiperf; default: the one on PATH")
	flags.StringVar(&c.Tokenizer, "tokenizer", "", "recorded in configuration.json, the server tokenizes; --driver aiperf wants a folder with the model's tokenizer here")
	flags.StringVar(&c.APIKey, "api_key", "", "bearer token for the server (environment SPECTAP_API_KEY); prefer --api_key_file")
	flags.StringVar(&f.apiKeyFile, "api_key_file", "", "file that holds the bearer token")
	flags.DurationVar(&c.Wait, "wait", 10*time.Minute, "how long to wait for the server to become ready")
	flags.DurationVar(&c.StallTimeout, "stall_timeout", 0, "give up on an answer that brings no data for so long, and set its point aside; 0 is no limit")
	flags.BoolVar(&c.DryRun, "dry_run", false, "print the plan and send nothing")
	flags.StringVar(&c.Measure, "measure", "tokens", "what the requests ask the server for: usage (final event) or tokens (also counts on every event)")
	flags.StringVar(&c.Acceptance, "acceptance", "client", "what acceptance_rate.json holds: client (what specdec_bench counts) or server (the server's histogram)")
	flags.BoolVar(&c.NoSpecStats, "no_spec_stats", false, "the server reports no per-request statistics: count the tokens of its events")
	flags.BoolVar(&c.Baseline, "baseline", false, "the server does not speculate: measure times alone, to compare with")
	flags.BoolVar(&c.NoCacheSalt, "no_cache_salt", false, "send no cache_salt: points share the server's prefix cache")
	flags.BoolVar(&c.IncludeStop, "include_stop_str_in_output", false, "send include_stop_str_in_output: true (the README names what it changes)")
	flags.BoolVar(&c.KeepTexts, "keep_texts", false, "keep prompts and replies in records.jsonl, so that collect can write the responses file")
	flags.Int64Var(&c.Seed, "bootstrap_seed", 0, "seed of the resamples behind the intervals")
	addSLO(flags, &f.slo, &c.SLOShare)
	flags.StringVar(&f.logLevel, "log_level", "warn", "level of the log on stderr: debug, info, warn or error")
}

// read turns the flags into a plan's configuration.
func (f *sweepFlags) read(p program, flags *pflag.FlagSet) sweep.Config {
	cfg := f.config
	cfg.Argv, cfg.Env, cfg.Version = p.argv, p.env, version()
	cfg.Host, _ = os.Hostname() // "" is an answer
	cfg.Temperatures, cfg.Concurrency, cfg.RequestRate = f.temperature, f.concurrency, f.requestRate
	cfg.SLO = f.slo
	cfg.OpenFiles = openFiles()
	for _, each := range []struct {
		name string
		set  func()
	}{
		{"num_requests", func() { cfg.NumRequests = &f.numRequests }},
		{"top_p", func() { cfg.TopP = &f.topP }},
		{"top_k", func() { cfg.TopK = &f.topK }},
		{"seed", func() { cfg.SamplingSeed = &f.seed }},
	} {
		if flags.Changed(each.name) {
			each.set()
		}
	}
	key, err := f.key(p.env)
	cfg.APIKey, cfg.Mistakes = key, errors.Join(f.check(flags), err)
	return cfg
}

// check refuses what sweep.Config cannot tell from a setting left out.
func (f *sweepFlags) check(flags *pflag.FlagSet) error {
	var errs []error
	if f.config.OutputLength == 0 {
		errs = append(errs, errors.New("cannot use --output_length 0: want at least 1 token"))
	}
	if f.config.Repeats == 0 {
		errs = append(errs, errors.New("cannot use --repeats 0: want 1 to "+strconv.Itoa(sweep.MostRepeats)))
	}
	for _, name := range []string{"arrivals", "arrivals_seed"} {
		if flags.Changed(name) && len(f.requestRate) == 0 {
			errs = append(errs, fmt.Errorf("cannot use --%s without --request_rate: only an open loop has arrivals", name))
		}
	}
	if f.config.GPUs == 0 {
		errs = append(errs, errors.New("cannot use --num_gpus 0: want at least 1"))
	}
	if err := checkSLOShare(flags, f.slo, f.config.SLOShare); err != nil {
		errs = append(errs, err)
	}
	if levels := []string{"debug", "info", "warn", "error"}; !slices.Contains(levels, f.logLevel) {
		errs = append(errs, fmt.Errorf("cannot use --log_level %q: want one of %s", f.logLevel, strings.Join(levels, ", ")))
	}
	return errors.Join(errs...)
}

// key finds the bearer token: flag, file, environment.
func (f *sweepFlags) key(environ map[string]string) (string, error) {
	if f.apiKeyFile == "" {
		if f.config.APIKey != "" {
			return f.config.APIKey, nil
		}
		return environ["SPECTAP_API_KEY"], nil
	}
	if f.config.APIKey != "" {
		return "", errors.New("--api_key and --api_key_file are both set: want one of them")
	}
	text, err := os.ReadFile(f.apiKeyFile)
	if err != nil {
		return "", fmt.Errorf("cannot read --api_key_file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// sweep runs a plan through a measuring proxy of its own.
func (p program) sweep(ctx context.Context, cfg sweep.Config, logLevel string) error {
	plan, err := sweep.NewPlan(cfg)
	if err != nil {
		return exitError{exitUsage, err}
	}
	if cfg.DryRun {
		return plan.Describe(p.stdout)
	}
	result, err := p.runPlan(ctx, plan, newLogger(p.stderr, logLevel, ""))
	if code := sweep.ExitCode(result, err); code != 0 {
		return exitError{code, err}
	}
	return nil
}

// runPlan starts the proxy, runs the plan through it and prints the table.
func (p program) runPlan(ctx context.Context, plan *sweep.Plan, log zerolog.Logger) (sweep.Result, error) {
	quiet := log
	if log.GetLevel() == zerolog.WarnLevel {
		quiet = log.Level(zerolog.ErrorLevel) // the sweep itself says which requests failed
	}
	pipe, err := p.openPipe(plan.Config, quiet)
	if err != nil {
		return sweep.Result{}, err
	}
	s := sweep.Sweep{
		Plan:     plan,
		HTTP:     pipe.Client,
		BaseURL:  pipe.BaseURL,
		Records:  pipe.Records,
		LoadURL:  pipe.LoadURL,
		InFlight: pipe.inFlight(),
		Progress: p.stderr,
		Terminal: isTerminal(p.stderr),
		Log:      log,
		Now:      time.Now,
		LastAct:  p.last.add,
	}
	result, err := s.Run(ctx)
	if len(result.Summaries)+len(result.Failed)+len(result.NotRun) > 0 {
		sweep.Table(p.stdout, result)
	}
	err = errors.Join(err, pipe.Close())
	if len(result.Summaries)+len(result.Failed) > 0 && !plan.Config.NoReport {
		p.makeReport(result.Dir, report.Options{})
	}
	return result, err
}
