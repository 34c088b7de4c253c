package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// tracer runs a program and kills it in front of one of its steps: a system call
// that changes something in a folder. By ptrace, so that each step is a moment
// that can be met again.
type tracer struct {
	dir  string // the steps are changes below it
	at   int    // the step, from 1, in front of which the program is killed; 0: never
	step string // what it was
	n    int    // steps so far
	pid  int
	mem  *os.File
}

// The system calls by which Go changes files.
var changingCalls = map[uint64]string{
	unix.SYS_OPENAT: "create", unix.SYS_OPEN: "create", unix.SYS_MKDIRAT: "mkdir", unix.SYS_MKDIR: "mkdir",
	unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename", unix.SYS_RENAME: "rename", unix.SYS_UNLINKAT: "unlink", unix.SYS_UNLINK: "unlink", unix.SYS_RMDIR: "rmdir",
	unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "write", unix.SYS_FSYNC: "fsync", unix.SYS_FTRUNCATE: "truncate", unix.SYS_FCHMOD: "chmod", unix.SYS_FLOCK: "lock",
	unix.SYS_COPY_FILE_RANGE: "copy", unix.SYS_SENDFILE: "send",
}

// run returns the exit code, or -1 where the program was killed. Its output goes to out.
func (k *tracer) run(argv []string, env []string, out *os.File) (code int, err error) {
	runtime.LockOSThread() // one thread traces
	defer runtime.UnlockOSThread()
	k.n, k.step = 0, ""
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	k.pid, err = syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Env: env, Files: []uintptr{null.Fd(), out.Fd(), out.Fd()}, Sys: &syscall.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = syscall.Kill(k.pid, syscall.SIGKILL)
		}
	}()
	var status syscall.WaitStatus
	if _, err = syscall.Wait4(k.pid, &status, 0, nil); err != nil {
		return 0, err
	}
	if err = syscall.PtraceSetOptions(k.pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
		return 0, err
	}
	if k.mem, err = os.Open(fmt.Sprintf("/proc/%d/mem", k.pid)); err != nil {
		return 0, err
	}
	defer k.mem.Close()
	if err = syscall.PtraceSyscall(k.pid, 0); err != nil {
		return 0, err
	}
	return k.follow()
}

// follow goes from stop to stop of all threads until the program has ended.
func (k *tracer) follow() (int, error) {
	inside := map[int]bool{} // threads that are in a system call
	for {
		var status syscall.WaitStatus
		tid, err := syscall.Wait4(-k.pid, &status, syscall.WALL, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return 0, err
		}
		switch {
		case status.Exited() && tid == k.pid:
			return status.ExitStatus(), nil
		case status.Signaled() && tid == k.pid:
			return -1, nil
		case !status.Stopped():
			continue
		}
		signal := 0
		switch stop := status.StopSignal(); stop {
		case syscall.SIGTRAP | 0x80:
			if inside[tid] = !inside[tid]; inside[tid] {
				k.enter(tid)
			}
		case syscall.SIGTRAP, syscall.SIGSTOP: // a new thread
		default:
			signal = int(stop)
		}
		if err := syscall.PtraceSyscall(tid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return 0, err
		}
	}
}

// enter looks at a system call that begins.
func (k *tracer) enter(tid int) {
	var regs syscall.PtraceRegs
	if syscall.PtraceGetRegs(tid, &regs) != nil {
		return
	}
	name, ok := changingCalls[regs.Orig_rax]
	if !ok {
		return
	}
	path := ""
	switch regs.Orig_rax {
	case unix.SYS_OPENAT:
		if regs.Rdx&(unix.O_CREAT|unix.O_TRUNC) == 0 {
			return
		}
		path = k.text(regs.Rsi)
	case unix.SYS_MKDIRAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT:
		path = k.text(regs.Rsi)
	case unix.SYS_OPEN:
		if regs.Rsi&(unix.O_CREAT|unix.O_TRUNC) == 0 {
			return
		}
		path = k.text(regs.Rdi)
	case unix.SYS_MKDIR, unix.SYS_RENAME, unix.SYS_UNLINK, unix.SYS_RMDIR:
		path = k.text(regs.Rdi)
	default:
		path, _ = os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", k.pid, regs.Rdi))
	}
	if path != k.dir && !strings.HasPrefix(path, k.dir+"/") {
		return
	}
	if k.n++; k.n == k.at {
		k.step = name + " " + strings.TrimPrefix(strings.TrimPrefix(path, k.dir), "/")
		_ = syscall.Kill(k.pid, syscall.SIGKILL)
	}
}

// text reads a C string of the program.
func (k *tracer) text(at uint64) string {
	var b [512]byte
	n, _ := k.mem.ReadAt(b[:], int64(at))
	text, _, _ := strings.Cut(string(b[:n]), "\x00")
	return text
}

// Killed in front of any step, a sweep that is resumed ends as one that was not
// killed: complete points are not touched, at most one is lost, and the files of
// all are the same. SPECTAP_KILL_AT_EVERY_STEP=1 tries all steps.
func TestResumeAfterKillAtAnyStep(t *testing.T) {
	server, _ := serveEngine(t, fastEngine())
	questions := writeQuestions(t, 2)
	args := func(dir string) []string {
		return []string{"sweep", "--url", server, "--mtbench", questions, "--concurrency", "2", "--repeats", "2", "--warmup", "1",
			"--output_length", "16", "--keep_texts", "--resume", "--save_dir", dir}
	}
	want := filepath.Join(t.TempDir(), "whole")
	mustSpectap(t, 0, args(want)...)
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	run := func(k *tracer, args []string) int {
		t.Helper()
		argv := append([]string{os.Args[0], "-test.run=^TestStandInServer$", "-test.timeout=2m", "--"}, args...)
		code, err := k.run(argv, append(os.Environ(), standInVar+"=main"), out)
		if errors.Is(err, syscall.EPERM) {
			t.Skipf("ptrace is not allowed here: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	all := &tracer{dir: filepath.Join(t.TempDir(), "counted")}
	if code := run(all, args(all.dir)); code != 0 {
		t.Fatalf("got exit code %d", code)
	}
	steps, stride := all.n, max(1, all.n/16)
	if os.Getenv("SPECTAP_KILL_AT_EVERY_STEP") != "" {
		stride = 1
	}
	kills, seen := 0, map[string]bool{}
	for at := 1; at <= steps; at += stride {
		k := &tracer{dir: filepath.Join(t.TempDir(), fmt.Sprint("step", at)), at: at}
		if code := run(k, args(k.dir)); code != -1 {
			continue // Go's threads do not take the same steps each time
		}
		kills++
		seen[strings.Fields(k.step)[0]] = true
		complete := completeFolders(t, k.dir)
		code, stdout, stderr := spectap(t, args(k.dir)...)
		if code != 0 {
			t.Errorf("killed at step %d (%s): got exit code %d\n%s%s", at, k.step, code, stdout, stderr)
			continue
		}
		checkResumed(t, fmt.Sprintf("killed at step %d (%s)", at, k.step), k.dir, want, complete)
	}
	t.Logf("%d steps, killed at %d of them: %v", steps, kills, seen)
	if kills < 15 {
		t.Errorf("got %d kills of %d steps, want 15 or more", kills, steps)
	}
}

// completeFolders returns the identity of each complete point's records.
func completeFolders(t *testing.T, dir string) map[string]os.FileInfo {
	t.Helper()
	found := map[string]os.FileInfo{}
	files, _ := filepath.Glob(filepath.Join(dir, "t*", "records.jsonl"))
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(filepath.Dir(file))] = info
	}
	return found
}

// checkResumed holds the folder of a sweep that was killed and resumed against that of one that was not.
func checkResumed(t *testing.T, what, dir, want string, complete map[string]os.FileInfo) {
	t.Helper()
	after := completeFolders(t, dir)
	for name, info := range complete {
		if !os.SameFile(info, after[name]) || !info.ModTime().Equal(after[name].ModTime()) {
			t.Errorf("%s: the complete point %s was touched", what, name)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if text := strings.Replace(fmt.Sprint(names), " set_aside", "", 1); text != "[report.html summary.csv sweep.json t0_c2 t0_c2_r2]" {
		t.Errorf("%s: got %v in the folder", what, names)
	}
	lost, _ := filepath.Glob(filepath.Join(dir, "set_aside", "*"))
	if len(lost) > 1 {
		t.Errorf("%s: got %v set aside, want one point at most", what, lost)
	}
	for _, point := range []string{"t0_c2", "t0_c2_r2"} {
		sameFiles(t, filepath.Join(dir, point), filepath.Join(want, point), "acceptance_rate.json", "mtbench_responses.jsonl")
	}
	for _, file := range []string{"sweep.json", "summary.csv"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if n := strings.Count(string(text), `: "complete"`) + strings.Count(string(text), ",complete,"); err != nil || n != 2 {
			t.Errorf("%s: got %d complete points in %s, want 2 (%v)", what, n, file, err)
		}
	}
}
