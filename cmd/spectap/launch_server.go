package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// server is a started server: a process in a group of its own, whose output goes
// straight into its log file.
type server struct {
	pgid  int
	log   string        // path of the log
	from  int64         // where this server's part of the log begins
	ended chan struct{} // closed when the process has ended; its children may go on
	end   error         // how; nil is exit status 0. Read it when ended is closed.
}

// startServer starts a command with its output appended to a log. The thread
// that starts it waits for it, too: the kernel's parent-death signal is bound to
// the thread.
func startServer(argv []string, env map[string]string, logPath string) (*server, error) {
	attr, err := groupAttr()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(logPath), 0o777); err != nil {
		return nil, fmt.Errorf("cannot make the folder of the server's log: %w", err)
	}
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot open the server's log: %w", err)
	}
	defer log.Close()
	fmt.Fprintf(log, "spectap launch: %s\n", joinWords(redactWords(argv)))
	s := &server{log: logPath, ended: make(chan struct{})}
	if s.from, err = log.Seek(0, io.SeekEnd); err != nil {
		return nil, fmt.Errorf("cannot use the server's log: %w", err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.SysProcAttr = log, log, serverEnv(env), attr
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends after the process
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		s.pgid = cmd.Process.Pid
		started <- nil
		s.end = cmd.Wait()
		close(s.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("cannot start the server: %w; name its program with --server_cmd", err)
	}
	return s, nil
}

// serverEnv is our own environment without what vLLM would not know by name.
func serverEnv(env map[string]string) []string {
	lines := []string{}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if name != startupVar {
			lines = append(lines, name+"="+env[name])
		}
	}
	return lines
}

// hasEnded tells whether the process ended.
func (s *server) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// gone says how the server ended; nil while it runs.
func (s *server) gone() error {
	switch {
	case !s.hasEnded():
		return nil
	case s.end == nil:
		return fmt.Errorf("the server ended (exit status 0)")
	}
	return fmt.Errorf("the server ended (%w)", s.end)
}

// kill ends the whole group at once and does not wait.
func (s *server) kill() { _ = signalGroup(s.pgid, syscall.SIGKILL) }

// The time between looks at a group that is to end, and how long a killed one
// may take to be gone.
const (
	groupPoll    = 50 * time.Millisecond
	killedWithin = 5 * time.Second
)

// stop ends the group: SIGTERM, then after the grace SIGKILL for what is left.
// It tells whether that was needed, and which processes are there even then.
func (s *server) stop(grace time.Duration) (killed bool, left []int) {
	if s.waitGone(0) == nil {
		return false, nil
	}
	_ = signalGroup(s.pgid, syscall.SIGTERM)
	if s.waitGone(grace) == nil {
		return false, nil
	}
	s.kill()
	return true, s.waitGone(killedWithin)
}

// waitGone waits until nothing of the group runs, and returns what still does.
func (s *server) waitGone(most time.Duration) []int {
	deadline := time.Now().Add(most)
	for {
		left := groupMembers(s.pgid)
		if len(left) == 0 || !time.Now().Before(deadline) {
			return left
		}
		time.Sleep(min(groupPoll, time.Until(deadline)))
	}
}

// What of a server's log is shown when it fails.
const (
	tailLines = 30
	tailBytes = 16 << 10
	tailWidth = 400 // bytes of a line
)

// tail returns the last lines of the server's part of the log, without secrets
// and without what a terminal would take for a command.
func (s *server) tail(secrets []string) string {
	f, err := os.Open(s.log)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(s.from, info.Size()-tailBytes)
	text, _ := io.ReadAll(io.NewSectionReader(f, from, tailBytes))
	if _, rest, ok := bytes.Cut(text, []byte("\n")); ok && from > s.from {
		text = rest // the first line is cut
	}
	lines := strings.Split(strings.TrimSpace(hide(string(text), secrets)), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	for i, line := range lines {
		line = line[strings.LastIndexByte(strings.TrimRight(line, "\r"), '\r')+1:] // a progress bar's last state
		lines[i] = strings.Map(printable, strings.ToValidUTF8(line[:min(len(line), tailWidth)], "?"))
	}
	return strings.Join(lines, "\n")
}

// printable drops control characters.
func printable(r rune) rune {
	if r != '\t' && unicode.IsControl(r) {
		return -1
	}
	return r
}
