package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// `spectap report D` on the folder of a sweep with a point that failed, and what is
// said where there is nothing to report.
func TestReport(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	dir := filepath.Join(t.TempDir(), "D")
	mustSpectap(t, 0, "sweep", "--url", url, "--mtbench", writeQuestions(t, 3), "--temperature", "0", "1", "--concurrency", "2", "--output_length", "16", "--save_dir", dir)
	page := filepath.Join(dir, "report.html")
	stdout, _ := mustSpectap(t, 0, "report", dir)
	if want := "report: " + page + "\n"; stdout != want {
		t.Errorf("got %q, want %q", stdout, want)
	}
	first := readPage(t, page)
	for _, want := range []string{"fake-model", "t0_c2", "t1_c2", "2 of 2", "Throughput against per-user speed"} {
		if !strings.Contains(first, want) {
			t.Errorf("the report does not say %q", want)
		}
	}
	other := filepath.Join(t.TempDir(), "other.html")
	mustSpectap(t, 0, "report", dir, "-o", other)
	if readPage(t, other) != first {
		t.Error("a second report of the same folder differs")
	}
	for _, bad := range []struct {
		want string
		args []string
	}{
		{"got 0 folders, want one", nil},
		{"got 2 folders, want one", []string{dir, dir}},
		{"has no points: want the folder of a sweep", []string{t.TempDir()}},
		{"no such file", []string{filepath.Join(dir, "nothing")}},
		{"want the folder of a sweep, or of one of its points", []string{page}},
		{"is not a report of spectap; want another --output", []string{dir, "-o", filepath.Join(dir, "t0_c2", "records.jsonl")}},
		{"nothing\": want the folder of a sweep without speculation", []string{dir, "--baseline", filepath.Join(dir, "nothing")}},
	} {
		if _, stderr := mustSpectap(t, exitUsage, append([]string{"report"}, bad.args...)...); !strings.Contains(stderr, bad.want) {
			t.Errorf("report %q: got %q, want %q", bad.args, stderr, bad.want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "t0_c2", "records.jsonl"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "t1_c2", "records.jsonl")); err != nil {
		t.Fatal(err)
	}
	_, stderr := mustSpectap(t, exitFailed, "report", dir)
	for _, want := range []string{"spectap: report: t0_c2: its records.jsonl has 0 run lines", "spectap: report: t1_c2: records.jsonl is not there", "3 of the lines above"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("got %q, want %q", stderr, want)
		}
	}
	if _, stderr := mustSpectap(t, exitFailed, "report", dir, "-o", filepath.Join(dir, "no", "folder.html")); !strings.Contains(stderr, "the page could not be written") {
		t.Errorf("got %q", stderr)
	}
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
