package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"spectap/collector"
	"spectap/collector/columns"
)

// tableRows reads the rows of a Parquet file.
func tableRows(t *testing.T, path string) []columns.Row {
	t.Helper()
	rows, err := parquet.ReadFile[columns.Row](path)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// readLines returns the lines of a file.
func readLines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func writeLines(t *testing.T, path string, lines ...string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// names lists a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// draftlessSweep sweeps an engine that leaves drafts out, ends replies at EOS and
// loses blocks, so that a request's lengths depend on the others of its point.
func draftlessSweep(t *testing.T) (dir string) {
	t.Helper()
	cfg := fastEngine()
	cfg.Draftless, cfg.EOS, cfg.DropBlocks = 0.4, 0.02, 0.3
	url, _ := serveEngine(t, cfg)
	dir = t.TempDir()
	mustSpectap(t, 0, "sweep", "--url", url, "--mtbench", writeQuestions(t, 12), "--temperature", "0", "1",
		"--concurrency", "4", "--output_length", "48", "--save_dir", dir)
	return dir
}

// chunkSums are the chunks and tokens of a point's acceptance_rate.json.
func chunkSums(t *testing.T, dir string) (chunks, tokens int64) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "acceptance_rate.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rates []struct {
		Histogram map[int64]int64 `json:"Acceptance_Length_Histogram"`
	}
	if err := json.Unmarshal(text, &rates); err != nil {
		t.Fatal(err)
	}
	for length, n := range rates[0].Histogram {
		chunks, tokens = chunks+n, tokens+n*length
	}
	return chunks, tokens
}

// The rows of a sweep add up to its files, in both views; so do those of its
// records in rotated files, in shards, and in one file with other runs.
func TestCollectParquetEqualsFiles(t *testing.T) {
	dir := draftlessSweep(t)
	work := t.TempDir()
	var all, sidecar []string
	for _, point := range []string{"t0_c4", "t1_c4"} {
		lines := readLines(t, filepath.Join(dir, point, "records.jsonl"))
		all = append(all, lines...)
		run, recs := lines[0], lines[1:]
		// A part with a single block, one with the rest, as a rotation can cut them.
		sidecar = append(sidecar,
			writeLines(t, filepath.Join(work, point+"-1.jsonl"), append([]string{run}, recs[:1]...)...),
			writeLines(t, filepath.Join(work, point+"-2.jsonl"), append([]string{run}, recs[1:]...)...))
	}
	one := writeLines(t, filepath.Join(work, "all.jsonl"), all...)
	f := func(name string, args ...string) {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			mustSpectap(t, 0, append([]string{"collect", "--format", "parquet", "--save_dir", out}, args...)...)
			rows := tableRows(t, filepath.Join(out, "records.parquet"))
			if len(rows) != 48 {
				t.Fatalf("got %d rows, want 48", len(rows))
			}
			for _, point := range []string{"t0_c4", "t1_c4"} {
				compareRows(t, rows, filepath.Join(dir, point), point)
			}
		})
	}
	f("the sweep's own files", filepath.Join(dir, "t0_c4", "records.jsonl"), filepath.Join(dir, "t1_c4", "records.jsonl"))
	f("the sweep's folder", dir)
	f("rotated files", sidecar...)
	f("several runs in a file", one)
}

// compareRows holds the rows of a point against the files in its folder.
func compareRows(t *testing.T, rows []columns.Row, dir, point string) {
	t.Helper()
	var chunks, tokens, server, serverTokens int64
	for _, row := range rows {
		if row.Point == point {
			chunks, tokens = chunks+*row.ClientChunks, tokens+*row.ClientTokens
			server, serverTokens = server+*row.ServerChunks, serverTokens+*row.ServerTokens
		}
	}
	if wantChunks, wantTokens := chunkSums(t, dir); chunks != wantChunks || tokens != wantTokens {
		t.Errorf("%s: got %d tokens in %d chunks, acceptance_rate.json has %d in %d", point, tokens, chunks, wantTokens, wantChunks)
	}
	p, _, err := readPoint(filepath.Join(dir, "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	convs, _ := p.Conversations(collector.ViewServer)
	var wantChunks, wantTokens int64
	for length, n := range collector.LengthHistogram(p.Run.Metric, convs) {
		wantChunks, wantTokens = wantChunks+int64(n), wantTokens+int64(n*length)
	}
	if server != wantChunks || serverTokens != wantTokens {
		t.Errorf("%s: server view: got %d tokens in %d chunks, want %d in %d", point, serverTokens, server, wantTokens, wantChunks)
	}
}

// Bad lines are counted and said, with their files; the others are all there, with
// their places. Failures, foreign records and records without a run line are rows.
func TestCollectParquetBadLines(t *testing.T) {
	work, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	good := func(id string) string { return `{"schema":"spectap.record/1","id":"` + id + `"}` }
	a := writeLines(t, filepath.Join(work, "a.jsonl"), good("a1"), "not JSON", "", good("a4"), `{"schema":"spectap.run/1","run":"R","point":"t0_c1"}`, good("a6"), good("a7")[:20])
	b := writeLines(t, filepath.Join(work, "b.jsonl"), slices.Repeat([]string{`{"schema":"spectap.record/9"}`}, 13)...)
	c := writeLines(t, filepath.Join(work, "c.jsonl"), `{"schema":"spectap.record/1","id":"c1","error_kind":"truncated","set_apart":"foreign"}`)
	empty := filepath.Join(work, "empty.jsonl")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := mustSpectap(t, exitFailed, "collect", a, b, empty, c, "--format", "parquet", "--save_dir", out)
	var got []string
	for _, row := range tableRows(t, filepath.Join(out, "records.parquet")) {
		got = append(got, fmt.Sprintf("%s %s:%d run %q %s", row.ID, filepath.Base(row.SourceFile), row.SourceLine, row.Run, row.ErrorKind+row.SetApart))
	}
	want := []string{`a1 a.jsonl:1 run "" `, `a4 a.jsonl:4 run "" `, `a6 a.jsonl:6 run "R" `, `c1 c.jsonl:1 run "" truncatedforeign`}
	if !slices.Equal(got, want) {
		t.Errorf("got rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if want := "4 records of 4 files, written to " + filepath.Join(out, "records.parquet") + "\n"; stdout != want {
		t.Errorf("got %q, want %q", stdout, want)
	}
	for _, want := range []string{"a.jsonl: line 2: ", "a.jsonl: line 7: ", "b.jsonl: line 10: ", "b.jsonl: 3 more lines could not be read", "15 lines could not be read"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr does not say %q:\n%s", want, stderr)
		}
	}
	if strings.Contains(stderr, "line 11") {
		t.Errorf("stderr names more than ten lines of a file:\n%s", stderr)
	}
}

// --rows_per_file cuts the rows into files, none of them empty; without a record
// there is one, with the columns alone. A folder that has such files is refused.
func TestCollectParquetParts(t *testing.T) {
	work := t.TempDir()
	var lines []string
	for i := range 7 {
		lines = append(lines, fmt.Sprintf(`{"schema":"spectap.record/1","id":"r%d"}`, i))
	}
	seven := writeLines(t, filepath.Join(work, "seven.jsonl"), lines...)
	none := writeLines(t, filepath.Join(work, "none.jsonl"), `{"schema":"spectap.run/1","run":"R"}`)
	f := func(in, limit string, want ...string) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		mustSpectap(t, 0, "collect", in, "--format", "parquet", "--save_dir", out, "--rows_per_file", limit)
		var got []string
		for _, name := range names(t, out) {
			ids := ""
			for _, row := range tableRows(t, filepath.Join(out, name)) {
				ids += " " + row.ID
			}
			got = append(got, name+ids)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s rows a file: got %q, want %q", limit, got, want)
		}
		_, stderr := mustSpectap(t, exitUsage, "collect", in, "--format", "parquet", "--save_dir", out)
		if first, _, _ := strings.Cut(want[0], " "); !strings.Contains(stderr, first+" exists already: choose another --save_dir") {
			t.Errorf("got %q", stderr)
		}
	}
	f(seven, "0", "records.parquet r0 r1 r2 r3 r4 r5 r6")
	f(seven, "3", "records-00001.parquet r0 r1 r2", "records-00002.parquet r3 r4 r5", "records-00003.parquet r6")
	f(seven, "7", "records-00001.parquet r0 r1 r2 r3 r4 r5 r6")
	f(none, "0", "records.parquet")
}

// What cannot be is said before anything is written.
func TestCollectParquetRefuses(t *testing.T) {
	work := t.TempDir()
	in := writeLines(t, filepath.Join(work, "in.jsonl"), `{"schema":"spectap.record/1","id":"r"}`)
	link := filepath.Join(work, "link.jsonl")
	if err := os.Symlink(in, link); err != nil {
		t.Fatal(err)
	}
	f := func(want string, args ...string) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		_, stderr := mustSpectap(t, exitUsage, append([]string{"collect", "--save_dir", out}, args...)...)
		if !strings.Contains(stderr, want) {
			t.Errorf("%q: got %q, want %q", args, stderr, want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%q: the folder for the files was made", args)
		}
	}
	f("no records file is named", "--format", "parquet")
	f("is the same file as", in, link, "--format", "parquet")
	f("no such file", filepath.Join(work, "gone.jsonl"), "--format", "parquet")
	f("has no points", work, "--format", "parquet")
	f("is not a regular file: want records files, as in D/*/records.jsonl", os.DevNull, "--format", "parquet")
	f(`--format is "csv": want files or parquet`, in, "--format", "csv")
	f("--rows_per_file is -1: want 1 or more", in, "--format", "parquet", "--rows_per_file", "-1")
	f("--rows_per_file needs --format parquet", in, "--rows_per_file", "1")
	f(`--acceptance is "server"`, in, "--format", "parquet", "--acceptance", "server")
}

// A file is read as it is when the command begins; one that is replaced meanwhile
// is an error. An interrupted or failed command leaves no file.
func TestCollectParquetOfLiveFiles(t *testing.T) {
	work := t.TempDir()
	record := `{"schema":"spectap.record/1","id":"r"}`
	in := writeLines(t, filepath.Join(work, "in.jsonl"), record)
	f := func(name string, meanwhile func(), wantRows int64, wantErr string) {
		t.Helper()
		files := &tableInput{rules: map[pointKey]*pointRules{}}
		if err := files.add(in); err != nil {
			t.Fatal(err)
		}
		out := &parquetParts{dir: t.TempDir()}
		meanwhile()
		_, err := program{stderr: os.Stderr}.convert(context.Background(), files, out)
		if out.rows != wantRows || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%s: got %d rows and %v, want %d and %q", name, out.rows, err, wantRows, wantErr)
		}
		if err := out.discard(); err != nil {
			t.Error(err)
		}
		if left := names(t, out.dir); len(left) > 0 {
			t.Errorf("%s: got %q left over", name, left)
		}
	}
	f("appended to", func() { writeLines(t, in, record, record) }, 1, "")
	f("cut", func() { writeLines(t, in, "") }, 0, "was replaced while it was read: run the command again")
	writeLines(t, in, record)
	f("rotated", func() {
		if err := os.Rename(in, in+".1"); err != nil {
			t.Fatal(err)
		}
		writeLines(t, in, record, record)
	}, 0, "was replaced")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out := filepath.Join(t.TempDir(), "out")
	err := program{stdout: os.Stdout, stderr: os.Stderr}.collectParquet(ctx, []string{in}, out, parquetFlags{format: formatParquet})
	if e, ok := err.(exitError); !ok || e.code != exitInterrupted || len(names(t, out)) > 0 {
		t.Errorf("interrupted: got %v and files %q, want exit code %d and none", err, names(t, out), exitInterrupted)
	}
}

// Texts are in rows exactly where they are in records.
func TestCollectParquetTexts(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	f := func(wantTexts bool, args ...string) {
		t.Helper()
		dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
		mustSpectap(t, 0, append([]string{"sweep", "--url", url, "--mtbench", writeQuestions(t, 2), "--concurrency", "2", "--output_length", "8", "--save_dir", dir}, args...)...)
		mustSpectap(t, 0, "collect", filepath.Join(dir, "t0_c2", "records.jsonl"), "--format", "parquet", "--save_dir", out)
		for _, row := range tableRows(t, filepath.Join(out, "records.parquet")) {
			if got := strings.Contains(row.Prompt, "thing"); got != wantTexts || (row.Reply != "") != wantTexts {
				t.Errorf("%q: got prompt %q and reply %q", args, row.Prompt, row.Reply)
			}
		}
		table, err := os.ReadFile(filepath.Join(out, "records.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		if !wantTexts && strings.Contains(string(table), "thing number") {
			t.Errorf("%q: a prompt is in the file", args)
		}
	}
	f(false)
	f(true, "--keep_texts")
}

// The rows hold the times of the records to the nanosecond's double.
func TestCollectParquetTimes(t *testing.T) {
	dir := draftlessSweep(t)
	path, out := filepath.Join(dir, "t1_c4", "records.jsonl"), filepath.Join(t.TempDir(), "out")
	mustSpectap(t, 0, "collect", path, "--format", "parquet", "--save_dir", out)
	p, _, err := readPoint(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := tableRows(t, filepath.Join(out, "records.parquet"))
	for i, r := range p.Records {
		row := rows[i]
		if row.ID != r.ID || *row.TTFT != r.FirstOutput.Offset.Seconds() || *row.Done != r.Done.Offset.Seconds() || *row.StartTime != r.Start.UnixMicro() || len(row.ChunkTimes) != len(r.Chunks) {
			t.Errorf("row %d: got %s, ttft_s %g, done_s %g, start_time %d, %d chunks", i, row.ID, *row.TTFT, *row.Done, *row.StartTime, len(row.ChunkTimes))
		}
		if per, ok := r.TimePerOutputToken(); ok != (row.TimePerOutputToken != nil) || ok && math.Abs(*row.TimePerOutputToken-per.Seconds()) > 1e-12 {
			t.Errorf("row %d: time per output token differs", i)
		}
	}
}
