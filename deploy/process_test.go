package deploy

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 30 * time.Second // of a program, until it says where it listens
	stopTimeout  = 20 * time.Second // of a program that was asked to end
)

// process is a running program of a test and what it printed.
type process struct {
	cmd    *exec.Cmd
	output *output
	ended  chan struct{}
}

// start runs a program with the given environment alone (and PATH, HOME, TMPDIR)
// until the test ends. A failed test shows what it printed.
func start(t testing.TB, environ []string, path string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = environment(environ)
	return startCommand(t, cmd)
}

// startCommand starts a program as it is given.
func startCommand(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, output: newOutput(), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("cannot start %s: %v", cmd.Path, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.ended)
		p.output.close()
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("%s printed:\n%s", filepath.Base(cmd.Path), p.output.tail(8<<10))
		}
	})
	return p
}

// environment is what programs get beside what they are given.
func environment(more []string) []string {
	var out []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+value)
		}
	}
	return append(out, more...)
}

// stop asks the program to end and waits for it; a second call does nothing.
func (p *process) stop(t testing.TB) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.ended
		t.Errorf("%s did not end within %v of SIGTERM", p.cmd.Path, stopTimeout)
	}
}

// printed waits until the output matches and returns the match's first group.
func (p *process) printed(t testing.TB, pattern string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	found := p.output.wait(ctx, regexp.MustCompile(pattern))
	if found == nil {
		t.Fatalf("%s did not print %q; it printed:\n%s", filepath.Base(p.cmd.Path), pattern, p.output.tail(8<<10))
	}
	return string(found[1])
}

// output is what a program prints, to be waited for.
type output struct {
	mu     sync.Mutex
	text   bytes.Buffer
	grown  chan struct{} // closed and replaced at every write
	closed bool
}

func newOutput() *output { return &output{grown: make(chan struct{})} }

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.grown)
	o.grown = make(chan struct{})
	return o.text.Write(p)
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	close(o.grown)
	o.grown = make(chan struct{})
}

// wait returns the groups of the first match, nil if the program or ctx ended before.
func (o *output) wait(ctx context.Context, pattern *regexp.Regexp) [][]byte {
	for {
		o.mu.Lock()
		found, grown, closed := pattern.FindSubmatch(bytes.Clone(o.text.Bytes())), o.grown, o.closed
		o.mu.Unlock()
		if found != nil || closed {
			return found
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil
		}
	}
}

// tail returns the last n bytes.
func (o *output) tail(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.text.Bytes()
	return string(b[max(0, len(b)-n):])
}
