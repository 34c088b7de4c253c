package collector

import (
	"fmt"
	"math"
	"slices"

	"spectap/collector/estimate"
)

// OpenLoop is what an open-loop point says beyond the other figures. Times count
// from the intended moments, so that a conversation that began late, or waited in
// a queue, is not as fast as one that did not. A conversation's first turn was to
// begin at its scheduled moment, a later one at the end of the turn before it.
type OpenLoop struct {
	Rate     float64 `json:"request_rate"` // conversations per second that were asked for here: a shard's part
	Arrivals string  `json:"arrivals"`
	Seed     int64   `json:"arrivals_seed"`
	Window   float64 `json:"arrivals_s"` // the time in which the conversations were to begin

	Begun       *float64 `json:"begun_conversations_per_second"`        // in the second half of arrivals_s; null where NoRates says why
	Finished    *float64 `json:"finished_conversations_per_second"`     // in the same time
	NoRates     string   `json:"no_conversations_per_second,omitempty"` // why neither is known
	InFlightMid int      `json:"in_flight_at_half"`                     // conversations at the half of arrivals_s
	InFlightEnd int      `json:"in_flight_at_end"`                      // at the end of it
	KeepsUp     string   `json:"server_keeps_up"`                       // one of the KeepsUp constants

	ScheduleError Lateness `json:"schedule_error_s"` // when a conversation began less when it was to begin
	Saturated     bool     `json:"client_saturated"` // schedule_error_s is above what its latencies can be believed with

	TTFT FromIntended `json:"ttft_from_intended_s"` // until the first output
	E2E  FromIntended `json:"e2e_from_intended_s"`  // until the last output
}

// The verdicts on a server in an open loop (OpenLoop.KeepsUp).
const (
	KeepsUpYes     = "yes"
	KeepsUpNo      = "no"
	KeepsUpUnknown = "too short to tell"
)

// doubt orders open loops by how little the server kept up.
func (o OpenLoop) doubt() int {
	return slices.Index([]string{KeepsUpYes, KeepsUpUnknown, KeepsUpNo}, o.KeepsUp)
}

// Lateness is the schedule error of a point's conversations, in seconds.
type Lateness struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// FromIntended are statistics of the requests of a point, in seconds.
type FromIntended struct {
	N        int      `json:"n"`
	Mean     float64  `json:"mean"`
	P50      *float64 `json:"p50"` // null: NotShown says why, of the quantiles below too
	P90      *float64 `json:"p90"`
	P99      *float64 `json:"p99"`
	Max      float64  `json:"max"`
	NotShown []string `json:"not_shown,omitempty"` // quantiles for which n is too few, as in performance.json
}

// lateLimit is the schedule error at the 99th percentile from which the client
// counts as saturated, in seconds. A timer is up to 1 ms late; ten times that is
// seen in a TTFT of some tens of ms, and bunches arrivals within an engine's step.
const lateLimit = 0.010

// openLoop makes the figures of an open loop; nil where the point has none, or no
// conversation of it was measured.
func (p Point) openLoop(s selection) *OpenLoop {
	schedule := p.Run.Schedule
	if !schedule.Begun() || len(s.convs) == 0 {
		return nil
	}
	asked := 0
	for _, q := range p.Run.Questions {
		asked += count(!q.NotAsked)
	}
	n := len(schedule.Offsets)
	o := &OpenLoop{Rate: schedule.Rate, Arrivals: schedule.Arrivals, Seed: schedule.Seed, Window: float64(n) / schedule.Rate}
	if asked > 0 && asked < n {
		o.Rate *= float64(asked) / float64(n)
	}
	var late, intended, began, ended, ttft, e2e []float64
	for _, c := range s.convs {
		at, known := schedule.Intended(c.index)
		if !known {
			continue
		}
		first, last := c.turns[0].rec, c.turns[len(c.turns)-1].rec
		start := first.Start.Round(0)
		late = append(late, start.Sub(at).Seconds())
		intended = append(intended, at.Sub(schedule.Start.Round(0)).Seconds())
		began = append(began, start.Sub(schedule.Start.Round(0)).Seconds())
		ended = append(ended, last.Answered().Round(0).Sub(schedule.Start.Round(0)).Seconds())
		o.Window = max(o.Window, intended[len(intended)-1])
		for _, t := range c.turns {
			if n := len(t.times); n >= 2 {
				ttft, e2e = append(ttft, t.times[1]-t.intended), append(e2e, t.times[n-1]-t.intended)
			}
		}
	}
	if len(late) == 0 {
		return nil
	}
	o.TTFT, o.E2E = fromIntended(ttft), fromIntended(e2e)
	slices.Sort(late)
	o.ScheduleError = Lateness{P50: Quantile(late, 0.5), P99: Quantile(late, 0.99), Max: late[len(late)-1]}
	o.Saturated = o.ScheduleError.P99 > lateLimit
	o.count(began, ended)
	o.judge(intended, ended)
	return o
}

func fromIntended(xs []float64) FromIntended {
	if len(xs) == 0 {
		return FromIntended{}
	}
	sorted := slices.Sorted(slices.Values(xs))
	f := FromIntended{N: len(xs), Mean: Mean(xs), Max: sorted[len(sorted)-1]}
	for _, each := range []struct {
		q    float64
		into **float64
	}{{0.5, &f.P50}, {0.9, &f.P90}, {0.99, &f.P99}} {
		if few := estimate.TooFew(len(xs), each.q); few != "" {
			f.NotShown = append(f.NotShown, few)
			continue
		}
		*each.into = new(Quantile(sorted, each.q))
	}
	return f
}

// rateLeast is how many conversations have to begin in the second half of the
// arrivals for their number to be a rate.
const rateLeast = 10

// count tells how many conversations began and ended a second, of the moments at
// which they did, in seconds from the schedule's start. Both are counted over the
// second half of the arrivals: at their beginning none can end yet, and after it
// none begins.
func (o *OpenLoop) count(began, ended []float64) {
	half := o.Window / 2
	within := func(moments []float64) (n int) {
		for _, at := range moments {
			n += count(at >= half && at <= o.Window)
		}
		return n
	}
	n := within(began)
	if n < rateLeast {
		o.NoRates = fmt.Sprintf("%d of %d conversations began in the second half of the arrivals, and a rate needs %d", n, len(began), rateLeast)
		return
	}
	o.Begun, o.Finished = new(float64(n)/half), new(float64(within(ended))/half)
}

// What a judgement on a server needs: arrivals that last several times as long as
// a conversation, and a growth in flight that chance does not make.
const (
	judgeWindows = 4.0 // arrivals_s over the median duration of the first conversations
	judgeSigmas  = 3.0
	judgeShare   = 0.1 // of the arrivals of the second half
)

// judge tells whether the server keeps up, of the moments at which conversations
// were to begin and at which they ended, in seconds from the schedule's start. A
// server that does has about as many in flight at the end of the arrivals as at
// their half; the number of a queue that does not grow is Poisson's at most, so
// that the difference of two has a variance of twice its mean. The duration that
// the arrivals are held against is that of the first tenth of the conversations,
// which a queue has not slowed yet.
func (o *OpenLoop) judge(begun, ended []float64) {
	var first []float64
	half, arrived := o.Window/2, 0
	limit := slices.Sorted(slices.Values(begun))[max(min(len(begun), 5), len(begun)/20)-1]
	for i, b := range begun {
		o.InFlightMid += count(b <= half && ended[i] > half)
		o.InFlightEnd += count(ended[i] > o.Window)
		arrived += count(b > half)
		if b <= limit {
			first = append(first, ended[i]-b)
		}
	}
	slices.Sort(first)
	growth := float64(o.InFlightEnd - o.InFlightMid)
	switch {
	case o.Window < judgeWindows*Quantile(first, 0.5):
		o.KeepsUp = KeepsUpUnknown
	case growth > judgeSigmas*math.Sqrt(2*float64(max(1, o.InFlightMid))) && growth > judgeShare*float64(arrived):
		o.KeepsUp = KeepsUpNo
	default:
		o.KeepsUp = KeepsUpYes
	}
}

// warnings say what makes the figures something else than those of this rate.
func (o *OpenLoop) warnings() []string {
	if o == nil {
		return nil
	}
	var list []string
	if o.Saturated {
		list = append(list, fmt.Sprintf("the client was late: conversations began %.1f ms (p99; at most %.1f ms) after their intended moments%s; it is saturated, and that is in the latencies from the intended moment: give it more CPU, or divide the sweep (--shard)",
			1e3*o.ScheduleError.P99, 1e3*o.ScheduleError.Max, rateText(", in the second half of the arrivals %.1f/s of %g/s", o.Begun, o.Rate)))
	}
	switch o.KeepsUp {
	case KeepsUpNo:
		list = append(list, fmt.Sprintf("the server does not keep up with %g conversations/s: %sthose in flight grew from %d to %d in the second half of the arrivals; the latencies are those of a queue that grows, as long as the arrivals last",
			o.Rate, rateText("%.1f/s of %g/s ended and ", o.Finished, o.Rate), o.InFlightMid, o.InFlightEnd))
	case KeepsUpUnknown:
		list = append(list, fmt.Sprintf("%.3g s of arrivals are too short to tell whether the server keeps up with %g conversations/s: %d conversations were in flight at their end; ask more questions, or at a lower rate",
			o.Window, o.Rate, o.InFlightEnd))
	}
	return list
}

// rateText is the part of a warning that has a rate of the asked one; "" where it
// is not known.
func rateText(format string, rate *float64, asked float64) string {
	if rate == nil {
		return ""
	}
	return fmt.Sprintf(format, *rate, asked)
}
