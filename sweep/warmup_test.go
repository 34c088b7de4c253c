package sweep

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spectap/collector"
)

func (q sent) warmup() bool { return q.labels["spectap.point"] == collector.ApartWarmup }

// The conversations of --warmup are asked before each point, like its own, with
// other texts and another salt, and are in its records only.
func TestWarmup(t *testing.T) {
	s := newScripted(t, echo)
	p := plan(t, s, Config{MTBench: questions(t, 5), Temperatures: []string{"0.5"}, Concurrency: []string{"1", "2"}, Warmup: 3, OutputLength: 77})
	w := newSweep(p, s)
	points := map[string]collector.Point{}
	w.write = func(p collector.Point, dir string) (collector.Summary, error) {
		points[p.Run.Point] = p
		return writeStub(p, dir)
	}
	if _, err := w.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	var order []string
	salts, first := map[string]string{}, map[string][]string{}
	for _, q := range s.requests() {
		name := q.labels["spectap.point"]
		if len(order) == 0 || order[len(order)-1] != name {
			order = append(order, name)
		}
		if string(q.body["max_tokens"]) != "77" || string(q.body["temperature"]) != "0.5" {
			t.Errorf("%s: got %s, want the point's own parameters", name, q.body)
		}
		text := q.history[0].Content
		if plain := strings.HasPrefix(text, "q"); plain == q.warmup() {
			t.Errorf("%s asked %q", name, text)
		}
		if len(q.history) == 1 {
			first[name] = append(first[name], text[len(text)-len("q0 first"):])
		}
		key := string(q.body["cache_salt"])
		if was, seen := salts[key]; seen && was != name {
			t.Errorf("%s has the salt of %s", name, was)
		}
		salts[key] = name
	}
	if want := []string{"warmup", "t0.5_c1", "warmup", "t0.5_c2"}; !slices.Equal(order, want) {
		t.Errorf("got order %v, want %v", order, want)
	}
	if want := []string{"q0 first", "q1 first", "q3 first"}; !slices.Equal(first["warmup"][:3], want) || len(salts) != 4 {
		t.Errorf("got warm-up %v with %d salts, want the questions %v spread over the file, and a salt each", first["warmup"], len(salts), want)
	}
	for name, point := range points {
		if len(point.Records) != 10 || point.Run.Warmup != 3 || point.Run.After.RequestsFinished-point.Run.Before.RequestsFinished != 10 {
			t.Errorf("%s: got %d records, counters %v to %v; want the point's own 10", name, len(point.Records), point.Run.Before.RequestsFinished, point.Run.After.RequestsFinished)
		}
		text, err := os.ReadFile(filepath.Join(p.Config.SaveDir, name, "records.jsonl"))
		if n := bytes.Count(text, []byte(`"set_apart":"warmup"`)); err != nil || n != 6 || bytes.Count(text, []byte("\n")) != 17 {
			t.Errorf("%s: got %d requests of the warm-up in the records, want 6 of 16 (%v)", name, n, err)
		}
		if !bytes.Contains(point.Run.Configuration, []byte(`"warmup_conversations": 3`)) {
			t.Errorf("%s: configuration.json does not tell the warm-up", name)
		}
	}
}

// The warm-up reaches the point's concurrency, and has ended before the point begins.
func TestWarmupConcurrency(t *testing.T) {
	var mu sync.Mutex
	inFlight, early := 0, 0
	full := make(chan struct{})
	s := newScripted(t, func(q sent) answer {
		a := echo(q)
		mu.Lock()
		defer mu.Unlock()
		if !q.warmup() {
			early += inFlight
			return a
		}
		if inFlight++; inFlight == 2 {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		a.wait = func(ctx context.Context) {
			select {
			case <-full:
			case <-ctx.Done():
			}
			mu.Lock()
			defer mu.Unlock()
			inFlight--
		}
		return a
	})
	p := plan(t, s, Config{Concurrency: []string{"2"}, Warmup: 7}) // more than there are questions
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := newSweep(p, s).Run(ctx); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, q := range s.requests() {
		if q.warmup() {
			n++
		}
	}
	if early != 0 || n != 14 {
		t.Errorf("got %d requests of the warm-up, %d of them during the point; want 14 and 0", n, early)
	}
}

// A warm-up that fails is a warning; the point is measured.
func TestWarmupFails(t *testing.T) {
	s := newScripted(t, func(q sent) answer {
		if q.warmup() {
			return answer{status: http.StatusInternalServerError}
		}
		return echo(q)
	})
	p := plan(t, s, Config{Warmup: 2})
	result, err := newSweep(p, s).Run(context.Background())
	if err != nil || len(result.Summaries) != 1 || !strings.Contains(fmt.Sprint(result.Summaries[0].Warnings), "2 requests of the warm-up failed, so that the server may not have been warm; the first: ") {
		t.Errorf("got %+v, error %v; want a complete point with a warning", result, err)
	}
}

// A shard asks its part of the warm-up, and its counters hold it: other shards
// are measured meanwhile.
func TestWarmupOfAShard(t *testing.T) {
	f := func(shard string, want int, first string) {
		t.Helper()
		s := newScripted(t, echo)
		p := plan(t, s, Config{MTBench: questions(t, 6), Concurrency: []string{"3"}, Warmup: 4, Shard: shard})
		w := newSweep(p, s)
		var point collector.Point
		w.write = func(p collector.Point, dir string) (collector.Summary, error) { point = p; return writeStub(p, dir) }
		if _, err := w.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		apart := 0
		for _, r := range point.Records {
			if r.SetApart == collector.ApartWarmup {
				apart++
			}
		}
		if d := point.Run.After.RequestsFinished - point.Run.Before.RequestsFinished; apart != 2*want || point.Run.Warmup != 4 || int(d) != len(point.Records) {
			t.Errorf("%s: got %d requests of the warm-up and %v counted, want %d and %d", shard, apart, d, 2*want, len(point.Records))
		}
		if got := s.requests()[0].history[0].Content; !strings.HasSuffix(got, first) {
			t.Errorf("%s: got %q, want a question of its own, %q", shard, got, first)
		}
	}
	f("0/3", 2, "q0 first")
	f("2/3", 1, "q2 first")
}
