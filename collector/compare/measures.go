package compare

import (
	"fmt"
	"slices"

	"spectap/collector"
	"spectap/collector/estimate"
)

// The quantities of a comparison (Figure.Quantity).
const (
	QuantityAL          = "AL"          // acceptance length, averaged as the metric averages
	QuantityAcceptance  = "acceptance"  // steps that accepted the draft at a position, of all verify steps
	QuantityConditional = "conditional" // the same, of the steps that reached the position
	QuantityTTFT        = "ttft"        // mean time to first token of a request
	QuantityTPOT        = "tpot"        // mean time per output token of a request after its first event
	QuantityUserTPS     = "tps_user"    // what a user sees: tokens after the first event over their time, all requests pooled
	QuantityRequestTPS  = "tps_request" // mean of Request Generation Tokens Per Second of timing.json, where a side has that alone
	QuantityTPS         = "tps"         // Output TPS
	QuantityTPSPerGPU   = "tps_gpu"     // Output TPS/gpu
	QuantitySteadyTPS   = "tps_steady"  // output tokens per second while at least 95 % of the concurrency were in flight
	QuantityJoint       = "joint"       // Joint_Acceptance_Rate of acceptance_rate.json
)

// The scopes of a Figure.
const (
	ScopeOverall  = "overall"
	ScopeCategory = "category"
	ScopeTurn     = "turn"
	ScopePosition = "position"
)

// units of the quantities.
var units = map[string]string{
	QuantityAL: "tokens per step", QuantityAcceptance: "share", QuantityConditional: "share", QuantityJoint: "share",
	QuantityTTFT: "s", QuantityTPOT: "s", QuantityUserTPS: "tokens/s", QuantityRequestTPS: "tokens/s", QuantityTPS: "tokens/s", QuantityTPSPerGPU: "tokens/s", QuantitySteadyTPS: "tokens/s",
}

// timing says that a quantity is compared by its ratio.
func timing(quantity string) bool {
	switch quantity {
	case QuantityTTFT, QuantityTPOT, QuantityUserTPS, QuantityRequestTPS, QuantityTPS, QuantityTPSPerGPU, QuantitySteadyTPS:
		return true
	}
	return false
}

// measure is a quantity as a ratio of sums over conversations.
type measure struct {
	quantity, scope, key string
	part                 func(conversation) estimate.Part
}

// alPart is what a conversation gives to Average_AL: the generic metric averages
// turns, the others requests.
func alPart(m collector.Metric, view string) func(conversation) estimate.Part {
	return func(c conversation) estimate.Part {
		if m != collector.MetricAcceptanceRate {
			return one(c.pooled[view])
		}
		var p estimate.Part
		for _, t := range c.turns {
			add := one(t.lengths[view])
			p.Num, p.Den = p.Num+add.Num, p.Den+add.Den
		}
		return p
	}
}

// one is a length as one summand of a mean.
func one(l length) estimate.Part {
	if l.value == 0 {
		return estimate.Part{}
	}
	return estimate.Part{Num: l.value, Den: 1}
}

// turnPart is what a conversation gives to the AL of one turn.
func turnPart(view string, t int) func(conversation) estimate.Part {
	return func(c conversation) estimate.Part {
		if t >= len(c.turns) {
			return estimate.Part{}
		}
		return one(c.turns[t].lengths[view])
	}
}

// positionPart is what a conversation gives to the acceptance rate of a position,
// from 1. With h its verify steps by accepted drafts: sum of h[position] and above,
// over all steps, or over those that reached the position.
func positionPart(position int, conditional bool) func(conversation) estimate.Part {
	return func(c conversation) estimate.Part {
		var p estimate.Part
		for _, t := range c.turns {
			for accepted, steps := range t.accepted {
				if accepted >= position {
					p.Num += float64(steps)
				}
				if !conditional || accepted >= position-1 {
					p.Den += float64(steps)
				}
			}
		}
		return p
	}
}

// samplePart is what a conversation gives to the mean of a time over all requests.
func samplePart(of func(turn) sample) func(conversation) estimate.Part {
	return func(c conversation) estimate.Part {
		var p estimate.Part
		for _, t := range c.turns {
			if s := of(t); s.known {
				p.Num, p.Den = p.Num+s.value, p.Den+1
			}
		}
		return p
	}
}

// decodePart is what a conversation gives to the pooled decode speed. A mean of
// each request's own speed would be that of the few whose events came at nearly one
// moment.
func decodePart(c conversation) estimate.Part {
	var p estimate.Part
	for _, t := range c.turns {
		p.Num, p.Den = p.Num+float64(t.decoded), p.Den+t.decoding
	}
	return p
}

// measures lists what can be compared of two sides, in the order of the tables.
func measures(a, b Point, p pairs, view string) []measure {
	list := []measure{}
	metric := a.Metric()
	if view != "" && !a.baseline() && !b.baseline() {
		list = append(list, measure{QuantityAL, ScopeOverall, "", alPart(metric, view)})
		for _, category := range categories(p) {
			of := alPart(metric, view)
			list = append(list, measure{QuantityAL, ScopeCategory, category, func(c conversation) estimate.Part {
				if c.category != category {
					return estimate.Part{}
				}
				return of(c)
			}})
		}
		if n := turns(p); n > 1 {
			for t := range n {
				list = append(list, measure{QuantityAL, ScopeTurn, fmt.Sprint(t + 1), turnPart(view, t)})
			}
		}
		k, uniform := drafts(p)
		for i := 1; i <= k; i++ {
			list = append(list, measure{QuantityAcceptance, ScopePosition, fmt.Sprint(i), positionPart(i, false)})
		}
		for i := 1; i <= k && uniform; i++ {
			list = append(list, measure{QuantityConditional, ScopePosition, fmt.Sprint(i), positionPart(i, true)})
		}
	}
	return append(list,
		measure{QuantityTTFT, ScopeOverall, "", samplePart(p.ttft())},
		measure{QuantityTPOT, ScopeOverall, "", samplePart(func(t turn) sample { return t.tpot })},
		measure{QuantityUserTPS, ScopeOverall, "", decodePart},
	)
}

func (p Point) baseline() bool { return p.runs[0].baseline }

// categories are those of both sides, in their order.
func categories(p pairs) []string {
	var list []string
	for _, runs := range [][][]conversation{p.a, p.b} {
		for _, c := range runs[0] {
			if c.category != "" && !slices.Contains(list, c.category) {
				list = append(list, c.category)
			}
		}
	}
	return list
}

func turns(p pairs) int {
	n := 0
	for _, c := range p.a[0] {
		n = max(n, len(c.turns))
	}
	return n
}

// drafts is the largest number of drafts that a step of either side accepted or
// could have, and whether every step proposed as many as its side is set to.
func drafts(p pairs) (k int, uniform bool) {
	uniform = true
	for _, runs := range [][][]conversation{p.a, p.b} {
		for _, convs := range runs {
			for _, c := range convs {
				for _, t := range c.turns {
					k = max(k, len(t.accepted)-1)
					uniform = uniform && (t.accepted == nil || t.uniform)
				}
			}
		}
	}
	return k, uniform
}
