package sweep

import (
	"context"
	"fmt"

	"spectap/collector"
)

// warmup is what was asked before a point.
type warmup struct {
	records []*collector.Record
	failed  []failedRequest
}

// warmUp asks conversations before a point, at the point's concurrency or rate,
// and keeps their Records set apart. It returns when all have ended. A request that
// fails costs the point nothing but a warning.
//
// They are questions of the data set, evenly spread over it, each with words in
// front that are nowhere else, and a salt of their own: neither the prefix cache of
// a server that takes salts nor that of one that does not knows the point's prompts
// afterwards.
func (s *Sweep) warmUp(ctx context.Context, srv server, point PlannedPoint, emit func(*collector.Record)) warmup {
	var w warmup
	questions := s.warmupQuestions()
	if len(questions) == 0 {
		return w
	}
	turns := 0
	for _, q := range questions {
		turns += q.Turns
	}
	s.progress.stage(point.Name+" warm-up", turns)
	var kept records
	l := &load{sweep: s, template: s.template(srv, point), point: point, questions: questions, schedule: s.warmupSchedule(point, len(questions)), warmup: true, keep: func(r *collector.Record) {
		apart := *r
		apart.SetApart = collector.ApartWarmup
		kept.add(&apart)
		emit(&apart)
	}}
	l.run(ctx)
	return warmup{records: kept.all, failed: l.failed}
}

// warmupQuestions are the conversations that this sweep asks before a point: its
// part of --warmup, of its own questions.
func (s *Sweep) warmupQuestions() []collector.Question {
	var own []collector.Question
	for _, q := range s.Plan.Questions {
		if !q.NotAsked {
			own = append(own, q)
		}
	}
	n := s.Plan.Shard.part(s.Plan.Config.Warmup)
	if len(own) == 0 {
		return nil
	}
	var list []collector.Question
	for i := range n {
		at := i % len(own)
		if n < len(own) {
			at = i * len(own) / n
		}
		list = append(list, marked(own[at]))
	}
	return list
}

// marked puts words in front of all texts of a question.
func marked(q collector.Question) collector.Question {
	mark := "Warm-up " + randomHex(8) + ". "
	if q.System != "" {
		q.System = mark + q.System
	}
	prompts := make([]string, len(q.Prompts))
	for i, text := range q.Prompts {
		prompts[i] = mark + text
	}
	q.Prompts = prompts
	return q
}

// finished counts the requests that the server counts as finished.
func (w warmup) finished() int { return (&records{all: w.records}).finished() }

// warnings say what went wrong before the point.
func (w warmup) warnings() []string {
	if len(w.failed) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d requests of the warm-up failed, so that the server may not have been warm; the first: %s", len(w.failed), firstOf(w.failed).Error)}
}

// warmupWarning says what a warm-up asks that is longer than the data set.
func (p *Plan) warmupWarning() []string {
	n, own := p.Shard.part(p.Config.Warmup), p.Conversations()
	if own == 0 || n <= own {
		return nil
	}
	return []string{fmt.Sprintf("--warmup %d asks %d conversations before each of the %d points, though there are %d questions: each is asked %.4g times, with other words in front each time",
		p.Config.Warmup, n, len(p.Points), own, float64(n)/float64(own))}
}

// checkWarmup refuses a number that cannot be asked.
func (c Config) checkWarmup() error {
	if c.Warmup < 0 {
		return fmt.Errorf("cannot use --warmup %d: want 0 (none) or the number of conversations to ask before each point", c.Warmup)
	}
	return nil
}
