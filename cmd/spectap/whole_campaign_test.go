package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"spectap/collector"
)

// A warm-up is in the records and in nothing that is made of them: figures are the
// engine's log's, the audit is exact, and its requests can be taken out of the file.
func TestWarmupIsApart(t *testing.T) {
	url, truth := serveEngine(t, fastEngine())
	dir, again := t.TempDir(), filepath.Join(t.TempDir(), "again")
	mustSpectap(t, 0, "sweep", "--url", url, "--mtbench", writeQuestions(t, 6), "--concurrency", "2", "4", "--warmup", "4", "--output_length", "32", "--keep_texts", "--save_dir", dir)
	for _, point := range []string{"t0_c2", "t0_c4"} {
		records := filepath.Join(dir, point, "records.jsonl")
		mustSpectap(t, 0, "check", "--truth", truth, records)
		var spec struct {
			Audit   collector.Audit `json:"self_audit"`
			LeftOut map[string]int  `json:"left_out_by_reason"`
		}
		readJSON(t, filepath.Join(dir, point, "speculation.json"), &spec)
		if spec.Audit.Verdict != collector.AuditExact || spec.Audit.Sums[0].Ours != 12 || spec.Audit.Generation.Ours != spec.Audit.Generation.Server || len(spec.LeftOut) != 0 {
			t.Errorf("%s: got audit %+v, left out %v; want the 12 requests of the point alone", point, spec.Audit, spec.LeftOut)
		}
		text, err := os.ReadFile(records)
		if err != nil {
			t.Fatal(err)
		}
		var without []byte
		apart := 0
		for line := range bytes.Lines(text) {
			if bytes.Contains(line, []byte(`"set_apart":"warmup"`)) {
				apart++
				continue
			}
			without = append(without, line...)
		}
		stripped := filepath.Join(t.TempDir(), "records.jsonl")
		if err := os.WriteFile(stripped, without, 0o644); err != nil {
			t.Fatal(err)
		}
		mustSpectap(t, 0, "collect", stripped, "--save_dir", filepath.Join(again, point))
		if apart != 8 {
			t.Errorf("%s: got %d requests of the warm-up, want 8", point, apart)
		}
		sameFiles(t, filepath.Join(again, point), filepath.Join(dir, point), "acceptance_rate.json", "timing.json", "speculation.json", "mtbench_responses.jsonl", "configuration.json")
	}
}

// Warm-ups of shards leave the merged point's audit whole.
func TestWarmupOfShards(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	dir, merged := t.TempDir(), t.TempDir()
	sweepShards(t, 2, "--url", url, "--mtbench", writeQuestions(t, 6), "--concurrency", "4", "--warmup", "3", "--output_length", "32", "--save_dir", dir)
	mustSpectap(t, 0, "collect", dir, "--save_dir", merged)
	var spec struct {
		Audit json.RawMessage `json:"self_audit"`
	}
	readJSON(t, filepath.Join(merged, "t0_c4", "speculation.json"), &spec)
	if !bytes.Contains(spec.Audit, []byte(`"verdict": "exact"`)) {
		t.Errorf("got audit %s, want an exact one", spec.Audit)
	}
}

// AIPerf's points are warmed up by us: it asks, and exports, the point's own requests alone.
func TestWarmupBeforeAIPerf(t *testing.T) {
	server, truth := serveEngine(t, fastEngine())
	dir := t.TempDir()
	mustSpectap(t, 0, aiperfArguments(t, server, "", "--mtbench", writeQuestions(t, 4), "--concurrency", "2", "--warmup", "3", "--save_dir", dir)...)
	checkCross(t, filepath.Join(dir, "t0_c2"), 8)
	mustSpectap(t, 0, "check", "--truth", truth, filepath.Join(dir, "t0_c2", "records.jsonl"))
	text, err := os.ReadFile(filepath.Join(dir, "t0_c2", "records.jsonl"))
	if n := bytes.Count(text, []byte(`"set_apart":"warmup"`)); err != nil || n != 6 {
		t.Errorf("got %d requests of the warm-up, want 6 (%v)", n, err)
	}
}

// Each run of a point is a whole folder: for collect, for the uploader, and for
// whoever reads configuration.json.
func TestRepeatsAreWholeFolders(t *testing.T) {
	url, truth := serveEngine(t, fastEngine())
	dir, again := t.TempDir(), t.TempDir()
	out, _ := mustSpectap(t, 0, "sweep", "--url", url, "--mtbench", writeQuestions(t, 3), "--temperature", "0", "1", "--concurrency", "2", "--repeats", "2", "--output_length", "32", "--keep_texts", "--save_dir", dir)
	runs := []string{"t0_c2", "t0_c2_r2", "t1_c2", "t1_c2_r2"}
	mustSpectap(t, 0, "collect", dir, "--save_dir", again)
	listed, _ := mustSpectap(t, 0, "upload", "--dry-run", "--allow-incomplete-provenance", dir, "s3://bucket/prefix")
	for i, run := range runs {
		sameFiles(t, filepath.Join(again, run), filepath.Join(dir, run), "acceptance_rate.json", "timing.json", "speculation.json", "mtbench_responses.jsonl", "configuration.json")
		mustSpectap(t, 0, "check", "--truth", truth, filepath.Join(dir, run, "records.jsonl"))
		if !bytes.Contains([]byte(listed), []byte(run+" -> ")) {
			t.Errorf("the uploader does not list %s:\n%s", run, listed)
		}
		point, _, err := readPoint(filepath.Join(dir, run, "records.jsonl"))
		if err != nil || point.Run.Repeat.Number() != 1+i%2 || point.Run.BasePoint() != runs[i/2*2] {
			t.Errorf("%s: got run %d of %s (%v)", run, point.Run.Repeat.Number(), point.Run.BasePoint(), err)
		}
	}
	sameFiles(t, filepath.Join(dir, "t0_c2_r2"), filepath.Join(dir, "t0_c2"), "acceptance_rate.json") // greedy
	if averageAL(t, dir, "t1_c2") == averageAL(t, dir, "t1_c2_r2") {
		t.Errorf("two runs at temperature 1 drew the same samples:\n%s", out)
	}
}

// The plan above collected points has the seeds and the repeats that the sweep had.
func TestCollectedPlan(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	dir, again, second := t.TempDir(), t.TempDir(), t.TempDir()
	mustSpectap(t, 0, "sweep", "--url", url, "--mtbench", writeQuestions(t, 3), "--request_rate", "100", "--arrivals_seed", "5", "--seed", "9007199254740993", "--repeats", "2", "--output_length", "8", "--save_dir", dir)
	mustSpectap(t, 0, "collect", dir, "--save_dir", again)
	if err := os.RemoveAll(filepath.Join(dir, "t0_q100")); err != nil {
		t.Fatal(err)
	}
	mustSpectap(t, 0, "collect", dir, "--save_dir", second) // of the second run alone
	for _, folder := range []string{dir, again, second} {
		var book struct {
			Plan struct {
				Sampling int64 `json:"sampling_seed"`
				Arrivals int64 `json:"arrivals_seed"`
				Repeats  int
			}
		}
		readJSON(t, filepath.Join(folder, "sweep.json"), &book)
		if p := book.Plan; p.Sampling != 9007199254740993 || p.Arrivals != 5 || p.Repeats != 2 {
			t.Errorf("%s: got plan %+v", folder, p)
		}
	}
}
