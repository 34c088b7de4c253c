package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// overheadRole is what a process of BenchmarkOverhead does: this test binary runs
// again with it in its environment, so that CPU and memory are each role's own.
//
//	client ──▶ relay, nethttp or proxy ──▶ engine
type overheadRole struct {
	Kind     string // engine, client, relay, nethttp, proxy
	Upstream string // host:port of the engine
	Measure  string // of the proxy
	Records  string // JSONL file of the proxy
	Binary   string `json:"-"` // another build of this test; empty is this one
	Profile  string // file for a CPU profile of the window; one of the heap at its end lies beside it; empty is none
}

const overheadVariable = "SPECTAP_OVERHEAD_ROLE"

// runOverheadRole runs a role until its standard input ends; ok is false in the process of the tests.
func runOverheadRole() (code int, ok bool) {
	text, ok := os.LookupEnv(overheadVariable)
	if !ok {
		return 0, false
	}
	var r overheadRole
	err := json.Unmarshal([]byte(text), &r)
	if err == nil {
		err = map[string]func(overheadRole) error{
			"engine": runOverheadEngine, "client": runOverheadClient,
			"relay": runOverheadRelay, "nethttp": runOverheadNetHTTP, "proxy": runOverheadProxy,
		}[r.Kind](r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "overhead", r.Kind, "failed:", err)
		return 1, true
	}
	return 0, true
}

// overheadCommand goes to a role, one JSON line each; every one is answered by one line.
type overheadCommand struct {
	Do      string        // usage, window (usage, and the profile of a relaying role begins or ends), stop; engine: run, end; client: run, probe, wait
	Streams int           `json:",omitempty"`
	Every   time.Duration `json:",omitempty"` // between two events of a stream
	Addr    string        `json:",omitempty"` // what the client connects to
	Probes  int           `json:",omitempty"`
	File    string        `json:",omitempty"` // where the client puts the times of all events
}

// overheadUsage is what a role has used so far.
type overheadUsage struct {
	At       int64 // wall clock in ns
	User     time.Duration
	System   time.Duration
	RSS, HWM int // KiB; HWM is the peak
	Switches int64
	Waited   time.Duration // of all threads, ready to run while others ran
	// Late is how late each send of the engine was since the last answer, sorted.
	LateP50, LateP99, LateMax time.Duration
	Sent                      int
}

func (u overheadUsage) cpu() time.Duration { return u.User + u.System }

func usageNow() (u overheadUsage) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	u.User, u.System = time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())
	u.Switches = r.Nvcsw + r.Nivcsw
	u.At = time.Now().UnixNano()
	threads, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, file := range threads {
		text, _ := os.ReadFile(file)
		if fields := strings.Fields(string(text)); len(fields) == 3 { // ran, waited, slices
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			u.Waited += time.Duration(n)
		}
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
		switch name {
		case "VmRSS":
			u.RSS = n
		case "VmHWM":
			u.HWM = n
		}
	}
	return u
}

// busyCores is the time that all cores have been busy with anything, by /proc/stat in steps of 10 ms.
func busyCores() (busy time.Duration) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line) {
		n, _ := strconv.Atoi(field)
		if i > 0 && i != 4 && i != 5 && i < 9 { // without idle and waiting for a disk; guests count as user
			busy += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return busy
}

// idleFor says whether all cores together were busy for less than a fifth of a core.
func idleFor(d time.Duration) bool {
	before := busyCores()
	time.Sleep(d)
	return busyCores()-before < d/5
}

// answer writes one line.
func answer(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.Write(append(line, '\n'))
}

// obey answers the commands of a relaying role until its input ends or stop was answered.
func obey(r overheadRole, addr string, stop func() error) error {
	answer(addr)
	in := json.NewDecoder(os.Stdin)
	profiling := false
	for {
		var c overheadCommand
		if err := in.Decode(&c); err != nil {
			return nil // the parent is gone
		}
		switch c.Do {
		case "usage":
			answer(usageNow())
		case "window":
			answer(usageNow())
			switch {
			case r.Profile == "":
			case profiling:
				pprof.StopCPUProfile()
				heap, err := os.Create(r.Profile + ".heap")
				if err != nil {
					return err
				}
				defer heap.Close()
				if err := pprof.WriteHeapProfile(heap); err != nil {
					return err
				}
			default:
				f, err := os.Create(r.Profile)
				if err != nil {
					return err
				}
				defer f.Close()
				if err := pprof.StartCPUProfile(f); err != nil {
					return err
				}
			}
			profiling = !profiling
		case "stop":
			err := stop()
			answer(fmt.Sprint(err))
			return err
		}
	}
}

// overheadChild is a role as its parent sees it.
type overheadChild struct {
	Addr string // where it listens
	role overheadRole
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
}

// startOverheadRole starts a role; on one core only, or on all if cpu is negative.
func startOverheadRole(b *testing.B, r overheadRole, cpu int) *overheadChild {
	b.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		b.Fatal(err)
	}
	if r.Binary == "" {
		r.Binary = os.Args[0]
	}
	cmd := exec.Command(r.Binary)
	cmd.Env = append(os.Environ(), overheadVariable+"="+string(text))
	if r.Kind == "engine" || r.Kind == "client" {
		cmd.Env = append(cmd.Env, "GOGC=off", "GODEBUG=asyncpreemptoff=1")
	}
	if r.Profile != "" {
		cmd.Env = append(cmd.Env, "GODEBUG=memprofilerate=4096")
	}
	// Its own session is its own group for the scheduler: a role gets its share of
	// a busy core, as a container does, not what engine, client and relay share.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := startOn(cmd, cpu); err != nil {
		b.Fatal(err)
	}
	c := &overheadChild{role: r, cmd: cmd, in: in, out: json.NewDecoder(bufio.NewReader(out))}
	b.Cleanup(func() { c.end() })
	c.read(b, &c.Addr)
	return c
}

// startOn starts a process whose threads stay on one core: a child inherits that of the thread that forks.
func startOn(cmd *exec.Cmd, cpu int) error {
	if cpu < 0 {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	defer func() { _ = unix.SchedSetaffinity(0, &before) }()
	return cmd.Start()
}

// ask sends a command and reads its answer.
func (c *overheadChild) ask(b *testing.B, command overheadCommand, answer any) {
	b.Helper()
	line, err := json.Marshal(command)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		b.Fatalf("cannot tell %s to %s: %v", c.role.Kind, command.Do, err)
	}
	c.read(b, answer)
}

func (c *overheadChild) read(b *testing.B, answer any) {
	b.Helper()
	patient := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Kill() })
	defer patient.Stop()
	if err := c.out.Decode(answer); err != nil {
		b.Fatalf("no answer from %s: %v", c.role.Kind, err)
	}
}

func (c *overheadChild) usage(b *testing.B, do string) (u overheadUsage) {
	b.Helper()
	c.ask(b, overheadCommand{Do: do}, &u)
	return u
}

// stop ends a relaying role in order: its records are in their file afterwards.
func (c *overheadChild) stop(b *testing.B) {
	b.Helper()
	var text string
	c.ask(b, overheadCommand{Do: "stop"}, &text)
	if text != "<nil>" {
		b.Errorf("%s %s: %s", c.role.Kind, c.role.Measure, text)
	}
	c.end()
}

// end ends the process, which leaves when its input ends.
func (c *overheadChild) end() {
	if c.cmd.ProcessState != nil {
		return
	}
	_ = c.in.Close()
	kill := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	_ = c.cmd.Wait()
}
