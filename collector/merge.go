package collector

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// CheckShards says why Runs are not the shards of one point: all must have the
// same plan, and each shard may be there once. Shards may be missing.
func CheckShards(runs []Run) error {
	if len(runs) == 0 {
		return errors.New("no shards")
	}
	var errs []error
	seen := map[int]bool{}
	for _, r := range runs {
		if r.Shard == nil {
			return fmt.Errorf("run %s of point %q is no shard: want records of spectap sweep --shard I/N", r.ID, r.Point)
		}
		if seen[r.Shard.Index] {
			errs = append(errs, fmt.Errorf("shard %s of point %q is there more than once", r.Shard.Name(), r.Point))
		}
		seen[r.Shard.Index] = true
	}
	first := runs[0]
	for _, r := range runs[1:] {
		errs = append(errs, sameShardPlan(first, r))
	}
	return errors.Join(errs...)
}

// sameShardPlan names everything in which two shards' plans differ.
func sameShardPlan(a, b Run) error {
	var parts []string
	for _, f := range []struct {
		name string
		a, b any
	}{
		{"point", a.Point, b.Point}, {"number of shards", a.Shard.Of, b.Shard.Of},
		{"data set", a.Dataset, b.Dataset}, {"metric", a.Metric, b.Metric},
		{"questions", a.Shard.Questions, b.Shard.Questions}, {"number of questions", len(a.Questions), len(b.Questions)},
		{"temperature", a.Temperature, b.Temperature}, {"concurrency", a.Concurrency, b.Concurrency},
		{"repeat", a.Repeat.Number(), b.Repeat.Number()}, {"warmup", a.Warmup, b.Warmup},
		{"request rate", a.requestRate(), b.requestRate()}, {"arrivals", a.arrivals(), b.arrivals()}, {"baseline", a.Baseline, b.Baseline},
		{"num_gpus", a.GPUs, b.GPUs}, {"measure", a.Measure, b.Measure}, {"acceptance", a.Acceptance, b.Acceptance},
		{"postprocess", a.Postprocess, b.Postprocess}, {"ignore_eos", a.IgnoreEOS, b.IgnoreEOS},
		{"no_spec_stats", a.NoSpecStats, b.NoSpecStats}, {"bootstrap_seed", a.Seed, b.Seed},
		{"model", a.Model, b.Model}, {"engine", a.Engine, b.Engine}, {"engine version", a.EngineVersion, b.EngineVersion},
	} {
		if f.a != f.b {
			parts = append(parts, fmt.Sprintf("%s (%v and %v)", f.name, f.a, f.b))
		}
	}
	parts = append(parts, configurationsDiffer(a, b)...)
	if len(parts) == 0 {
		return nil
	}
	return fmt.Errorf("shards %s and %s do not belong together: they differ in %s", a.Shard.Name(), b.Shard.Name(), strings.Join(parts, ", "))
}

// planMembers are the members of configuration.json that decide what was asked
// and are in no other member of a Run.
var planMembers = [...]string{"runtime_params", "output_length", "completions", "num_requests", "select", "top_p", "top_k",
	"sampling_seed", "include_stop_str_in_output", "cache_salt", "driver", "arrivals", "arrivals_seed"}

func configurationsDiffer(a, b Run) []string {
	x, okA := configurationOf(a)
	y, okB := configurationOf(b)
	if !okA || !okB {
		return nil
	}
	var parts []string
	for _, name := range planMembers {
		v, _ := x.Get(name)
		w, _ := y.Get(name)
		if !sameValue(v, w) {
			parts = append(parts, fmt.Sprintf("%s (%s and %s)", name, oneLine(v), oneLine(w)))
		}
	}
	return parts
}

func configurationOf(r Run) (Object, bool) {
	v, err := DecodeOrdered(r.Configuration)
	o, ok := v.(Object)
	return o, err == nil && ok
}

func sameValue(a, b any) bool { return bytes.Equal(AppendIndented(nil, a), AppendIndented(nil, b)) }

// oneLine is a value's text without its layout.
func oneLine(v any) string { return strings.Join(strings.Fields(string(AppendIndented(nil, v))), " ") }

// MergeShards makes one Point of the Records of the shards of a point, in any
// order. Its figures are made of the Records as those of an undivided point are;
// figures of shards are never averaged. Conversations of shards that are missing
// count as not run: the Point has to be Lenient then, and its Summary is Incomplete.
func MergeShards(points []Point) (Point, error) {
	runs := make([]Run, len(points))
	for i, p := range points {
		runs[i] = p.Run
	}
	if err := CheckShards(runs); err != nil {
		return Point{}, err
	}
	points = slices.SortedFunc(slices.Values(points), func(a, b Point) int { return cmp.Compare(a.Run.Shard.Index, b.Run.Shard.Index) })
	m := Point{Run: points[0].Run, described: true}
	m.Run.Shard, m.Run.Shards = nil, nil
	m.Run.Questions = mergedQuestions(points)
	m.Run.Before, m.Run.After = mergedCounters(points)
	m.Run.Configuration = mergedConfiguration(points)
	m.Run.Schedule = mergedSchedule(points)
	for _, p := range points {
		m.Run.Shards = append(m.Run.Shards, *p.Run.Shard)
		m.Records = append(m.Records, p.Records...)
	}
	return m, nil
}

// mergedQuestions are the questions of the whole data set: all are asked for, and
// texts are taken from the shard that asked them, where it kept them.
func mergedQuestions(points []Point) []Question {
	questions := slices.Clone(points[0].Run.Questions)
	for i := range questions {
		for _, p := range points {
			if q := p.Run.Questions[i]; !q.NotAsked {
				questions[i] = q
			}
		}
		questions[i].NotAsked = false
	}
	return questions
}

// mergedCounters returns readings of the server's counters around all shards, or
// none where no two readings say what these shards did:
//
//	each shard's own window holds its requests alone    the sums of the readings
//	the windows overlap on one server                   its first and its last reading
//	else (several servers with load of others)          none
func mergedCounters(points []Point) (before, after *Counters) {
	alone, finished := true, 0
	var readings []Counters
	for _, p := range points {
		if p.Run.Before == nil || p.Run.After == nil {
			return nil, nil
		}
		if _, err := p.Run.After.Sub(*p.Run.Before); err != nil {
			return nil, nil
		}
		readings = append(readings, *p.Run.Before, *p.Run.After)
		a, _ := p.audit(newBlockSums(p.Records), p.expectedBlocks())
		alone = alone && a.Verdict == AuditExact
		for _, r := range p.Records {
			finished += count(r.SpecMissing != MissingNotMeasured && r.Status == 200 && r.ErrorKind == "")
		}
	}
	if alone {
		return sumCounters(readings, 0), sumCounters(readings, 1)
	}
	slices.SortStableFunc(readings, func(a, b Counters) int { return cmp.Compare(a.sum(), b.sum()) })
	for i := 1; i < len(readings); i++ {
		if _, err := readings[i].Sub(readings[i-1]); err != nil { // one server's totals only grow
			return nil, nil
		}
	}
	first, last := readings[0], readings[len(readings)-1]
	if last.RequestsFinished-first.RequestsFinished < float64(finished) {
		return nil, nil
	}
	return &first, &last
}

// sumCounters adds every second reading, beginning with readings[from].
func sumCounters(readings []Counters, from int) *Counters {
	sum := readings[from]
	sum.AcceptedPerPos = slices.Clone(sum.AcceptedPerPos)
	for i := from + 2; i < len(readings); i += 2 {
		r := readings[i]
		for j, more := range r.totals() {
			*sum.totals()[j] += *more
		}
		for len(sum.AcceptedPerPos) < len(r.AcceptedPerPos) {
			sum.AcceptedPerPos = append(sum.AcceptedPerPos, 0)
		}
		for j, more := range r.AcceptedPerPos {
			sum.AcceptedPerPos[j] += more
		}
		sum.HasSpec = sum.HasSpec || r.HasSpec
	}
	return &sum
}

// totals are the numbers that only grow, save those by position.
func (c *Counters) totals() []*float64 {
	return []*float64{&c.Drafts, &c.DraftTokens, &c.AcceptedTokens, &c.RequestsFinished, &c.GenerationTokens,
		&c.PromptTokens, &c.Preemptions, &c.PrefixCacheQueries, &c.PrefixCacheHits}
}

// sum orders the readings of one server in time.
func (c Counters) sum() float64 {
	s := 0.0
	for _, v := range c.totals() {
		s += *v
	}
	return s
}

// mergedConfiguration is the configuration of the first shard, with the earliest
// timestamp, and a member "shards" that says in what the others differ.
func mergedConfiguration(points []Point) []byte {
	base, ok := configurationOf(points[0].Run)
	if !ok {
		return points[0].Run.Configuration
	}
	merged := slices.DeleteFunc(slices.Clone(base), func(m Member) bool { return slices.Contains(shardMembers[:], m.Key) })
	for _, p := range points {
		own, _ := configurationOf(p.Run)
		t, known := own.timestamp()
		if first, ok := merged.timestamp(); ok && known && t < first {
			merged.Set("timestamp", t)
		}
	}
	var shards []any
	for _, p := range points {
		s := p.Run.Shard
		entry := Object{{"shard", s.Index}, {"of", s.Of}, {"run", s.Run}, {"concurrency", s.Concurrency}}
		if s.Host != "" {
			entry.Set("host", s.Host)
		}
		own, _ := configurationOf(p.Run)
		if differs := differing(own, merged); len(differs) > 0 {
			entry.Set("differs", differs)
		}
		shards = append(shards, entry)
	}
	merged.Set("shards", shards)
	return AppendIndented(nil, merged)
}

// shardMembers are the members of a shard's configuration.json that the merged one has elsewhere.
var shardMembers = [...]string{"shard", "shard_concurrency", "shard_conversations"}

func (o Object) timestamp() (string, bool) {
	v, _ := o.Get("timestamp")
	text, ok := v.(string)
	return text, ok
}

// differing are the members of a shard's configuration that are not as in base.
func differing(own, base Object) Object {
	var o Object
	for _, m := range own {
		if slices.Contains(shardMembers[:], m.Key) {
			continue
		}
		if v, ok := base.Get(m.Key); !ok || !sameValue(v, m.Value) {
			o = append(o, m)
		}
	}
	return o
}
