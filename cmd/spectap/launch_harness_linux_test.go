package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spectap/proxy/fakevllm"
)

// The variables that make the test binary a server, a child of one, or spectap
// itself: what it is, and the folder for what it tells the test.
const (
	standInVar    = "SPECTAP_TEST_STAND_IN"
	standInDirVar = "SPECTAP_TEST_STAND_IN_DIR"
)

// TestStandInServer is no test: it is the server that the tests of launch start.
func TestStandInServer(t *testing.T) {
	mode := os.Getenv(standInVar)
	if mode == "" {
		t.Skip("run by the tests of launch, in processes of their own")
	}
	if mode == "main" {
		os.Args = append([]string{"spectap"}, flag.Args()...)
		os.Setenv(standInVar, os.Getenv(standInVar+"_SERVER"))
		main()
	}
	serverStandIn(mode, os.Getenv(standInDirVar), flag.Args())
	os.Exit(0)
}

// serverStandIn behaves as a vllm serve would: it says what it was started with, and then
//
//	serve      serves until SIGTERM
//	parent     the same, with a child; parent dies@N likewise
//	orphan@N   a child of it serves, and kills it at the end of request N
//	deaf       as parent, and both ignore SIGTERM
//	child      is such a child
//	dies       prints 100 lines and ends with status 7
//	dies@N     serves, and ends with status 9 at the end of request N
//	loading    answers /health with 503 for ever
//	mute       never listens
//	deaf mute  neither listens nor ends on SIGTERM
func serverStandIn(mode, dir string, args []string) {
	if strings.Contains(mode, "deaf") {
		signal.Ignore(syscall.SIGTERM)
	}
	tell(dir, "pid."+strconv.Itoa(os.Getpid()), nil)
	if strings.HasPrefix(mode, "child") && !strings.Contains(mode, "orphan") {
		select {}
	}
	text, _ := json.Marshal(args)
	tell(dir, "argv.json", text)
	tell(dir, "env", []byte(strings.Join(os.Environ(), "\n")))
	options := parseOptions(args)
	host, _ := options.get("host")
	port, _ := options.get("port")
	address := net.JoinHostPort(host.value(), port.value())
	switch {
	case mode == "dies":
		for i := range 100 {
			fmt.Printf("line %d of %s\r\x1b[1mline %d with %s\n", i, os.Getenv("HF_TOKEN"), i, os.Getenv("HF_TOKEN"))
		}
		os.Exit(7)
	case strings.HasSuffix(mode, "mute"):
		select {}
	case mode == "loading":
		panic(http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })))
	case mode == "deaf", strings.HasPrefix(mode, "parent"):
		standInChild(mode, dir)
	case strings.HasPrefix(mode, "orphan"):
		standInChild(mode, dir)
		select {}
	}
	serveStandIn(mode, dir, address)
}

// standInChild starts a child in the same group and waits until it has said its id.
func standInChild(mode, dir string) {
	child := exec.Command(os.Args[0], os.Args[1:]...)
	child.Env = append(os.Environ(), standInVar+"=child "+mode)
	if err := child.Start(); err != nil {
		panic(err)
	}
	for !slices.Contains(standInPids(dir), child.Process.Pid) {
		time.Sleep(time.Millisecond)
	}
}

// tell writes a file for the test to read, whole or not at all.
func tell(dir, name string, text []byte) {
	part := filepath.Join(dir, "."+name)
	if err := os.WriteFile(part, text, 0o644); err != nil {
		panic(err)
	}
	if err := os.Rename(part, filepath.Join(dir, name)); err != nil {
		panic(err)
	}
}

// requestLog takes the lines of the engine's log, one a request.
type requestLog struct {
	dir    string
	n      atomic.Int64
	dies   int64 // with request n; 0: never
	parent bool  // who dies
}

func (l *requestLog) Write(line []byte) (int, error) {
	n := l.n.Add(1)
	tell(l.dir, "requests", []byte(strconv.FormatInt(n, 10)))
	if n == l.dies && l.parent {
		_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
	} else if n == l.dies {
		fmt.Println("CUDA error: the stand-in dies")
		os.Exit(9)
	}
	return len(line), nil
}

func serveStandIn(mode, dir, address string) {
	cfg := fastEngine()
	log := &requestLog{dir: dir}
	if _, n, ok := strings.Cut(mode, "@"); ok {
		log.dies, _ = strconv.ParseInt(n, 10, 64)
		log.parent = strings.Contains(mode, "orphan")
	}
	cfg.Truth, cfg.Fault = log, os.Getenv("STAND_IN_FAULT")
	if os.Getenv("STAND_IN_SLOW") != "" {
		cfg.Step = 20 * time.Millisecond
	}
	cfg.NoSpec = os.Getenv("STAND_IN_HONEST") != "" && !parseOptions(flag.Args()).speculates()
	engine, err := fakevllm.New(cfg)
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	panic(engine.Serve(listener))
}

// standInPids are the processes that a stand-in was.
func standInPids(dir string) []int {
	var pids []int
	files, _ := filepath.Glob(filepath.Join(dir, "pid.*"))
	for _, file := range files {
		pid, _ := strconv.Atoi(strings.TrimPrefix(filepath.Ext(file), "."))
		pids = append(pids, pid)
	}
	return pids
}

// rig is one launch with a stand-in as its server.
type rig struct {
	t         *testing.T
	dir, save string // what the stand-in tells; the results
	env       map[string]string
	questions string
	out, errs lockedBuffer
}

// newRig puts a program named vllm into PATH that behaves in the given way.
func newRig(t *testing.T, mode string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), save: filepath.Join(t.TempDir(), "results"), questions: writeQuestions(t, 4)}
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec %s -- \"$@\"\n", joinWords(standInCommand()))
	if err := os.WriteFile(filepath.Join(bin, "vllm"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	r.env = environment(os.Environ())
	r.env[standInVar], r.env[standInDirVar] = mode, r.dir
	t.Cleanup(func() { // whatever failed, nothing stays
		for _, pid := range standInPids(r.dir) {
			if runs(pid) {
				t.Errorf("process %d of the server still runs", pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	return r
}

// standInCommand starts the test binary as a stand-in, for two minutes at most.
func standInCommand() []string {
	return []string{os.Args[0], "-test.run=^TestStandInServer$", "-test.timeout=2m"}
}

// runs tells whether a process runs; one that ended and was not reaped does not.
func runs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	return !bytes.ContainsAny(fields[0], "ZX")
}

// sweepArgs are the arguments behind the server's.
func (r *rig) sweepArgs(more ...string) []string {
	return append([]string{"--", "--mtbench", r.questions, "--output_length", "16", "--save_dir", r.save}, more...)
}

// run runs spectap launch in this process.
func (r *rig) run(ctx context.Context, args ...string) (code int) {
	args = append([]string{"launch"}, args...)
	p := program{stdout: &r.out, stderr: &r.errs, env: r.env, argv: append([]string{"spectap"}, args...)}
	return p.run(ctx, args)
}

// want checks the exit code and the last line of stdout.
func (r *rig) want(code, wantCode int, report string) {
	r.t.Helper()
	lines := strings.Split(strings.TrimSpace(r.out.String()), "\n")
	last := lines[len(lines)-1]
	// a point that is interrupted has records, or has none yet
	last = strings.Replace(last, "; the records of t0_c1, which was running, are in "+filepath.Join(r.save, "set_aside", "t0_c1.1"), "", 1)
	if code != wantCode || last != "<REPORT>"+report+"</REPORT>" {
		r.t.Errorf("got exit code %d and last line %q, want %d and %q\nstdout: %s\nstderr: %s", code, last, wantCode, report, r.out.String(), r.errs.String())
	}
}

// says checks that stderr has a text.
func (r *rig) says(texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.errs.String(), text) {
			r.t.Errorf("stderr does not say %q:\n%s", text, r.errs.String())
		}
	}
}

// argv is what the stand-in was started with.
func (r *rig) argv() []string {
	r.t.Helper()
	var args []string
	readJSON(r.t, filepath.Join(r.dir, "argv.json"), &args)
	return args
}

// processes checks how many processes the server was, and that none is left.
func (r *rig) processes(want int) {
	r.t.Helper()
	pids := standInPids(r.dir)
	if len(pids) != want {
		r.t.Errorf("the server was %d processes, want %d", len(pids), want)
	}
	for _, pid := range pids {
		if runs(pid) {
			r.t.Errorf("process %d of the server still runs", pid)
		}
	}
}

// until waits for a condition.
func (r *rig) until(what string, holds func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: did not happen within 30 s\nstdout: %s\nstderr: %s", what, r.out.String(), r.errs.String())
		}
	}
}

// requests is the number of requests that the stand-in answered.
func (r *rig) requests() int {
	text, _ := os.ReadFile(filepath.Join(r.dir, "requests"))
	n, _ := strconv.Atoi(string(text))
	return n
}

// lockedBuffer is a buffer that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
