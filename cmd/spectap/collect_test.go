package main

import (
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spectap/collector"
)

// sweptOnce sweeps one small point and returns its folder.
func sweptOnce(t *testing.T, flags ...string) string {
	t.Helper()
	url, _ := serveEngine(t, fastEngine())
	dir := t.TempDir()
	mustSpectap(t, 0, append([]string{"sweep", "--url", url, "--mtbench", writeQuestions(t, 3), "--concurrency", "3", "--output_length", "16", "--save_dir", dir}, flags...)...)
	return filepath.Join(dir, "t0_c3")
}

// A file that cannot be written leaves none of the three that mark a run, and
// nothing that is in the way of the next try.
func TestCollectLeavesNoHalfRun(t *testing.T) {
	records := filepath.Join(sweptOnce(t), "records.jsonl")
	out := t.TempDir()
	blocked := filepath.Join(out, "speculation.json", "x")
	if err := os.MkdirAll(blocked, 0o777); err != nil {
		t.Fatal(err)
	}
	_, stderr := mustSpectap(t, 1, "collect", records, "--save_dir", out)
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v; want nothing written: %s", entries, err, stderr)
	}
	if err := os.RemoveAll(filepath.Dir(blocked)); err != nil {
		t.Fatal(err)
	}
	mustSpectap(t, 0, "collect", records, "--save_dir", out)
	sameFiles(t, out, filepath.Dir(records), "acceptance_rate.json", "timing.json", "speculation.json", "performance.json", "speculation_profile.json", "configuration.json")
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 6 {
		t.Errorf("got %v, %v; want the six files alone", entries, err)
	}
	nowhere := filepath.Join(t.TempDir(), "new", "out")
	mustSpectap(t, 1, "collect", firstLine(t, records), "--save_dir", nowhere) // no record: no point
	if _, err := os.Stat(nowhere); err == nil {
		t.Errorf("%s was left behind", nowhere)
	}
}

// firstLine makes a file of another one's first line.
func firstLine(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "\n")
	return writeText(t, head+"\n")
}

func writeText(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "records.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// What cannot be collected is told by its cause.
func TestCollectTells(t *testing.T) {
	point := sweptOnce(t)
	text, err := os.ReadFile(filepath.Join(point, "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(text), "\n")
	f := func(code int, want string, args ...string) {
		t.Helper()
		stdout, stderr := mustSpectap(t, code, append([]string{"collect", "--save_dir", filepath.Join(t.TempDir(), "out")}, args...)...)
		if !strings.Contains(stdout+stderr, want) {
			t.Errorf("%v: got %q and %q, want %q", args, stdout, stderr, want)
		}
	}
	f(2, `line 1: cannot read a line of schema "spectap.run/9"`, writeText(t, strings.Replace(head, "spectap.run/1", "spectap.run/9", 1)+"\n"+rest))
	f(2, "line 1: unexpected end of JSON input", writeText(t, head[:100]+"\n"+rest))
	proxys := writeText(t, `{"schema":"spectap.run/1","run":"a"}`+"\n"+rest)
	f(2, "--format parquet takes any records", proxys)
	f(2, "has no point: want records of a sweep; --format parquet takes those of a proxy too", proxys, writeText(t, string(text)))
	f(1, "2 more lines could not be read", writeText(t, head+"\n"+strings.Repeat("{\n", 12)+rest))
	f(0, "without mtbench_responses.jsonl: the records hold no texts", filepath.Join(point, "records.jsonl"))
	if err := os.Symlink("loop", filepath.Join(filepath.Dir(point), "loop")); err != nil {
		t.Fatal(err)
	}
	f(2, "too many levels of symbolic links", filepath.Dir(point)) // a folder that cannot be read is not left out
}

// A folder's points have sweep.json and summary.csv above them, as a sweep's have;
// a point that lacks conversations is incomplete in both.
func TestCollectWritesBook(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	parts, whole, out := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "out")
	args := []string{"--url", url, "--mtbench", writeQuestions(t, 5), "--temperature", "0", "1", "--concurrency", "2", "--output_length", "16", "--save_dir"}
	sweepShards(t, 2, append(args, parts)...)
	mustSpectap(t, 0, append(append([]string{"sweep"}, args...), whole)...)
	if err := os.RemoveAll(filepath.Join(parts, "shard-1-of-2", "t1_c2")); err != nil {
		t.Fatal(err)
	}
	mustSpectap(t, 1, "collect", parts, "--save_dir", out)
	type book struct {
		Plan   map[string]any
		Server map[string]any
		Points []struct {
			State, Folder, Point string
			Conversations        int
			AverageAL            float64 `json:"average_al"`
		}
	}
	var got, want book
	readJSON(t, filepath.Join(out, "sweep.json"), &got)
	readJSON(t, filepath.Join(whole, "sweep.json"), &want)
	if len(got.Points) != 2 || got.Points[0] != want.Points[0] || got.Points[1].State != "incomplete" || got.Points[1].Conversations != 3 {
		t.Errorf("got rows %+v, want %+v, the second one incomplete", got.Points, want.Points)
	}
	for name, value := range want.Plan {
		if name == "points" {
			continue
		}
		if got.Plan[name] != value {
			t.Errorf("got %s %v in the plan, want %v", name, got.Plan[name], value)
		}
	}
	if got.Server["model"] != want.Server["model"] || got.Server["url"] != want.Server["url"] {
		t.Errorf("got server %v, want %v", got.Server, want.Server)
	}
	text, err := os.ReadFile(filepath.Join(out, "summary.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil || len(rows) != 3 || rows[1][1] != "t0_c2" || rows[1][2] != "complete" || rows[2][2] != "incomplete" || rows[2][8] == "" {
		t.Errorf("got %v, %v; want a row each, with figures", rows, err)
	}
}

// The shards in a folder are found whatever the folder is called.
func TestShardsBelowAnyName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out [a]")
	var want []string
	for _, shard := range []string{"shard-0-of-2", "shard-1-of-2"} {
		path := filepath.Join(dir, shard, "t0_c1", collector.FileRecords)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, nil, 0o666)); err != nil {
			t.Fatal(err)
		}
		want = append(want, path)
	}
	if got, err := recordsFiles(dir); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// A records file that cannot be read keeps no other point of a folder from being
// made; where none can be read nothing is.
func TestCollectFolderWithUnreadable(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	dir, out := filepath.Join(t.TempDir(), "D"), filepath.Join(t.TempDir(), "out")
	mustSpectap(t, 0, "sweep", "--url", url, "--mtbench", writeQuestions(t, 3), "--temperature", "0", "1", "--concurrency", "2", "--output_length", "16", "--no_report", "--save_dir", dir)
	spoil := func(point, text string) {
		if err := os.WriteFile(filepath.Join(dir, point, "records.jsonl"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	spoil("t0_c2", "")
	_, stderr := mustSpectap(t, exitFailed, "collect", dir, "--save_dir", out)
	if want := "spectap: cannot read " + filepath.Join(dir, "t0_c2", "records.jsonl") + ": it is empty\n"; !strings.Contains(stderr, want) {
		t.Errorf("got %q, want %q", stderr, want)
	}
	if _, err := os.Stat(filepath.Join(out, "t1_c2", "acceptance_rate.json")); err != nil {
		t.Errorf("the other point was not made: %v", err)
	}
	spoil("t1_c2", "{")
	none := filepath.Join(t.TempDir(), "none")
	_, stderr = mustSpectap(t, exitUsage, "collect", dir, "--save_dir", none)
	if !strings.Contains(stderr, "t0_c2") || !strings.Contains(stderr, "t1_c2") {
		t.Errorf("got %q, want both files", stderr)
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a folder was made of nothing")
	}
	if _, stderr := mustSpectap(t, exitUsage, "collect", dir, "--slo_share", "0.9", "--save_dir", none); !strings.Contains(stderr, "cannot use --slo_share without --slo") {
		t.Errorf("got %q", stderr)
	}
}
