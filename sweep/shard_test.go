package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// All shards together ask each conversation once, with the point's concurrency in all.
func TestShardsAreTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "shards")
		conversations := rapid.IntRange(n, 300).Draw(t, "conversations")
		concurrency := rapid.IntRange(n, 500).Draw(t, "concurrency")
		asked, total, low, high := make([]int, conversations), 0, concurrency, 0
		for i := range n {
			s, err := parseShard(fmt.Sprintf("%d/%d", i, n))
			if err != nil {
				t.Fatal(err)
			}
			for j := range conversations {
				if s.takes(j) {
					asked[j]++
				}
			}
			part := s.part(concurrency)
			total, low, high = total+part, min(low, part), max(high, part)
		}
		for j, times := range asked {
			if times != 1 {
				t.Fatalf("conversation %d is asked by %d shards", j, times)
			}
		}
		if total != concurrency || low < 1 || high-low > 1 {
			t.Fatalf("got concurrency %d of %d, parts of %d to %d", total, concurrency, low, high)
		}
	})
}

// A shard that cannot be is refused, and by all shards alike.
func TestShardRefusals(t *testing.T) {
	f := func(shard, want string, change func(*Config)) {
		t.Helper()
		cfg := valid(t)
		cfg.Shard, cfg.Concurrency = shard, []string{"4"}
		change(&cfg)
		refused(t, cfg, want)
	}
	same := func(*Config) {}
	for _, bad := range []string{"1", "3/3", "-1/3", "0/0", "a/b", "1/2/3", "/", "0/-1"} {
		f(bad, fmt.Sprintf("cannot use --shard %q: want I/N", bad), same)
	}
	for i := range 5 { // the first four would have work
		f(fmt.Sprintf("%d/5", i), "cannot divide --concurrency 4 among 5 shards", same)
	}
	f("0/30", "20 conversations are too few for 30 shards", func(c *Config) { c.Concurrency = []string{"64"} })
	f("0/2", "cannot use --shard 0/2 with --driver aiperf", func(c *Config) { c.Driver = DriverAIPerf })
	f("0/2", "of a single run", func(c *Config) {
		if err := os.MkdirAll(c.SaveDir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(c.SaveDir, "timing.json"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	})
	cfg := valid(t)
	cfg.Shard, cfg.Concurrency, cfg.Temperatures = "0/8", []string{"2"}, []string{"0", "1"}
	if _, err := NewPlan(cfg); err == nil || strings.Count(err.Error(), "cannot divide") != 1 {
		t.Errorf("got %v, want one message for a concurrency at two temperatures", err)
	}
}

// A shard's plan says what is its own and what is the whole's.
func TestShardPlan(t *testing.T) {
	cfg := valid(t)
	dir := cfg.SaveDir
	cfg.Shard, cfg.Concurrency = "2/3", []string{"8", "31"}
	p, err := NewPlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if p.Config.SaveDir != filepath.Join(dir, "shard-2-of-3") || p.Conversations() != 6 || len(p.Questions) != 20 || p.Turns() != 12 {
		t.Errorf("got folder %s, %d of %d conversations, %d turns", p.Config.SaveDir, p.Conversations(), len(p.Questions), p.Turns())
	}
	if p.Points[0].Name != "t0_c8" || p.Points[0].Own != 2 || p.Points[1].Concurrency != 31 || p.Points[1].Own != 10 {
		t.Errorf("got points %+v", p.Points)
	}
	var b strings.Builder
	if err := p.Describe(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"6 conversations, 12 requests a point, 24 in all", "shard        2/3 of 20 conversations", "concurrency 2 of 8 -> " + filepath.Join(dir, "shard-2-of-3", "t0_c8")} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the plan has no %q:\n%s", want, b.String())
		}
	}
}
