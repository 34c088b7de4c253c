package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spectap/collector"
	"spectap/sweep"
)

// The exit codes of a command that cannot be run, as a shell has them.
const (
	exitCannotRun = 126
	exitNoCommand = 127
)

// execFlags are the flags as typed: specdec_bench's names where it has them, the
// proxy's settings for what requests carry.
type execFlags struct {
	config      sweep.ForeignConfig
	settings    proxySettings
	concurrency string
	numRequests int
	apiKeyFile  string
	slo         list
	keepTexts   bool
}

// notOfExec are settings of the proxy that make no sense around one command.
var notOfExec = []string{"listen", "upstream", "records", "hash_user", "idle_timeout", "upstream_idle", "drain_timeout"}

// samplingSettings name what requests are to carry.
var samplingSettings = []string{"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed", "max_tokens", "skip_special_tokens", "set"}

func (f *execFlags) add(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringVar(&c.URL, "url", "", "the server, http://host:port")
	flags.StringVar(&c.SaveDir, "save_dir", "", "folder for the files; the point's folder is made in it")
	flags.StringVar(&c.Label, "label", "", "name of the point and its folder; default: made of temperature and concurrency as far as they are set, as t0_c32, else exec")
	flags.StringVar(&c.Model, "model", "", "recorded where the server lists several models; default: what the command asks for")
	flags.StringVar(&c.MTBench, "mtbench", "", "MT-Bench question file (JSON lines) that the command asks")
	flags.StringVar(&c.SpecBench, "specbench", "", "Spec-Bench question file (JSON lines) that the command asks")
	flags.StringVar(&c.Dataset, "dataset", "", "data set by name: mtbench, specbench or speed; needs --dataset_path")
	flags.StringVar(&c.DatasetPath, "dataset_path", "", "file or folder of --dataset")
	flags.IntVar(&f.numRequests, "num_requests", 0, "number of conversations that the command must ask; default: those that it asks")
	flags.StringVar(&c.Select, "select", "auto", "which conversations --num_requests means: auto (as specdec_bench does for the data set), stratified or first")
	flags.StringVar(&f.concurrency, "concurrency", "", "the command's number of conversations at a time, for label and files; nothing is limited by it")
	flags.IntVar(&c.GPUs, "num_gpus", 1, "GPUs that the server uses: divisor of Output TPS/gpu")
	flags.BoolVar(&c.NoReport, "no_report", false, noReportHelp)
	flags.StringVar(&c.Postprocess, "postprocess", "base", "what a reply loses before it goes into the responses file: base (nothing) or gptoss")
	flags.StringVar(&c.Tokenizer, "tokenizer", "", "recorded in configuration.json; the server tokenizes")
	flags.StringVar(&c.Acceptance, "acceptance", "client", "what acceptance_rate.json holds: client (what specdec_bench counts) or server (the server's histogram)")
	flags.BoolVar(&c.NoSpecStats, "no_spec_stats", false, "the server reports no per-request statistics: count the tokens of its events")
	flags.BoolVar(&c.IgnoreEOS, "ignore_eos", false, "the command sends ignore_eos: true, so that no reply ends at EOS")
	addSLO(flags, &f.slo, &c.SLOShare)
	flags.BoolVar(&f.keepTexts, "keep_texts", false, "keep prompts and replies in records.jsonl, and write a responses file without a question file too")
	flags.Int64Var(&c.Seed, "bootstrap_seed", 0, "seed of the resamples behind the intervals")
	flags.StringVar(&c.APIKey, "api_key", "", "bearer token of spectap's own questions to the server (environment SPECTAP_API_KEY); the command has its own; prefer --api_key_file")
	flags.StringVar(&f.apiKeyFile, "api_key_file", "", "file that holds the bearer token")
	flags.DurationVar(&c.Wait, "wait", 10*time.Minute, "how long to wait for the server to become ready")
	for _, each := range f.settings.all() {
		addSettings(flags, each, notOfExec...)
	}
	for name, text := range map[string]string{
		"measure":   "; exec's default is tokens, which makes acceptance lengths exact",
		"admin":     "; exec's default is off",
		"log_level": "; exec's default is warn",
		"override":  "; exec's default is true once one of them is set, so that the point is what its label says",
	} {
		flags.Lookup(name).Usage += text
	}
}

// read checks all there is to check before anything is started.
func (f *execFlags) read(p program, c *cobra.Command, args []string) (*execution, error) {
	e := &execution{p: p}
	errs := []error{f.readCommand(e, c, args)}
	errs = append(errs, f.settings.parse(p.env, c.Flags()))
	f.defaults(p.env, c.Flags())
	cfg := &f.config
	cfg.Argv, cfg.Env, cfg.Version, cfg.KeepTexts = publicCommand(p.argv), p.env, version(), f.keepTexts
	cfg.Measure = f.settings.proxy.Measure
	cfg.SLO, cfg.Mistakes = f.slo, checkSLOShare(c.Flags(), f.slo, cfg.SLOShare)
	e.noReport = cfg.NoReport
	e.private = cfg.MTBench+cfg.SpecBench+cfg.Dataset == ""
	if e.private { // what is captured is all that there is
		cfg.KeepTexts = f.keepTexts || f.settings.proxy.Capture != ""
	}
	if c.Flags().Changed("num_requests") {
		cfg.NumRequests = &f.numRequests
	}
	if f.concurrency != "" {
		cfg.Concurrency = []string{f.concurrency}
	}
	if t := f.settings.proxy.Temperature; t != "" {
		cfg.Temperatures = []string{t}
	}
	key := sweepFlags{config: cfg.Config, apiKeyFile: f.apiKeyFile}
	var err error
	cfg.APIKey, err = key.key(p.env)
	errs = append(errs, err)
	cfg.Extra = f.described()
	if e.point, err = sweep.NewForeign(*cfg); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, f.fit(e.private), f.settings.proxy.Validate(), f.settings.telemetry.Validate())
	e.cfg, e.log = f.settings, newLogger(p.stderr, f.settings.proxy.LogLevel, f.settings.proxy.LogFormat)
	return e, errors.Join(errs...)
}

// readCommand finds the program of the command.
func (f *execFlags) readCommand(e *execution, c *cobra.Command, args []string) error {
	switch dash := c.ArgsLenAtDash(); {
	case dash > 0:
		return fmt.Errorf("unexpected argument %q: want flags, then -- and the command", args[0])
	case dash < 0 || len(args) == 0:
		return errors.New("no command to run: want it after --, as in spectap exec --url http://127.0.0.1:8000 --save_dir D -- python3 client.py {url}")
	}
	e.argv = args
	path, err := exec.LookPath(args[0])
	if err == nil {
		e.path = path
		return nil
	}
	code := exitCannotRun
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNoCommand
	}
	return exitError{code, fmt.Errorf("cannot run %q: %w", args[0], rootCause(err))}
}

// rootCause is an error of package exec without the name, which was said already.
func rootCause(err error) error {
	var of *exec.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// defaults are exec's own, where neither flag nor variable says otherwise.
func (f *execFlags) defaults(env map[string]string, flags *pflag.FlagSet) {
	said := func(name string) bool { return flags.Changed(name) || env[settingPrefix+strings.ToUpper(name)] != "" }
	s := &f.settings.proxy
	for name, set := range map[string]func(){
		"measure":   func() { s.Measure = "tokens" },
		"admin":     func() { s.Admin = "off" },
		"log_level": func() { s.LogLevel = "warn" },
		"override":  func() { s.Override = slices.ContainsFunc(samplingSettings, said) },
	} {
		if !said(name) {
			set()
		}
	}
}

// fit fits the proxy to the point. Texts are kept in memory for the responses file
// of a question file, and hashes to recognise what was asked.
func (f *execFlags) fit(private bool) error {
	s := &f.settings.proxy
	s.Listen, s.Records, s.HashUser = "127.0.0.1:0", "", true
	s.KeepTexts = f.keepTexts || !private
	u, err := url.Parse(f.config.URL)
	if err != nil || u.Host == "" {
		return nil // told already
	}
	u.User, u.RawQuery, u.Fragment = nil, "", "" // the command brings its own credentials
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
	s.Upstream = u.String()
	return nil
}

// described are members of configuration.json that say what requests were made to carry.
func (f *execFlags) described() collector.Object {
	var o collector.Object
	s := f.settings.proxy
	for _, each := range []struct{ name, value string }{
		{"top_p", s.TopP}, {"top_k", s.TopK}, {"min_p", s.MinP}, {"repetition_penalty", s.RepetitionPenalty}, {"sampling_seed", s.Seed},
		{"reply_limit", s.MaxTokens}, {"skip_special", s.SkipSpecialTokens},
	} {
		if each.value != "" {
			o.Set(each.name, each.value)
		}
	}
	o.Set("override", s.Override)
	return o
}

// publicCommand is a command line as it may be recorded: ours, then the command's
// name and those of its arguments that are plain words and no secrets. Others can
// hold prompts, and the values of header flags can hold keys.
func publicCommand(argv []string) []string {
	dash := slices.Index(argv, "--")
	if dash < 0 || dash+1 >= len(argv) {
		return argv
	}
	out := append(slices.Clone(argv[:dash+1]), filepath.Base(argv[dash+1]))
	private := false
	for _, word := range redactWords(argv[dash+2:]) {
		if private || !plainWord(word) {
			word = hidden
		}
		out = append(out, word)
		name, _, inline := strings.Cut(strings.ToLower(word), "=")
		private = strings.HasPrefix(word, "-") && !inline && (word == "-H" || strings.Contains(name, "header") || strings.Contains(name, "auth"))
	}
	return out
}

// plainWord says that an argument is a flag, a number, a name or a path.
func plainWord(arg string) bool {
	return len(arg) <= 200 && !strings.ContainsFunc(arg, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@=+,%{}*", r))
	})
}

// fillURL puts the proxy's address into the arguments.
func fillURL(argv []string, url string) []string {
	out := make([]string, len(argv))
	for i, arg := range argv {
		out[i] = strings.ReplaceAll(arg, "{url}", url)
	}
	return out
}

// clientEnvironment is the command's environment. Where it names an HTTP proxy,
// loopback is excepted: clients in Python would not be.
func clientEnvironment(env map[string]string, url string) []string {
	with := map[string]string{"OPENAI_BASE_URL": url + "/v1", "OPENAI_API_BASE": url + "/v1", "SPECTAP_URL": url}
	proxied := func(name string) bool { return env[name] != "" || env[strings.ToUpper(name)] != "" }
	if proxied("http_proxy") || proxied("all_proxy") {
		for _, name := range []string{"no_proxy", "NO_PROXY"} {
			with[name] = strings.TrimPrefix(env[name]+",127.0.0.1", ",")
		}
	}
	var out []string
	for name, value := range env {
		if _, ours := with[name]; !ours {
			out = append(out, name+"="+value)
		}
	}
	for name, value := range with {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}
