package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A sweep that is killed leaves no AIPerf behind.
func TestAIPerfOfAKilledSweep(t *testing.T) {
	dir := t.TempDir()
	note, aiperf := filepath.Join(dir, "pid"), filepath.Join(dir, "aiperf")
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] && echo 0.13.0 && exit\necho $$ > %s.next && mv %s.next %s\nexec sleep 120\n", note, note, note)
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
	_ = c.Process.Kill()
	_ = c.Wait()
	soon(t, "AIPerf's end", func() bool { return !runs(pid) })
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
