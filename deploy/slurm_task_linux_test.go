package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// slurmTask is a task of a job, with a stand-in for `vllm serve` that serves the
// simulated engine, or does what a test wants in its place.
type slurmTask struct {
	t    *testing.T
	home string   // run.sh, its runtime_params.yaml and spectap
	save string   // for the results
	mt   string   // a question file
	bin  string   // vllm, and more programs that a test needs
	told string   // what vllm was started with
	env  []string // beside PATH, HOME and TMPDIR
}

// serveEngine is the end of a stand-in that serves the simulated engine.
const serveEngine = `while [ $# -gt 1 ]; do
  if [ "$1" = --port ]; then port=$2; fi
  shift
done
exec %s --listen "127.0.0.1:$port" --seed 7 %s
`

// newSlurmTask lays a task's folders out in base. Without an end of its own, the
// stand-in serves an engine whose steps take a millisecond and whose replies are short.
func newSlurmTask(t *testing.T, base, end string) *slurmTask {
	t.Helper()
	s := &slurmTask{t: t, home: filepath.Join(base, "code", "common", "spectap"), save: filepath.Join(base, "results", "mt bench"),
		bin: filepath.Join(base, "bin"), told: filepath.Join(base, "told"), mt: filepath.Join(base, "question.jsonl")}
	for _, dir := range []string{s.home, s.bin, s.told} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"run.sh", "runtime_params.yaml"} {
		s.write(filepath.Join(s.home, name), readText(t, filepath.Join("slurm", name)))
	}
	s.write(s.mt, readText(t, writeQuestions(t, 3)))
	if err := os.Symlink(command(t, "spectap"), filepath.Join(s.home, "spectap")); err != nil {
		t.Fatal(err)
	}
	if end == "" {
		end = engine(t, "--prefill 1ms --step 1ms --eos 0.1")
	}
	s.program("vllm", fmt.Sprintf("printf '%%s\\n' \"$@\" >%[1]s/args; env >%[1]s/env; echo $$ >%[1]s/pid\n", shellWord(s.told))+end)
	s.env = []string{"PATH=" + s.bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HF_MODEL_CKPT=/hf-local/Qwen/Qwen3-8B"}
	return s
}

// engine is the end of a stand-in that serves the simulated engine with the given flags.
func engine(t *testing.T, flags string) string {
	t.Helper()
	return fmt.Sprintf(serveEngine, shellWord(command(t, "fakevllm")), flags)
}

// program writes a shell script into the task's PATH.
func (s *slurmTask) program(name, script string) {
	s.t.Helper()
	path := filepath.Join(s.bin, name)
	s.write(path, "#!/usr/bin/env bash\n"+script)
	if err := os.Chmod(path, 0o755); err != nil {
		s.t.Fatal(err)
	}
}

func (s *slurmTask) write(path, text string) {
	s.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// args are a command line of run.sh for a short sweep.
func (s *slurmTask) args(sweep ...string) []string {
	return append([]string{"--speculative-config.method", "dflash", "--", "--mtbench", s.mt, "--output_length", "32", "--save_dir", s.save}, sweep...)
}

// slurmRun is a started task.
type slurmRun struct {
	*slurmTask
	cmd            *exec.Cmd
	stdout, stderr *output
	ended          chan struct{}
}

// start starts run.sh as `bash run.sh` in a process group of its own.
func (s *slurmTask) start(args ...string) *slurmRun {
	s.t.Helper()
	return s.startCommand(s.home, "bash", append([]string{filepath.Join(s.home, "run.sh")}, args...)...)
}

func (s *slurmTask) startCommand(dir, name string, args ...string) *slurmRun {
	s.t.Helper()
	r := &slurmRun{slurmTask: s, cmd: exec.Command(name, args...), stdout: newOutput(), stderr: newOutput(), ended: make(chan struct{})}
	r.cmd.Dir, r.cmd.Env = dir, environment(s.env)
	r.cmd.Stdout, r.cmd.Stderr = r.stdout, r.stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // how it ended is in ProcessState
		close(r.ended)
		r.stderr.close()
	}()
	s.t.Cleanup(func() { // whatever failed, nothing stays
		select {
		case <-r.ended:
		default:
			_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
			<-r.ended
		}
		if pid := s.vllm(); pid != 0 && isRunning(pid) {
			s.t.Errorf("vllm, process %d, still runs", pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if s.t.Failed() {
			s.t.Logf("stdout:\n%s\nstderr:\n%s", r.stdout.tail(4<<10), r.stderr.tail(8<<10))
		}
	})
	return r
}

// want waits for the end and checks the exit code and the last line of stdout: a
// report that begins so, the only one. It returns stdout's other lines.
func (r *slurmRun) want(code int, report string) string {
	r.t.Helper()
	<-r.ended
	lines := strings.Split(strings.TrimSuffix(r.stdout.tail(1<<20), "\n"), "\n")
	before, last := strings.Join(lines[:len(lines)-1], "\n"), lines[len(lines)-1]
	if got := r.cmd.ProcessState.ExitCode(); got != code || !strings.HasPrefix(last, "<REPORT>"+report) || !strings.HasSuffix(last, "</REPORT>") {
		r.t.Errorf("got exit code %d and last line %q, want %d and a report that begins with %q", got, last, code, report)
	}
	if strings.Contains(before, "<REPORT>") {
		r.t.Errorf("stdout has more than one report:\n%s\n%s", before, last)
	}
	return before
}

// says waits until stderr has a text.
func (r *slurmRun) says(pattern string) {
	r.t.Helper()
	(&process{cmd: r.cmd, output: r.stderr}).printed(r.t, "("+pattern+")")
}

// vllm is the process id of the stand-in; 0: it was not started.
func (s *slurmTask) vllm() int {
	text, _ := os.ReadFile(filepath.Join(s.told, "pid"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// wasStarted tells whether vllm was, and that it does not run any more.
func (s *slurmTask) wasStarted(want bool) {
	s.t.Helper()
	if pid := s.vllm(); (pid != 0) != want || pid != 0 && isRunning(pid) {
		s.t.Errorf("vllm was process %d, running: %v; want it started: %v, and ended", pid, isRunning(pid), want)
	}
}

// isRunning tells whether a process runs; one that ended and was not reaped does not.
func isRunning(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	return !bytes.ContainsAny(fields[0], "ZX")
}

// serverArgs are the arguments that vllm was started with.
func (s *slurmTask) serverArgs() []string {
	s.t.Helper()
	return strings.Split(strings.TrimSuffix(readText(s.t, filepath.Join(s.told, "args")), "\n"), "\n")
}

// configuration reads the configuration.json of a point.
func configuration(t *testing.T, point string) map[string]any {
	t.Helper()
	var c map[string]any
	if err := json.Unmarshal([]byte(readText(t, filepath.Join(point, "configuration.json"))), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func readText(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// shellWord is a word for a shell.
func shellWord(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
