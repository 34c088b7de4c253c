package sweep

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// A server that comes back as another one ends the sweep in front of the next
// point; what was measured is kept, and no point has the wrong server's name.
func TestServerChanges(t *testing.T) {
	f := func(name string, change func(*scripted), want ...string) {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, echo)
			s.health = func(call int) int {
				if call == 1 { // in front of the second point
					change(s)
				}
				return 200
			}
			p := plan(t, s, Config{Concurrency: []string{"1", "2", "4"}})
			result, err := newSweep(p, s).Run(context.Background())
			if len(want) == 0 {
				if err != nil || len(result.Summaries) != 3 {
					t.Errorf("got %v and %d points, want all 3", err, len(result.Summaries))
				}
				return
			}
			if err == nil || ExitCode(result, err) != 1 || len(result.Summaries) != 1 || !slices.Equal(result.NotRun, []string{"t0_c2", "t0_c4"}) {
				t.Fatalf("got %v, %+v; want one point and an error", err, result)
			}
			for _, text := range append(want, "--resume", "--save_dir") {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("the error has no %q: %v", text, err)
				}
			}
		})
	}
	f("as it was", func(s *scripted) { s.finished = 0 })
	f("profiled again", func(s *scripted) { s.cache = `block_size="16",kv_cache_size_tokens="46600"` })
	f("without counters", func(s *scripted) { s.noMetrics = true })
	f("draft length", func(s *scripted) { s.positions = 3 }, "draft_length_tokens: was 5, is 3")
	f("version", func(s *scripted) { s.version = "0.33.0" }, `version: was "0.32.0", is "0.33.0"`)
	f("cache", func(s *scripted) { s.cache = `block_size="32",kv_cache_size_tokens="46592"` }, `cache_config.block_size: was "16", is "32"`)
	f("context", func(s *scripted) { s.models = strings.Replace(oneModel, "2048", "4096", 1) }, "model_card.max_model_len: was 2048, is 4096")
	f("model", func(s *scripted) { s.models = strings.Replace(oneModel, `"m"`, `"n"`, 2) }, `model: was "m", is "n"`)
}

// A baseline's server that comes back with speculation ends the sweep.
func TestBaselineServerChanges(t *testing.T) {
	s := newScripted(t, func(q sent) answer { a := echo(q); a.noBlock = true; return a })
	s.noDrafts = true
	s.health = func(call int) int { s.noDrafts = call == 0; return 200 }
	p := plan(t, s, Config{Concurrency: []string{"1", "2"}, Baseline: true})
	result, err := newSweep(p, s).Run(context.Background())
	if err == nil || len(result.Summaries) != 1 || !strings.Contains(err.Error(), "draft_length_tokens: was 0, is 5") {
		t.Errorf("got %v, %+v; want one point and the draft length", err, result)
	}
}

// A point whose answers tell of another draft length is set aside, not complete.
func TestPointOfOtherDrafts(t *testing.T) {
	s := newScripted(t, func(q sent) answer {
		a := echo(q)
		if !q.preflight() && q.labels["spectap.conversation"] == "2" {
			a.histogram = []int{0, 0, 1}
		}
		return a
	})
	result, err := newSweep(plan(t, s, Config{}), s).Run(context.Background())
	if err != nil || len(result.Failed) != 1 || !strings.Contains(result.Failed[0].Reason, "answers tell of 2 drafts a step, those of the start of 1") {
		t.Errorf("got %v, %+v; want the point set aside", err, result)
	}
}
