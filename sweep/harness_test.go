package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"spectap/collector"
)

// questions writes n two-turn questions in MT-Bench's form.
func questions(t *testing.T, n int) string {
	t.Helper()
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `{"turns": ["q%d first", "q%d second <b>"]}`+"\n", i, i)
	}
	path := filepath.Join(t.TempDir(), "question.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// echo answers with the question's place and a special token.
func echo(q sent) answer {
	return answer{text: "<|s|>reply to " + q.labels["spectap.conversation"] + "." + q.labels["spectap.turn"] + " "}
}

// plan makes a Plan, with the server's URL and a fresh folder filled in.
func plan(t *testing.T, s *scripted, cfg Config) *Plan {
	t.Helper()
	cfg.URL = s.server.URL
	if cfg.SaveDir == "" {
		cfg.SaveDir = filepath.Join(t.TempDir(), "out")
	}
	if cfg.MTBench == "" && cfg.Dataset == "" && cfg.SpecBench == "" {
		cfg.MTBench = questions(t, 3)
	}
	p, err := NewPlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newSweep makes a Sweep whose waiting takes no time; pauses are counted.
func newSweep(p *Plan, s *scripted) *Sweep {
	proxy := &recorder{}
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var mu sync.Mutex
	return &Sweep{
		Plan: p, HTTP: &http.Client{Transport: proxy}, BaseURL: s.server.URL, Records: proxy, Log: zerolog.Nop(),
		Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return clock },
		pause: func(ctx context.Context, d time.Duration) error {
			mu.Lock()
			defer mu.Unlock()
			clock = clock.Add(d)
			return ctx.Err()
		},
		write: writeStub,
	}
}

// writeStub stands for collector.Point.Write where a test is about the driver.
func writeStub(p collector.Point, dir string) (collector.Summary, error) {
	var err error
	for _, name := range []string{"acceptance_rate.json", "timing.json", "configuration.json"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), p.Run.Configuration, 0o666))
	}
	return collector.Summary{Point: p.Run.Point, Temperature: p.Run.Temperature, Concurrency: p.Run.Concurrency, Requests: len(p.Records), AverageAL: 2.5}, err
}

// entries lists a folder.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
