package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A flag whose value is no number, and one that does nothing, are told in plain words.
func TestFlagsThatCannotBeMeant(t *testing.T) {
	questions := writeQuestions(t, 2)
	f := func(want string, args ...string) {
		t.Helper()
		_, stderr := mustSpectap(t, exitUsage, append([]string{"sweep", "--url", "http://127.0.0.1:1", "--mtbench", questions, "--save_dir", filepath.Join(t.TempDir(), "out")}, args...)...)
		if !strings.Contains(stderr, want) || strings.Contains(stderr, "strconv") {
			t.Errorf("%q: got %s, want %q in it", args, stderr, want)
		}
	}
	f(`cannot use --warmup "1.5": want a whole number`, "--warmup", "1.5")
	f(`cannot use --warmup "99999999999999999999": want a whole number that is not so large`, "--warmup", "99999999999999999999")
	f(`cannot use --top_p "much": want a number`, "--top_p", "much")
	f(`cannot use --wait "5": want a time such as 30s or 10m`, "--wait", "5")
	f(`cannot use --resume "maybe": want true or false`, "--resume=maybe")
	f("cannot use --repeats 0: want 1 to 1000", "--repeats", "0")
	f("cannot use --repeats -3: want 1 to 1000", "--repeats", "-3")
	f("cannot use --slo_share without --slo", "--slo_share", "0.9")
	f("cannot use --arrivals without --request_rate", "--arrivals", "poisson")
	f("cannot use --arrivals_seed without --request_rate", "--arrivals_seed", "0", "--concurrency", "2")
	f("cannot run this sweep:\ncannot use --repeats 0: want 1 to 1000\ncannot use --arrivals_seed without", "--arrivals_seed", "0", "--repeats", "0")
	stdout, _ := mustSpectap(t, 0, "sweep", "--url", "http://127.0.0.1:1", "--mtbench", questions, "--warmup", "5", "--dry_run")
	if want := "--warmup 5 asks 5 conversations before each of the 1 points, though there are 2 questions: each is asked 2.5 times"; !strings.Contains(stdout, want) {
		t.Errorf("got %s, want %q in it", stdout, want)
	}
}

// A disk without room for the page fails no sweep, and is said.
func TestReportWithoutRoom(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	url, _ := serveEngine(t, fastEngine())
	dir := t.TempDir()
	path := filepath.Join(dir, "report.html")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	_, stderr := mustSpectap(t, 0, "sweep", "--url", url, "--mtbench", writeQuestions(t, 2), "--output_length", "8", "--save_dir", dir)
	if !strings.Contains(stderr, "spectap: no report: ") || !strings.Contains(stderr, path) || !strings.Contains(stderr, "no space left on device") {
		t.Errorf("got %s, want that there is no report, and why", stderr)
	}
}
