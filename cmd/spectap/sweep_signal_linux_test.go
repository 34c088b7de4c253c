package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A sweep that a signal ends has the exit code that the README names.
func TestSweepSignals(t *testing.T) {
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		c := exec.Command(os.Args[0], "sweep", "--url", "http://127.0.0.1:1", "--mtbench", writeQuestions(t, 1), "--save_dir", t.TempDir())
		c.Env = append(os.Environ(), runMain+"=yes")
		var said shared
		c.Stderr = &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(20 * time.Second); !strings.Contains(said.String(), "waiting for the server") && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
		_ = c.Process.Signal(sig)
		_ = c.Wait()
		if got := c.ProcessState.ExitCode(); got != want {
			t.Errorf("%v: got exit code %d, want %d:\n%s", sig, got, want, said.String())
		}
		for _, line := range strings.Split(readText(t, "../../README.md"), "\n") {
			if strings.HasPrefix(line, "Exit codes: 0 ok, 1 a point failed, 2") && !strings.Contains(line, "130 interrupted, 143 ended by SIGTERM") {
				t.Errorf("the README has %q", line)
			}
		}
	}
}
