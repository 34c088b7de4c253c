package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"spectap/collector"
	"spectap/collector/estimate"
)

// point is one point as the page shows it.
type point struct {
	name, folder string
	failed       bool
	filesOnly    bool     // there are no records: it is what its files say
	reason       string   // why it failed
	unread       []string // what of its records could not be read
	run          collector.Run
	config       *pointConfiguration // of the run line; nil until it is asked for
	row          *bookRow            // of sweep.json; nil where there is none

	requests, conversations int
	failedRequests          int
	errors                  map[string]int // failed requests by kind

	spec           *collector.Speculation // empty where the server does not speculate
	tps, tpsPerGPU float64                // output tokens a second; 0 where no answer was streamed
	userTPS        float64                // mean of a turn's decode rate; 0 where no turn has one
	ttft, step     distribution           // from the moment when a turn was to begin (MeasuredTurn.Intended); between its events
	performance    *collector.Performance // nil where nobody made it
	figures        *collector.RunFigures  // what it gives to the figures of several runs; nil where there are no records
	together       *collector.Repeats     // the runs of the point, of which this is the first, as far as they were needed
	several        bool                   // there are more runs of the point, so its times are kept
	shared         int                    // gaps of 0: two events in one read, so no step time

	categories []category
	ends       turnEnds
	warnings   []string
}

// load is how hard a point was asked: so many at a time, or so many a second.
type load struct {
	kind  string // loadClosed or loadOpen
	value float64
}

// The kinds of load.
const (
	loadClosed = "concurrency" // conversations at a time
	loadOpen   = "rate"        // conversations that begin in a second
)

func (p *point) load() load {
	if s := p.run.Schedule; s != nil {
		return load{loadOpen, s.Rate}
	}
	return load{loadClosed, float64(p.run.Concurrency)}
}

// label is the load in a chart.
func (l load) label() string {
	if l.value == 0 { // nobody said
		return none
	}
	text := strconv.FormatFloat(l.value, 'f', -1, 64)
	if l.kind == loadOpen {
		return text + "/s"
	}
	return text
}

// name is the load in words.
func (l load) name() string { return l.kind + " " + l.label() }

// speculates says that there is an acceptance to speak of.
func (p *point) speculates() bool { return !p.run.Baseline }

// category is the acceptance length of the conversations of one category.
type category struct {
	name    string
	al      []float64 // of its conversations, in the order of the data set; nil without records
	places  []int     // of these conversations in the data set
	average float64   // where al is nil
}

func (c category) mean() float64 {
	if c.al == nil {
		return c.average
	}
	return collector.Mean(c.al)
}

// conversations is their number as a table shows it.
func (c category) conversations() string {
	if c.al == nil {
		return none
	}
	return count(len(c.al))
}

// turnEnds count what makes server and client view of a turn differ: the numbers
// of metric-parity's D1 to D4 and D14.
type turnEnds struct {
	turns        int
	cutStop      int // last step cut by EOS or a stop token (D1)
	tokensStop   int
	eos          int // ended at EOS (D2)
	cutLimit     int // last step cut by the token limit (D3)
	tokensLimit  int
	draftless    int // turns with decode steps without drafts (D4)
	stopToken    int // ended at another stop token with a turn after it (D14)
	approximated int // of these turns the events did not say how they ended exactly
}

// measure makes the figures of a point. dir is its folder, for speculation.json.
func (p *point) measure(c collector.Point, dir string) error {
	measured := c.Measure()
	turns, failures := measured.Turns()
	p.countFailed(c)
	if len(turns) == 0 {
		return errors.New("none of its conversations can be measured" + firstFailure(failures))
	}
	if err := p.readFigures(c, dir); err != nil {
		return err
	}
	if p.performance != nil && p.performance.Goodput != nil { // of a collection with --slo
		measured = measured.Judged(&p.performance.Goodput.SLO)
	}
	if figures, err := measured.RunFigures(); err == nil {
		p.figures = &figures
	}
	p.requests = len(turns)
	convs := measured.Conversations(cmp.Or(c.Run.Acceptance, collector.ViewClient))
	p.conversations = len(convs)
	p.measureTimes(turns, c.Run.GPUs)
	p.measureCategories(turns, convs, c.Run.Metric)
	p.ends = endsOf(turns)
	p.warnings = append(p.warnings, p.spec.Warnings...)
	if p.row != nil && len(p.row.Warnings) > 0 {
		p.warnings = append(p.warnings[:len(p.warnings)-len(p.spec.Warnings)], p.row.Warnings...)
	}
	return nil
}

func firstFailure(failures []collector.Failure) string {
	if len(failures) == 0 {
		return ""
	}
	return "; the first: " + failures[0].Error()
}

// countFailed counts the requests and the failed ones by kind.
func (p *point) countFailed(c collector.Point) {
	p.requests, p.failedRequests, p.errors = 0, 0, map[string]int{}
	for _, r := range c.Records {
		if r.SetApart != "" {
			continue
		}
		p.requests++
		if r.ErrorKind != "" {
			p.failedRequests++
			p.errors[r.ErrorKind]++
		}
	}
}

// readFigures reads speculation.json and performance.json, or makes them where there
// are none that can be read.
func (p *point) readFigures(c collector.Point, dir string) error {
	p.spec, p.performance = new(collector.Speculation), new(collector.Performance)
	read := func(name string, into any) bool {
		if len(c.Run.Shards) > 0 { // of one shard there is the part's own
			return false
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		return err == nil && json.Unmarshal(text, into) == nil
	}
	spec := read(collector.FileSpeculation, p.spec) && p.spec.Schema == collector.SchemaSpeculation
	if !p.speculates() || spec { // what a folder of an older version lacks is left out
		if !read(collector.FilePerformance, p.performance) || p.performance.Schema != collector.SchemaPerformance {
			p.performance = nil
		}
		return nil
	}
	files, _, err := c.Files()
	if err != nil {
		return err
	}
	p.spec, p.performance = new(collector.Speculation), new(collector.Performance)
	if err := json.Unmarshal(files[collector.FileSpeculation], p.spec); err != nil {
		return fmt.Errorf("cannot read the figures made of its records: %w", err)
	}
	if json.Unmarshal(files[collector.FilePerformance], p.performance) != nil {
		p.performance = nil
	}
	return nil
}

// measureTimes makes timing.json's figures and the distributions.
func (p *point) measureTimes(turns []collector.MeasuredTurn, gpus int) {
	timed := make([]collector.Turn, len(turns))
	gaps := 0
	for i, t := range turns {
		timed[i] = collector.Turn{Times: t.Times, Intended: t.Intended, Tokens: t.Tokens}
		gaps += len(t.Times)
	}
	slices.SortStableFunc(timed, func(a, b collector.Turn) int {
		return cmp.Compare(a.Times[len(a.Times)-1], b.Times[len(b.Times)-1])
	})
	timing, err := collector.Timing(timed, max(1, gpus))
	if err != nil {
		return // no answer was streamed
	}
	p.tps, p.tpsPerGPU = timing.OutputTPS, timing.OutputTPSPerGPU
	if len(timing.GenerationTPS) > 0 {
		p.userTPS = collector.Mean(timing.GenerationTPS)
	}
	first, steps := make([]float64, 0, len(timed)), make([]float64, 0, gaps)
	for _, t := range timed {
		if len(t.Times) > 1 {
			first = append(first, t.Times[1]-t.Intended)
		}
		for i := 2; i < len(t.Times); i++ {
			if gap := t.Times[i] - t.Times[i-1]; gap > 0 {
				steps = append(steps, gap)
			} else {
				p.shared++
			}
		}
	}
	p.ttft, p.step = newDistribution(first), newDistribution(steps)
	if p.several {
		p.ttft.sample, p.step.sample = first, steps
	}
}

// measureCategories groups the conversations, in the order in which categories appear.
func (p *point) measureCategories(turns []collector.MeasuredTurn, convs []collector.Conversation, m collector.Metric) {
	name := map[int]string{}
	for _, t := range turns {
		name[t.Conversation] = t.Category
	}
	at := map[string]int{}
	for i, al := range collector.ConversationALs(m, convs) {
		c := name[convs[i].Index]
		if math.IsNaN(al) {
			continue
		}
		if _, known := at[c]; !known {
			at[c] = len(p.categories)
			p.categories = append(p.categories, category{name: c})
		}
		cat := &p.categories[at[c]]
		cat.al, cat.places = append(cat.al, al), append(cat.places, convs[i].Index)
	}
}

// endsOf counts how the turns ended.
func endsOf(turns []collector.MeasuredTurn) turnEnds {
	e := turnEnds{turns: len(turns)}
	for _, t := range turns {
		if t.Client.Source != collector.SourceExact {
			e.approximated++
		}
		if t.Client.EOSEnded {
			e.eos++
		}
		if t.Client.DraftlessSteps > 0 {
			e.draftless++
		}
		if n := t.Client.CutTokens; n > 0 && t.Record.Finish == "length" {
			e.cutLimit, e.tokensLimit = e.cutLimit+1, e.tokensLimit+n
		} else if n > 0 {
			e.cutStop, e.tokensStop = e.cutStop+1, e.tokensStop+n
		}
		if !t.Last && len(t.Record.StopReason) > len("token:") && t.Record.StopReason[:len("token:")] == "token:" {
			e.stopToken++
		}
	}
	return e
}

// distribution is a sample at every percent, so that a page does not grow with it.
type distribution struct {
	n    int
	mean float64
	at   [101]float64 // quantiles, the least and the greatest value; NaN where n is too few

	sample []float64 // what it was made of, of one of several runs of a point
}

func newDistribution(xs []float64) distribution {
	d := distribution{n: len(xs), mean: collector.Mean(xs)}
	if d.n == 0 {
		return d
	}
	sorted := slices.Sorted(slices.Values(xs))
	for i := range d.at {
		d.at[i] = nan
		if i == 0 || i == 100 || estimate.TooFew(d.n, float64(i)/100) == "" {
			d.at[i] = collector.Quantile(sorted, float64(i)/100)
		}
	}
	return d
}

// lacks says that n is too few for one of the quantiles.
func (d distribution) lacks(percents ...int) bool {
	return d.n > 0 && slices.ContainsFunc(percents, func(q int) bool { return math.IsNaN(d.at[q]) })
}

// tooFewNote says why quantiles are not shown.
func tooFewNote(percents ...int) string {
	texts := make([]string, len(percents))
	for i, q := range percents {
		texts[i] = fmt.Sprintf("p%d %d", q, estimate.FewestValues(float64(q)/100))
	}
	return "A quantile is not shown (" + none + ") where n is too few for it: it takes n of " + list(texts) + "."
}

// quantileMS is a quantile in milliseconds where n allows one.
func quantileMS(v *float64) string {
	if v == nil {
		return none
	}
	return milliseconds(*v)
}
