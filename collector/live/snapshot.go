package live

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"
)

// snapshot is all that the page shows, as JSON. It is not a stable interface:
// programs read /metrics or /status. Times are in seconds, moments in
// milliseconds since 1970; null is a value that there is none of.
type snapshot struct {
	Page    string `json:"page"` // of the page's own text: another one means that it must be loaded again
	Started int64  `json:"started_ms"`
	State   State  `json:"state"`

	Minute    minuteFigures   `json:"minute"`
	Total     totalFigures    `json:"total"`
	StepWidth float64         `json:"step_s"`
	Chart     chartFigures    `json:"chart"`
	Positions positionFigures `json:"positions"`
	Errors    []kindFigures   `json:"errors"`
	Missing   []kindFigures   `json:"unmeasured"`
	Recent    []rowFigures    `json:"recent"` // the newest first
}

// minuteFigures are those of the last minute.
type minuteFigures struct {
	Requests        uint64 `json:"requests"`
	Failed          uint64 `json:"failed"`
	RequestRate     figure `json:"requests_per_second"`
	OutputTokenRate figure `json:"output_tokens_per_second"`
	AL              figure `json:"acceptance_length"`
	VerifySteps     uint64 `json:"verify_steps"`
	TTFTP50         figure `json:"ttft_p50_s"`
	TTFTP99         figure `json:"ttft_p99_s"`
	TPOTP50         figure `json:"time_per_output_token_p50_s"`
	TPOTP99         figure `json:"time_per_output_token_p99_s"`
}

// totalFigures are those since the start.
type totalFigures struct {
	Requests     uint64 `json:"requests"`
	Failed       uint64 `json:"failed"`
	Measured     uint64 `json:"with_verify_steps"`
	OutputTokens uint64 `json:"output_tokens"`
	VerifySteps  uint64 `json:"verify_steps"`
	Accepted     uint64 `json:"accepted_tokens"`
	AL           figure `json:"acceptance_length"`
}

// chartFigures have one value a complete step, the oldest first; null before the
// start and where there is no value. Quantiles are of the minute up to the step's end.
type chartFigures struct {
	AL              series `json:"acceptance_length"`
	RequestRate     series `json:"requests_per_second"`
	OutputTokenRate series `json:"output_tokens_per_second"`
	TTFTP50         series `json:"ttft_p50_s"`
	TTFTP99         series `json:"ttft_p99_s"`
	TPOTP50         series `json:"time_per_output_token_p50_s"`
	TPOTP99         series `json:"time_per_output_token_p99_s"`
}

// positionFigures are accepted drafts by position / verify steps.
type positionFigures struct {
	RecentSteps uint64 `json:"chart_verify_steps"`
	Recent      series `json:"chart"`
	TotalSteps  uint64 `json:"total_verify_steps"`
	Total       series `json:"total"`
}

type kindFigures struct {
	Kind  string `json:"kind"`
	Count uint64 `json:"count"`
	Last  int64  `json:"last_ms"`
}

type rowFigures struct {
	Ended    int64  `json:"ended_ms"`
	Model    string `json:"model"`
	Route    string `json:"route"`
	Point    string `json:"point"`
	Status   int    `json:"status"` // 0 where no answer came
	Error    string `json:"error"`
	Stream   bool   `json:"stream"`
	TTFT     figure `json:"ttft_s"`
	Duration figure `json:"duration_s"`
	Tokens   figure `json:"output_tokens"`
	AL       figure `json:"acceptance_length"`
}

// figure is a number with six digits; NaN is null.
type figure float64

// MarshalJSON implements json.Marshaler.
func (f figure) MarshalJSON() ([]byte, error) { return f.append(nil), nil }

func (f figure) append(to []byte) []byte {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return append(to, "null"...)
	}
	return strconv.AppendFloat(to, float64(f), 'g', 6, 64)
}

// series are figures over time or position; encoded at once, because a snapshot
// has some 900 of them.
type series []figure

// MarshalJSON implements json.Marshaler.
func (s series) MarshalJSON() ([]byte, error) {
	to := append(make([]byte, 0, 8*len(s)+2), '[')
	for i, f := range s {
		if i > 0 {
			to = append(to, ',')
		}
		to = f.append(to)
	}
	return append(to, ']'), nil
}

// quotient is a / b, NaN where b is 0.
func quotient(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// encode returns the JSON of the page at this moment.
func (p *Page) encode() ([]byte, error) {
	s := snapshot{Page: pageID, Started: p.start.UnixMilli(), StepWidth: stepWidth.Seconds()}
	if p.cfg.State != nil {
		s.State = p.cfg.State()
	}
	p.fill(p.cfg.Now().Sub(p.start), &s)
	return json.Marshal(&s)
}

// fill takes the board's figures. Whatever happens in it, Emit does not wait for
// the board afterwards.
func (p *Page) fill(at time.Duration, s *snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.board.fill(at, p.start, s)
}

// fill writes the board's figures at the offset at into a snapshot.
func (b *board) fill(at time.Duration, start time.Time, s *snapshot) {
	b.advance(at)
	minute, span := b.minute(at)
	ttft, tpot := b.ttft.last(), b.tpot.last()
	s.Minute = minuteFigures{
		Requests: minute.requests, Failed: minute.failed,
		RequestRate:     figure(float64(minute.requests) / span.Seconds()),
		OutputTokenRate: figure(float64(minute.tokens) / span.Seconds()),
		AL:              figure(acceptanceLength(minute.steps, minute.accepted)), VerifySteps: minute.steps,
		TTFTP50: figure(ttft.p50), TTFTP99: figure(ttft.p99), TPOTP50: figure(tpot.p50), TPOTP99: figure(tpot.p99),
	}
	s.Total = totalFigures{
		Requests: b.total.requests, Failed: b.total.failed, Measured: b.total.measured, OutputTokens: b.total.tokens,
		VerifySteps: b.total.steps, Accepted: b.total.accepted, AL: figure(acceptanceLength(b.total.steps, b.total.accepted)),
	}
	s.Chart, s.Positions = b.chart(), b.byPosition()
	s.Errors, s.Missing = b.errors.figures(start), b.missing.figures(start)
	s.Recent = b.recent()
}

// chart returns the complete steps.
func (b *board) chart() chartFigures {
	var c chartFigures
	all := []*series{&c.AL, &c.RequestRate, &c.OutputTokenRate, &c.TTFTP50, &c.TTFTP99, &c.TPOTP50, &c.TPOTP99}
	for _, s := range all {
		*s = slices.Repeat(series{figure(math.NaN())}, chartSteps)
	}
	for i := range chartSteps {
		n := b.current - chartSteps + int64(i)
		if n < 0 {
			continue
		}
		one := b.step(n)
		c.AL[i] = figure(acceptanceLength(one.steps, one.accepted))
		c.RequestRate[i] = figure(float64(one.requests) / stepWidth.Seconds())
		c.OutputTokenRate[i] = figure(float64(one.tokens) / stepWidth.Seconds())
		c.TTFTP50[i], c.TTFTP99[i] = figure(one.ttft.p50), figure(one.ttft.p99)
		c.TPOTP50[i], c.TPOTP99[i] = figure(one.tpot.p50), figure(one.tpot.p99)
	}
	return c
}

// byPosition returns the rates of the steps that a chart shows and of the current one, and those since the start.
func (b *board) byPosition() positionFigures {
	var recent positions
	for i := range b.steps {
		recent.add(&b.steps[i].positions)
	}
	return positionFigures{
		RecentSteps: recent.steps, Recent: recent.rates(b.positions.length),
		TotalSteps: b.positions.steps, Total: b.positions.rates(b.positions.length),
	}
}

func (p *positions) rates(length int) series {
	rates := make(series, length)
	for i := range rates {
		rates[i] = figure(quotient(float64(p.reached[i]), float64(p.steps)))
	}
	return rates
}

// figures lists the kinds, the most frequent first.
func (t tally) figures(start time.Time) []kindFigures {
	list := make([]kindFigures, 0, len(t))
	for name, k := range t {
		list = append(list, kindFigures{name, k.count, start.Add(k.last).UnixMilli()})
	}
	slices.SortFunc(list, func(a, b kindFigures) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind))
	})
	return list
}

// recent lists the rows, the newest first.
func (b *board) recent() []rowFigures {
	list := make([]rowFigures, 0, recentRows)
	for i := uint64(1); i <= min(b.seen, recentRows); i++ {
		r := &b.rows[(b.seen-i)%recentRows]
		list = append(list, rowFigures{
			Ended: r.ended.UnixMilli(), Model: r.model, Route: r.route, Point: r.point, Status: r.status, Error: r.err, Stream: r.stream,
			TTFT: figure(r.ttft), Duration: figure(r.duration), Tokens: figure(r.tokens), AL: figure(r.al),
		})
	}
	return list
}
