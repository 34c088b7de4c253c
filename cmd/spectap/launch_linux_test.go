package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var background = context.Background()

// The server gets its arguments as typed, then what they leave out; the sweep
// gets the rest and the address; the server is gone afterwards.
func TestLaunch(t *testing.T) {
	r := newRig(t, "serve")
	r.env["HF_MODEL_CKPT"], r.env[startupVar], r.env["CONTAINER_IMAGE"] = "/models/big one", "500", "vllm/vllm-openai:v0.32.0"
	typed := []string{"--speculative-config.method", "dflash", "--temperature", "0", "1", "-tp", "2", "--speculative-config.num_speculative_tokens", "3",
		"--hf-overrides", `{"a": [1, "b c"]}`, "--api-key", "sk-first-key", "sk-second-key", "--seed", "1", "--seed", "2", ""}
	code := r.run(background, append(slices.Clone(typed), r.sweepArgs("--temperature", "0", "1", "--concurrency", "1,4")...)...)
	r.want(code, 0, "PASS: spectap launch: 4 of 4 points complete in "+r.save)
	got := r.argv()
	port := got[len(got)-3]
	want := slices.Concat([]string{"serve", "/models/big one"}, typed, []string{"--per-request-spec-decode-metrics", "summary", "--port", port, "--host", "127.0.0.1"})
	if !slices.Equal(got, want) {
		t.Errorf("the server got\n%q, want\n%q", got, want)
	}
	r.processes(1)
	var file struct {
		Config struct {
			Command []string `json:"command"`
		} `json:"serving_config"`
		Argv  []string `json:"argv"`
		URL   string   `json:"url"`
		Image string   `json:"container_image"`
		GPUs  int      `json:"tp_size"`

		Algorithm   *string `json:"speculative_algorithm"`
		DraftLength *int    `json:"draft_length"`
		DraftModel  *string `json:"draft_model_dir"`
	}
	readJSON(t, filepath.Join(r.save, "t1_c4", "configuration.json"), &file)
	if file.Algorithm == nil || *file.Algorithm != "DFLASH" || file.DraftLength == nil || *file.DraftLength != 3 || file.DraftModel != nil {
		t.Errorf("got speculation %v, %v, %v; want DFLASH, 3 and no drafter's folder", file.Algorithm, file.DraftLength, file.DraftModel)
	}
	for i, word := range want {
		if strings.HasPrefix(word, "sk-") {
			want[i] = hidden
		}
	}
	if command := append([]string{"vllm"}, want...); !slices.Equal(file.Config.Command, command) {
		t.Errorf("configuration.json has the server's command line\n%q, want\n%q", file.Config.Command, command)
	}
	if file.URL != "http://127.0.0.1:"+port || file.Image != "vllm/vllm-openai:v0.32.0" || file.GPUs != 2 {
		t.Errorf("got %+v, want URL, image and two GPUs", file)
	}
	for _, shown := range []string{strings.Join(file.Argv, " "), r.out.String(), r.errs.String(), readText(t, filepath.Join(r.save, serverLog))} {
		if strings.Contains(shown, "sk-") {
			t.Errorf("a key is shown: %s", shown)
		}
	}
	if env := readText(t, filepath.Join(r.dir, "env")); strings.Contains(env, startupVar) {
		t.Errorf("the server got %s, which vLLM does not know", startupVar)
	}
	r.says("starting vllm serve '/models/big one'", "the server is ready after", "stopping the server", "the server ended after")
}

// A second launch into the same folder keeps the first one's log.
func TestLaunchAgain(t *testing.T) {
	r := newRig(t, "serve")
	r.want(r.run(background, append([]string{"M", "-sc", "{}"}, r.sweepArgs()...)...), 0, "PASS: spectap launch: 1 of 1 points complete in "+r.save)
	r.want(r.run(background, append([]string{"M", "-sc", "{}"}, r.sweepArgs("--concurrency", "2")...)...), 0, "PASS: spectap launch: 1 of 1 points complete in "+r.save)
	if n := strings.Count(readText(t, filepath.Join(r.save, serverLog)), "spectap launch: vllm serve M -sc"); n != 2 {
		t.Errorf("got %d starts in %s, want 2", n, serverLog)
	}
}

// A launch that is resumed and has nothing left starts no server, shows the table
// and passes; of points that are gone since it looked it says so at once.
func TestLaunchNothingLeft(t *testing.T) {
	r := newRig(t, "serve")
	args := append([]string{"M", "-sc", "{}"}, r.sweepArgs("--resume")...)
	r.want(r.run(background, args...), 0, "PASS: spectap launch: 1 of 1 points complete in "+r.save)
	starts := len(standInPids(r.dir))
	r.want(r.run(background, append(args, "--dry_run")...), 0, "PASS: spectap launch: nothing was started (--dry_run)")
	if want := "start        nothing: all points are complete\n"; !strings.Contains(r.out.String(), want) {
		t.Errorf("stdout does not say %q:\n%s", want, r.out.String())
	}
	r.want(r.run(background, args...), 0, "PASS: spectap launch: 1 of 1 points complete in "+r.save)
	r.says("the server is not started: all points are complete", "the server was not asked")
	if n := strings.Count(r.out.String(), "Average_AL"); n != 2 {
		t.Errorf("got %d tables, want 2", n)
	}
	if n := len(standInPids(r.dir)); n != starts {
		t.Errorf("got %d more servers started, want none", n-starts)
	}
	p := program{stdout: &r.out, stderr: &r.errs, env: r.env}
	l, err := p.readLaunch(p.launchCommand().Flags(), args)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(r.save, "t0_c1")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.run(background); err == nil || !strings.Contains(err.Error(), "the server was not started, and the folder has changed since") {
		t.Errorf("got %v, want that the folder has changed", err)
	}
}

// A server that dies before it is ready is noticed at once, and the end of its
// log is shown, without secrets and control characters.
func TestLaunchDiesAtStart(t *testing.T) {
	r := newRig(t, "dies")
	r.env["HF_TOKEN"] = "hf_verysecret"
	r.want(r.run(background, append([]string{"M"}, r.sweepArgs()...)...), 3, "FAIL: spectap launch: the server ended (exit status 7) before it was ready")
	r.says("\n[1mline 70 with "+hidden+"\n", "\n[1mline 99 with "+hidden+"\n")
	if text := r.errs.String(); strings.Contains(text, "line 69") || strings.Contains(text, "hf_very") || strings.Contains(text, "\x1b[1m") {
		t.Errorf("want the last 30 lines only, without the token and escapes:\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(r.save, "sweep.json")); err == nil {
		t.Error("a sweep ran")
	}
	r.processes(1)
}

// A server that is never ready is ended after the time limit.
func TestLaunchNeverReady(t *testing.T) {
	f := func(mode, why string) {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, mode)
			r.env[startupVar] = "1.5"
			r.want(r.run(background, append([]string{"M"}, r.sweepArgs()...)...), 3,
				"FAIL: spectap launch: the server did not become ready within 1.5s; give it longer with --startup_timeout")
			r.says("waiting for the server: "+why, "; its log "+filepath.Join(r.save, serverLog)+" is empty")
			r.processes(len(standInPids(r.dir))) // a slow machine may not have come to its first line
		})
	}
	f("mute", "no answer yet")
	f("loading", "")
}

// A program that cannot be started is said so.
func TestLaunchNoProgram(t *testing.T) {
	r := newRig(t, "serve")
	r.want(r.run(background, append([]string{"--server-cmd=no-such-program", "M"}, r.sweepArgs()...)...), 3,
		`FAIL: spectap launch: cannot start the server: exec: "no-such-program": executable file not found in $PATH; name its program with --server_cmd`)
}

// A server that dies while it is swept fails the sweep: the point keeps its
// reason, nothing waits for the server to come back, its child is ended.
func TestLaunchDiesInSweep(t *testing.T) {
	r := newRig(t, "parent dies@12") // preflight is request 1, the first point has 2 to 9
	r.want(r.run(background, append([]string{"M"}, r.sweepArgs("--concurrency", "1", "2", "4")...)...), 1,
		"FAIL: spectap launch: the server ended (exit status 9) during the sweep")
	r.says("CUDA error: the stand-in dies")
	for _, path := range []string{"t0_c1/acceptance_rate.json", "t0_c2.failed/error.json"} {
		if _, err := os.Stat(filepath.Join(r.save, path)); err != nil {
			t.Errorf("%s is missing: %v", path, err)
		}
	}
	if !strings.Contains(r.out.String(), "not run: t0_c4") {
		t.Errorf("the table does not name the point that was not run:\n%s", r.out.String())
	}
	r.processes(2)
}

// Where only the server's first process dies, what is left of it is ended at
// once: what it still answers is not measured, and nothing hangs on it.
func TestLaunchOrphansInSweep(t *testing.T) {
	r := newRig(t, "orphan@4")
	r.env["STAND_IN_SLOW"] = "yes"
	r.want(r.run(background, append([]string{"M"}, r.sweepArgs()...)...), 1, "FAIL: spectap launch: the server ended (signal: killed) during the sweep")
	if _, err := os.Stat(filepath.Join(r.save, "t0_c1.failed", "error.json")); err != nil {
		t.Errorf("the point was not set aside: %v", err)
	}
	r.processes(2)
}

// A failing point fails the launch with the sweep's code; so does a server
// without statistics.
func TestLaunchSweepFails(t *testing.T) {
	r := newRig(t, "serve")
	r.env["STAND_IN_FAULT"] = "error@3/12"
	r.want(r.run(background, append([]string{"M"}, r.sweepArgs("--concurrency", "1", "2")...)...), 1, "FAIL: spectap launch: 1 of 2 points complete in "+r.save)
	r.processes(1)
}

// All processes of the server are ended, those too that it leaves behind.
func TestLaunchEndsChildren(t *testing.T) {
	r := newRig(t, "parent")
	r.want(r.run(background, append([]string{"M"}, r.sweepArgs()...)...), 0, "PASS: spectap launch: 1 of 1 points complete in "+r.save)
	r.says("the server ended after")
	r.processes(2)
}

// A server that ignores SIGTERM is killed after the grace, with its child.
func TestLaunchKills(t *testing.T) {
	r := newRig(t, "deaf")
	r.want(r.run(background, append([]string{"--stop_grace", "300ms", "M"}, r.sweepArgs()...)...), 0, "PASS: spectap launch: 1 of 1 points complete in "+r.save)
	r.says("the server did not end within 300ms of SIGTERM and was killed")
	r.processes(2)
}

// A server that is not ready has a short grace only.
func TestLaunchKillsStarting(t *testing.T) {
	r := newRig(t, "deaf mute")
	own := (program{}).launchCommand().Flags()
	p := program{stdout: &r.out, stderr: &r.errs, env: r.env}
	l, err := p.readLaunch(own, append([]string{"--stop_grace", "10m", "M"}, r.sweepArgs()...))
	if err != nil {
		t.Fatal(err)
	}
	if l.startingGrace > 5*time.Second {
		t.Errorf("got a grace of %v, want the 5s of the README at most", l.startingGrace)
	}
	l.startingGrace = 200 * time.Millisecond
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := l.run(ctx)
		ended <- err
	}()
	r.until("the start", func() bool { return len(standInPids(r.dir)) == 1 })
	cancel()
	if err := <-ended; err == nil {
		t.Error("a server that was never ready is no failure")
	}
	r.says("the server did not end within 200ms of SIGTERM and was killed")
	r.processes(1)
}

// Ctrl-C ends the server, whatever launch is at.
func TestLaunchInterrupted(t *testing.T) {
	f := func(name, mode, report string, reached func(r *rig) bool) {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, mode)
			r.env["STAND_IN_SLOW"] = "yes"
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			code := make(chan int, 1)
			go func() { code <- r.run(ctx, append([]string{"M"}, r.sweepArgs("--concurrency", "1", "2")...)...) }()
			r.until(name, func() bool { return reached(r) })
			cancel()
			r.want(<-code, 130, report)
			r.processes(1)
		})
	}
	f("before it is ready", "mute", "FAIL: spectap launch: interrupted before the server was ready",
		func(r *rig) bool { return len(standInPids(r.dir)) == 1 })
	f("in a point", "serve", "FAIL: spectap launch: interrupted: complete points are kept; to go on, run the same command with --resume",
		func(r *rig) bool { return r.requests() >= 4 })
}

// startMain starts spectap launch as a process of its own.
func (r *rig) startMain(args ...string) *exec.Cmd {
	r.t.Helper()
	command := slices.Concat(standInCommand(), []string{"--", "launch"}, args)
	c := exec.Command(command[0], command[1:]...)
	r.env[standInVar+"_SERVER"], r.env[standInVar] = r.env[standInVar], "main"
	for name, value := range r.env {
		c.Env = append(c.Env, name+"="+value)
	}
	c.Stdout, c.Stderr = &r.out, &r.errs
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Process.Kill() })
	return c
}

// A second Ctrl-C ends launch at once, and the server's group with it.
func TestLaunchInterruptedTwice(t *testing.T) {
	r := newRig(t, "deaf")
	r.env["STAND_IN_SLOW"] = "yes"
	c := r.startMain(append([]string{"--stop_grace", "10m", "M"}, r.sweepArgs()...)...)
	r.until("the first requests", func() bool { return r.requests() >= 3 })
	_ = c.Process.Signal(syscall.SIGINT)
	r.until("the end of the sweep", func() bool { return strings.Contains(r.errs.String(), "stopping the server") })
	if pids := standInPids(r.dir); !runs(pids[0]) || !runs(pids[1]) {
		t.Fatal("the server ended at the first signal: this test tests nothing")
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	r.until("the end of launch", func() bool { // at once, a second one may be the first doubled
		_ = c.Process.Signal(syscall.SIGINT)
		return len(ended) == 1
	})
	<-ended
	if code := c.ProcessState.ExitCode(); code != 130 {
		t.Errorf("got exit code %d, want 130", code)
	}
	r.until("the end of the server", func() bool { return !slices.ContainsFunc(standInPids(r.dir), runs) })
	r.processes(2)
}

// SIGTERM ends the sweep and the server, with the exit code of that signal.
func TestLaunchTerminated(t *testing.T) {
	r := newRig(t, "parent")
	r.env["STAND_IN_SLOW"] = "yes"
	c := r.startMain(append([]string{"M"}, r.sweepArgs()...)...)
	r.until("the first requests", func() bool { return r.requests() >= 3 })
	for range 2 { // as timeout(1) does: to the process, and to its group
		_ = c.Process.Signal(syscall.SIGTERM)
	}
	_ = c.Wait()
	r.want(c.ProcessState.ExitCode(), 143, "FAIL: spectap launch: interrupted: complete points are kept; to go on, run the same command with --resume")
	r.processes(2)
}

// A launch that is killed leaves no server behind.
func TestLaunchKilled(t *testing.T) {
	r := newRig(t, "serve")
	r.env["STAND_IN_SLOW"] = "yes"
	c := r.startMain(append([]string{"M"}, r.sweepArgs()...)...)
	r.until("the first requests", func() bool { return r.requests() >= 3 })
	_ = c.Process.Kill()
	_ = c.Wait()
	r.until("the end of the server", func() bool { return !slices.ContainsFunc(standInPids(r.dir), runs) })
}

// A panic in launch ends the server, too.
func TestLaunchPanics(t *testing.T) {
	r := newRig(t, "parent")
	own := (program{}).launchCommand().Flags()
	p := program{stdout: &r.out, stderr: panicAt{&r.errs, "is ready"}, env: r.env}
	l, err := p.readLaunch(own, append([]string{"M"}, r.sweepArgs()...))
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("launch did not panic: this test tests nothing")
			}
		}()
		_, _ = l.run(background)
	}()
	r.processes(2)
}

// panicAt panics at a text that is written.
type panicAt struct {
	*lockedBuffer
	text string
}

func (p panicAt) Write(b []byte) (int, error) {
	if strings.Contains(string(b), p.text) {
		panic(p.text)
	}
	return p.lockedBuffer.Write(b)
}

// A port that somebody listens on is refused before anything is started: the
// sweep would measure another server.
func TestLaunchOccupiedPort(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, port, _ := net.SplitHostPort(other.Addr().String())
	r := newRig(t, "serve")
	r.want(r.run(background, append([]string{"M", "--port", port}, r.sweepArgs()...)...), 3,
		"FAIL: spectap launch: cannot start the server on 0.0.0.0:"+port+": another process listens there; give it another --port, or leave --port out for a free one")
	r.processes(0)
}

// Everything that is wrong is said before a server is started.
func TestLaunchAllProblemsAtOnce(t *testing.T) {
	r := newRig(t, "serve")
	r.env[startupVar] = "soon"
	code := r.run(background, "--stop_grace", "long", "--", "--mtbench", "no-such-file", "--temperature", "0", "hot", "--num_gpus", "0")
	r.want(code, 2, `FAIL: spectap launch: cannot use VLLM_STARTUP_TIMEOUT "soon": want a number of seconds`)
	r.says(`cannot use SPECTAP_STOP_GRACE (--stop_grace) "long"`, "no model to serve", "no-such-file", `--temperature "hot"`, "--num_gpus 0", "--save_dir is not set")
	f := func(want string, args ...string) {
		t.Helper()
		r := newRig(t, "serve")
		code := r.run(background, args...)
		if code != 2 || !strings.Contains(r.errs.String(), want) || !strings.Contains(r.out.String(), "<REPORT>FAIL: ") {
			t.Errorf("%q: got exit code %d and\n%s%s\nwant 2 and %q", args, code, r.out.String(), r.errs.String(), want)
		}
		r.processes(0)
	}
	f("no -- among the arguments", "M")
	f("--stop_grace has no value", "--stop_grace", "--")
	f("cannot use --stop_grace behind the server's arguments", "M", "--stop-grace=3s", "--")
	f("unknown flag: --consurrency", append([]string{"M"}, r.sweepArgs("--consurrency", "1")...)...)
	f(`unexpected argument "8"`, append([]string{"M"}, r.sweepArgs("--output_length", "8", "8")...)...)
	f("want an end to its last quote", append([]string{"--server_cmd", "vllm 'serve", "M"}, r.sweepArgs()...)...)
	f("cannot use the server's --uds", append([]string{"M", "--uds", "/tmp/s"}, r.sweepArgs()...)...)
	f(`cannot use the server's --port "80000"`, append([]string{"M", "--port", "80000"}, r.sweepArgs()...)...)
	f("cannot use --url of the sweep's arguments: want port 8123", append([]string{"M", "--port=8123"}, r.sweepArgs("--url", "http://localhost:8124")...)...)
	f("cannot read the server's --config", append([]string{"M", "--config", "no-such.yaml"}, r.sweepArgs()...)...)
}

// A dry run shows what would be started and asked, and starts nothing.
func TestLaunchDryRun(t *testing.T) {
	r := newRig(t, "serve")
	r.want(r.run(background, append([]string{"M", "-sc", `{"method": "ngram"}`, "--port", "8123"}, r.sweepArgs("--url", "http://localhost:8123/v1", "--dry_run")...)...), 0,
		"PASS: spectap launch: nothing was started (--dry_run)")
	for _, want := range []string{`start        vllm serve M -sc '{"method": "ngram"}' --port 8123 --per-request-spec-decode-metrics summary`, "server       http://localhost:8123\n", "point        temperature 0, concurrency 1"} {
		if !strings.Contains(r.out.String(), want) {
			t.Errorf("stdout does not say %q:\n%s", want, r.out.String())
		}
	}
	r.processes(0)
}

// A server that is not started as vLLM is gets a free port and nothing else.
func TestLaunchAnyServer(t *testing.T) {
	r := newRig(t, "serve")
	r.env["SPECTAP_SERVER_CMD"] = "vllm run --host=127.0.0.1 '--port={port}'"
	r.want(r.run(background, append([]string{"--model-path", "M"}, r.sweepArgs()...)...), 0, "PASS: spectap launch: 1 of 1 points complete in "+r.save)
	if got := r.argv(); len(got) != 5 || !slices.Equal(append(got[:2:2], got[3:]...), []string{"run", "--host=127.0.0.1", "--model-path", "M"}) {
		t.Errorf("the server got %q", got)
	}
}

// Without a speculative config no statistics are asked for, and that is said.
func TestLaunchWithoutSpeculation(t *testing.T) {
	r := newRig(t, "serve")
	r.run(background, append([]string{"M"}, r.sweepArgs()...)...)
	r.says("the server's arguments have no --speculative-config")
	if slices.Contains(r.argv(), statisticsFlag) {
		t.Errorf("the server got %q", r.argv())
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
