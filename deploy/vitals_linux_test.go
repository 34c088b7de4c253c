package deploy

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// vitals are what a running proxy holds.
type vitals struct {
	at       time.Duration // since the start of the watch
	resident int           // KiB
	files    int           // open descriptors
	routines int           // goroutines
}

var (
	residentLine = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB`)
	routinesLine = regexp.MustCompile(`^goroutine profile: total (\d+)`)
)

// vitals reads what the proxy holds now; it runs with --pprof.
func (p *proxyProcess) vitals(t testing.TB) vitals {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	profile, err := fetch(p.Admin + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	return vitals{resident: number(t, residentLine, status), files: p.files(t), routines: number(t, routinesLine, profile)}
}

// atRest reads what the proxy holds before the first request, once it waits for that:
// it says where it listens before all of its goroutines have begun.
func (p *proxyProcess) atRest(t testing.TB) vitals {
	t.Helper()
	for deadline := time.Now().Add(pollTimeout); ; time.Sleep(pollEvery) {
		profile, err := fetch(p.Admin + "/debug/pprof/goroutine?debug=1")
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(profile, []byte("fasthttp.acceptConn")) && bytes.Contains(profile, []byte("fasthttp.(*workerPool).Start")) && bytes.Contains(profile, []byte("(*watcher).run")) {
			return p.vitals(t)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the proxy does not wait for requests:\n%s", profile)
		}
	}
}

// files counts the open descriptors of a process.
func (p *process) files(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func number(t testing.TB, pattern *regexp.Regexp, text []byte) int {
	t.Helper()
	found := pattern.FindSubmatch(text)
	if found == nil {
		t.Fatalf("no %s in %q", pattern, bytes.TrimSpace(text[:min(len(text), 200)]))
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// backTo waits until the proxy holds no more than before: idle workers of
// fasthttp end up to 10 s after their last request, and so does its cleaner's round.
func (p *proxyProcess) backTo(t testing.TB, base vitals) {
	t.Helper()
	var now vitals
	for deadline := time.Now().Add(pollTimeout); ; time.Sleep(pollEvery) {
		now = p.vitals(t)
		if now.files <= base.files && now.routines <= base.routines {
			return
		}
		if time.Now().After(deadline) {
			stacks, err := fetch(p.Admin + "/debug/pprof/goroutine?debug=1")
			t.Errorf("got %d open files and %d goroutines, want %d and %d as before the load: %v\n%s", now.files, now.routines, base.files, base.routines, err, stacks)
			return
		}
	}
}

// slope is the rise of the resident memory in KiB a minute, by least squares.
func slope(list []vitals) float64 {
	var n, sx, sy, sxx, sxy float64
	for _, v := range list {
		x, y := v.at.Minutes(), float64(v.resident)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// median of the resident memory in KiB.
func median(list []vitals) int {
	sorted := make([]int, 0, len(list))
	for _, v := range list {
		sorted = append(sorted, v.resident)
	}
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}
