package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a new pseudo-terminal.
func openTerminal(t *testing.T) (keys, screen *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { keys.Close() })
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	return keys, screen
}

// At a terminal the command can read it, and Ctrl-C reaches the command from the
// terminal, and not from us again; we know of it all the same.
func TestExecAtATerminal(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	dir, questions := t.TempDir(), writeQuestions(t, 8)
	keys, screen := openTerminal(t)
	cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestProcess$", "--", "exec", "--url", url, "--save_dir", dir, "--mtbench", questions, "--label", "p", "--", "sh", "-c", `read word; echo "read $word"; exec "$@"`, "sh"},
		testProcess("--questions", questions, "-n", "8", "-wait")...)...)
	cmd.Env = append(os.Environ(), processVar+"=spectap")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	screen.Close()
	lines := bufio.NewScanner(keys)
	until := func(want string) (seen string) {
		t.Helper()
		for lines.Scan() {
			text := strings.TrimSpace(lines.Text())
			seen += text + "\n"
			if strings.HasSuffix(text, want) {
				return seen
			}
		}
		t.Fatalf("%q did not come: %s", want, seen)
		return ""
	}
	if _, err := keys.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	until("read hello") // a command in the background would be stopped
	until("ready")
	if _, err := keys.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	until("interrupt")
	if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if seen := until("user defined signal 1"); strings.Contains(seen, "interrupt") {
		t.Errorf("the command was interrupted twice: %q", seen)
	}
	var rest strings.Builder
	for lines.Scan() {
		rest.WriteString(lines.Text() + "\n")
	}
	_ = cmd.Wait() // it has an exit code
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("got exit code %d, want 1: the command ended well, the measurement did not\n%s", code, &rest)
	}
	isSetAside(t, dir, "p", "interrupt")
}
