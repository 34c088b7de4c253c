package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"spectap/collector"
)

// arrivalStream separates the arrivals from other uses of a seed.
const arrivalStream = 0x41525256

// scheduleLead is the time before offset 0 of a schedule, so that the first
// arrivals are waited for as the others are.
const scheduleLead = 10 * time.Millisecond

// openLoop says that the point's conversations begin at their own moments,
// whatever became of those before.
func (p PlannedPoint) openLoop() bool { return p.Rate > 0 }

// arrivals returns when each of n conversations begins: one every 1/rate seconds,
// or the moments of a Poisson process of which n fell into the n/rate seconds, so
// that the rate is the asked one whatever the seed. With E(0..n) exponential, the
// k-th is n/rate (E(0)+..+E(k)) / (E(0)+..+E(n)): the order statistics of n moments
// drawn uniformly. Source: Ross, Stochastic Processes, 2.3.
func arrivals(n int, rate float64, kind string, seed int64) []time.Duration {
	at := func(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }
	offsets := make([]time.Duration, n)
	if kind == collector.ArrivalsConstant {
		for k := range offsets {
			offsets[k] = at(float64(k) / rate)
		}
		return offsets
	}
	rng := rand.New(rand.NewPCG(uint64(seed), arrivalStream))
	sums := make([]float64, n+1)
	total := 0.0
	for k := range sums {
		total += rng.ExpFloat64()
		sums[k] = total
	}
	for k := range offsets {
		offsets[k] = at(float64(n) / rate * sums[k] / total)
	}
	return offsets
}

// requestRates reads rates as typed.
func requestRates(typed []string) ([]float64, []error) {
	var values []float64
	var errs []error
	for _, t := range typed {
		v, err := strconv.ParseFloat(strings.TrimSpace(t), 64)
		if err != nil || !(v >= 0.001 && v <= 100000) || strings.ContainsAny(t, "xX_") {
			errs = append(errs, fmt.Errorf("cannot use --request_rate %q: want conversations per second, 0.001 to 100000, such as 0.5 or 20", t))
			continue
		}
		values = append(values, v)
	}
	return values, errs
}

// checkOpenLoop returns what is wrong with the settings of an open loop.
func (c Config) checkOpenLoop() []error {
	if len(c.RequestRate) == 0 {
		return nil
	}
	var errs []error
	if len(c.Concurrency) > 0 {
		errs = append(errs, errors.New("--request_rate and --concurrency are both set: at a rate conversations begin whatever is in flight, so there is no number at a time; want one of the two (a second sweep may add the other's points to the same --save_dir)"))
	}
	if c.Driver == DriverAIPerf {
		errs = append(errs, errors.New("cannot use --request_rate with --driver aiperf: want --driver builtin"))
	}
	return errs
}

// filesOfRequest is how many files a request in flight has open: the driver's end
// of a socket, the proxy's end, and the proxy's connection to the server.
const filesOfRequest = 3

// filesBeside is how many files the process needs beside those of its requests.
const filesBeside = 100

// checkFiles refuses points that may have more requests in flight than the
// process may have files for: in an open loop all of them, if the server is slow.
func (p *Plan) checkFiles() []error {
	limit := p.Config.OpenFiles
	if limit == 0 || len(p.Questions) == 0 {
		return nil
	}
	for _, point := range p.Points {
		n, flag := min(point.Own, p.Conversations()), "--concurrency "+strconv.Itoa(point.Concurrency)
		if point.openLoop() {
			n, flag = p.Conversations(), "--request_rate "+shortest(point.Rate)
		}
		if need := n*filesOfRequest + filesBeside; need > limit {
			return []error{fmt.Errorf("cannot use %s: %d conversations may be in flight at once, which takes %d files, and this process may open %d; raise the limit (ulimit -n %d), or ask for fewer with --num_requests",
				flag, n, need, limit, need)}
		}
	}
	return nil
}

// schedule makes the arrivals of a point, which has not begun; nil in a closed
// loop. They are those of all shards: each takes its own conversations at their
// moments.
func (s *Sweep) schedule(point PlannedPoint) *collector.Schedule {
	if !point.openLoop() {
		return nil
	}
	cfg := s.Plan.Config
	seed := cfg.ArrivalsSeed + int64(point.Repeat) // each run of a point has moments of its own
	return &collector.Schedule{Rate: point.Rate, Arrivals: cfg.Arrivals, Seed: seed,
		Offsets: arrivals(len(s.Plan.Questions), point.Rate, cfg.Arrivals, seed)}
}

// warmupSchedule makes the arrivals of n conversations of a warm-up, which load the
// server as the point will; nil in a closed loop.
func (s *Sweep) warmupSchedule(point PlannedPoint, n int) *collector.Schedule {
	if !point.openLoop() {
		return nil
	}
	rate := point.Rate / float64(max(1, s.Plan.Shard.Of))
	return &collector.Schedule{Rate: rate, Offsets: arrivals(n, rate, s.Plan.Config.Arrivals, s.Plan.Config.ArrivalsSeed)}
}

// arrive begins the schedule now, and each conversation at its moment, whatever is
// in flight. It returns when all have ended; after ctx is cancelled no further one
// starts. A moment that is over when its turn comes is not waited for, nor skipped: the
// conversation begins late, and its Record says so.
func (l *load) arrive(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	l.schedule.Start = l.sweep.now().Add(scheduleLead)
	for i, q := range l.questions {
		if q.NotAsked {
			continue
		}
		if wait := l.schedule.Start.Add(l.schedule.Offsets[i]).Sub(l.sweep.now()); wait > 0 && l.sweep.sleep(ctx, wait) != nil {
			return
		}
		if ctx.Err() != nil {
			return
		}
		all.Go(func() { l.converse(ctx, i) })
	}
}

// load is the point's load in a table.
func (p PlannedPoint) load() string {
	return collector.Summary{Concurrency: p.Concurrency, RequestRate: p.Rate}.Load()
}

// loadName names the point's load in messages.
func (p PlannedPoint) loadName() string {
	if p.openLoop() {
		return "request rate " + shortest(p.Rate)
	}
	return "concurrency " + strconv.Itoa(p.Concurrency)
}

// loadText says at what load a point runs, for people.
func (p PlannedPoint) loadText(plan *Plan) string {
	if p.openLoop() {
		n := len(plan.Questions)
		return fmt.Sprintf("%s conversations/s (%s), %d begin within %s s", shortest(p.Rate), plan.Config.Arrivals, n,
			strconv.FormatFloat(float64(n)/p.Rate, 'g', 3, 64))
	}
	if plan.Shard.divided() {
		return fmt.Sprintf("concurrency %d of %d", p.Own, p.Concurrency)
	}
	return fmt.Sprintf("concurrency %d", p.Own)
}
