package collector

import (
	"cmp"
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
	SLONotJudged = "not judged"      // answers did not stream
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
	return pooledGoodput([]runGoodput{p.runGoodput(s)})
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

// percent is a share for a sentence, rounded down: it never promises more than is shown.
func percent(share float64) string { return fmt.Sprintf("%.1f %%", math.Floor(share*1000+1e-9)/10) }

// SLOAnswer is the largest load that was measured at which an SLO was met, at one
// temperature.
type SLOAnswer struct {
	Temperature float64 `json:"temperature"`
	Point       string  `json:"point"`       // "": none
	Concurrency int     `json:"concurrency"` // of that point, 0 where there is none
	RequestRate float64 `json:"request_rate,omitempty"`
	Sentence    string  `json:"sentence"`
}

// SLOAnswers reads the rows of a sweep, one answer for each temperature and SLO in
// the order in which they appear. Rows without a Goodput are not looked at; the runs
// that repeats took together are judged together.
func SLOAnswers(rows []Summary, repeats []Repeats) []SLOAnswer {
	rows = pooledRows(rows, repeats)
	var answers []SLOAnswer
	type group struct {
		temperature float64
		slo         SLO
	}
	var order []group
	groups := map[group][]Summary{}
	for _, r := range rows {
		if r.Goodput == nil {
			continue
		}
		g := group{r.Temperature, r.Goodput.SLO}
		if groups[g] == nil {
			order = append(order, g)
		}
		groups[g] = append(groups[g], r)
	}
	for _, g := range order {
		answers = append(answers, sloAnswer(g.temperature, groups[g]))
	}
	return answers
}

// pooledRows has one row of the runs that were taken together, in the place of the
// first of them.
func pooledRows(rows []Summary, repeats []Repeats) []Summary {
	var list []Summary
	placed := map[string]bool{}
	for _, s := range rows {
		i := slices.IndexFunc(repeats, func(r Repeats) bool { return r.Goodput != nil && slices.Contains(r.Runs, s.Point) })
		switch {
		case i < 0:
			list = append(list, s)
		case !placed[repeats[i].Point]:
			placed[repeats[i].Point] = true
			s.Point, s.Goodput, s.OpenLoop = repeats[i].Point, repeats[i].Goodput, repeats[i].OpenLoop
			list = append(list, s)
		}
	}
	return list
}

// sloAnswer finds the largest load that met the SLO. A lighter one that did not is named.
func sloAnswer(temperature float64, rows []Summary) SLOAnswer {
	slices.SortStableFunc(rows, func(a, b Summary) int { return cmp.Compare(a.load(), b.load()) })
	rows = oneALoad(rows)
	answer := SLOAnswer{Temperature: temperature}
	slo := rows[0].Goodput.SLO
	best := -1
	for i, r := range rows {
		if r.Goodput.Verdict == SLOMet {
			best = i
		}
	}
	asked := fmt.Sprintf("temperature %v, %s for %s of the requests", temperature, slo, percent(slo.Share))
	if best < 0 {
		verdict := "met at no load that was measured"
		if slices.ContainsFunc(rows, func(r Summary) bool { return r.Goodput.Verdict == SLONotShown }) {
			verdict = "not shown to be met at any load that was measured"
		}
		answer.Sentence = fmt.Sprintf("%s: %s; %s: %s", asked, verdict, rows[0].loadName(), rows[0].Goodput.Reason)
		return answer
	}
	r := rows[best]
	answer.Point, answer.Concurrency, answer.RequestRate = r.Point, r.Concurrency, r.RequestRate
	answer.Sentence = fmt.Sprintf("%s: %s is the largest measured that meets it%s; %s", asked, r.loadName(), r.reservation(), r.Goodput.Reason)
	if best+1 < len(rows) {
		next := rows[best+1]
		answer.Sentence += fmt.Sprintf("; %s: %s", next.loadName(), next.Goodput.Reason)
	}
	for _, lighter := range rows[:best] {
		if lighter.Goodput.Verdict != SLOMet {
			answer.Sentence += fmt.Sprintf("; the lighter %s: %s", lighter.loadName(), lighter.Goodput.Reason)
		}
	}
	return answer
}

// reservation is what an SLO that is met at a request rate leaves open: a queue that
// grows breaks it later than the arrivals lasted.
func (s Summary) reservation() string {
	if s.OpenLoop == nil {
		return ""
	}
	switch s.OpenLoop.KeepsUp {
	case KeepsUpUnknown:
		return fmt.Sprintf(", of the %.3g s that were asked: too short to tell whether the server keeps up", s.OpenLoop.Window)
	case KeepsUpNo:
		return fmt.Sprintf(", of the %.3g s that were asked: the server does not keep up, so that a longer time would not", s.OpenLoop.Window)
	}
	return ""
}

// oneALoad keeps one row of each load: a run that did not meet the SLO, where there
// is one, else one that met it with a reservation.
func oneALoad(rows []Summary) []Summary {
	var kept []Summary
	for _, r := range rows {
		if n := len(kept); n > 0 && kept[n-1].load() == r.load() {
			if r.Goodput.Verdict != SLOMet || kept[n-1].Goodput.Verdict == SLOMet && r.reservation() != "" {
				kept[n-1] = r
			}
			continue
		}
		kept = append(kept, r)
	}
	return kept
}

// load orders the points of one temperature.
func (s Summary) load() float64 { return float64(s.Concurrency) + s.RequestRate }

func (s Summary) loadName() string {
	if s.RequestRate > 0 {
		return fmt.Sprintf("rate %v/s", s.RequestRate)
	}
	return fmt.Sprintf("concurrency %d", s.Concurrency)
}
