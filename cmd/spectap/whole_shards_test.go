package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"spectap/collector"
)

// sweepShards runs all shards of a sweep at once, each with a proxy of its own.
func sweepShards(t *testing.T, n int, args ...string) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			argv := append([]string{"sweep", "--shard", fmt.Sprintf("%d/%d", i, n)}, args...)
			if code, stdout, stderr := spectap(t, argv...); code != 0 {
				t.Errorf("shard %d: got exit code %d\nstdout: %s\nstderr: %s", i, code, stdout, stderr)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// sameFiles compares files of two folders byte for byte.
func sameFiles(t *testing.T, got, want string, names ...string) {
	t.Helper()
	for _, name := range names {
		a, err := os.ReadFile(filepath.Join(got, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(want, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s of %s and %s differ:\n%s\n%s", name, got, want, a, b)
		}
	}
}

// Three shards at once, merged in any order, are one sweep: the acceptance files
// byte for byte, the engine's own log, and the server's counters.
func TestMergedShardsEqualOneSweep(t *testing.T) {
	f := func(name, kind, responses string, concurrency string) {
		t.Run(name, func(t *testing.T) {
			cfg := fastEngine()
			cfg.Draftless, cfg.EOS = 0.3, 0.02
			url, truth := serveEngine(t, cfg)
			args := []string{"--url", url, kind, writeQuestions(t, 23), "--concurrency", concurrency, "--output_length", "48", "--keep_texts", "--save_dir"}
			whole, parts, out := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "out")
			mustSpectap(t, 0, append(append([]string{"sweep"}, args...), whole)...)
			sweepShards(t, 3, append(args, parts)...)
			point := "t0_c" + concurrency
			shards, _ := filepath.Glob(filepath.Join(parts, "shard-*", point, "records.jsonl"))
			slices.Reverse(shards)
			stdout, _ := mustSpectap(t, 0, append([]string{"collect", "--save_dir", out}, shards...)...)
			if !strings.Contains(stdout, "23 conversations of 3/3 shards") {
				t.Errorf("got %s, want what was merged", stdout)
			}
			sameFiles(t, out, filepath.Join(whole, point), "acceptance_rate.json", responses)
			mustSpectap(t, 0, "check", "--truth", truth, filepath.Join(out, "records.jsonl"))
			var got, want collector.Speculation
			readJSON(t, filepath.Join(out, "speculation.json"), &got)
			readJSON(t, filepath.Join(whole, point, "speculation.json"), &want)
			if got.Audit.Verdict != collector.AuditExact || got.Audit.ForeignRequests != 0 {
				t.Errorf("got audit %+v, want exact", got.Audit)
			}
			if fmt.Sprintf("%+v", got.Steps) != fmt.Sprintf("%+v", want.Steps) || got.Client.AverageAL != want.Client.AverageAL || *got.Client.Interval != *want.Client.Interval || got.Server.AverageAL != want.Server.AverageAL {
				t.Errorf("got steps %+v, views %+v and %+v\nwant %+v, %+v and %+v", got.Steps, got.Client, got.Server, want.Steps, want.Client, want.Server)
			}
			again := filepath.Join(t.TempDir(), "again")
			mustSpectap(t, 0, "collect", filepath.Join(out, "records.jsonl"), "--save_dir", again)
			sameFiles(t, again, out, "acceptance_rate.json", "timing.json", "speculation.json", "configuration.json", responses)
		})
	}
	f("MT-Bench", "--mtbench", "mtbench_responses.jsonl", "8")
	f("Spec-Bench", "--specbench", "specbench_responses.jsonl", "3")
}

// Folders of shards make every point, each in its folder.
func TestCollectShardFolders(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	parts, whole, out := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "out")
	args := []string{"--url", url, "--mtbench", writeQuestions(t, 7), "--temperature", "0", "1", "--concurrency", "2", "5", "--output_length", "16", "--save_dir"}
	sweepShards(t, 2, append(args, parts)...)
	mustSpectap(t, 0, append(append([]string{"sweep"}, args...), whole)...)
	mustSpectap(t, 0, "collect", filepath.Join(parts, "shard-1-of-2"), filepath.Join(parts, "shard-0-of-2"), "--save_dir", out)
	for _, point := range []string{"t0_c2", "t0_c5"} {
		sameFiles(t, filepath.Join(out, point), filepath.Join(whole, point), "acceptance_rate.json")
	}
	made, _ := filepath.Glob(filepath.Join(out, "*", "timing.json"))
	if len(made) != 4 {
		t.Errorf("got %v, want 4 points", made)
	}
	above := filepath.Join(t.TempDir(), "above")
	mustSpectap(t, 0, "collect", parts, "--save_dir", above)
	sameFiles(t, filepath.Join(above, "t1_c5"), filepath.Join(out, "t1_c5"), "acceptance_rate.json", "timing.json", "speculation.json", "configuration.json")
	tops, _ := filepath.Glob(filepath.Join(parts, "*"))
	if len(tops) != 2 {
		t.Errorf("got %v in --save_dir, want the two shards' folders alone", tops)
	}
	var config struct {
		Concurrency   int
		Conversations int
		Shard         string
		SaveDir       string `json:"save_dir"`
		Shards        []struct {
			Shard, Of, Concurrency int
			Run                    string
			Differs                map[string]any
		}
	}
	readJSON(t, filepath.Join(out, "t0_c5", "configuration.json"), &config)
	if config.Concurrency != 5 || config.Conversations != 7 || config.Shard != "" || len(config.Shards) != 2 || config.Shards[0].Concurrency != 3 || config.Shards[1].Concurrency != 2 {
		t.Errorf("got configuration %+v, want that of the whole and of its two shards", config)
	}
	if d := config.Shards[1].Differs; d["save_dir"] != filepath.Join(parts, "shard-1-of-2") || d["argv"] == nil || d["spectap_run"] == nil || d["temperature"] != nil {
		t.Errorf("got differences %v of shard 1, want its folder, command line and run", d)
	}
}

// What is missing is told, and the result is incomplete.
func TestMissingShard(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	parts, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	sweepShards(t, 3, "--url", url, "--mtbench", writeQuestions(t, 8), "--concurrency", "3", "--output_length", "16", "--save_dir", parts)
	at := func(i int) string {
		return filepath.Join(parts, fmt.Sprintf("shard-%d-of-3", i), "t0_c3", "records.jsonl")
	}
	stdout, stderr := mustSpectap(t, 1, "collect", at(0), at(2), "--save_dir", out)
	if !strings.Contains(stdout, "5 conversations of 2/3 shards") || !strings.Contains(stdout, "1 of 3 shards are missing: 1/3") || !strings.Contains(stdout, "left out: 6 not_run") || !strings.Contains(stderr, "incomplete") {
		t.Errorf("got %s%s, want the missing shard", stdout, stderr)
	}
	stdout, _ = mustSpectap(t, 1, "collect", at(1), "--save_dir", filepath.Join(out, "alone"))
	if !strings.Contains(stdout, "2 of 3 shards are missing: 0/3, 2/3") {
		t.Errorf("got %s, want the missing shards", stdout)
	}
	_, stderr = mustSpectap(t, 2, "collect", at(0), at(1), filepath.Join(parts, "shard-0-of-3"), "--save_dir", filepath.Join(out, "x"))
	if !strings.Contains(stderr, "is named twice") {
		t.Errorf("got %s, want the file named twice", stderr)
	}
}

// Shards of different plans are refused before anything is written.
func TestForeignShards(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	questions := writeQuestions(t, 8)
	sweepOne := func(args ...string) string {
		dir := t.TempDir()
		mustSpectap(t, 0, append([]string{"sweep", "--url", url, "--output_length", "16", "--save_dir", dir}, args...)...)
		found, _ := filepath.Glob(filepath.Join(dir, "*", "*", "records.jsonl"))
		more, _ := filepath.Glob(filepath.Join(dir, "*", "records.jsonl"))
		return append(found, more...)[0]
	}
	base := []string{"--mtbench", questions, "--concurrency", "4"}
	first := sweepOne(append(base, "--shard", "0/2")...)
	f := func(want string, args ...string) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		_, stderr := mustSpectap(t, 2, "collect", first, sweepOne(args...), "--save_dir", out)
		if !strings.Contains(stderr, want) {
			t.Errorf("got %s, want %s", stderr, want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%q: files were written", want)
		}
	}
	f("shard 0/2 of point \"t0_c4\" is there more than once", append(base, "--shard", "0/2")...)
	f("number of shards (2 and 3)", append(base, "--shard", "1/3")...)
	f("is no shard", base...)
	f("top_p (1.0 and 0.5)", append(base, "--shard", "1/2", "--top_p", "0.5")...)
	f("output_length (16 and 17)", append(base, "--shard", "1/2", "--output_length", "17")...)
	f("sampling_seed (null and 3)", append(base, "--shard", "1/2", "--seed", "3")...)
	f("num_gpus (1 and 2)", append(base, "--shard", "1/2", "--num_gpus", "2")...)
	other := filepath.Join(t.TempDir(), "question.jsonl")
	text, err := os.ReadFile(questions)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, bytes.Replace(text, []byte("number 7"), []byte("number 9"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	f("differ in questions (", "--mtbench", other, "--concurrency", "4", "--shard", "1/2")
}

// A shard beside which others run knows that the counters are not its own. It keeps
// the short first request, which is made while others are measured.
func TestShardAudit(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	parts := t.TempDir()
	sweepShards(t, 1, "--url", url, "--mtbench", writeQuestions(t, 4), "--concurrency", "2", "--output_length", "16", "--save_dir", parts)
	point, _, err := readPoint(filepath.Join(parts, "shard-0-of-1", "t0_c2", "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	apart := 0
	for _, r := range point.Records {
		if r.SetApart == collector.ApartPreflight {
			apart++
		}
	}
	if before := point.Run.Before.RequestsFinished; apart != 1 || before != 0 || len(point.Records) != 9 {
		t.Errorf("got %d short first requests of %d, and %v counted before: want the one that the counters have", apart, len(point.Records), before)
	}
	verdict := func(change func(*collector.Counters)) collector.Audit {
		p := point
		after, shard := *p.Run.After, *p.Run.Shard
		change(&after)
		shard.Of = 2
		p.Run.After, p.Run.Shard = &after, &shard
		files, _, err := p.Files()
		if err != nil {
			t.Fatal(err)
		}
		var spec collector.Speculation
		if err := json.Unmarshal(files["speculation.json"], &spec); err != nil {
			t.Fatal(err)
		}
		return spec.Audit
	}
	f := func(want, reason string, change func(*collector.Counters)) {
		t.Helper()
		if a := verdict(change); a.Verdict != want || !strings.Contains(a.Reason, reason) {
			t.Errorf("got %s (%s), want %s with %q", a.Verdict, a.Reason, want, reason)
		}
	}
	f(collector.AuditExact, "all sums agree", func(*collector.Counters) {})
	f(collector.AuditForeign, "the other shards' are among them", func(c *collector.Counters) { c.RequestsFinished++ })
	f(collector.AuditForeign, "the other shards' are among them", func(c *collector.Counters) { c.Drafts++ })
	f(collector.AuditDiffers, "drafts", func(c *collector.Counters) { c.Drafts-- })
}

// A point that failed in one shard is merged all the same: what was measured
// counts, what failed is told. A point that was killed counts as missing.
func TestFailedShard(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	broken := fastEngine()
	broken.Fault = "cut@3/4"
	brokenURL, _ := serveEngine(t, broken)
	parts, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	args := []string{"--mtbench", writeQuestions(t, 8), "--concurrency", "2", "--output_length", "16", "--save_dir", parts, "--url"}
	mustSpectap(t, 0, append(append([]string{"sweep", "--shard", "0/2"}, args...), url)...)
	mustSpectap(t, 1, append(append([]string{"sweep", "--shard", "1/2"}, args...), brokenURL)...)
	stdout, stderr := mustSpectap(t, 1, "collect", parts, "--save_dir", out)
	if !strings.Contains(stdout, "of 2/2 shards") || !strings.Contains(stdout, "left out:") || !strings.Contains(stderr, "incomplete") {
		t.Errorf("got %s%s, want both shards and what failed", stdout, stderr)
	}
	failed := filepath.Join(parts, "shard-1-of-2", "t0_c2.failed")
	if err := os.Rename(failed, filepath.Join(filepath.Dir(failed), ".t0_c2.partial")); err != nil {
		t.Fatal(err)
	}
	stdout, _ = mustSpectap(t, 1, "collect", parts, "--save_dir", out+"2")
	if !strings.Contains(stdout, "4 conversations of 1/2 shards") || !strings.Contains(stdout, "1 of 2 shards are missing: 1/2") {
		t.Errorf("got %s, want the killed shard told as missing", stdout)
	}
}
