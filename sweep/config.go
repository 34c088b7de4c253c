// Package sweep asks a data set's questions at several temperatures and
// concurrencies and writes the files of each point. It knows HTTP and Records,
// not the proxy: whoever runs a Sweep puts a measuring proxy into the path.
//
//	Config ─▶ NewPlan ─▶ Plan ─▶ Sweep.Run ─▶ Result
//	                              │ request          ▲ Record
//	                              ▼                  │
//	                           HTTP client ──▶ proxy ──▶ server
//
// Start with NewPlan, which checks everything before the first request, then
// Sweep.Run and runPoint.
package sweep

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"spectap/collector"
)

// Who asks the questions of a point (Config.Driver).
const (
	DriverBuiltin = "builtin"
	DriverAIPerf  = "aiperf" // NVIDIA's load generator, run as a program
)

// DefaultSLOShare is the share of requests that has to keep an SLO where nobody says.
const DefaultSLOShare = 0.95

// Config is a sweep as it was asked for. Lists and numbers that users spell are
// kept as typed until NewPlan reads them, so that all mistakes are reported at once.
type Config struct {
	URL   string // the server, http://host:port; a trailing /v1 is dropped
	Model string // "": the one that the server lists

	MTBench     string // question file, as --dataset mtbench --dataset_path FILE
	SpecBench   string // question file, as --dataset specbench --dataset_path FILE
	Dataset     string // "mtbench", "specbench" or "speed"
	DatasetPath string
	Questions   []byte // MT-Bench lines in memory instead of a file
	NumRequests *int   // conversations; nil: the data set's default
	Select      string // "auto", "stratified" or "first"; "": auto

	RuntimeParams string   // YAML file, or ""
	Temperatures  []string // as typed; none: the YAML's, else 0
	Concurrency   []string // as typed; none: 1
	RequestRate   []string // as typed, conversations per second, in place of Concurrency
	Arrivals      string   // collector.ArrivalsPoisson or ArrivalsConstant; "": Poisson
	ArrivalsSeed  int64    // of Poisson arrivals
	Warmup        int      // conversations that are asked before each point, in no figure
	Repeats       int      // runs of each point; 0: 1
	OutputLength  int      // most tokens of a turn; 0: 4096
	TopP          *float64 // nil: the YAML's, else 1
	TopK          *int     // nil: the YAML's, else 0 (off)
	IgnoreEOS     bool
	Completions   bool // last user text to /v1/completions, no template, no history
	IncludeStop   bool // include_stop_str_in_output
	NoCacheSalt   bool
	SamplingSeed  *int64 // seed of every request, one more in each repeat; nil: none is sent

	Shard string // "0/3": this part of it alone; "": all
	Host  string // this machine's name, kept with a shard: whose clock its times have

	Driver string // DriverBuiltin or DriverAIPerf; "": built in
	AIPerf string // the aiperf program; "": the one on PATH of Env

	GPUs        int    // divisor of Output TPS/gpu; 0: 1
	SaveDir     string // folder of the point folders
	Resume      bool   // keep the points in it that are complete, run the others
	NoReport    bool   // make no page of SaveDir at the end
	Postprocess string // "base" or "gptoss"; "": base
	Tokenizer   string // recorded; DriverAIPerf counts with it
	Measure     string // "tokens" or "usage"; "": tokens
	Acceptance  string // "client" or "server"; "": client
	NoSpecStats bool   // the server reports no per-request statistics
	Baseline    bool   // the server does not speculate: times alone are measured
	KeepTexts   bool   // keep prompts and replies in records.jsonl
	Seed        int64  // of the resamples behind the intervals

	SLO      []string // limits as typed, ttft=200ms; none: nothing is judged
	SLOShare float64  // share of requests that has to keep them; 0: 0.95

	APIKey string        // bearer token of every request
	Wait   time.Duration // how long to wait for a server that is not ready
	DryRun bool          // print the plan, send nothing

	Mistakes error // what is wrong with the settings as they were typed, told with the rest; nil: nothing

	StallTimeout time.Duration // an answer that brings no data for so long has failed; 0: no limit. The measuring proxy keeps it.

	Argv []string          // recorded, redacted
	Env  map[string]string // provenance variables, recorded
	// OpenFiles is how many files the process may have open; 0: not known.
	OpenFiles int
	Version   string // spectap's own

	Speculation   Speculation  // how the server drafts, as far as its command line is known; recorded
	ServerCommand []string     // how the server was started, without secrets; recorded. nil: somebody else did
	Gone          func() error // why the server will never be ready again, nil while it may be; nil func: it is waited for
}

// Speculation is how a server was told to draft. The zero value is not known.
type Speculation struct {
	Algorithm   string // specdec_bench's name, as "EAGLE3"
	DraftModel  string // path or name of the drafter
	DraftLength int    // drafts a step
}

// gone says why waiting for the server is in vain; nil where it is not.
func (c Config) gone() error {
	if c.Gone == nil {
		return nil
	}
	return c.Gone()
}

// withDefaults fills what was left open.
func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *string
		value string
	}{
		{&c.Driver, DriverBuiltin}, {&c.Select, SelectAuto}, {&c.Postprocess, "base"}, {&c.Measure, "tokens"}, {&c.Acceptance, "client"}, {&c.Arrivals, collector.ArrivalsPoisson},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if c.OutputLength == 0 {
		c.OutputLength = 4096
	}
	if c.Repeats == 0 {
		c.Repeats = 1
	}
	if c.SLOShare == 0 {
		c.SLOShare = DefaultSLOShare
	}
	if c.GPUs == 0 {
		c.GPUs = 1
	}
	if len(c.Concurrency) == 0 && len(c.RequestRate) == 0 {
		c.Concurrency = []string{"1"}
	}
	return c
}

// check returns all that is wrong with the settings themselves; files and
// folders are looked at elsewhere.
func (c Config) check() []error {
	errs := []error{c.Mistakes}
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	oneOf := func(flag, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			add("cannot use --%s %q: want one of %s", flag, value, strings.Join(allowed, ", "))
		}
	}
	oneOf("driver", c.Driver, DriverBuiltin, DriverAIPerf)
	oneOf("select", c.Select, SelectAuto, SelectStratified, SelectFirst)
	oneOf("postprocess", c.Postprocess, "base", "gptoss")
	oneOf("measure", c.Measure, "tokens", "usage")
	oneOf("arrivals", c.Arrivals, collector.ArrivalsPoisson, collector.ArrivalsConstant)
	oneOf("acceptance", c.Acceptance, "client", "server")
	if c.OutputLength < 1 {
		add("cannot use --output_length %d: want at least 1 token", c.OutputLength)
	}
	if c.GPUs < 1 {
		add("cannot use --num_gpus %d: want at least 1", c.GPUs)
	}
	if c.SaveDir == "" && !c.DryRun {
		add("--save_dir is not set: want a folder for the files")
	}
	if c.TopP != nil && !(*c.TopP > 0 && *c.TopP <= 1) {
		add("cannot use --top_p %v: want a number above 0 and at most 1", *c.TopP)
	}
	if c.TopK != nil && *c.TopK < -1 {
		add("cannot use --top_k %d: want 0 (off) or a positive number", *c.TopK)
	}
	if err := c.checkWarmup(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, c.checkOpenLoop()...)
	if c.Wait < 0 {
		add("cannot use --wait %v: want 0 or more", c.Wait)
	}
	if c.StallTimeout < 0 {
		add("cannot use --stall_timeout %v: want 0 (no limit) or more", c.StallTimeout)
	}
	errs = append(errs, c.checkBaseline()...)
	if c.NoSpecStats && !c.Baseline && c.Measure == "usage" {
		add("--no_spec_stats needs token counts on every event: leave --measure at tokens")
	}
	if c.NoSpecStats && !c.Baseline && c.Acceptance == "server" {
		add("--acceptance server needs the server's histogram: leave it at client with --no_spec_stats")
	}
	return errs
}

// normalURL returns the server's URL without a trailing slash or /v1.
func normalURL(text string) (string, error) {
	if text == "" {
		return "", errors.New("--url is not set: want http://host:port of the server")
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", fmt.Errorf("cannot read --url: want http://host:port of the server") // the cause repeats the text, which may hold a password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("cannot use --url %q: want http://host:port of the server", u.Redacted())
	}
	if n, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || n < 1 || n > 65535) {
		return "", fmt.Errorf("cannot use --url %q: want a port of 1 to 65535", u.Redacted())
	}
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")
	u.RawPath, u.RawQuery, u.Fragment = "", "", ""
	return u.String(), nil
}

// publicURL returns the URL without its userinfo.
func publicURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}

// temperatures reads temperatures as typed.
func temperatures(typed []string) ([]float64, []error) {
	var values []float64
	var errs []error
	for _, t := range typed {
		v, err := strconv.ParseFloat(strings.TrimSpace(t), 64)
		if err != nil || !(v >= 0 && v <= 100) || strings.ContainsAny(t, "xX_") {
			errs = append(errs, fmt.Errorf("cannot use --temperature %q: want a number from 0, such as 0 or 0.6", t))
			continue
		}
		values = append(values, v+0) // -0 is 0
	}
	return values, errs
}

// concurrencies reads concurrencies as typed.
func concurrencies(typed []string) ([]int, []error) {
	var values []int
	var errs []error
	for _, t := range typed {
		v, err := strconv.Atoi(strings.TrimSpace(t))
		if err != nil || v < 1 {
			errs = append(errs, fmt.Errorf("cannot use --concurrency %q: want a whole number from 1", t))
			continue
		}
		values = append(values, v)
	}
	return values, errs
}

// shortest returns a number in its shortest form, as it appears in the names of
// point folders and in requests: 0.60 is 0.6, 0.0 is 0.
func shortest(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
