package sweep

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"spectap/collector"
)

// before is what the server had counted earlier, and what it was asked since.
type before struct {
	counters *collector.Counters
	requests int
	records  []*collector.Record // of the requests
}

// pointResult is a point that ended: complete, or failed.
type pointResult struct {
	point   PlannedPoint
	summary collector.Summary
	failed  *FailedPoint // nil: complete
}

// runPoint asks all conversations at one point and writes its folder. An error
// ends the sweep (ctx cancelled, a disk that fails); a request that fails only
// sets the point aside.
func (s *Sweep) runPoint(ctx context.Context, srv server, point PlannedPoint, b before) (pointResult, error) {
	s.progress.point()
	files, err := newPointFiles(s.Plan.Config.SaveDir, point.Name, s.Plan.Config.KeepTexts)
	if err != nil {
		return pointResult{}, err
	}
	t := s.template(srv, point)
	run := s.describe(srv, point)
	run.Before = s.settledCounters(ctx, srv.engine, b.counters, b.requests)
	apart := s.shardPreflight(&run, b)
	run.Configuration = s.configuration(srv, point, t, run.Before)
	if err := files.start(run); err != nil {
		return pointResult{}, files.discard(err)
	}
	var kept records
	for _, r := range apart {
		kept.add(r)
		files.emit(r)
	}
	warm := s.warmUp(ctx, srv, point, files.emit)
	if run.Shard != nil {
		kept.all = append(kept.all, warm.records...)
	} else if len(warm.records) > 0 {
		run.Before = s.settledCounters(ctx, srv.engine, run.Before, warm.finished())
	}
	s.progress.stage(point.Name, s.Plan.Turns())
	l := &load{sweep: s, template: t, point: point, questions: s.Plan.Questions, schedule: s.schedule(point), keep: func(r *collector.Record) {
		kept.add(r)
		files.emit(r)
	}}
	o, err := s.drive(ctx, l, srv, files.partial)
	if ctx.Err() != nil {
		return pointResult{}, files.interrupt(ctx.Err())
	}
	if err != nil {
		return pointResult{}, files.discard(err)
	}
	o.warnings = append(warm.warnings(), o.warnings...)
	o.reason = cmp.Or(o.reason, srv.otherDrafts(kept.all))
	run.After = s.settledCounters(ctx, srv.engine, run.Before, kept.finished())
	run.Schedule = l.schedule // which has begun
	return s.closePoint(files, run, l, o, kept.all)
}

// outcome is what a driver tells beside the Records and the failed requests.
type outcome struct {
	reason   string // why the point failed as a whole; "": it did not
	aiperf   *collector.AIPerf
	warnings []string
}

// drive asks the conversations of a point with the driver that was chosen.
func (s *Sweep) drive(ctx context.Context, l *load, srv server, dir string) (outcome, error) {
	if s.Plan.Config.Driver == DriverAIPerf {
		return s.driveAIPerf(ctx, l, srv, dir)
	}
	l.run(ctx)
	return outcome{}, nil
}

// closePoint writes the files of a point whose requests have ended, or sets it aside.
func (s *Sweep) closePoint(files *pointFiles, run collector.Run, l *load, o outcome, recs []*collector.Record) (pointResult, error) {
	result := pointResult{point: l.point}
	if err := files.finish(run); err != nil {
		return result, files.rescue(err)
	}
	reason := o.reason
	if n := len(l.failed); n > 0 {
		reason = fmt.Sprintf("%d of %d requests failed; the first: %s", n, s.Plan.Turns(), firstOf(l.failed).Error)
		if o.reason != "" {
			reason += "; " + o.reason
		}
	}
	if reason == "" {
		var err error
		if result.summary, err = s.writePoint(collector.Point{Run: run, Records: recs, AIPerf: o.aiperf}, files.partial); err == nil {
			result.summary.Warnings = append(append(result.summary.Warnings, o.warnings...), s.reasoningWarning(recs)...)
			return result, files.complete()
		}
		if isDiskError(err) {
			return result, files.rescue(fmt.Errorf("cannot write the files of point %s: %w", l.point.Name, err))
		}
		reason = fmt.Sprintf("its figures cannot be made: %v", err)
	}
	result.failed = &FailedPoint{Point: l.point, Reason: reason, Requests: len(recs), FailedRequests: len(l.failed)}
	var err error
	result.failed.Dir, err = files.fail(reason, l.failed)
	return result, err
}

// reasoningWarning tells that the server took text out of the replies: later
// turns were asked otherwise than by specdec_bench.
func (s *Sweep) reasoningWarning(recs []*collector.Record) []string {
	n := 0
	for _, r := range recs {
		if r.Reasoning != "" {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	asked := "without it"
	if s.Plan.Config.Driver == DriverAIPerf {
		asked = "with it as part of the reply, as AIPerf does"
	}
	return []string{fmt.Sprintf("%d replies had their reasoning apart from the content, so later turns were asked %s: serve without a reasoning parser to compare with specdec_bench", n, asked)}
}

// firstOf returns the failed request that comes first in the data set.
func firstOf(failed []failedRequest) failedRequest {
	return slices.MinFunc(failed, func(a, b failedRequest) int { return a.Conversation - b.Conversation })
}

// records are the Records of a point in the order in which they were completed.
type records struct {
	mu  sync.Mutex
	all []*collector.Record
}

func (r *records) add(rec *collector.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, rec)
}

// finished counts the requests that the server counts as finished.
func (r *records) finished() int {
	n := 0
	for _, rec := range r.all {
		if rec.ErrorKind == "" && rec.Finish != "" {
			n++
		}
	}
	return n
}

// template makes the requests of a point. The salt is fresh for each call, so
// that no point finds an earlier one's prompts in the prefix cache.
func (s *Sweep) template(srv server, point PlannedPoint) template {
	cfg := s.Plan.Config
	t := template{
		engine: srv.engine, model: srv.model, temperature: point.Temperature,
		topP: s.Plan.TopP, topK: s.Plan.TopK, maxTokens: cfg.OutputLength,
		chatArgs: s.Plan.params.template, seed: cfg.seedOf(point), completions: cfg.Completions,
		ignoreEOS: cfg.IgnoreEOS, includeStop: cfg.IncludeStop,
		countEvents: cfg.Measure == "tokens", insist: cfg.NoSpecStats && !cfg.Baseline,
	}
	if !cfg.NoCacheSalt && srv.engine == engineVLLM {
		t.cacheSalt = randomHex(16)
	}
	return t
}

// describe makes the Run of a point.
func (s *Sweep) describe(srv server, point PlannedPoint) collector.Run {
	cfg := s.Plan.Config
	return collector.Run{
		ID: s.runID, Point: point.Name, Dataset: s.Plan.Dataset, Metric: s.Plan.Metric, Questions: s.Plan.Questions,
		GPUs: cfg.GPUs, Temperature: point.Temperature, Concurrency: point.Concurrency, Repeat: point.Repeat, Schedule: s.schedule(point),
		Acceptance: cfg.Acceptance, Measure: cfg.Measure, Postprocess: cfg.Postprocess,
		IgnoreEOS: cfg.IgnoreEOS, NoSpecStats: cfg.NoSpecStats || cfg.Baseline, Baseline: cfg.Baseline, Seed: cfg.Seed, SLO: s.Plan.SLO,
		Model: srv.model, Engine: srv.engine, EngineVersion: srv.version, Shard: s.shardOf(point), Warmup: cfg.Warmup,
	}
}
