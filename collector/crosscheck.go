package collector

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// CrossCheck holds the figures of another client against ours: both measured
// the same requests, the client at its end of the connection and the proxy at
// its own. Differences are the client's figure minus ours. It is a member of
// speculation.json.
type CrossCheck struct {
	Client     string            `json:"client"` // "aiperf 0.13.0"
	Requests   CrossRequests     `json:"requests"`
	PerRequest []CrossDifference `json:"per_request"`
	Aggregates []CrossAggregate  `json:"aggregates"`
}

// CrossRequests say who saw which requests, by X-Request-ID. Warm-up is not counted.
type CrossRequests struct {
	Both       int      `json:"seen_by_both"`
	OnlyClient int      `json:"only_in_the_clients_file"`
	OnlyOurs   int      `json:"only_in_our_records"`
	Failed     int      `json:"failed_by_the_client"`
	BadRows    int      `json:"unreadable_rows"`
	Named      []string `json:"seen_by_one_side,omitempty"` // a few request ids of those
}

// CrossDifference is one figure that each request has. Median and worst are
// judged by a tolerance each.
type CrossDifference struct {
	Name            string  `json:"name"`
	Unit            string  `json:"unit"`
	N               int     `json:"n"`
	Median          float64 `json:"median_difference"`
	Worst           float64 `json:"worst_difference"` // the one farthest from 0
	MedianTolerance float64 `json:"median_tolerance"`
	WorstTolerance  float64 `json:"worst_tolerance"`
	Judged          bool    `json:"judged"` // false: it explains another difference
	Within          bool    `json:"within"`
}

// CrossAggregate is one figure of the whole point. The larger of its tolerances counts.
type CrossAggregate struct {
	Name       string  `json:"name"`
	Theirs     string  `json:"clients_name"`
	Unit       string  `json:"unit"`
	Ours       float64 `json:"ours"`
	Client     float64 `json:"client"`
	Difference float64 `json:"relative_difference"`
	Tolerance  float64 `json:"relative_tolerance"`
	Absolute   float64 `json:"absolute_tolerance"`
	Within     bool    `json:"within"`
}

// The tolerances of the cross-check. A client is at least as late as the proxy,
// by what the kernel and its own reading take; a quiet one stays far below these.
const (
	crossTime      = 5e-3 // s, of a median
	crossRelative  = 0.05 // of a median of ours, and of an aggregate
	crossWorst     = 10.0 // times the tolerance of the median
	crossTokens    = 2.0  // tokens, of a median: texts may be split otherwise than they were made
	crossExact     = 1e-9
	crossNamesMost = 5
)

// crossPair is a request that both sides measured.
type crossPair struct {
	row *AIPerfRow
	rec *Record
}

// crossCheck compares; nil where no other client measured.
func (p Point) crossCheck(t TimingResult) *CrossCheck {
	if p.AIPerf == nil {
		return nil
	}
	a := p.AIPerf
	c := &CrossCheck{Client: "aiperf " + a.Version}
	pairs := c.join(a, p.Records)
	c.PerRequest = []CrossDifference{
		timeDifference("ttft", pairs, func(x crossPair) (float64, float64, bool) {
			return optionalPair(x.row.TTFT, x.rec.FirstOutput.Offset.Seconds(), x.rec.FirstOutput.Known)
		}),
		timeDifference("request_latency", pairs, func(x crossPair) (float64, float64, bool) {
			end, ok := lastText(x.rec)
			return optionalPair(x.row.Latency, end.Seconds(), ok)
		}),
		sendingTime(pairs),
		tokenDifference("output_tokens_by_its_tokenizer", pairs, crossTokens, func(x crossPair) *float64 { return x.row.OutputTokens }),
		tokenDifference("output_tokens_by_usage", pairs, crossExact, func(x crossPair) *float64 { return x.row.UsageTokens }),
		crossDifference("acceptance_length_of_a_request", "tokens per step", pairs, crossExact, func(x crossPair) (float64, float64, bool) {
			return optionalPair(x.row.AcceptanceLength, requestAL(x.rec), x.rec.Spec != nil)
		}),
	}
	c.Aggregates = p.crossAggregates(pairs, t)
	return c
}

// join pairs rows and Records by X-Request-ID and counts the others.
func (c *CrossCheck) join(a *AIPerf, recs []*Record) []crossPair {
	c.Requests.BadRows = a.BadRows
	byID := make(map[string]*Record, len(recs))
	for _, r := range recs {
		byID[r.RequestID] = r
	}
	var pairs []crossPair
	for i := range a.Rows {
		row := &a.Rows[i]
		rec := byID[row.RequestID]
		delete(byID, row.RequestID)
		switch {
		case row.Warmup:
		case rec == nil:
			c.Requests.OnlyClient++
			c.name(row.RequestID)
		default:
			c.Requests.Both++
			c.Requests.Failed += count(row.Failed)
			if !row.Failed && rec.ErrorKind == "" {
				pairs = append(pairs, crossPair{row, rec})
			}
		}
	}
	for _, r := range recs { // in their order
		if byID[r.RequestID] == r {
			c.Requests.OnlyOurs++
			c.name(r.RequestID)
		}
	}
	return pairs
}

func (c *CrossCheck) name(id string) {
	if len(c.Requests.Named) < crossNamesMost {
		c.Requests.Named = append(c.Requests.Named, id)
	}
}

// lastText is when a reply's last text came, where AIPerf's latency ends. An EOS
// or stop token has none, so an event that brought it alone is not the last; ok
// is false where the events do not say what they brought.
func lastText(r *Record) (at time.Duration, ok bool) {
	n := len(r.Chunks)
	if n > 0 && r.Finish == "stop" {
		switch r.Chunks[n-1].Tokens {
		case 0:
			return 0, false
		case 1:
			n--
		}
	}
	if n == 0 {
		return 0, false
	}
	return r.Chunks[n-1].At, true
}

// requestAL is AIPerf's acceptance length of a request, 1 + accepted / steps,
// and 1 where no step verified drafts (aiperf, spec_decode_acceptance_length).
func requestAL(r *Record) float64 {
	if r.Spec == nil || r.Spec.Steps == 0 {
		return 1
	}
	return 1 + float64(r.Spec.AcceptedTokens)/float64(r.Spec.Steps)
}

func optionalPair(theirs *float64, ours float64, known bool) (float64, float64, bool) {
	if theirs == nil || !known {
		return 0, 0, false
	}
	return *theirs, ours, true
}

func tokenDifference(name string, pairs []crossPair, tolerance float64, theirs func(crossPair) *float64) CrossDifference {
	return crossDifference(name, "tokens", pairs, tolerance, func(x crossPair) (float64, float64, bool) {
		if x.rec.Usage == nil {
			return 0, 0, false
		}
		return optionalPair(theirs(x), float64(x.rec.Usage.CompletionTokens), true)
	})
}

// timeDifference tolerates 5 ms or 5 % of our median, whichever is more.
func timeDifference(name string, pairs []crossPair, figures func(crossPair) (theirs, ours float64, ok bool)) CrossDifference {
	var ours []float64
	for _, x := range pairs {
		if _, own, ok := figures(x); ok {
			ours = append(ours, own)
		}
	}
	tolerance := crossTime
	if len(ours) > 0 {
		slices.Sort(ours)
		tolerance = max(tolerance, crossRelative*Quantile(ours, 0.5))
	}
	return crossDifference(name, "s", pairs, tolerance, figures)
}

// sendingTime is the part of the TTFT's difference that passes before the
// request has reached the proxy: connecting, writing, and what waits in the
// client's event loop. Clocks are compared, so it means something on one machine only.
func sendingTime(pairs []crossPair) CrossDifference {
	d := crossDifference("start_of_request_to_read_by_the_proxy", "s", pairs, 0, func(x crossPair) (float64, float64, bool) {
		return float64(x.rec.Start.UnixNano()-x.row.StartUnixNs) / 1e9, 0, x.row.StartUnixNs > 0
	})
	d.Judged, d.Within = false, true
	return d
}

// crossDifference compares a figure over all pairs that have it. The worst is
// tolerated ten times as far as the median.
func crossDifference(name, unit string, pairs []crossPair, tolerance float64, figures func(crossPair) (theirs, ours float64, ok bool)) CrossDifference {
	d := CrossDifference{Name: name, Unit: unit, MedianTolerance: tolerance, WorstTolerance: crossWorst * tolerance, Judged: true, Within: true}
	var all []float64
	for _, x := range pairs {
		if theirs, ours, ok := figures(x); ok {
			all = append(all, theirs-ours)
		}
	}
	if d.N = len(all); d.N == 0 {
		return d
	}
	slices.Sort(all)
	d.Median, d.Worst = Quantile(all, 0.5), all[0]
	if last := all[len(all)-1]; math.Abs(last) > math.Abs(d.Worst) {
		d.Worst = last
	}
	d.Within = math.Abs(d.Median) <= d.MedianTolerance && math.Abs(d.Worst) <= d.WorstTolerance
	return d
}

// crossAggregates holds timing.json and acceptance against the client's own
// aggregates, where it has them.
func (p Point) crossAggregates(pairs []crossPair, t TimingResult) []CrossAggregate {
	list := []CrossAggregate{}
	add := func(name, theirs, unit string, ours, tolerance, floor float64) {
		m, ok := p.AIPerf.Metrics[theirs]
		if !ok || math.IsNaN(ours) {
			return
		}
		v := m.Avg
		if seconds, isTime := m.Seconds(); isTime {
			v = seconds
		}
		a := CrossAggregate{Name: name, Theirs: theirs, Unit: unit, Ours: ours, Client: v, Tolerance: tolerance, Absolute: floor}
		if ours != 0 {
			a.Difference = v/ours - 1
		}
		a.Within = math.Abs(v-ours) <= max(tolerance*math.Abs(ours), floor)
		list = append(list, a)
	}
	mean := func(xs []float64) float64 {
		if len(xs) == 0 {
			return math.NaN()
		}
		return Mean(xs)
	}
	add("requests", "request_count", "requests", float64(len(t.OutputTokens)), 0, 0)
	add("Output TPS", "output_token_throughput", "tokens/s", t.OutputTPS, crossRelative, 0)
	add("TTFT Time mean", "time_to_first_token", "s", mean(t.TTFT), crossRelative, crossTime)
	add("E2E Request Time mean", "request_latency", "s", mean(t.E2E), crossRelative, crossTime)
	add("Request Generation Tokens Per Second mean", "output_token_throughput_per_user", "tokens/s", mean(t.GenerationTPS), crossRelative, 0)
	add("Number of Output Tokens mean", "output_sequence_length", "tokens", mean(t.OutputTokens), crossRelative, crossTokens)
	als, accepted, steps := acceptanceByRequest(pairs)
	add("mean acceptance length of a request, from our records by the client's definition", "spec_decode_acceptance_length", "tokens per step", mean(als), crossExact, 0)
	if steps > 0 {
		add("token-weighted acceptance length, from our records by the client's definition", "spec_decode_token_weighted_acceptance_length", "tokens per step", 1+float64(accepted)/float64(steps), crossExact, 0)
	}
	return list
}

// acceptanceByRequest returns AIPerf's acceptance lengths and the sums behind
// the token-weighted one, over the requests that brought a block.
func acceptanceByRequest(pairs []crossPair) (als []float64, accepted, steps int) {
	for _, x := range pairs {
		if x.rec.Spec == nil {
			continue
		}
		als = append(als, requestAL(x.rec))
		accepted += x.rec.Spec.AcceptedTokens
		steps += x.rec.Spec.Steps
	}
	return als, accepted, steps
}

// warnings says in one line what is beyond its tolerance.
func (c *CrossCheck) warnings() []string {
	if c == nil {
		return nil
	}
	var parts []string
	if r := c.Requests; r.OnlyClient+r.OnlyOurs+r.BadRows > 0 {
		parts = append(parts, fmt.Sprintf("%d requests are only in its file (and %d of its rows cannot be read), %d only in our records", r.OnlyClient, r.BadRows, r.OnlyOurs))
	}
	for _, d := range c.PerRequest {
		if !d.Within {
			parts = append(parts, fmt.Sprintf("%s %s at the median and %s at worst (tolerated %s and %s)",
				d.Name, d.text(d.Median), d.text(d.Worst), d.text(d.MedianTolerance), d.text(d.WorstTolerance)))
		}
	}
	for _, a := range c.Aggregates {
		if !a.Within {
			parts = append(parts, fmt.Sprintf("%s %.6g to our %.6g (%+.1f %%)", a.Theirs, a.Client, a.Ours, 100*a.Difference))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s's figures differ from ours beyond the tolerances of the cross-check: %s", c.Client, strings.Join(parts, "; "))}
}

// text shows a difference with its unit, times in milliseconds.
func (d CrossDifference) text(v float64) string {
	if d.Unit == "s" {
		return fmt.Sprintf("%.1f ms", 1e3*v)
	}
	return fmt.Sprintf("%.3g %s", v, d.Unit)
}
