package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"spectap/collector"
)

// One sweep writes into a folder at a time; the other one is told who does.
func TestLock(t *testing.T) {
	c := newCampaign(t)
	c.cfg.Host = "here"
	inPoint, goOn := make(chan struct{}), make(chan struct{})
	c.s.script = func(q sent) answer {
		if q.labels["spectap.point"] == "t0_c1" && q.labels["spectap.conversation"] == "0" && q.labels["spectap.turn"] == "0" {
			close(inPoint)
			<-goOn
		}
		return echo(q)
	}
	done := make(chan error, 1)
	go func() {
		p, err := NewPlan(c.cfg)
		if err == nil {
			w := newSweep(p, c.s)
			w.write = nil
			_, err = w.Run(context.Background())
		}
		done <- err
	}()
	<-inPoint
	f := func(change func(*Config)) {
		t.Helper()
		_, _, err := c.run(change)
		if want := fmt.Sprintf("another sweep runs in --save_dir %q: process %d on here, run 2026", c.cfg.SaveDir, os.Getpid()); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	f(nil)
	f(func(cfg *Config) { cfg.Resume, cfg.Concurrency = false, []string{"8"} })
	f(func(cfg *Config) { cfg.Host = "elsewhere" })
	if _, _, err := c.run(func(cfg *Config) { cfg.Resume = false }); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("did not end, or still runs: process %d on here", os.Getpid())) {
		t.Errorf("of a point that runs: got %v, want the process", err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	c.s.script = echo
	if result := c.must(nil); len(result.Summaries) != 2 || exists(filepath.Join(c.cfg.SaveDir, lockName)) {
		t.Errorf("got %+v, want both points and no lock", result)
	}
}

// A lock file that a killed sweep left locks nothing. One of another machine is told.
func TestLockOfAKilledSweep(t *testing.T) {
	f := func(text, warning string) {
		t.Helper()
		c := newCampaign(t)
		c.cfg.Host = "here"
		if err := errors.Join(os.MkdirAll(c.cfg.SaveDir, 0o777), os.WriteFile(filepath.Join(c.cfg.SaveDir, lockName), []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
		result := c.must(nil, "t0_c1", "t0_c2")
		if got := strings.Join(result.Warnings, "\n"); (warning == "") != (got == "") || !strings.Contains(got, warning) {
			t.Errorf("got warnings %q, want %q", got, warning)
		}
	}
	f(`{"pid":1,"host":"here","run":"r","started":"s"}`, "")
	f(`{"pid":77,"host":"there","run":"r","started":"s"}`, "process 77 on there, run r since s, did not end by itself")
	f("", "")
	f("{", "")
}

// A disk that is full stops a sweep before its first request, or sets the running
// point aside; with room again the sweep goes on.
func TestResumeAfterFullDisk(t *testing.T) {
	c := newCampaign(t)
	if !exists("/dev/full") {
		t.Skip("this system has no /dev/full")
	}
	next := filepath.Join(c.cfg.SaveDir, ".sweep.json.next")
	full := func() {
		if err := errors.Join(os.MkdirAll(c.cfg.SaveDir, 0o777), os.Symlink("/dev/full", next)); err != nil {
			t.Fatal(err)
		}
	}
	full()
	if _, asked, err := c.run(nil); !errors.Is(err, syscall.ENOSPC) || len(asked) > 0 {
		t.Errorf("got %v asked, error %v; want the disk's, and nothing asked", asked, err)
	}
	p, err := NewPlan(c.cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := newSweep(p, c.s)
	w.write = func(p collector.Point, dir string) (collector.Summary, error) {
		if p.Run.Point == "t0_c2" {
			return collector.Summary{}, &os.PathError{Op: "write", Path: dir, Err: syscall.ENOSPC}
		}
		return p.Write(dir)
	}
	result, err := w.Run(context.Background())
	if !errors.Is(err, syscall.ENOSPC) || ExitCode(result, err) != 1 {
		t.Errorf("got %v, want the disk's error", err)
	}
	c.must(nil, "t0_c2")
	if !exists(filepath.Join(c.cfg.SaveDir, asideFolder, "t0_c2.1", "records.jsonl")) {
		t.Error("the records of the point that the disk did not take are lost")
	}
	full() // between a point's end and its row
	if _, _, err := c.run(func(cfg *Config) { cfg.Concurrency = []string{"4"} }); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want the disk's error", err)
	}
	c.must(func(cfg *Config) { cfg.Concurrency = []string{"1", "2", "4"} }, "t0_c4")
}

// A folder that cannot be written is refused before anything is asked.
func TestResumeInReadOnlyFolder(t *testing.T) {
	c := newCampaign(t)
	c.must(nil, "t0_c1", "t0_c2")
	if err := os.Chmod(c.cfg.SaveDir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(c.cfg.SaveDir, 0o777) }()
	if os.Geteuid() == 0 { // who may write everywhere but in the kernel's own
		c.cfg.SaveDir = "/proc/spectap"
	}
	c.refuses(nil, fmt.Sprintf("cannot write to --save_dir %q", c.cfg.SaveDir))
}
