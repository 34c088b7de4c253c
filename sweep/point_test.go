package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spectap/collector"
)

// A failed request ends its conversation and sets its point aside; other
// conversations and points go on.
func TestFailureIsolation(t *testing.T) {
	f := func(name string, bad answer, wantError string) {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, func(q sent) answer {
				if q.labels["spectap.point"] == "t0_c1" && q.labels["spectap.conversation"] == "1" && q.labels["spectap.turn"] == "0" {
					return bad
				}
				return echo(q)
			})
			p := plan(t, s, Config{Concurrency: []string{"1", "2"}})
			result, err := newSweep(p, s).Run(context.Background())
			if err != nil || ExitCode(result, err) != 1 {
				t.Fatalf("got exit code %d, error %v; want 1, nil", ExitCode(result, err), err)
			}
			if n := len(s.requests()); n != 5+6 {
				t.Errorf("got %d requests, want 5 at the failed point and 6 at the next", n)
			}
			dir := filepath.Join(p.Config.SaveDir, "t0_c1.failed")
			if got, want := entries(t, dir), []string{"error.json", "records.jsonl"}; !slices.Equal(got, want) {
				t.Errorf("got %v in the failed folder, want %v", got, want)
			}
			if got, want := entries(t, p.Config.SaveDir), []string{"summary.csv", "sweep.json", "t0_c1.failed", "t0_c2"}; !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			text, _ := os.ReadFile(filepath.Join(dir, "error.json"))
			var file struct {
				Reason string
				Failed []failedRequest `json:"failed_requests"`
			}
			if err := json.Unmarshal(text, &file); err != nil || len(file.Failed) != 1 {
				t.Fatalf("got error.json %s", text)
			}
			if f := file.Failed[0]; f.Conversation != 1 || f.Question != "82" || f.Turn != 0 || !strings.Contains(f.Error, wantError) {
				t.Errorf("got %+v, want conversation 1, question 82, turn 0, error with %q", f, wantError)
			}
			if len(result.Failed) != 1 || len(result.Summaries) != 1 || len(result.NotRun) != 0 {
				t.Errorf("got result %+v", result)
			}
		})
	}
	f("status", answer{status: 500, body: "{}"}, "http_status")
	f("in-band error", answer{inBand: true}, "in_band_error: BadRequestError")
	f("cut", answer{cut: true}, "truncated")
	f("not finished", answer{noFinish: true}, "no finish reason")
	f("neither block nor counts", answer{noBlock: true, noCounts: true}, "neither statistics (not_reported) nor token counts on its events")
}

// A request without a block is fine where its token counts are there.
func TestMissingBlockWithCounts(t *testing.T) {
	s := newScripted(t, func(q sent) answer {
		a := echo(q)
		a.noBlock = !q.preflight() && q.n%2 == 0
		return a
	})
	p := plan(t, s, Config{})
	result, err := newSweep(p, s).Run(context.Background())
	if err != nil || ExitCode(result, err) != 0 {
		t.Fatalf("got exit code %d, error %v, failed %+v", ExitCode(result, err), err, result.Failed)
	}
}

// Figures that cannot be made set the point aside, with none of their files.
func TestWriteFails(t *testing.T) {
	s := newScripted(t, echo)
	p := plan(t, s, Config{})
	w := newSweep(p, s)
	w.write = func(p collector.Point, dir string) (collector.Summary, error) {
		_, _ = writeStub(p, dir)
		return collector.Summary{}, errors.New("no turn has a time")
	}
	result, err := w.Run(context.Background())
	if err != nil || ExitCode(result, err) != 1 || !strings.Contains(result.Failed[0].Reason, "no turn has a time") {
		t.Fatalf("got %+v, %v", result, err)
	}
	if got, want := entries(t, filepath.Join(p.Config.SaveDir, "t0_c1.failed")), []string{"error.json", "records.jsonl"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A disk that fails ends the sweep; the records that it took are kept.
func TestDiskFails(t *testing.T) {
	s := newScripted(t, echo)
	p := plan(t, s, Config{Concurrency: []string{"1", "2"}})
	w := newSweep(p, s)
	w.write = func(p collector.Point, dir string) (collector.Summary, error) {
		return collector.Summary{}, os.WriteFile(filepath.Join(dir, "no", "such", "folder"), nil, 0o666)
	}
	result, err := w.Run(context.Background())
	if err == nil || ExitCode(result, err) != 1 || !slices.Equal(result.NotRun, []string{"t0_c1", "t0_c2"}) {
		t.Errorf("got %+v, %v; want an error and both points not run", result, err)
	}
	if got, want := entries(t, p.Config.SaveDir), []string{"summary.csv", "sweep.json", "t0_c1.failed"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	if dir := filepath.Join(p.Config.SaveDir, "t0_c1.failed"); !strings.Contains(err.Error(), dir) || !slices.Equal(entries(t, dir), []string{"error.json", "records.jsonl"}) {
		t.Errorf("got %v in the folder, and the error %v; want the records, error.json and the folder's name", entries(t, dir), err)
	}
}

// Ctrl-C keeps what is complete, sets the records of the running point aside, as they
// are after a kill, and says where they are and what was not run.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := newScripted(t, func(q sent) answer {
		a := echo(q)
		if q.labels["spectap.point"] == "t0_c2" && q.labels["spectap.turn"] == "1" {
			a.wait = func(request context.Context) {
				cancel()
				<-request.Done() // the sweep leaves
			}
		}
		return a
	})
	p := plan(t, s, Config{Concurrency: []string{"1", "2", "4"}})
	result, err := newSweep(p, s).Run(ctx)
	if ExitCode(result, err) != 130 || !strings.Contains(err.Error(), "interrupted: complete points are kept") {
		t.Errorf("got exit code %d (%v), want 130", ExitCode(result, err), err)
	}
	if want := []string{"t0_c2", "t0_c4"}; !slices.Equal(result.NotRun, want) {
		t.Errorf("got not run %v, want %v", result.NotRun, want)
	}
	if got, want := entries(t, p.Config.SaveDir), []string{"set_aside", "summary.csv", "sweep.json", "t0_c1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	aside := filepath.Join(p.Config.SaveDir, asideFolder, "t0_c2.1")
	if want := "; the records of t0_c2, which was running, are in " + aside; !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %q at its end", err, want)
	}
	text, readErr := os.ReadFile(filepath.Join(aside, "records.jsonl"))
	why, whyErr := os.ReadFile(filepath.Join(aside, "error.json"))
	if readErr != nil || bytes.Count(text, []byte("\n")) < 2 || whyErr != nil || !strings.Contains(string(why), "the sweep was interrupted while the point ran") {
		t.Errorf("got records %s (%v) and %s (%v), want what was answered and why it ended", text, readErr, why, whyErr)
	}
}

// A second sweep into the same folder keeps the first one's rows.
func TestSecondSweepKeepsRows(t *testing.T) {
	s := newScripted(t, echo)
	dir := t.TempDir()
	for _, c := range []string{"1", "2"} {
		p := plan(t, s, Config{SaveDir: dir, Concurrency: []string{c}})
		if _, err := newSweep(p, s).Run(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	var file struct{ Points []struct{ Point string } }
	text, _ := os.ReadFile(filepath.Join(dir, "sweep.json"))
	if err := json.Unmarshal(text, &file); err != nil || len(file.Points) != 2 || file.Points[0].Point != "t0_c1" || file.Points[1].Point != "t0_c2" {
		t.Errorf("got rows %+v, %v", file.Points, err)
	}
}

// A dry run prints the plan and sends nothing.
func TestDryRun(t *testing.T) {
	s := newScripted(t, echo)
	p := plan(t, s, Config{Temperatures: []string{"0", "1"}, Concurrency: []string{"8"}, DryRun: true})
	w := newSweep(p, s)
	var out bytes.Buffer
	w.Progress = &out
	if _, err := w.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"t0_c8", "t1_c8", "3 conversations, 6 requests a point, 12 in all"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the plan has no %q:\n%s", want, out.String())
		}
	}
	if len(s.calls) != 0 || exists(p.Config.SaveDir) {
		t.Errorf("got calls %v, folder made: %v", s.calls, exists(p.Config.SaveDir))
	}
}

// The real files of a point. Three of four turns have a block and lengths 1 and
// 2; the last is measured from its events, whose last is split into two steps of
// one token: (3/2 + 6/5) / 2.
func TestRealFiles(t *testing.T) {
	s := newScripted(t, func(q sent) answer {
		a := echo(q)
		a.noBlock = q.labels["spectap.conversation"] == "1" && q.labels["spectap.turn"] == "1"
		a.completion, a.histogram = 3, []int{0, 1}
		return a
	})
	p := plan(t, s, Config{MTBench: questions(t, 2), Concurrency: []string{"2"}})
	w := newSweep(p, s)
	w.write = nil
	result, err := w.Run(context.Background())
	if err != nil || len(result.Summaries) != 1 {
		t.Fatalf("got %+v, %v", result, err)
	}
	want := []string{"acceptance_rate.json", "configuration.json", "mtbench_responses.jsonl", "performance.json", "records.jsonl", "speculation.json", "speculation_profile.json", "timing.json"}
	if got := entries(t, filepath.Join(p.Config.SaveDir, "t0_c2")); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	sum := result.Summaries[0]
	if sum.AverageAL != 1.35 || sum.BlocksCame != 3 || sum.BlocksExpected != 4 || sum.Requests != 4 {
		t.Errorf("got %+v, want Average_AL 1.35 and 3 of 4 blocks", sum)
	}
	text, _ := os.ReadFile(filepath.Join(p.Config.SaveDir, "t0_c2", "mtbench_responses.jsonl"))
	if want := `{"question_id": 82, "category": "writing", "turns": ["q1 first", "q1 second <b>"], "choices": [{"index": 0, "turns": ["<|s|>reply to 1.0 ", "<|s|>reply to 1.1 "]}]}`; !strings.Contains(string(text), want) {
		t.Errorf("got responses %s, want %s", text, want)
	}
}

// Reasoning that the server takes out of the content is missing in the history: said.
func TestReasoningWarning(t *testing.T) {
	s := newScripted(t, func(q sent) answer {
		a := echo(q)
		if q.labels["spectap.conversation"] == "1" {
			a.reasoning = "hm"
		}
		return a
	})
	p := plan(t, s, Config{})
	result, err := newSweep(p, s).Run(context.Background())
	if err != nil || len(result.Summaries[0].Warnings) != 1 || !strings.Contains(result.Summaries[0].Warnings[0], "2 replies had their reasoning apart") {
		t.Errorf("got %+v, %v", result, err)
	}
}
