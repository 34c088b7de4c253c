package collector

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Shard is one of several sweeps that divide the conversations and the
// concurrency of a point among them. Its Run lists the questions of the whole
// data set, those of the other shards as not asked, so that conversation indices
// mean the same in all shards.
type Shard struct {
	Index       int    `json:"index"` // from 0
	Of          int    `json:"of"`    // number of shards
	Run         string `json:"run"`   // Run.ID of its sweep
	Concurrency int    `json:"concurrency"`
	Host        string `json:"host"`             // the machine whose clock its Records have; "" where nobody said
	Questions   string `json:"questions_sha256"` // QuestionsHash of the whole data set
}

// Name is the shard as it is asked for: 0/3.
func (s Shard) Name() string { return strconv.Itoa(s.Index) + "/" + strconv.Itoa(s.Of) }

// maxShards bounds what a run line may say, so that a damaged one does not list
// millions of missing shards.
const maxShards = 100000

func (s Shard) check() error {
	if s.Of < 1 || s.Of > maxShards || s.Index < 0 || s.Index >= s.Of {
		return fmt.Errorf("shard %s, want an index of 0 to N-1 of at most %d", s.Name(), maxShards)
	}
	return nil
}

// QuestionsHash tells data sets apart: SHA-256, in hex, of everything that is
// asked, in its order. It can only be made where the prompts are in memory.
func QuestionsHash(questions []Question) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, q := range questions {
		_ = enc.Encode([]any{q.ID, q.Category, q.System, q.Prompts}) // a hash takes all
	}
	return hex.EncodeToString(h.Sum(nil))
}

// shardWindow is when the requests of a shard ran.
type shardWindow struct{ start, end time.Time }

// shardWindows returns the window of each shard of a merged point, in the order
// of Run.Shards; the zero window where it has no request that ran.
func (p Point) shardWindows() []shardWindow {
	windows, at := make([]shardWindow, len(p.Run.Shards)), map[string]*shardWindow{}
	for i, s := range p.Run.Shards {
		at[s.Run] = &windows[i]
	}
	for _, r := range p.counted() {
		w := at[r.Labels.Run]
		if w == nil || r.ErrorKind != "" {
			continue
		}
		start, end := r.Start.Round(0), r.Answered().Round(0)
		if w.start.IsZero() || start.Before(w.start) {
			w.start = start
		}
		if end.After(w.end) {
			w.end = end
		}
	}
	return windows
}

// together returns how long all shards ran at once, and how long any did. Shards
// of which no request ran are not looked at.
func together(windows []shardWindow) (all, any time.Duration) {
	windows = slices.DeleteFunc(slices.Clone(windows), func(w shardWindow) bool { return w.start.IsZero() })
	if len(windows) == 0 {
		return 0, 0
	}
	last, first := windows[0].start, windows[0].end // the last start, the first end
	start, end := last, first
	for _, w := range windows[1:] {
		if w.start.After(last) {
			last = w.start
		}
		if w.end.Before(first) {
			first = w.end
		}
		if w.start.Before(start) {
			start = w.start
		}
		if w.end.After(end) {
			end = w.end
		}
	}
	return max(0, first.Sub(last)), end.Sub(start)
}

// togetherLeast is the share of a point's time that its shards should run at
// once: a little is always lost at its ends.
const togetherLeast = 0.8

// shardWarnings say what a reader of a shard's figures, or of merged ones, must know.
func (p Point) shardWarnings() []string {
	if s := p.Run.Shard; s != nil && s.Of > 1 {
		asked := 0
		for _, q := range p.Run.Questions {
			asked += count(!q.NotAsked)
		}
		load := fmt.Sprintf("concurrency %d of %d", s.Concurrency, p.Run.Concurrency)
		if p.Run.Schedule != nil {
			load = "its part of " + p.Run.Load()
		}
		return []string{fmt.Sprintf("these are the figures of shard %s alone: %d of %d conversations, %s; spectap collect merges the shards' records",
			s.Name(), asked, len(p.Run.Questions), load)}
	}
	var list []string
	if missing := p.Run.missingShards(); len(missing) > 0 {
		list = append(list, fmt.Sprintf("%d of %d shards are missing: %s", len(missing), p.Run.Shards[0].Of, strings.Join(missing, ", ")))
	}
	hosts := map[string]bool{}
	for _, s := range p.Run.Shards {
		hosts[s.Host] = true
	}
	if len(hosts) > 1 {
		list = append(list, fmt.Sprintf("times come from the clocks of %d hosts: where these differ, Output TPS is off by as much as their shards seem shifted; TTFT, step times and acceptance are not touched", len(hosts)))
	}
	if all, any := together(p.shardWindows()); all.Seconds() < togetherLeast*any.Seconds() {
		load := "concurrency"
		if p.Run.Schedule != nil {
			load = "request rate"
		}
		list = append(list, fmt.Sprintf("the shards ran at once for %.1f s of %.1f s: only then was the %s %s; start them together, one point a job",
			all.Seconds(), any.Seconds(), load, p.Run.Load()))
	}
	return list
}

// missingShards names the shards that a merged Run lacks.
func (r Run) missingShards() []string {
	if len(r.Shards) == 0 {
		return nil
	}
	there := map[int]bool{}
	for _, s := range r.Shards {
		there[s.Index] = true
	}
	var missing []string
	for i := range r.Shards[0].Of {
		if !there[i] {
			missing = append(missing, Shard{Index: i, Of: r.Shards[0].Of}.Name())
		}
	}
	return missing
}

// isRun says that an id is the Run's, or that of one of the shards it was merged from.
func (r Run) isRun(id string) bool {
	if id == r.ID {
		return true
	}
	for _, s := range r.Shards {
		if id == s.Run {
			return true
		}
	}
	return false
}

// checkShards refuses shards that cannot be.
func (r Run) checkShards() error {
	if r.Shard != nil {
		if err := r.Shard.check(); err != nil {
			return err
		}
	}
	for _, s := range r.Shards {
		if err := s.check(); err != nil {
			return err
		}
		if s.Of != r.Shards[0].Of {
			return fmt.Errorf("shards %s and %s are of one point", r.Shards[0].Name(), s.Name())
		}
	}
	return nil
}
