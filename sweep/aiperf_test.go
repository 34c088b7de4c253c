package sweep

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spectap/collector"
)

// program writes a shell script that stands for AIPerf at the beginning and the
// end of its life; a whole stand-in is among the tests of cmd/spectap.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "aiperf")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n[ \"$1\" = --version ] && echo 0.13.0 && exit\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// aiperfSweep makes a sweep of one point that is driven by the program. Its
// limits are short: what hangs is given up after them.
func aiperfSweep(t *testing.T, script string, cfg Config) *Sweep {
	t.Helper()
	tokenizer := t.TempDir()
	if err := os.WriteFile(filepath.Join(tokenizer, "tokenizer.json"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	server := newScripted(t, echo)
	cfg.Driver, cfg.AIPerf, cfg.Tokenizer = DriverAIPerf, program(t, script), tokenizer
	cfg.Env = map[string]string{"PATH": os.Getenv("PATH")}
	s := newSweep(plan(t, server, cfg), server)
	s.LoadURL = "http://127.0.0.1:1"
	s.limits = &aiperfLimits{start: 50 * time.Millisecond, end: 50 * time.Millisecond, grace: 300 * time.Millisecond, early: 300 * time.Millisecond, look: time.Millisecond}
	return s
}

// A program that hangs is sent one SIGINT and, where it does not end, is killed
// with its children.
func TestAIPerfThatHangs(t *testing.T) {
	f := func(name, script, want string, interrupts int) {
		t.Run(name, func(t *testing.T) {
			notes := t.TempDir()
			s := aiperfSweep(t, fmt.Sprintf("notes=%s\n%s", notes, script), Config{})
			result, err := s.Run(context.Background())
			if err != nil || len(result.Failed) != 1 || !strings.Contains(result.Failed[0].Reason, want) {
				t.Fatalf("got %+v, %v; want a failed point with %q", result, err, want)
			}
			text, _ := os.ReadFile(filepath.Join(notes, "interrupts"))
			if n := strings.Count(string(text), "x"); n != interrupts {
				t.Errorf("got %d interrupts, want %d", n, interrupts)
			}
			text, err = os.ReadFile(filepath.Join(notes, "child"))
			if err != nil {
				t.Fatal(err)
			}
			child, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			mustEnd(t, child)
		})
	}
	const child = "sh -c 'trap \"\" TERM INT; while :; do sleep 1; done' &\necho $! > $notes/child\n"
	const loop = "while :; do sleep 0.01; done\n"
	f("deaf", child+"trap 'echo x >> $notes/interrupts' INT\n"+loop, "AIPerf sent no request within 50ms", 1)
	f("ends at SIGINT and leaves a child", child+"trap 'echo x >> $notes/interrupts; exit 0' INT\n"+loop, "AIPerf sent no request within 50ms", 1)
}

// One that takes no notice of a signal while it starts does not hold up the end.
func TestAIPerfStoppedBeforeItsFirstRequest(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	s := aiperfSweep(t, fmt.Sprintf("trap '' INT\ntouch %s\nwhile :; do sleep 0.01; done\n", ready), Config{})
	s.limits.start, s.limits.grace, s.limits.early = time.Hour, time.Hour, time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx)
		ended <- err
	}()
	deadline := time.After(30 * time.Second)
	for !exists(ready) {
		select {
		case <-deadline:
			t.Fatal("AIPerf did not start")
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("an interrupted sweep has no error")
		}
	case <-deadline:
		t.Fatal("the sweep waits for an AIPerf that takes no notice")
	}
}

// mustEnd waits until a process is gone. A zombie has ended; who reaps it is not our concern.
func mustEnd(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		if syscall.Kill(pid, 0) != nil {
			return
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("process %d still runs", pid)
}

// The environment of AIPerf lacks what breaks it or is none of its business.
func TestAIPerfEnvironment(t *testing.T) {
	got := aiperfEnv(map[string]string{"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "SPECTAP_API_KEY": "k", "TMPDIR": "/var/tmp", "HF_HOME": "/hf", "PATH": "/bin"}, "/tmp/x")
	slices.Sort(got)
	if want := []string{"HF_HOME=/hf", "PATH=/bin", "TMPDIR=/tmp/x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Its folder for temporary files is gone with it.
func TestAIPerfLeavesNoTemporaryFiles(t *testing.T) {
	notes := t.TempDir()
	s := aiperfSweep(t, fmt.Sprintf("echo $TMPDIR > %s/tmp\nmkdir $TMPDIR/aiperf_mmap_1\n", notes), Config{})
	if _, err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(notes, "tmp"))
	if dir := strings.TrimSpace(string(text)); err != nil || dir == "" || exists(dir) {
		t.Errorf("the folder %q is left (%v)", dir, err)
	}
}

func TestAIPerfInput(t *testing.T) {
	got, err := aiperfInput([]collector.Question{
		{ID: []byte("81"), Prompts: []string{" one <b>\n", "é & “two”"}, Turns: 2},
		{ID: []byte(`"a-b"`), System: "be terse", Prompts: []string{"three"}, Turns: 1},
	})
	want := `{"session_id":"0-81","turns":[{"text":" one <b>\n"},{"text":"é & “two”"}]}
{"session_id":"1-a-b","turns":[{"role":"system","text":"be terse"},{"text":"three"}]}
`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	for id, want := range map[string]int{"0-81": 0, "12-a-b": 12} {
		if i, ok := sessionIndex(id); !ok || i != want {
			t.Errorf("got %d, %v for %q, want %d", i, ok, id, want)
		}
	}
	if _, ok := sessionIndex("x"); ok {
		t.Error("got a place for a foreign session id")
	}
}

func TestAIPerfVersions(t *testing.T) {
	f := func(output string, wantWarning, wantError bool) {
		t.Helper()
		warning, err := checkVersion(aiperfTool{"/bin/aiperf", versionText([]byte(output))})
		if (warning != "") != wantWarning || (err != nil) != wantError {
			t.Errorf("%q: got %q, %v", output, warning, err)
		}
	}
	f("0.13.0\n", false, false)
	f("aiperf 0.13.2\n", false, false)
	f("0.14.0rc1\n", true, false)
	f("1.0.0", true, false)
	f("0.12.9", false, true)
	f("", false, true)
	f("usage: aiperf", false, true)
	f("0", false, true)
}

// An empty prompt, which AIPerf would refuse for the whole file, is named.
func TestAIPerfRefusesEmptyPrompt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.jsonl")
	if err := os.WriteFile(path, []byte(`{"turns": ["first", ""]}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := NewPlan(Config{URL: "http://x", MTBench: path, Driver: DriverAIPerf, AIPerf: program(t, ""), Tokenizer: "org/name", SaveDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "its turn 1 is empty") {
		t.Errorf("got %v, want the empty turn named", err)
	}
}

// A tokenizer by its name in a hub is left to AIPerf, with a warning.
func TestAIPerfTokenizerOfAHub(t *testing.T) {
	p, err := NewPlan(Config{URL: "http://x", MTBench: questions(t, 2), Driver: DriverAIPerf, AIPerf: program(t, ""), Tokenizer: "org/name", SaveDir: t.TempDir()})
	if err != nil || len(p.Warnings) == 0 || !strings.Contains(strings.Join(p.Warnings, "\n"), `"org/name" is no folder here`) {
		t.Errorf("got %v, want a warning about the network", err)
	}
}
