package collector

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// How the conversations of an open-loop point arrive (Schedule.Arrivals).
const (
	ArrivalsConstant = "constant" // one every 1/rate seconds
	ArrivalsPoisson  = "poisson"  // at random moments, as from many users who do not know of each other
)

// Schedule is when the conversations of an open-loop point were to begin,
// whatever became of those before. Later turns have no intended moment of their
// own: each follows the end of the turn before it.
type Schedule struct {
	Rate     float64         // conversations per second, of all shards together
	Arrivals string          // ArrivalsConstant or ArrivalsPoisson
	Seed     int64           // of ArrivalsPoisson
	Start    time.Time       // wall clock of offset 0; zero where the point never began
	Offsets  []time.Duration // of each conversation from Start, in the order of Run.Questions
}

// wireSchedule is a Schedule as the first line of records.jsonl has it.
type wireSchedule struct {
	Rate     float64     `json:"request_rate_per_second"`
	Arrivals string      `json:"arrivals"`
	Seed     int64       `json:"seed"`
	Start    *int64      `json:"start_unix_ns"` // null where the point never began
	Offsets  secondsList `json:"intended_start_s"`
}

// Intended returns the moment at which a conversation was to begin.
func (s *Schedule) Intended(conversation int) (at time.Time, known bool) {
	if !s.Begun() || conversation < 0 || conversation >= len(s.Offsets) {
		return time.Time{}, false
	}
	return s.Start.Round(0).Add(s.Offsets[conversation]), true
}

// Begun says that the conversations had moments of their own to begin at: there is
// a schedule, and it was begun.
func (s *Schedule) Begun() bool { return s != nil && !s.Start.IsZero() }

// Load says at what load the point ran, for a table: its concurrency, or the
// rate of an open loop as "20/s".
func (r Run) Load() string { return loadText(r.Concurrency, r.requestRate()) }

// Load is the load of the row's point, as Run.Load.
func (s Summary) Load() string { return loadText(s.Concurrency, s.RequestRate) }

func loadText(concurrency int, rate float64) string {
	if rate > 0 {
		return strconv.FormatFloat(rate, 'f', -1, 64) + "/s"
	}
	return strconv.Itoa(concurrency)
}

// requestRate is the rate of an open loop, else 0.
func (r Run) requestRate() float64 {
	if r.Schedule == nil {
		return 0
	}
	return r.Schedule.Rate
}

// arrivals names how and from which seed the conversations arrive; "" in a closed loop.
func (r Run) arrivals() string {
	if r.Schedule == nil {
		return ""
	}
	return fmt.Sprintf("%s, seed %d", r.Schedule.Arrivals, r.Schedule.Seed)
}

// mergedSchedule is the schedule of shards, each of which began it at its own
// moment: that of the first, with each conversation at the moment of its shard.
func mergedSchedule(points []Point) *Schedule {
	var first time.Time
	for _, p := range points {
		if s := p.Run.Schedule; s != nil && !s.Start.IsZero() && (first.IsZero() || s.Start.Before(first)) {
			first = s.Start
		}
	}
	if first.IsZero() {
		return points[0].Run.Schedule
	}
	merged := *points[0].Run.Schedule
	merged.Start, merged.Offsets = first, slices.Clone(merged.Offsets)
	for _, p := range points {
		for i, q := range p.Run.Questions {
			if at, known := p.Run.Schedule.Intended(i); known && !q.NotAsked && i < len(merged.Offsets) {
				merged.Offsets[i] = at.Sub(first.Round(0))
			}
		}
	}
	return &merged
}

// intended returns when a turn was to begin, in seconds from epoch: in an open
// loop the scheduled moment of its conversation or, of a later turn, the end of
// the turn before it; in a closed loop, where nothing is late by definition, the
// moment when it was written.
func (p Point) intended(conversation int, before []measuredTurn, turn measuredTurn, epoch time.Time) float64 {
	if p.Run.Schedule == nil {
		return turn.times[0]
	}
	if n := len(before); n > 0 && before[n-1].rec.Done.Known {
		last := before[n-1].rec
		return (last.Start.Round(0).Sub(epoch) + last.Done.Offset).Seconds()
	}
	if at, known := p.Run.Schedule.Intended(conversation); known && len(before) == 0 {
		return at.Sub(epoch).Seconds()
	}
	return turn.times[0]
}

// MarshalJSON implements json.Marshaler.
func (s Schedule) MarshalJSON() ([]byte, error) {
	w := wireSchedule{Rate: s.Rate, Arrivals: s.Arrivals, Seed: s.Seed, Offsets: s.Offsets}
	if !s.Start.IsZero() {
		ns := s.Start.UnixNano()
		w.Start = &ns
	}
	return json.Marshal(w)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Schedule) UnmarshalJSON(b []byte) error {
	var w wireSchedule
	if err := json.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("cannot parse schedule: %w", err)
	}
	if !(w.Rate > 0) || math.IsInf(w.Rate, 0) {
		return fmt.Errorf("cannot read a schedule of %v conversations per second: want more than 0", w.Rate)
	}
	*s = Schedule{Rate: w.Rate, Arrivals: w.Arrivals, Seed: w.Seed, Offsets: w.Offsets}
	if w.Start != nil {
		s.Start = time.Unix(0, *w.Start).UTC()
	}
	return nil
}
