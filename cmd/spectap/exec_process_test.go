//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A command that cannot be run, or asks nothing, leaves no folder behind; its exit
// code is its own, or a shell's.
func TestExecOfOtherCommands(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	plain := filepath.Join(t.TempDir(), "plain.txt")
	script := filepath.Join(t.TempDir(), "script")
	for path, text := range map[string]string{plain: "text", script: "#!/nowhere/interpreter\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	f := func(name string, code int, says string, argv ...string) {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "out")
			_, stderr := execSpectap(t, code, nil, append([]string{"exec", "--url", url, "--save_dir", dir, "--"}, argv...)...)
			if !strings.Contains(stderr, says) {
				t.Errorf("got %q, want %q in it", stderr, says)
			}
			if entries, _ := os.ReadDir(dir); len(entries) > 0 {
				t.Errorf("got %v in the folder, want nothing", entries)
			}
		})
	}
	f("no such program", 127, `cannot run "no-such-program-here": executable file not found`, "no-such-program-here")
	f("no such file", 127, "no such file", "./no/such/file")
	f("no program", 126, "permission denied", plain)
	f("no interpreter", 127, "no such file", script)
	f("asks nothing", 1, "the command asked the model nothing through http://127.0.0.1:", "true")
	f("asks nothing and fails", 3, "asked the model nothing", "sh", "-c", "exit 3")
	f("dies of a signal", 143, "asked the model nothing", "sh", "-c", "kill -TERM $$")
}

// Everything that is wrong is said at once, before anything is started.
func TestExecRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "t0_c1"), 0o777); err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(dir, "ran")
	f := func(code int, says []string, args ...string) {
		t.Helper()
		_, stderr := execSpectap(t, code, nil, append([]string{"exec"}, args...)...)
		for _, want := range says {
			if !strings.Contains(stderr, want) {
				t.Errorf("%v: got %s, want %q in it", args, stderr, want)
			}
		}
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%v: the command ran", args)
		}
	}
	f(2, []string{`--url "nonsense"`, "the point is complete", "SPECTAP_TOP_P (--top_p) \"3\"", "SPECTAP_MEASURE", `--num_gpus -1`, `--api_key and --api_key_file`},
		"--url", "nonsense", "--save_dir", dir, "--temperature", "0", "--concurrency", "1", "--top_p", "3", "--measure", "all", "--num_gpus", "-1", "--api_key", "a", "--api_key_file", "b", "--", "touch", ran)
	f(2, []string{"no command to run", "--num_requests takes questions of a file", `--label "a/b"`}, "--url", "http://127.0.0.1:1", "--save_dir", dir, "--num_requests", "3", "--label", "a/b")
	f(2, []string{`unexpected argument "touch"`}, "--url", "http://127.0.0.1:1", "--save_dir", dir, "touch", ran, "--", "x")
	f(3, []string{"server not reachable"}, "--url", "http://127.0.0.1:1", "--save_dir", filepath.Join(dir, "new"), "--wait", "0s", "--", "touch", ran)
}

// Streams pass through, the environment names the proxy, and {url} is filled in.
func TestExecPassesStreams(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	cmd := exec.Command(os.Args[0], "-test.run=^TestProcess$", "--", "exec", "--url", url, "--save_dir", t.TempDir(), "--",
		"sh", "-c", `cat; echo "$OPENAI_BASE_URL $OPENAI_API_BASE $SPECTAP_URL $1 $NO_PROXY"; echo words >&2; exit 5`, "sh", "at {url}/x")
	cmd.Env = append(os.Environ(), processVar+"=spectap", "HTTP_PROXY=http://127.0.0.1:1", "NO_PROXY=example.org", "no_proxy=")
	cmd.Stdin = strings.NewReader("from stdin\n")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 5 {
		t.Errorf("got exit code %d (%v), want the command's 5", code, err)
	}
	want := regexp.MustCompile(`^from stdin\n(http://127\.0\.0\.1:\d+)/v1 (\S+)/v1 (\S+) at (\S+)/x example\.org,127\.0\.0\.1\n$`)
	m := want.FindStringSubmatch(out.String())
	if m == nil || m[1] != m[2] || m[1] != m[3] || m[1] != m[4] || m[1] == url {
		t.Errorf("got stdout %q, want %s with one address, not the server's", &out, want)
	}
	if !strings.Contains(errs.String(), "words\n") {
		t.Errorf("got stderr %q, want the command's in it", &errs)
	}
}

// Each signal is sent on once: not what a terminal's keys send by themselves, and
// not what timeout(1) sends to the process and to its group.
func TestRelay(t *testing.T) {
	type event struct {
		s  os.Signal
		at time.Duration
	}
	const i, term, usr = syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1
	f := func(group bool, want, first string, events ...event) {
		t.Helper()
		var sent []string
		var asked os.Signal
		r := relay{group: group, send: func(s os.Signal) { sent = append(sent, s.String()) }}
		for _, e := range events {
			asked = r.pass(e.s, time.Unix(1, 0).Add(e.at), asked)
		}
		if got := strings.Join(sent, ", "); got != want || fmt.Sprint(asked) != first {
			t.Errorf("%v: got %q sent, asked to end by %v; want %q, %s", events, got, asked, want, first)
		}
	}
	f(true, "interrupt", "interrupt", event{i, 0})
	f(true, "interrupt", "interrupt", event{i, 0}, event{i, time.Millisecond})
	f(true, "interrupt, interrupt", "interrupt", event{i, 0}, event{i, time.Second})
	f(true, "interrupt, terminated", "interrupt", event{i, 0}, event{term, time.Millisecond})
	f(true, "user defined signal 1", "<nil>", event{usr, 0})
	f(false, "", "interrupt", event{i, 0}, event{i, time.Second})
	f(false, "terminated", "terminated", event{term, 0})
	f(false, "", "hangup", event{syscall.SIGHUP, 0})
}

// A terminal's Ctrl-C apart, a signal reaches the command once, however it is sent,
// and its records are set aside.
func TestExecPassesSignalsOnce(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	dir, questions := t.TempDir(), writeQuestions(t, 8)
	cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestProcess$", "--", "exec", "--url", url, "--save_dir", dir, "--mtbench", questions, "--label", "p", "--"},
		testProcess("--questions", questions, "-n", "8", "-wait", "-code", "130")...)...)
	cmd.Env = append(os.Environ(), processVar+"=spectap")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	expect := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Errorf("got %q from the command, want %q", lines.Text(), want)
		}
	}
	send := func(pid int, s syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
	}
	expect("ready")
	send(cmd.Process.Pid, syscall.SIGINT) // as timeout(1) does: to the process, then to its group
	send(-cmd.Process.Pid, syscall.SIGINT)
	expect("interrupt")
	send(cmd.Process.Pid, syscall.SIGTERM)
	expect("terminated")
	send(cmd.Process.Pid, syscall.SIGUSR1)
	expect("user defined signal 1")
	rest, _ := io.ReadAll(out)
	_ = cmd.Wait() // it has an exit code
	if code := cmd.ProcessState.ExitCode(); code != 130 || len(rest) > 0 {
		t.Errorf("got exit code %d and %q, want 130\n%s", code, rest, &errs)
	}
	isSetAside(t, dir, "p", "interrupt")
}

// isSetAside looks for four complete conversations in LABEL.failed, and the reason.
func isSetAside(t *testing.T, dir, label, signal string) {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(dir, "*"))
	hidden, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(found) != 1 || len(hidden) != 0 || filepath.Base(found[0]) != label+".failed" {
		t.Fatalf("got %v, %v, want %s.failed alone", found, hidden, label)
	}
	var file struct{ Reason string }
	readJSON(t, filepath.Join(found[0], "error.json"), &file)
	if want := fmt.Sprintf("the command was interrupted (%s)", signal); file.Reason != want {
		t.Errorf("got reason %q, want %q", file.Reason, want)
	}
	again := filepath.Join(t.TempDir(), "again")
	out, _ := mustSpectap(t, 0, "collect", filepath.Join(found[0], "records.jsonl"), "--save_dir", again)
	if !strings.Contains(out, ": 4 conversations") {
		t.Errorf("got %q from collect, want 4 conversations", out)
	}
}
