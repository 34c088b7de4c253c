// Command fakevllm serves a simulated engine that speaks as vLLM does.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"spectap/proxy/fakevllm"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "fakevllm:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

var errUsage = errors.New("see --help")

// options are the flags: the engine's Config and where it listens and logs.
type options struct {
	cfg           fakevllm.Config
	listen, truth string
}

// parse reads the arguments; flags may be spelled with _ or with -.
func parse(args []string, errw io.Writer) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("fakevllm", flag.ContinueOnError)
	fs.SetOutput(errw)
	fs.StringVar(&o.listen, "listen", "127.0.0.1:8001", "`address` to serve on")
	fs.StringVar(&o.truth, "truth", "", "`file` to append one JSON line a request to: what the engine did")
	fs.StringVar(&o.cfg.Model, "model", "fake-model", "served model name")
	fs.StringVar(&o.cfg.OwnedBy, "owned_by", "vllm", "owned_by of /v1/models")
	fs.StringVar(&o.cfg.APIKey, "api_key", "", "key to ask for on /v1 (empty: none)")
	fs.IntVar(&o.cfg.MaxModelLen, "max_model_len", 32768, "context in tokens")
	fs.Uint64Var(&o.cfg.Seed, "seed", 0, "seed of every reply")
	fs.IntVar(&o.cfg.DraftLength, "draft_length", 5, "drafts of a verify step (k)")
	fs.Func("acceptance", "`probabilities` that draft position 0, 1, ... is accepted if the one before was (default 0.8,0.7,0.65,0.6,0.55)", func(s string) (err error) {
		o.cfg.Acceptance, err = floats(s)
		return err
	})
	fs.Float64Var(&o.cfg.Draftless, "draftless", 0, "share of decode steps without drafts")
	fs.Float64Var(&o.cfg.DropBlocks, "drop_blocks", 0, "share of requests that lose their statistics block, their last two steps in one event")
	fs.Float64Var(&o.cfg.EOS, "eos", 0.003, "probability that a token is EOS")
	fs.DurationVar(&o.cfg.Prefill, "prefill", 20*time.Millisecond, "time to the first token")
	fs.DurationVar(&o.cfg.PrefillPerToken, "prefill_per_token", 10*time.Microsecond, "more for each prompt token")
	fs.DurationVar(&o.cfg.Step, "step", 4*time.Millisecond, "time of a decode step")
	fs.DurationVar(&o.cfg.StepPerRequest, "step_per_request", 100*time.Microsecond, "more for each other running request")
	fs.IntVar(&o.cfg.StreamInterval, "stream_interval", 1, "tokens that pile up before an event")
	fs.BoolVar(&o.cfg.NoSpec, "no_spec", false, "no speculative decoding: a token a step, no statistics, no counters of drafts")
	fs.BoolVar(&o.cfg.NoSpecStats, "no_spec_stats", false, "report no per-request statistics")
	fs.StringVar(&o.cfg.TracesEndpoint, "otlp_traces_endpoint", "", "OTLP/HTTP collector that gets a span of every finished sequence, as JSON: the whole `URL`, as http://127.0.0.1:4318/v1/traces")
	fs.StringVar(&o.cfg.ServiceName, "otlp_service_name", cmp.Or(os.Getenv("OTEL_SERVICE_NAME"), "vllm"), "service.name of the spans; $OTEL_SERVICE_NAME where it is set")
	fs.StringVar(&o.cfg.Fault, "fault", "", "scripted fault of every request: `name`, name@n, name@n/m for every m-th (a request's X-Fake-Fault header wins): "+fakevllm.FaultNames())
	if err := fs.Parse(underscored(args)); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("cannot use argument %q: want flags only: %w", fs.Arg(0), errUsage)
	}
	return o, nil
}

// underscored spells --draft-length as --draft_length; values stay as they are.
func underscored(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		name, value, has := strings.Cut(a, "=")
		if strings.HasPrefix(name, "--") {
			name = "--" + strings.ReplaceAll(name[2:], "-", "_")
		}
		out[i] = name
		if has {
			out[i] += "=" + value
		}
	}
	return out
}

func floats(s string) ([]float64, error) {
	var list []float64
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return nil, fmt.Errorf("cannot read %q: want numbers with commas between them", f)
		}
		list = append(list, v)
	}
	return list, nil
}

func run(args []string, errw io.Writer) error {
	o, err := parse(args, errw)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return errors.Join(err, errUsage)
	}
	if o.truth != "" {
		f, err := os.OpenFile(o.truth, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("cannot open truth log: %w", err)
		}
		defer f.Close()
		o.cfg.Truth = f
	}
	e, err := fakevllm.New(o.cfg)
	if err != nil {
		return errors.Join(err, errUsage)
	}
	ln, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %q: %w", o.listen, err)
	}
	fmt.Fprintf(errw, "fakevllm: %s on http://%s, seed %d, %d drafts a step\n", o.cfg.Model, ln.Addr(), o.cfg.Seed, o.cfg.DraftLength)
	return serve(e, stampArrivals(ln))
}

// serve runs until SIGINT or SIGTERM.
func serve(e *fakevllm.Engine, ln net.Listener) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(stop)
	failed := make(chan error, 1)
	go func() { failed <- e.Serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-stop:
		return e.Close()
	}
}
