// Package collector holds the Record of one request and every number that is
// made from Records. It imports the standard library and estimate only, reads no
// clock and opens no socket: a Record goes in, a figure or the text of a file comes out.
//
// Start with Record, then Point (a Run and its Records) and Point.Write, which
// makes all files of a point.
package collector

import (
	"encoding/json"
	"time"
)

// Moment is an offset from Record.Start. The zero Moment never happened.
type Moment struct {
	Offset time.Duration
	Known  bool
}

// At returns the Moment d after the start of a request.
func At(d time.Duration) Moment { return Moment{Offset: d, Known: true} }

// Labels say who sent a request. They ride in W3C baggage (spectap.run, .point,
// .conversation, .question, .turn, .category) and are empty where nobody said.
type Labels struct {
	Run          string
	Point        string // one temperature at one concurrency, "t0_c32"
	Conversation string // index of the conversation in its data set, from 0
	Question     string // the data set's own id
	Category     string
	Turn         int  // from 0
	HasTurn      bool // Turn was said
}

// Chunk is one event of a stream that carried tokens.
type Chunk struct {
	At     time.Duration // offset from Record.Start of the read that completed the event
	Tokens int           // tokens that the event brought; 0 where the server did not say
	Choice int           // index of the choice
	Shared bool          // arrived in one read with the chunk before it, so the gap of 0 is no measurement
}

// Usage is the token usage that the server reported for a request.
type Usage struct {
	PromptTokens     int
	CompletionTokens int // emitted token ids, EOS or stop token included
	CachedTokens     int
	ReasoningTokens  int
}

// Spec is what an engine reported about speculative decoding of one request, in
// one shape for all engines. A verify step is a decode step that checked drafts.
type Spec struct {
	Engine          string   // "vllm", "sglang", "trtllm", "llamacpp"
	Accepted        []int    // Accepted[j] = verify steps that accepted exactly j drafts, bonus token excluded; nil where the engine has no histogram
	Steps           int      // verify steps
	AcceptedTokens  int      // accepted draft tokens
	DraftedTokens   int      // proposed draft tokens
	DraftLength     int      // configured drafts a step (k); 0 where the engine did not say
	PerStepAccepted []int    // accepted drafts of each verify step, where the engine lists them
	PerStepDrafted  []int    // proposed drafts of each verify step
	Derived         []string // names of the fields above that were computed, not reported
}

// The reasons why a Record has no Spec (Record.SpecMissing).
const (
	MissingStopString     = "stop_string"     // vLLM drops the block when a stop string ends the reply
	MissingSeveralChoices = "several_choices" // n > 1 or several prompts
	MissingNoUsage        = "no_usage_event"  // a stream without the usage event that carries the block
	MissingError          = "error"           // an error status or an in-band error
	MissingClientGone     = "client_gone"
	MissingTruncated      = "truncated"    // the upstream died, or the proxy was stopped, before the end
	MissingNotReported    = "not_reported" // a whole answer without a block: statistics are off, or the server dropped them
	MissingNotMeasured    = "not_measured" // a route or content that the tap does not read
)

// The kinds of failure (Record.ErrorKind); empty means that the request succeeded.
const (
	ErrClientGone       = "client_gone"       // the client left before the answer's end
	ErrUpstreamRefused  = "upstream_refused"  // no connection to the upstream
	ErrUpstreamReset    = "upstream_reset"    // the connection broke before the response head
	ErrUpstreamTimeout  = "upstream_timeout"  // connect or head-wait limit
	ErrUpstreamProtocol = "upstream_protocol" // not HTTP
	ErrTruncated        = "truncated"         // the answer ended before its end
	ErrStalled          = "stalled"           // no event within the stall limit
	ErrDrained          = "drained"           // the proxy was stopped, and cut what its drain time left over
	ErrInBand           = "in_band_error"     // an error event after a 200
	ErrHTTPStatus       = "http_status"       // status 400 or above
	ErrNotFinished      = "not_finished"      // a clean end without a finish reason
	ErrRequestRejected  = "request_rejected"  // refused by the proxy itself, once it was read (framed in two ways, above its limit of calls)
	ErrInternal         = "internal"          // a panic that was recovered
)

// The kinds of model call (Record.Route).
const (
	RouteChat        = "chat"        // /v1/chat/completions
	RouteCompletions = "completions" // /v1/completions
	RouteResponses   = "responses"   // /v1/responses
	RouteMessages    = "messages"    // /v1/messages
	RouteOther       = "other"       // another POST below /v1, or an engine's own: timed, its answer is not read
)

// Where the times of the chunks come from (Record.Stamps).
const (
	StampsKernel = "kernel" // the kernel's receive timestamps
	StampsUser   = "user"   // the return of the read
	StampsMixed  = "mixed"
)

// Record is all that was measured about one request. It is complete when a Sink
// gets it and is never changed afterwards. All Moments are monotonic offsets
// from Start. JSON names and units are in wire.go.
type Record struct {
	ID          string // ours; unique
	RequestID   string // the client's X-Request-ID; at most 256 bytes of it
	ResponseID  string // "id" of the response
	Labels      Labels
	NamedBy     string // what named Labels.Conversation: one of the Named constants, "" where nothing did
	SetApart    string // why the request is in no figure: one of the Apart constants; "": it may be
	Traceparent string // as sent upstream

	Start           time.Time // wall clock when the request was fully read; TTFT counts from here
	UpstreamWritten Moment    // the request was handed to the upstream socket; timing.json's times[0]
	ResponseHead    Moment
	FirstOutput     Moment // the first chunk: the first event that carried output
	LastByte        Moment
	Done            Moment // the answer was passed on
	Stamps          string // StampsKernel, StampsUser or StampsMixed
	ResidenceP50    Moment // arrival of a read to our write of it, median over reads
	ResidenceMax    Moment

	Method string
	Path   string // without the query string; at most 2 KiB of it
	Route  string // one of the Route constants; empty: no model call
	Model  string // at most 256 bytes of it
	Engine string // "vllm", "sglang", "trtllm", "llamacpp" or "" where unknown
	Stream bool

	SamplingClient map[string]json.RawMessage // sampling members as the client sent them, numbers as spelled
	SamplingSent   map[string]json.RawMessage // the same as sent upstream
	Injected       []string                   // names of the members that were added or changed, sorted

	Status     int    // HTTP status; 0 where no answer came
	ErrorKind  string // one of the Err constants, or ""
	Error      string // our own words or the server's error type and code; never content
	Retries    int    // guarded retries on a stale pooled connection
	SawDone    bool   // [DONE] or the route's own terminal event came
	Finish     string // finish_reason of the first choice that has one
	StopReason string // "" for null, "token:<id>" for a stop token, "string" for a stop string

	Chunks      []Chunk
	Events      int    // data events of the stream, [DONE] excluded
	Usage       *Usage // nil where the server did not say
	Spec        *Spec  // nil: SpecMissing says why
	SpecMissing string

	RequestBytes  int               // body as the client sent it
	ResponseBytes int               // body as the upstream sent it
	UserHash      string            // hash of the first user message; only where a question file is in use
	Thread        *Thread           // hashes by which the turns of a conversation find each other; only with UserHash
	Headers       map[string]string // request headers that were asked for, by their names in lower case
	Prompt        string            // the last user message; only when texts are kept
	Reply         string            // content of the first choice; only when texts are kept
	Reasoning     string            // reasoning of the first choice; only when texts are kept
	Warnings      []string
}
