package deploy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// startEngine starts the simulated engine and returns its URL.
func startEngine(t testing.TB, args ...string) string {
	t.Helper()
	p := start(t, nil, command(t, "fakevllm"), append([]string{"--listen", "127.0.0.1:0", "--seed", "7"}, args...)...)
	return p.printed(t, `fakevllm: .* on (http://[0-9.:]+),`)
}

// proxyProcess is a running `spectap proxy`.
type proxyProcess struct {
	*process
	URL   string // where clients connect
	Admin string // URL of the admin port
}

// startProxy starts `spectap proxy` in front of the engine at the URL.
func startProxy(t testing.TB, environ []string, engine string, args ...string) *proxyProcess {
	t.Helper()
	args = append([]string{"proxy", "--upstream", engine, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log_format", "json"}, args...)
	p := start(t, environ, command(t, "spectap"), args...)
	return &proxyProcess{
		process: p,
		URL:     "http://" + p.printed(t, `"listen":"([0-9.:]+)"`),
		Admin:   "http://" + p.printed(t, `"admin":"([0-9.:]+)"`),
	}
}

// sweepTimeout ends a sweep that hangs.
const sweepTimeout = 2 * time.Minute

// runSweep runs `spectap sweep` to its end and returns the folder of its files.
func runSweep(t testing.TB, environ []string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command(t, "spectap"), append([]string{"sweep", "--save_dir", dir}, args...)...)
	cmd.Env = environment(environ)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot sweep: %v\n%s", err, out)
	}
	return dir
}

// writeQuestions writes n two-turn questions of our own in MT-Bench's form.
func writeQuestions(t testing.TB, n int) string {
	t.Helper()
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `{"question_id": %d, "category": "c%d", "turns": ["Question %d: describe thing number %d.", "And what about thing %d?"]}`+"\n", 81+i, i/10, i, i, i+1)
	}
	path := filepath.Join(t.TempDir(), "question.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
