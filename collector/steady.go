package collector

import (
	"fmt"
	"math"

	"spectap/collector/estimate"
)

// What the steady window is made with.
const (
	steadyShare  = 0.95  // of the concurrency that has to be in flight
	turnaround   = 0.050 // s; a shorter dip below it is the client between two requests, not a lighter load
	steadyWaves  = 2     // times the concurrency: requests that must end in a window that means something
	steadyPart   = 0.10  // of the point's time that such a window lasts
	steadyBlocks = 4     // the fewest time blocks of an interval
	blocksMost   = 30    // the most
)

// Steady says how loaded the server was while a point ran, and what its
// throughput was while it was fully loaded. Output TPS is over the whole point:
// its ramp-up and ramp-down are in it.
type Steady struct {
	Seconds      float64       `json:"seconds"`         // from the first start to the last end, as in Output TPS
	Concurrency  int           `json:"concurrency"`     // asked for, of this part of the point
	MeanInFlight float64       `json:"mean_in_flight"`  // over these seconds, all requests that were seen, warm-up and foreign ones too
	MostInFlight int           `json:"most_in_flight"`  // at once, of the requests that are in the figures
	RampUp       *float64      `json:"ramp_up_share"`   // of the seconds: until 95 % of the concurrency were first in flight; null where they never were
	RampDown     *float64      `json:"ramp_down_share"` // after they were for the last time
	Window       *SteadyWindow `json:"window"`          // null: NoWindow says why
	NoWindow     string        `json:"no_window_because,omitempty"`
}

// SteadyWindow is the longest time in which at least 95 % of the concurrency was
// in flight, counted over the requests that are in the figures, because only their
// tokens are. A closed-loop client needs a moment between an answer and its next
// request: dips of 50 ms or less do not end the window, and DipsShare says how
// much of it they are.
type SteadyWindow struct {
	From         float64           `json:"from_s"` // from the point's first start
	Seconds      float64           `json:"seconds"`
	Share        float64           `json:"share_of_point"`
	MeanInFlight float64           `json:"mean_in_flight"` // all requests that were seen
	DipsShare    float64           `json:"dips_share"`     // of the window's time
	Requests     int               `json:"requests_ended"`
	OutputTPS    float64           `json:"output_tokens_per_second"` // tokens that came in it, by its seconds
	Blocks       int               `json:"time_blocks"`              // 0 where there are too few for an interval
	BlockSeconds float64           `json:"time_block_s"`
	Interval     estimate.Interval `json:"output_tokens_per_second_interval"` // 95 %, t interval over the time blocks; of this run only
	TooShort     string            `json:"too_short,omitempty"`               // why OutputTPS means little; "": it does not
}

// Usable is the window where it means something; nil where it does not, or there is none.
func (s *Steady) Usable() *SteadyWindow {
	if s == nil || s.Window == nil || s.Window.TooShort != "" {
		return nil
	}
	return s.Window
}

// Steady computes it from the Records of a point.
func (p Point) Steady() Steady {
	own := p.withoutWarmup()
	return own.steady(own.selected(), p.Records)
}

// steady is made of the measured turns and of all Records that may have been in
// flight beside them: warm-up that overlaps is load, and in no figure.
func (p Point) steady(s selection, all []*Record) Steady {
	whole, ok := s.span()
	out := Steady{Concurrency: p.ownConcurrency()}
	if !ok {
		out.NoWindow = "no request was measured"
		return out
	}
	flights := p.flights(s, all)
	var own []flight
	for _, f := range flights {
		if f.counted {
			own = append(own, f)
		}
	}
	out.Seconds, out.MeanInFlight = whole.seconds(), meanInFlight(flights, whole)
	need := out.wanted()
	var full []span
	full, out.MostInFlight = spansAtLeast(own, need)
	switch {
	case p.Run.Schedule != nil:
		out.NoWindow = "an open loop has no concurrency to reach"
		return out
	case out.Concurrency < 1:
		out.NoWindow = "no concurrency was asked for"
		return out
	case len(full) == 0:
		out.NoWindow = fmt.Sprintf("%d of %d requests in flight are wanted, and never more than %d were", need, out.Concurrency, out.MostInFlight)
		return out
	}
	up, down := (full[0].from-whole.from)/out.Seconds, max(0, whole.to-full[len(full)-1].to)/out.Seconds
	out.RampUp, out.RampDown = &up, &down
	in := longest(bridged(full, turnaround))
	in.to = min(in.to, whole.to)
	out.Window, out.NoWindow = s.window(in, whole, flights, out.Concurrency)
	if out.Window != nil {
		out.Window.DipsShare = 1 - covered(full, in)/in.seconds()
	}
	return out
}

// ownConcurrency is the concurrency of the requests that are here: of a shard, its part.
func (p Point) ownConcurrency() int {
	if p.Run.Shard != nil {
		return p.Run.Shard.Concurrency
	}
	return p.Run.Concurrency
}

// span is the time that Output TPS divides by; ok is false where it has no length.
func (s selection) span() (whole span, ok bool) {
	whole = span{math.Inf(1), math.Inf(-1)}
	for _, c := range s.convs {
		for _, t := range c.turns {
			whole.from = min(whole.from, t.times[0])
			whole.to = max(whole.to, t.times[len(t.times)-1])
		}
	}
	return whole, whole.to > whole.from
}

// window makes the figures of the window in, or says why there is none.
func (s selection) window(in, whole span, flights []flight, concurrency int) (*SteadyWindow, string) {
	w := &SteadyWindow{
		From: in.from - whole.from, Seconds: in.seconds(), Share: in.seconds() / whole.seconds(),
		MeanInFlight: meanInFlight(flights, in),
	}
	own, requestSeconds := 0.0, 0.0
	for _, f := range flights {
		if !f.counted {
			continue
		}
		own += max(0, min(f.end, in.to)-max(f.start, in.from))
		if f.end > in.from && f.end <= in.to {
			w.Requests++
			requestSeconds += f.end - f.start
		}
	}
	if own /= in.seconds(); own < steadyShare*float64(concurrency) {
		return nil, fmt.Sprintf("requests followed one another too slowly: with every dip shorter than %.0f ms bridged, %.2f of %d were in flight on average", turnaround*1e3, own, concurrency)
	}
	tokens := s.arrivals()
	w.OutputTPS = tokensIn(tokens, in) / in.seconds()
	if w.Requests > 0 {
		w.blocks(tokens, in, requestSeconds/float64(w.Requests))
	}
	if !w.Interval.Known && w.Interval.Reason == "" {
		w.Interval.Reason = fmt.Sprintf("the window of %.2f s is too short: want %d times the %.2f s of a request", w.Seconds, steadyBlocks, requestSeconds/float64(max(1, w.Requests)))
	}
	w.TooShort = tooShort(*w, concurrency)
	return w, ""
}

// tooShort says why a window means little.
func tooShort(w SteadyWindow, concurrency int) string {
	switch want := steadyWaves * concurrency; {
	case w.Requests < want:
		return fmt.Sprintf("%d requests ended in it, want %d (%d for each of %d at a time): its tokens per second depend on where it begins and ends", w.Requests, want, steadyWaves, concurrency)
	case w.Share < steadyPart:
		return fmt.Sprintf("it is %.1f %% of the point's time, want %.0f %%: the rest ran at a lighter load", 100*w.Share, 100*steadyPart)
	}
	return ""
}

// blocks makes the interval: the tokens per second of equal blocks of time, each
// at least as long as a request, so that hardly any request joins distant blocks.
func (w *SteadyWindow) blocks(tokens []arrival, in span, request float64) {
	n := min(blocksMost, int(in.seconds()/request))
	if n < steadyBlocks {
		return
	}
	w.Blocks, w.BlockSeconds = n, in.seconds()/float64(n)
	rates := make([]float64, n)
	for i := range rates {
		block := span{in.from + float64(i)*w.BlockSeconds, in.from + float64(i+1)*w.BlockSeconds}
		if i == n-1 {
			block.to = in.to
		}
		rates[i] = tokensIn(tokens, block) / w.BlockSeconds
	}
	w.Interval = estimate.MeanOfBlocks(rates)
}

// arrival is an event of a reply that brought tokens.
type arrival struct{ at, tokens float64 }

// arrivals are all tokens of the measured turns by the time of their event. Where
// events say how many they brought, they share the reply's tokens in that
// proportion, else equally, so that their sum is that of Output TPS.
func (s selection) arrivals() []arrival {
	var list []arrival
	for _, c := range s.convs {
		for _, t := range c.turns {
			said := 0
			for _, chunk := range t.rec.Chunks {
				said += max(0, chunk.Tokens)
			}
			for i, at := range t.times[1:] {
				part := 1 / float64(len(t.rec.Chunks))
				if said > 0 {
					part = float64(max(0, t.rec.Chunks[i].Tokens)) / float64(said)
				}
				list = append(list, arrival{at, part * float64(t.completion())})
			}
		}
	}
	return list
}

// tokensIn sums what arrived after the start of a span, up to its end.
func tokensIn(tokens []arrival, in span) float64 {
	sum := 0.0
	for _, a := range tokens {
		if a.at > in.from && a.at <= in.to {
			sum += a.tokens
		}
	}
	return sum
}

// wanted is how many requests in flight make the load that was asked for.
func (s Steady) wanted() int { return int(math.Ceil(steadyShare * float64(s.Concurrency))) }

// warnings tell that the point's load was never there, as where a client sends one
// request after the other, or the questions are fewer than the concurrency.
func (s Steady) warnings() []string {
	if s.Concurrency < 1 || s.MostInFlight == 0 || s.MostInFlight >= s.wanted() {
		return nil
	}
	return []string{fmt.Sprintf("concurrency %d was never reached: the most requests in flight were %d; all figures, and what is said of an SLO, are of that load", s.Concurrency, s.MostInFlight)}
}
