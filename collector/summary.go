package collector

import "spectap/collector/estimate"

// The verdicts of a point's self-audit (Summary.Audit).
const (
	AuditExact   = "exact"        // our sums equal the differences of the server's counters, as far as blocks came
	AuditDiffers = "differs"      // they do not
	AuditForeign = "foreign load" // the server finished requests that were not ours
	AuditNone    = "no metrics"   // the server has no such counters, or was restarted
)

// Interval is a confidence interval of an average, or the reason why there is none.
type Interval = estimate.Interval

// Summary is one row of a sweep's table and of sweep.json.
type Summary struct {
	Point         string         `json:"point"`
	Temperature   float64        `json:"temperature"`
	Concurrency   int            `json:"concurrency"`            // 0 in an open loop
	RequestRate   float64        `json:"request_rate,omitempty"` // of an open loop: conversations per second
	Baseline      bool           `json:"baseline,omitempty"`     // the server does not speculate: there is no acceptance
	Repeat        Repeat         `json:"repeat"`                 // which run of the point, from 1 in files
	Conversations int            `json:"conversations"`          // measured
	Requests      int            `json:"requests"`               // measured
	Failed        int            `json:"failed_requests"`
	LeftOut       map[string]int `json:"left_out_by_reason,omitempty"` // requests and conversations that are in no figure
	Incomplete    bool           `json:"incomplete"`                   // conversations were left out, or requests are of nobody's

	View             string   `json:"acceptance_view,omitempty"` // of acceptance_rate.json; of a baseline there is none, nor the five members after it
	AverageAL        float64  `json:"average_al,omitzero"`       // as in acceptance_rate.json
	ClientAL         float64  `json:"client_average_al,omitzero"`
	ClientALInterval Interval `json:"client_average_al_interval,omitzero"`
	ServerAL         float64  `json:"server_average_al,omitzero"`
	ServerALInterval Interval `json:"server_average_al_interval,omitzero"`

	OutputTPS        float64 `json:"output_tokens_per_second"`
	OutputTPSPerGPU  float64 `json:"output_tokens_per_second_per_gpu"`
	DecodeTPSPerUser float64 `json:"decode_tokens_per_second_per_user"` // mean of Request Generation Tokens Per Second; 0 where no turn has one
	TTFTMean         float64 `json:"ttft_mean_s"`                       // as in timing.json, from the moment the request was written upstream
	TTFTP50          float64 `json:"ttft_p50_s"`

	Steady   *Steady   `json:"steady_state,omitempty"` // nil where no answer was streamed
	Goodput  *Goodput  `json:"goodput,omitempty"`      // nil without an SLO
	OpenLoop *OpenLoop `json:"open_loop,omitempty"`

	BlocksCame     int      `json:"blocks_came"`
	BlocksExpected int      `json:"blocks_expected"` // 0 where the server was swept without them
	Audit          string   `json:"audit"`
	Warnings       []string `json:"warnings"`
}

// ViewsWarning is the one of Warnings that says how far the views of AL are
// apart, for a table that shows both; "" where they are not.
func (s Summary) ViewsWarning() string { return viewsWarning(s.ServerAL, s.ClientAL) }

// summary makes the row of a point.
func (p Point) summary(s selection, spec Speculation, t TimingResult) Summary {
	row := Summary{
		Point: p.Run.Point, Temperature: p.Run.Temperature, Concurrency: p.Run.Concurrency, Repeat: p.Run.Repeat,
		RequestRate: p.Run.requestRate(), Baseline: p.Run.Baseline,
		Conversations: len(s.convs), LeftOut: spec.LeftOut, Incomplete: !s.whole(),
		View: spec.View, AverageAL: spec.AL().AverageAL,
		ClientAL: spec.Client.AverageAL, ClientALInterval: spec.Client.interval(),
		ServerAL: spec.Server.AverageAL, ServerALInterval: spec.Server.interval(),
		OutputTPS: t.OutputTPS, OutputTPSPerGPU: t.OutputTPSPerGPU,
		BlocksCame: spec.Blocks.Came, BlocksExpected: spec.Blocks.Expected,
		OpenLoop: spec.OpenLoop, Audit: spec.Audit.Verdict, Warnings: spec.Warnings,
	}
	for _, c := range s.convs {
		row.Requests += len(c.turns)
	}
	for _, r := range p.counted() {
		row.Failed += count(r.ErrorKind != "")
	}
	if mean, _ := meanAndMedian(t.GenerationTPS); mean != nil {
		row.DecodeTPSPerUser = *mean
	}
	if mean, median := meanAndMedian(t.TTFT); mean != nil {
		row.TTFTMean, row.TTFTP50 = *mean, *median
	}
	return row
}
