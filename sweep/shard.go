package sweep

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"spectap/collector"
)

// Shard is this sweep's part of a larger one, in which several sweeps ask one
// data set at the same time. Shard i of N asks the conversations j with j mod N =
// i (neighbours in a question file are of one category, so each shard gets some of
// all), and as many at a time that all N sum up to the point's concurrency. The
// zero Shard is the whole.
type Shard struct {
	Index int // from 0
	Of    int // number of shards; 0: not divided
}

// divided says that --shard was given.
func (s Shard) divided() bool { return s.Of > 0 }

// parseShard reads I/N, I from 0 as in Kubernetes' JOB_COMPLETION_INDEX.
func parseShard(text string) (Shard, error) {
	if text == "" {
		return Shard{}, nil
	}
	index, of, found := strings.Cut(text, "/")
	i, errI := strconv.Atoi(index)
	n, errN := strconv.Atoi(of)
	if !found || errI != nil || errN != nil || n < 1 || i < 0 || i >= n {
		return Shard{}, fmt.Errorf("cannot use --shard %q: want I/N with I of 0 to N-1, such as 0/4", text)
	}
	return Shard{Index: i, Of: n}, nil
}

// String is the shard as it is typed.
func (s Shard) String() string { return strconv.Itoa(s.Index) + "/" + strconv.Itoa(s.Of) }

// folder is the name of the folder that holds the shard's point folders.
func (s Shard) folder() string { return fmt.Sprintf("shard-%d-of-%d", s.Index, s.Of) }

// takes says that the shard asks a conversation.
func (s Shard) takes(conversation int) bool {
	return !s.divided() || conversation%s.Of == s.Index
}

// part divides a concurrency: the first c mod N shards have one more than the others.
func (s Shard) part(concurrency int) int {
	if !s.divided() {
		return concurrency
	}
	n := concurrency / s.Of
	if s.Index < concurrency%s.Of {
		n++
	}
	return n
}

// divide takes the shard's part of the plan. What leaves any shard without work
// is refused by all, so that no shard runs whose figures could never be merged.
func (p *Plan) divide() []error {
	shard, err := parseShard(p.Config.Shard)
	if err != nil {
		return []error{err}
	}
	if p.Shard = shard; !shard.divided() {
		return nil
	}
	var errs []error
	if p.Config.Driver == DriverAIPerf {
		errs = append(errs, fmt.Errorf("cannot use --shard %s with --driver aiperf: want --driver builtin", shard))
	}
	if n := len(p.Questions); n > 0 && n < shard.Of {
		errs = append(errs, fmt.Errorf("cannot use --shard %s: %d conversations are too few for %d shards; want at most %d shards, or more --num_requests", shard, n, shard.Of, n))
	}
	refused := map[int]bool{}
	for i := range p.Points {
		if p.Points[i].openLoop() {
			continue // a shard asks its own conversations at their moments
		}
		c := p.Points[i].Concurrency
		p.Points[i].Own = shard.part(c)
		if c < shard.Of && !refused[c] {
			refused[c] = true
			errs = append(errs, fmt.Errorf("cannot divide --concurrency %d among %d shards (--shard %s): want at least %d, or fewer shards", c, shard.Of, shard, shard.Of))
		}
	}
	for i := range p.Questions {
		p.Questions[i].NotAsked = !shard.takes(i)
	}
	if p.Config.SaveDir != "" {
		p.Config.SaveDir = filepath.Join(p.Config.SaveDir, shard.folder())
	}
	return errs
}

// shardOf describes the shard for a point's run line; nil where it is no part.
func (s *Sweep) shardOf(point PlannedPoint) *collector.Shard {
	if !s.Plan.Shard.divided() {
		return nil
	}
	return &collector.Shard{Index: s.Plan.Shard.Index, Of: s.Plan.Shard.Of, Run: s.runID, Concurrency: point.Own,
		Host: s.Plan.Config.Host, Questions: s.Plan.questionsHash}
}

// shardPreflight makes the requests before a shard's first point a part of it, in
// no figure but in the sums that are held against the server's counters: they are
// made while other shards are measured.
func (s *Sweep) shardPreflight(run *collector.Run, b before) []*collector.Record {
	if run.Shard == nil || b.counters == nil {
		return nil
	}
	run.Before = b.counters
	var apart []*collector.Record
	for _, rec := range b.records {
		r := *rec
		r.SetApart = collector.ApartPreflight
		apart = append(apart, &r)
	}
	return apart
}
