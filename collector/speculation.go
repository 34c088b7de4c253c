package collector

// SchemaSpeculation is the schema name of speculation.json.
const SchemaSpeculation = "spectap.speculation/1"

// Speculation is speculation.json: what specdec_bench's files do not say about a point.
type Speculation struct {
	Schema string `json:"schema"`
	Point  string `json:"point"`
	Metric Metric `json:"metric"`
	View   string `json:"acceptance_rate_view"` // which view acceptance_rate.json holds
	// Baseline says that the server does not speculate: what is about acceptance is not in the file.
	Baseline bool `json:"baseline,omitempty"`

	Client     ViewAL  `json:"client_view"`
	Server     ViewAL  `json:"server_view"`
	Difference float64 `json:"server_minus_client_average_al"`

	ByTurn   []TurnFigures  `json:"by_turn"`
	Turns    TurnCounts     `json:"turns"`
	Steps    StepCounts     `json:"steps"`
	Blocks   BlockCounts    `json:"statistics_blocks"`
	Accepted PointHistogram `json:"accepted_histogram"`
	Position PositionRates  `json:"acceptance_by_draft_position"`
	Audit    Audit          `json:"self_audit"`

	WhatIf *WhatIf `json:"what_if,omitempty"` // nil where no step verified a draft

	Intervals IntervalMethod `json:"intervals"` // of all intervals here

	OpenLoop   *OpenLoop   `json:"open_loop,omitempty"`   // where conversations began at moments of their own
	CrossCheck *CrossCheck `json:"cross_check,omitempty"` // where another client measured the same requests

	LeftOut map[string]int `json:"left_out_by_reason"`
	// Attribution says how the requests of a foreign client were recognised.
	Attribution *Attribution `json:"attribution,omitempty"`
	Warnings    []string     `json:"warnings"`
}

// ViewAL is the acceptance length of one view, averaged as the metric averages, with its interval.
type ViewAL struct {
	AverageAL     float64         `json:"average_al"`
	Interval      *IntervalFigure `json:"interval"` // null: NoInterval says why
	NoInterval    string          `json:"no_interval_because,omitempty"`
	Conversations int             `json:"conversations"`
}

// AL is the acceptance length that acceptance_rate.json holds.
func (s Speculation) AL() ViewAL {
	if s.View == ViewServer {
		return s.Server
	}
	return s.Client
}

// IntervalFigure is an interval with all that is needed to compute it again.
type IntervalFigure struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	IntervalMethod
}

// TurnFigures are the figures of all turns of one index. An AL is the pooled one of those turns.
type TurnFigures struct {
	Turn          int      `json:"turn"`
	Requests      int      `json:"requests"`
	ClientAL      float64  `json:"client_pooled_al"`
	ServerAL      float64  `json:"server_pooled_al"`
	TTFTMean      *float64 `json:"ttft_mean_s"`
	TTFTP50       *float64 `json:"ttft_p50_s"`
	DecodeTPSMean *float64 `json:"decode_tokens_per_second_mean"`
	DecodeTPSP50  *float64 `json:"decode_tokens_per_second_p50"`
	OutputTokens  int      `json:"output_tokens"`
}

// TurnCounts count turns. Tokens cut and draft-less steps are exact where a
// turn's lengths are, and lower bounds where only its block was usable.
type TurnCounts struct {
	Total         int `json:"total"`
	EndedAtEOS    int `json:"ended_at_eos"`
	Cut           int `json:"cut_at_the_end"`
	TokensCut     int `json:"tokens_cut"`
	WithDraftless int `json:"with_draftless_steps"`
	Merged        int `json:"with_merged_events"`
}

// StepCounts count decode steps of the turns that have a block.
type StepCounts struct {
	Verify        int     `json:"verify_steps"`
	Draftless     int     `json:"draftless_steps"`
	DraftlessPart float64 `json:"draftless_share"`            // of all decode steps
	TokensPerStep float64 `json:"tokens_per_verify_step"`     // 1 + accepted / verify steps: no prefill, no cut
	DraftLength   int     `json:"draft_length_tokens"`        // k, 0 where nobody said
	DraftRate     float64 `json:"accepted_per_drafted_token"` // accepted / drafted tokens
}

// BlockCounts say how many requests brought a statistics block and what was done about the others.
type BlockCounts struct {
	Expected   int            `json:"expected"`
	Came       int            `json:"came"`
	Missing    map[string]int `json:"missing_by_reason"`
	LengthsOf  map[string]int `json:"client_lengths_by_source"`
	SplitNotes string         `json:"last_event_split,omitempty"` // how merged last events were split
}

// PointHistogram is the number of verify steps by accepted drafts.
type PointHistogram struct {
	Blocks   []int  `json:"from_blocks"`
	Counters []int  `json:"from_counters"` // null without counters
	Source   string `json:"source"`        // "blocks" or "counters": which one describes the whole point
}

// PositionRates are acceptance rates by draft position, the first at index 0.
// Per position divides by all verify steps, as vLLM's counters do; conditional
// divides by the steps that reached the position. Their intervals are over the
// measured conversations.
type PositionRates struct {
	Source        string    `json:"source"` // "blocks", "counters" or "per_step_lists", of the conditional rates
	PerPosition   []float64 `json:"per_position"`
	Conditional   []float64 `json:"conditional"` // null: NoConditional says why
	NoConditional string    `json:"no_conditional_because,omitempty"`

	PerPositionIntervals []Interval `json:"per_position_intervals"`
	ConditionalIntervals []Interval `json:"conditional_intervals"` // null where Conditional is
}

// Audit holds our sums against the differences of the server's counters.
type Audit struct {
	Verdict string       `json:"verdict"` // one of the Audit constants
	Reason  string       `json:"reason"`
	Sums    []AuditEntry `json:"sums"`

	BlocksCame      int         `json:"blocks_came"`
	BlocksExpected  int         `json:"blocks_expected"`
	ForeignRequests int         `json:"requests_not_ours"`
	Generation      *AuditEntry `json:"generation_tokens"` // not judged: the server counts what a stop string cut off
	Preemptions     *float64    `json:"preemptions"`
	CacheQueries    *float64    `json:"prefix_cache_query_tokens"`
	CacheHits       *float64    `json:"prefix_cache_hit_tokens"`
	KVCacheTokens   *int        `json:"kv_cache_size_tokens"`
}

// AuditEntry is one sum beside the server's.
type AuditEntry struct {
	Name   string  `json:"name"`
	Ours   float64 `json:"ours"`
	Server float64 `json:"server"`
}
