package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// command is a program to run with its whole command line and environment.
type command struct {
	path string
	argv []string
	env  []string
}

// outcome is how a command ended.
type outcome struct {
	started     bool
	code        int // its own; 128 and the signal's number where one killed it; 126 where it could not be started
	interrupted os.Signal
}

// pipeWait is how long output is still copied after a command's end where its
// streams are no files of ours: processes that it left behind may hold them open.
const pipeWait = 2 * time.Second

// runCommand runs a command to its end with our own streams, and passes signals
// on, each once. It ends the way in which the rest of the process takes signals.
func (p program) runCommand(ctx context.Context, c command) (outcome, error) {
	signals := make(chan os.Signal, 16)
	passed := passedSignals()
	signal.Notify(signals, passed...)
	defer signal.Stop(signals)
	if p.yield != nil {
		p.yield()
	}
	if err := ctx.Err(); err != nil {
		return outcome{code: exitInterrupted}, errors.New("interrupted before the command was started")
	}
	cmd := &exec.Cmd{Path: c.path, Args: c.argv, Env: c.env, Stdin: p.stdin, Stdout: p.stdout, Stderr: p.stderr, WaitDelay: pipeWait}
	group := ownGroupUnlessTerminal(cmd)
	if err := cmd.Start(); err != nil {
		code := exitCannotRun
		if errors.Is(err, fs.ErrNotExist) { // a script whose interpreter is missing
			code = exitNoCommand
		}
		return outcome{code: code}, fmt.Errorf("cannot run %q: %w", c.argv[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	out := outcome{started: true}
	relay := relay{group: group, send: func(s os.Signal) { sendSignal(cmd.Process, group, s) }}
	for done := ctx.Done(); ; {
		select {
		case s := <-signals:
			out.interrupted = relay.pass(s, time.Now(), out.interrupted)
		case <-done:
			out.interrupted, done = relay.pass(os.Interrupt, time.Now(), out.interrupted), nil
		case <-ended: // what it says is in the state, but for streams that stay open
			out.code = codeOf(cmd.ProcessState)
			if s := endedBy(cmd.ProcessState); s != nil && out.interrupted == nil {
				out.interrupted = s
			}
			return out, nil
		}
	}
}

// codeOf is a command's exit code as a shell has it.
func codeOf(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal(status.Signal())
	}
	return state.ExitCode()
}

// endedBy is the signal that asked a command to end, by its own account: it died
// of it, or it says so with its exit code.
func endedBy(state *os.ProcessState) os.Signal {
	switch codeOf(state) {
	case exitSignal(syscall.SIGINT):
		return os.Interrupt
	case exitSignal(syscall.SIGTERM):
		return syscall.SIGTERM
	}
	return nil
}

// doubled is within what time a second signal of a kind is the same one: timeout(1)
// and others send it to the process and to its group. No person is that fast.
const doubled = 250 * time.Millisecond

// relay passes signals to a command.
type relay struct {
	group bool // the command has a process group of its own
	send  func(os.Signal)
	last  os.Signal
	at    time.Time
}

// pass passes one signal on and returns the first that asked the command to end.
//
// A command in a group of its own gets every signal from us alone. One that shares
// our terminal gets what its keys send without us, so that is not sent again.
func (r *relay) pass(s os.Signal, now time.Time, first os.Signal) os.Signal {
	again := s == r.last && now.Sub(r.at) < doubled
	r.last, r.at = s, now
	if !again && (r.group || !fromTerminal(s)) {
		r.send(s)
	}
	if first == nil && asksToEnd(s) {
		return s
	}
	return first
}
