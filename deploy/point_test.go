package deploy

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// pointFigures are a point's own figures of its files.
type pointFigures struct {
	accepted []int // verify steps by accepted drafts, of the server
	drafted  float64
	server   float64     // tokens a verify step
	chunks   map[int]int // chunks by their tokens, as the client counts them
}

func readFigures(t *testing.T, dir string) pointFigures {
	t.Helper()
	var spec struct {
		Steps struct {
			TokensPerStep float64 `json:"tokens_per_verify_step"`
			DraftRate     float64 `json:"accepted_per_drafted_token"`
		} `json:"steps"`
		Accepted struct {
			Blocks []int `json:"from_blocks"`
		} `json:"accepted_histogram"`
	}
	readJSON(t, filepath.Join(dir, "speculation.json"), &spec)
	var rates []struct {
		Histogram map[string]int `json:"Acceptance_Length_Histogram"`
	}
	readJSON(t, filepath.Join(dir, "acceptance_rate.json"), &rates)
	f := pointFigures{accepted: spec.Accepted.Blocks, server: spec.Steps.TokensPerStep, chunks: map[int]int{}}
	f.drafted = math.Round(f.tokens() / spec.Steps.DraftRate)
	for length, n := range rates[0].Histogram {
		tokens, err := strconv.Atoi(length)
		if err != nil {
			t.Fatal(err)
		}
		f.chunks[tokens] = n
	}
	return f
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// reached is the number of verify steps that accepted at least n drafts.
func (f pointFigures) reached(n int) (sum float64) {
	for _, steps := range f.accepted[min(n, len(f.accepted)):] {
		sum += float64(steps)
	}
	return sum
}

// tokens is the number of accepted drafts.
func (f pointFigures) tokens() (sum float64) {
	for n := range f.accepted {
		sum += float64(n * f.accepted[n])
	}
	return sum
}

// comparePoint holds the counters of a point, and the panels made of them,
// against the figures of its files.
func comparePoint(t *testing.T, s scene, d dashboard, point string) {
	want := readFigures(t, filepath.Join(s.dir, point))
	chunks, tokens := 0.0, 0.0
	for length, n := range want.chunks {
		chunks, tokens = chunks+float64(n), tokens+float64(length*n)
	}
	counters := map[string]float64{
		`spectap_verify_steps_total{point="%s"}`:                                                       want.reached(0),
		`spectap_accepted_tokens_total{point="%s"}`:                                                    want.tokens(),
		`spectap_draft_tokens_total{point="%s"}`:                                                       want.drafted,
		`spectap_measured_requests_total{point="%s"}`:                                                  2 * questions,
		`spectap_client_steps_total{point="%s"}`:                                                       chunks,
		`spectap_client_step_tokens_total{point="%s"}`:                                                 tokens,
		`sum(spectap_requests_total{point="%s"})`:                                                      2 * questions,
		`1 + spectap_accepted_tokens_total{point="%[1]s"} / spectap_verify_steps_total{point="%[1]s"}`: want.server,
	}
	for position := range len(want.accepted) - 1 {
		name := fmt.Sprintf(`spectap_accepted_tokens_per_position_total{point="%%s", position="%d"}`, position)
		counters[name] = want.reached(position + 1)
	}
	for query, value := range counters {
		query = fmt.Sprintf(query, point)
		if got := s.prom.one(t, s.to, query); got != value {
			t.Errorf("%s: got %v, the sweep's files say %v", query, got, value)
		}
	}
	whole := grafana{chosen: map[string][]string{"model": nil, "engine": nil, "point": {point}}, step: s.to.Sub(s.from), span: s.to.Sub(s.from)}
	for title, value := range map[string]float64{
		"Acceptance length, whole range":          want.server,
		"Acceptance length by model, server view": want.server,
		"Acceptance length by point, server view": want.server,
		"Acceptance length by model, client view": tokens / chunks,
		"Accepted per drafted token":              want.tokens() / want.drafted,
	} {
		got := s.prom.one(t, s.to, whole.expand(d.query(t, title)))
		t.Logf("%s, %s: %.4f, the sweep's files say %.4f", point, title, got, value)
		// A rate does not know what a series began with: here, the requests that
		// ended before its first scrape.
		if math.Abs(got-value) > 0.05*value {
			t.Errorf("%s: got %v, the sweep's files say %v", title, got, value)
		}
	}
	compareQuotient(t, s, d, point)
}

// compareQuotient: a panel is the exact quotient of what the counters grew by
// between the samples of its window. The window begins right before a sample, so
// that both counters are extrapolated alike.
func compareQuotient(t *testing.T, s scene, d dashboard, point string) {
	t.Helper()
	steps := s.prom.samples(t, s.from, s.to, fmt.Sprintf(`spectap_verify_steps_total{point="%s"}`, point))
	accepted := s.prom.samples(t, s.from, s.to, fmt.Sprintf(`spectap_accepted_tokens_total{point="%s"}`, point))
	if len(steps) < 4 || len(accepted) != len(steps) {
		t.Fatalf("got %d and %d samples, want as many and at least 4", len(steps), len(accepted))
	}
	const first = 2
	g := grafana{chosen: map[string][]string{"model": nil, "engine": nil, "point": {point}}, step: 2 * time.Second}
	const before = 20 * time.Millisecond
	end := time.UnixMilli(int64(steps[first].At * 1000)).Add(g.rateInterval() - before)
	last := first
	for last+1 < len(steps) && steps[last+1].At <= float64(end.UnixMilli())/1000 {
		last++
	}
	want := 1 + (accepted[last].Value-accepted[first].Value)/(steps[last].Value-steps[first].Value)
	got := s.prom.one(t, end, g.expand(d.query(t, "Acceptance length by point, server view")))
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("got %v in a window of %v, want %v of %d samples", got, g.rateInterval(), want, last-first+1)
	}
}

// query returns the first query of the panel with the title.
func (d dashboard) query(t *testing.T, title string) string {
	t.Helper()
	for _, p := range d.all() {
		if p.Title == title {
			return p.Targets[0].Expr
		}
	}
	t.Fatalf("there is no panel %q", title)
	return ""
}

// one evaluates a query that has one value.
func (p *prometheus) one(t *testing.T, now time.Time, query string) float64 {
	t.Helper()
	found, err := p.at(now, query)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: got %d series, %v; want one", query, len(found), err)
	}
	return found[0].Value.Value
}

// samples returns the samples of the one series that matches, as they were scraped.
func (p *prometheus) samples(t *testing.T, from, to time.Time, selector string) []sample {
	t.Helper()
	found, err := p.at(to, fmt.Sprintf("%s[%s]", selector, window(to.Sub(from))))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: got %d series, %v; want one", selector, len(found), err)
	}
	return found[0].Samples
}
