package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A sweep that is killed leaves no AIPerf behind.
func TestAIPerfOfAKilledSweep(t *testing.T) {
	c, pid := sweepWithAIPerf(t, "echo $$ > $note.next && mv $note.next $note\nexec sleep 120\n")
	_ = c.Process.Kill()
	_ = c.Wait()
	soon(t, "AIPerf's end", func() bool { return !runs(pid) })
}

// Nor does one that a second Ctrl-C ends at once, whatever AIPerf's children ignore.
func TestAIPerfOfASweepInterruptedTwice(t *testing.T) {
	c, pid := sweepWithAIPerf(t, "trap '' INT TERM\nsh -c 'echo $$ > $note.next && mv $note.next $note; while :; do sleep 1; done'\n")
	_ = c.Process.Signal(os.Interrupt)
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	_ = c.Process.Signal(syscall.SIGTERM) // another signal is never the first one doubled
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = c.Process.Kill()
		t.Fatal("the sweep did not end at the second signal")
	}
	if code := c.ProcessState.ExitCode(); code != 128+int(syscall.SIGINT) && code != 128+int(syscall.SIGTERM) {
		t.Errorf("got exit code %d, want a signal's", code)
	}
	soon(t, "AIPerf's end", func() bool { return !runs(pid) })
}

// sweepWithAIPerf starts a sweep whose AIPerf is a shell script, and returns it
// and the process that the script has written to $note.
func sweepWithAIPerf(t *testing.T, body string) (*exec.Cmd, int) {
	t.Helper()
	dir := t.TempDir()
	note, aiperf := filepath.Join(dir, "pid"), filepath.Join(dir, "aiperf")
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] && echo 0.13.0 && exit\nexport note=%s\n%s", note, body)
	if err := os.WriteFile(aiperf, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	server, _ := serveEngine(t, fastEngine())
	command := slices.Concat(standInCommand(), []string{"--", "sweep", "--url", server, "--mtbench", writeQuestions(t, 2), "--driver", "aiperf",
		"--aiperf", aiperf, "--tokenizer", tokenizerFolder(t), "--save_dir", filepath.Join(dir, "out")})
	c := exec.Command(command[0], command[1:]...)
	c.Env = append(os.Environ(), standInVar+"=main")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	soon(t, "AIPerf's start", func() bool {
		text, err := os.ReadFile(note)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	})
	if !runs(pid) {
		t.Fatal("AIPerf ended by itself: this test tests nothing")
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // fails where it has ended, as it should
	return c, pid
}

// soon waits until a condition holds, a minute at most.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}
