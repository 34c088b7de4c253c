package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spectap/sweep"
)

// launchConfig are the settings of launch itself.
type launchConfig struct {
	ServerCmd      string        `env:"SPECTAP_SERVER_CMD" envDefault:"vllm serve" unit:"command" help:"what is started, as a shell would split it (nothing is expanded); model and arguments follow. With {port} in it, it is any server's command line: a free port is filled in and nothing is added"`
	StartupTimeout time.Duration `env:"SPECTAP_STARTUP_TIMEOUT" envDefault:"10m" unit:"duration" help:"how long the server may take until it answers /health; VLLM_STARTUP_TIMEOUT, in seconds, is taken too"`
	StopGrace      time.Duration `env:"SPECTAP_STOP_GRACE" envDefault:"20s" unit:"duration" help:"how long the server has to end after SIGTERM, before SIGKILL ends its process group; one that is not ready yet has 5s at most"`
	Baseline       bool          `env:"SPECTAP_BASELINE" envDefault:"false" unit:"true or false" help:"start the server without its speculative arguments and measure times alone, into the folder baseline of --save_dir; spectap compare D/baseline D then tells the speed-up"`
}

// startupVar is the launcher scripts' own name of the startup timeout, in seconds.
const startupVar = "VLLM_STARTUP_TIMEOUT"

// serverLog is the server's log in the folder of the results.
const serverLog = "server.log"

// startingGrace is the grace of a server that was never ready: there is nothing
// to lose, and vLLM 0.32 takes no notice of SIGTERM while it starts.
const startingGrace = 5 * time.Second

// goneWithin is how long a sweep may go on whose server ended: its requests fail
// at once, so that their point is set aside with its reason.
const goneWithin = 30 * time.Second

func (p program) launchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "launch [own flags] [vllm serve arguments] -- [sweep arguments]",
		Short: "start vllm serve, wait for it, sweep it, stop it",
		Long: `launch starts vllm serve with the arguments before --, waits until it is ready,
runs spectap sweep with the arguments after --, and stops it. The model is the
first argument or HF_MODEL_CKPT. Added to the arguments where they leave it out:
--per-request-spec-decode-metrics summary (with a speculative config only) and a
free --port on loopback. --baseline takes the speculative ones out, for a second
run to compare with. The last line of stdout is <REPORT>PASS: ...</REPORT>
or <REPORT>FAIL: ...</REPORT>. Flags of launch itself come first:`,
		DisableFlagParsing: true, // most are not ours
	}
	addSettings(c.Flags(), &launchConfig{})
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 && (args[0] == "--help" || args[0] == "-h") {
			fmt.Fprintf(p.stdout, "%s\n\nUsage:\n  spectap %s\n\n", c.Long, c.Use)
			printSettings(p.stdout, &launchConfig{})
			return nil
		}
		return p.launchAndReport(c.Context(), c.Flags(), args)
	}
	return c
}

// launchAndReport prints the error and, as the last line of stdout, the line
// that Model-Optimizer's launcher looks for.
func (p program) launchAndReport(ctx context.Context, own *pflag.FlagSet, args []string) error {
	var pass string
	l, err := p.readLaunch(own, args)
	if err == nil {
		pass, err = l.run(ctx)
	}
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err == nil {
		fmt.Fprintf(p.stdout, "<REPORT>PASS: spectap launch: %s</REPORT>\n", pass)
		return nil
	}
	code := exitUsage
	if e := (exitError{}); errors.As(err, &e) {
		code = e.code
	}
	fmt.Fprintf(p.stderr, "spectap: %s\n", err)
	fmt.Fprintf(p.stdout, "<REPORT>FAIL: spectap launch: %s</REPORT>\n", reason(err))
	return exitError{code: code}
}

// reason is an error in one line.
func reason(err error) string {
	if logged := (withLog{}); errors.As(err, &logged) {
		err = logged.error
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), sweep.ErrUsage.Error()+":\n"), "\n")
	return first
}

// withLog is an error with the end of the server's log, or that there is none.
type withLog struct {
	error
	log string
}

// Error implements error.
func (e withLog) Error() string { return e.error.Error() + e.log }

// launch is a server to start and a sweep to run against it, both checked.
type launch struct {
	p        program
	cfg      launchConfig
	serving  *serving
	plan     *sweep.Plan
	logLevel string
	secrets  []string // that may not be shown
	taken    []string // out of the server's arguments, for a baseline

	startingGrace time.Duration
}

// run starts the server, sweeps it and stops it. On success it says what was done.
func (l *launch) run(ctx context.Context) (done string, err error) {
	command := joinWords(redactWords(l.serving.argv))
	if l.plan.Config.DryRun && l.plan.Complete() {
		command = "nothing: all points are complete"
	}
	if l.plan.Config.DryRun {
		fmt.Fprintf(l.p.stdout, "start        %s\n", command)
		if l.cfg.Baseline {
			fmt.Fprintln(l.p.stdout, l.takenText())
		}
		return "nothing was started (--dry_run)", l.plan.Describe(l.p.stdout)
	}
	if l.plan.Complete() {
		l.say("the server is not started: all points are complete")
		l.plan.Config.Gone = func() error {
			return errors.New("the server was not started, and the folder has changed since: launch again")
		}
		return l.end(l.runPlan(ctx))
	}
	if err := l.serving.checkFree(); err != nil {
		return "", exitError{exitNotReachable, err}
	}
	if l.serving.note != "" {
		l.say("%s", l.serving.note)
	}
	if l.cfg.Baseline {
		l.say("%s", l.takenText())
	}
	l.say("starting %s", command)
	start := time.Now()
	s, err := startServer(l.serving.argv, l.p.env, filepath.Join(l.plan.Config.SaveDir, serverLog))
	if err != nil {
		return "", exitError{exitNotReachable, err}
	}
	defer l.p.last.add(s.kill)()
	grace := min(l.cfg.StopGrace, l.startingGrace)
	defer func() { l.stop(s, grace) }() // also when what follows panics
	if err := l.wait(ctx, s); err != nil {
		return "", l.notStarted(ctx, s, err)
	}
	grace = l.cfg.StopGrace
	l.say("the server is ready after %v", time.Since(start).Round(100*time.Millisecond))
	return l.sweep(ctx, s)
}

// say tells on stderr what happens.
func (l *launch) say(format string, args ...any) {
	fmt.Fprintf(l.p.stderr, "spectap: "+format+"\n", args...)
}

// notStarted explains why a server did not become ready.
func (l *launch) notStarted(ctx context.Context, s *server, err error) error {
	if s.hasEnded() {
		interruptedSoon(ctx, signalledWithin)
	}
	if ctx.Err() != nil {
		return exitError{exitInterrupted, errors.New("interrupted before the server was ready")}
	}
	if s.hasEnded() {
		err = fmt.Errorf("%w before it was ready", err)
	}
	return exitError{exitNotReachable, l.withTail(s, err)}
}

// withTail adds the end of the server's log to an error.
func (l *launch) withTail(s *server, err error) error {
	if tail := s.tail(l.secrets); tail != "" {
		return withLog{err, fmt.Sprintf("; the end of its log %s:\n%s", s.log, tail)}
	}
	return withLog{err, fmt.Sprintf("; its log %s is empty", s.log)}
}

// sweep runs the sweep. A server that ends meanwhile fails it.
func (l *launch) sweep(ctx context.Context, s *server) (done string, err error) {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	swept := make(chan struct{})
	defer close(swept)
	go func() {
		select {
		case <-swept:
			return
		case <-s.ended:
		}
		s.kill() // its children: no request may hang on them
		select {
		case <-swept:
		case <-time.After(goneWithin):
			cancel()
		}
	}()
	l.plan.Config.Gone = s.gone
	result, err := l.runPlan(bounded)
	if gone := s.gone(); gone != nil {
		if !interruptedSoon(ctx, signalledWithin) {
			return "", exitError{exitFailed, l.withTail(s, fmt.Errorf("%w during the sweep", gone))}
		}
		if sweep.ExitCode(result, err) != exitInterrupted { // the server was faster than we
			return "", exitError{exitInterrupted, fmt.Errorf("interrupted: %w", gone)}
		}
	}
	return l.end(result, err)
}

func (l *launch) runPlan(ctx context.Context) (sweep.Result, error) {
	return l.p.runPlan(ctx, l.plan, newLogger(l.p.stderr, l.logLevel, ""))
}

// end is how a sweep ended: what was done, or why it failed.
func (l *launch) end(result sweep.Result, err error) (done string, _ error) {
	code := sweep.ExitCode(result, err)
	complete := fmt.Sprintf("%d of %d points complete in %s", len(result.Summaries), len(l.plan.Points), l.plan.Config.SaveDir)
	switch {
	case code == 0:
		return complete, nil
	case err == nil:
		err = errors.New(complete)
	}
	return "", exitError{code, err}
}

// signalledWithin is how long a signal may take to reach us that ended the server
// already: Slurm, and a shell in a terminal, send it to all processes of a job, one
// after another.
const signalledWithin = 500 * time.Millisecond

// interruptedSoon tells whether ctx ended, or does so within a time.
func interruptedSoon(ctx context.Context, within time.Duration) bool {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(within):
		return ctx.Err() != nil
	}
}

// stop ends the server's process group and tells how that went.
func (l *launch) stop(s *server, grace time.Duration) {
	if len(groupMembers(s.pgid)) == 0 {
		return
	}
	l.say("stopping the server")
	start := time.Now()
	killed, left := s.stop(grace)
	switch {
	case len(left) > 0:
		l.say("processes of the server run even after SIGKILL: %v", left)
	case killed:
		l.say("the server did not end within %v of SIGTERM and was killed", grace)
	default:
		l.say("the server ended after %v", time.Since(start).Round(100*time.Millisecond))
	}
}
