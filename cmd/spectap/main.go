// Command spectap measures an LLM server from the wire: a reverse proxy that
// taps every request, and a sweep driver that asks a data set's questions
// through that proxy and writes specdec_bench's files.
//
// This package is the only one that knows all others and the only one that
// reads the environment. Each command is one file.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Exit codes: 0 ok, 1 a point failed or the measurement is incomplete, 2 usage
// or configuration, 3 server not reachable, 4 no speculative-decoding
// statistics, 5 a gate of compare failed, 6 it cannot tell, 130 and 143 signals.
const (
	exitFailed       = 1
	exitUsage        = 2
	exitNotReachable = 3
	exitInterrupted  = 130
)

// exitError is an error that has an exit code of its own.
type exitError struct {
	code int
	err  error // nil: everything was said already
}

// Error implements error.
func (e exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e exitError) Unwrap() error { return e.err }

// program is what a command sees of the process: tests give it other streams
// and another environment.
type program struct {
	stdin  io.Reader // of a command that is run; nil: none
	stdout io.Writer
	stderr io.Writer
	env    map[string]string
	argv   []string // as typed, program name first
	last   *lastActs
	yield  func() // leaves the signals to a command that passes them on; nil: it has none to leave
}

func main() {
	p := program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: environment(os.Environ()), argv: os.Args, last: &lastActs{}}
	ctx, stop, caught, yield := untilSignal(context.Background(), p.last)
	p.yield = yield
	code := p.run(ctx, os.Args[1:])
	stop()
	if sig := caught(); sig != 0 && code == exitSignal(syscall.SIGINT) {
		code = exitSignal(sig)
	}
	os.Exit(code)
}

// root is the command table.
func (p program) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "spectap",
		Short:         "measure an LLM server from the wire",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
	}
	root.SetVersionTemplate(built().text())
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetGlobalNormalizationFunc(dashes)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.AddCommand(p.demoCommand(), p.proxyCommand(), p.sweepCommand(), p.collectCommand(), p.reportCommand(), p.execCommand(), p.launchCommand(), p.checkCommand(), p.healthcheckCommand(), p.uploadCommand(), p.compareCommand(), p.versionCommand())
	completeForShells(root)
	return root
}

// run executes one command line and returns the exit code.
func (p program) run(ctx context.Context, args []string) int {
	root := p.root()
	if c, _, err := root.Find(args); err != nil || !c.DisableFlagParsing { // that one reads its arguments as typed
		args = joinLists(args, listFlags(root))
	}
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := exitUsage
	if e := (exitError{}); errors.As(err, &e) {
		code = e.code
	}
	if text := err.Error(); text != "" {
		fmt.Fprintf(p.stderr, "spectap: %s\n", text)
	}
	return code
}

// untilSignal returns a context that ends at the first SIGINT or SIGTERM; a
// second one, unless it is the first one doubled, does the last acts and ends the
// process at once; of a command that has softened it, the third one. caught
// returns the first signal, yield ends all this.
func untilSignal(parent context.Context, last *lastActs) (ctx context.Context, stop func(), caught func() syscall.Signal, yield func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	first := make(chan syscall.Signal, 1)
	go func() {
		s, ok := <-signals
		if !ok {
			return
		}
		sig, at := s.(syscall.Signal), time.Now()
		first <- sig
		cancel()
		for s := range signals {
			if s == sig && time.Since(at) < doubled {
				continue
			}
			if act := last.softened(); act != nil {
				act()
				sig, at = s.(syscall.Signal), time.Now()
				continue
			}
			last.run()
			os.Exit(exitSignal(sig))
		}
	}()
	stop = func() { signal.Stop(signals); close(signals); cancel() }
	caught = func() syscall.Signal {
		select {
		case sig := <-first:
			return sig
		default:
			return 0
		}
	}
	return ctx, stop, caught, func() { signal.Stop(signals) }
}

func exitSignal(s syscall.Signal) int { return 128 + int(s) }

// environment turns KEY=value lines into a map.
func environment(lines []string) map[string]string {
	env := make(map[string]string, len(lines))
	for _, line := range lines {
		if key, value, ok := strings.Cut(line, "="); ok {
			env[key] = value
		}
	}
	return env
}
