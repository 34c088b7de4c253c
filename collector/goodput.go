package collector

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"spectap/collector/estimate"
)

// The verdicts of a point about its SLO (Goodput.Verdict).
const (
	SLOMet       = "met"             // the share is at least the asked one, with 95 % confidence
	SLOMissed    = "missed"          // it is less, with 95 % confidence
	SLONotShown  = "cannot be shown" // n is too small to tell
	SLONotJudged = "not judged"      // answers did not stream, or the server may not keep up with the rate at which the share is enough
)

// Goodput says how many requests kept all limits of an SLO. Requests are not
// independent within a conversation, so its intervals are over conversations.
type Goodput struct {
	SLO           SLO               `json:"slo"`
	Requests      int               `json:"requests"` // all that were sent, failed ones too
	Conversations int               `json:"conversations"`
	Runs          int               `json:"runs,omitempty"`  // that are taken together; 0: this one
	Within        int               `json:"requests_within"` // a failed request is not
	Failed        int               `json:"requests_failed"`
	Over          map[string]int    `json:"requests_over_by_limit"` // one request may be over several
	Share         float64           `json:"share_within"`
	Interval      estimate.Interval `json:"share_within_interval"`
	AtLeast       *float64          `json:"share_within_at_least"`      // bound with 95 % confidence; null where there is none
	PerSecond     float64           `json:"requests_within_per_second"` // over the point's time
	Verdict       string            `json:"verdict"`                    // one of the SLO constants
	Reason        string            `json:"verdict_because,omitempty"`  // in words
}

// goodput judges the requests of the point by its Run's SLO; nil without one.
func (p Point) goodput(s selection) *Goodput {
	if p.Run.SLO == nil {
		return nil
	}
	g := pooledGoodput([]runGoodput{p.runGoodput(s)})
	g.doubt(p.Run.requestRate(), p.openLoop(s))
	return g
}

// runGoodput is what one run gives to the Goodput of all.
type runGoodput struct {
	counts         Goodput                   // requests of the run, by what became of them
	byConversation map[string]*estimate.Part // by label, which is the same in each run
	unknown        int                       // requests whose times nobody knows
	seconds        float64                   // of the point's time
}

// pooledGoodput judges the requests of all runs together.
func pooledGoodput(runs []runGoodput) *Goodput {
	g := &Goodput{SLO: runs[0].counts.SLO, Over: map[string]int{}}
	unknown, seconds := 0, 0.0
	for _, r := range runs {
		g.Requests, g.Within, g.Failed = g.Requests+r.counts.Requests, g.Within+r.counts.Within, g.Failed+r.counts.Failed
		for name, n := range r.counts.Over {
			g.Over[name] += n
		}
		unknown, seconds = unknown+r.unknown, seconds+r.seconds
	}
	if len(runs) > 1 {
		g.Runs = len(runs)
	}
	parts := withinParts(runs)
	g.Conversations = len(parts[0])
	if g.Requests > 0 {
		g.Share = float64(g.Within) / float64(g.Requests)
	}
	if seconds > 0 {
		g.PerSecond = float64(g.Within) / seconds
	}
	g.Interval = estimate.ShareOfRuns(parts)
	bound := estimate.ShareOfRunsAtLeast(parts)
	if bound.Known {
		g.AtLeast = &bound.Low
	}
	g.judge(bound, unknown)
	return g
}

// withinParts are the runs' conversations, index i the same one in each.
func withinParts(runs []runGoodput) [][]estimate.Part {
	seen := map[string]bool{}
	for _, r := range runs {
		for label := range r.byConversation {
			seen[label] = true
		}
	}
	parts := make([][]estimate.Part, len(runs))
	for _, label := range slices.SortedFunc(maps.Keys(seen), compareLabels) {
		for i, r := range runs {
			part := r.byConversation[label]
			if part == nil { // this run lacks it
				part = &estimate.Part{}
			}
			parts[i] = append(parts[i], *part)
		}
	}
	return parts
}

// runGoodput counts the requests of each conversation and those that kept the limits.
func (p Point) runGoodput(s selection) runGoodput {
	run := runGoodput{counts: Goodput{SLO: *p.Run.SLO, Over: map[string]int{}}, byConversation: map[string]*estimate.Part{}}
	if whole, ok := s.span(); ok {
		run.seconds = whole.seconds()
	}
	g, late := &run.counts, p.lateness()
	for _, r := range p.counted() {
		label := r.Labels.Conversation
		if label == "" || !r.Labels.HasTurn || p.elsewhere(r) {
			continue
		}
		part := run.byConversation[label]
		if part == nil {
			part = &estimate.Part{}
			run.byConversation[label] = part
		}
		part.Den++
		g.Requests++
		if r.ErrorKind != "" {
			g.Failed++
			continue
		}
		t, ok := r.requestTimes(late[r])
		if !ok {
			run.unknown++
			continue
		}
		broken := g.SLO.broken(t)
		for _, name := range broken {
			g.Over[name]++
		}
		if len(broken) == 0 {
			part.Num++
			g.Within++
		}
	}
	return run
}

// lateness is how much later than it was meant to be each request was sent: nil in
// closed loop, where a request is meant to be sent when it is. In open loop a first
// turn is meant to be sent by the schedule, a later one when the turn before it ended.
func (p Point) lateness() map[*Record]time.Duration {
	if p.Run.Schedule == nil {
		return nil
	}
	byTurn := map[turnKey]*Record{}
	indexes, _ := p.questions()
	for _, r := range p.counted() {
		if index, known := indexes[r.Labels.Conversation]; known && !p.elsewhere(r) {
			byTurn[turnKey{index, r.Labels.Turn}] = r
		}
	}
	late := map[*Record]time.Duration{}
	for key, r := range byTurn {
		sent := r.Start.Round(0).Add(r.UpstreamWritten.Offset)
		if before := byTurn[turnKey{key.conversation, key.turn - 1}]; before != nil && before.Done.Known {
			late[r] = sent.Sub(before.Start.Round(0).Add(before.Done.Offset))
			continue
		}
		if at, known := p.Run.Schedule.Intended(key.conversation); known && key.turn == 0 {
			late[r] = sent.Sub(at)
		}
	}
	return late
}

// judge compares with the asked share.
func (g *Goodput) judge(bound estimate.Interval, unknown int) {
	n := fmt.Sprintf("n = %d requests of %d conversations", g.Requests, g.Conversations)
	if g.Runs > 0 {
		n += fmt.Sprintf(" in %d runs", g.Runs)
	}
	asked := percent(g.SLO.Share)
	switch {
	case unknown > 0:
		g.Verdict = SLONotJudged
		g.Reason = fmt.Sprintf("%d of %d answers did not stream, so their times are not known", unknown, g.Requests)
	case bound.Known && bound.Low >= g.SLO.Share:
		g.Verdict = SLOMet
		g.Reason = fmt.Sprintf("%s shows that at least %s are within, %s were asked", n, percent(bound.Low), asked)
	case g.Interval.Known && g.Interval.High < g.SLO.Share:
		g.Verdict = SLOMissed
		g.Reason = fmt.Sprintf("%s shows that at most %s are within, %s were asked", n, percent(min(1, g.Interval.High+0.0009)), asked)
	case !bound.Known:
		g.Verdict = SLONotShown
		g.Reason = fmt.Sprintf("cannot be shown from %s: %s", n, bound.Reason)
	default:
		g.Verdict = SLONotShown
		g.Reason = fmt.Sprintf("cannot be shown from %s: %s were within, which shows at least %s, %s were asked", n, percent(g.Share), percent(bound.Low), asked)
	}
}

// doubt takes back that a request rate meets the SLO where it is not known that the
// server keeps up with it: a queue that grows breaks the limits later than the
// arrivals lasted.
func (g *Goodput) doubt(rate float64, o *OpenLoop) {
	if g.Verdict != SLOMet || rate == 0 || o != nil && o.KeepsUp == KeepsUpYes {
		return
	}
	why := "nothing tells whether the server keeps up with it"
	switch {
	case o == nil:
	case o.KeepsUp == KeepsUpNo:
		why = fmt.Sprintf("the server does not keep up with it, so that nothing holds for longer than the %.3g s of arrivals", o.Window)
	default:
		why = fmt.Sprintf("%.3g s of arrivals are too short to tell whether the server keeps up with it", o.Window)
	}
	g.Verdict, g.Reason = SLONotJudged, why+"; "+g.Reason
}

// percent is a share for a sentence, rounded down: it never promises more than is shown.
func percent(share float64) string { return fmt.Sprintf("%.1f %%", math.Floor(share*1000+1e-9)/10) }
