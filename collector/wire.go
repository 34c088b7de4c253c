package collector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The schema names of the two kinds of line in records.jsonl. The number goes
// up when a line's meaning changes; new members alone do not change it.
const (
	SchemaRecord = "spectap.record/1"
	SchemaRun    = "spectap.run/1"
)

// errSchema says that a line is of a kind or version that this program does not know.
var errSchema = errors.New("unknown schema")

type wireLabels struct {
	Run          string `json:"run,omitempty"`
	Point        string `json:"point,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	Question     string `json:"question,omitempty"`
	Turn         *int   `json:"turn,omitempty"`
	Category     string `json:"category,omitempty"`
}

type wireSpec struct {
	Engine          string   `json:"engine"`
	Accepted        []int    `json:"accepted_histogram"`
	Steps           int      `json:"num_steps"`
	AcceptedTokens  int      `json:"accepted_tokens"`
	DraftedTokens   int      `json:"drafted_tokens"`
	DraftLength     int      `json:"draft_length"`
	PerStepAccepted []int    `json:"per_step_accepted,omitempty"`
	PerStepDrafted  []int    `json:"per_step_drafted,omitempty"`
	Derived         []string `json:"derived,omitempty"`
}

// wireRecord is a Record as a line of records.jsonl has it: moments in seconds
// from start_unix_ns, null where they never happened; the chunks as columns.
type wireRecord struct {
	Schema     string     `json:"schema"`
	ID         string     `json:"id"`
	RequestID  string     `json:"x_request_id"`
	ResponseID string     `json:"response_id"`
	Labels     wireLabels `json:"labels"`
	NamedBy    string     `json:"named_by,omitempty"`
	SetApart   string     `json:"set_apart,omitempty"`
	Trace      string     `json:"traceparent,omitempty"`

	Start           *int64   `json:"start_unix_ns"`
	UpstreamWritten *seconds `json:"upstream_written_s"`
	ResponseHead    *seconds `json:"response_head_s"`
	FirstOutput     *seconds `json:"ttft_s"`
	LastByte        *seconds `json:"last_byte_s"`
	Done            *seconds `json:"done_s"`

	ChunkTimes  secondsList `json:"chunk_s"`
	ChunkTokens intList     `json:"chunk_tokens,omitempty"` // absent where no count is known; 0 where one is not
	ChunkChoice intList     `json:"chunk_choice,omitempty"` // absent where all are 0
	ChunkShared intList     `json:"chunk_shared,omitempty"` // indexes

	Stamps       string   `json:"stamps,omitempty"`
	ResidenceP50 *seconds `json:"residence_p50_s"`
	ResidenceMax *seconds `json:"residence_max_s"`

	Method string `json:"method"`
	Path   string `json:"path"`
	Route  string `json:"route,omitempty"`
	Model  string `json:"model"`
	Engine string `json:"engine"`
	Stream bool   `json:"stream"`

	SamplingClient map[string]json.RawMessage `json:"sampling_client"`
	SamplingSent   map[string]json.RawMessage `json:"sampling_sent"`
	Injected       []string                   `json:"injected,omitempty"`

	Status     int    `json:"status"`
	ErrorKind  string `json:"error_kind"`
	Error      string `json:"error,omitempty"`
	Retries    int    `json:"retries,omitempty"`
	SawDone    bool   `json:"saw_done"`
	Finish     string `json:"finish_reason"`
	StopReason string `json:"stop_reason"`
	Events     int    `json:"events"`

	PromptTokens     *int `json:"prompt_tokens"`
	CompletionTokens *int `json:"completion_tokens"`
	CachedTokens     *int `json:"cached_tokens,omitempty"`
	ReasoningTokens  *int `json:"reasoning_tokens,omitempty"`

	Spec        *wireSpec `json:"spec"`
	SpecMissing string    `json:"spec_missing"`

	RequestBytes  int               `json:"request_bytes"`
	ResponseBytes int               `json:"response_bytes"`
	UserHash      string            `json:"user_hash,omitempty"`
	Thread        *Thread           `json:"thread,omitempty"`
	Headers       map[string]string `json:"captured_headers,omitempty"`
	Prompt        string            `json:"prompt,omitempty"`
	Reply         string            `json:"reply,omitempty"`
	Reasoning     string            `json:"reasoning,omitempty"`
	Warnings      []string          `json:"warnings,omitempty"`
}

// MarshalJSON writes the Record as a line of records.jsonl. A text that is not
// UTF-8 loses its wrong bytes to U+FFFD.
func (r *Record) MarshalJSON() ([]byte, error) { return marshalPlain(r.wire()) }

// UnmarshalJSON reads what MarshalJSON writes. Unknown members are ignored, an unknown schema is an error.
func (r *Record) UnmarshalJSON(b []byte) error {
	var w wireRecord
	if err := json.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("cannot parse record: %w", err)
	}
	if w.Schema != SchemaRecord {
		return fmt.Errorf("cannot read record of schema %q, want %q: %w", w.Schema, SchemaRecord, errSchema)
	}
	chunks, err := w.chunks()
	if err != nil {
		return err
	}
	*r = w.record()
	r.Chunks = chunks
	return nil
}

func (r *Record) wire() *wireRecord {
	w := &wireRecord{
		Schema: SchemaRecord, ID: r.ID, RequestID: r.RequestID, ResponseID: r.ResponseID,
		Labels: r.Labels.wire(), NamedBy: r.NamedBy, SetApart: r.SetApart, Trace: r.Traceparent,
		UpstreamWritten: r.UpstreamWritten.wire(), ResponseHead: r.ResponseHead.wire(),
		FirstOutput: r.FirstOutput.wire(), LastByte: r.LastByte.wire(), Done: r.Done.wire(),
		Stamps: r.Stamps, ResidenceP50: r.ResidenceP50.wire(), ResidenceMax: r.ResidenceMax.wire(),
		Method: r.Method, Path: r.Path, Route: r.Route, Model: r.Model, Engine: r.Engine, Stream: r.Stream,
		SamplingClient: r.SamplingClient, SamplingSent: r.SamplingSent, Injected: r.Injected,
		Status: r.Status, ErrorKind: r.ErrorKind, Error: r.Error, Retries: r.Retries, SawDone: r.SawDone,
		Finish: r.Finish, StopReason: r.StopReason, Events: r.Events, SpecMissing: r.SpecMissing,
		RequestBytes: r.RequestBytes, ResponseBytes: r.ResponseBytes, UserHash: r.UserHash, Thread: r.Thread, Headers: r.Headers,
		Prompt: r.Prompt, Reply: r.Reply, Reasoning: r.Reasoning, Warnings: r.Warnings,
	}
	if !r.Start.IsZero() {
		ns := r.Start.UnixNano()
		w.Start = &ns
	}
	if u := r.Usage; u != nil {
		w.PromptTokens, w.CompletionTokens = &u.PromptTokens, &u.CompletionTokens
		w.CachedTokens, w.ReasoningTokens = &u.CachedTokens, &u.ReasoningTokens
	}
	if r.Spec != nil {
		s := wireSpec(*r.Spec)
		w.Spec = &s
	}
	w.setChunks(r.Chunks)
	return w
}

func (w *wireRecord) record() Record {
	r := Record{
		ID: w.ID, RequestID: w.RequestID, ResponseID: w.ResponseID,
		Labels: w.Labels.labels(), NamedBy: w.NamedBy, SetApart: w.SetApart, Traceparent: w.Trace,
		UpstreamWritten: w.UpstreamWritten.moment(), ResponseHead: w.ResponseHead.moment(),
		FirstOutput: w.FirstOutput.moment(), LastByte: w.LastByte.moment(), Done: w.Done.moment(),
		Stamps: w.Stamps, ResidenceP50: w.ResidenceP50.moment(), ResidenceMax: w.ResidenceMax.moment(),
		Method: w.Method, Path: w.Path, Route: w.Route, Model: w.Model, Engine: w.Engine, Stream: w.Stream,
		SamplingClient: w.SamplingClient, SamplingSent: w.SamplingSent, Injected: w.Injected,
		Status: w.Status, ErrorKind: w.ErrorKind, Error: w.Error, Retries: w.Retries, SawDone: w.SawDone,
		Finish: w.Finish, StopReason: w.StopReason, Events: w.Events, SpecMissing: w.SpecMissing,
		RequestBytes: w.RequestBytes, ResponseBytes: w.ResponseBytes, UserHash: w.UserHash, Thread: w.Thread, Headers: w.Headers,
		Prompt: w.Prompt, Reply: w.Reply, Reasoning: w.Reasoning, Warnings: w.Warnings,
	}
	if w.Start != nil {
		r.Start = time.Unix(0, *w.Start).UTC()
	}
	if w.PromptTokens != nil || w.CompletionTokens != nil {
		r.Usage = &Usage{
			PromptTokens: orZero(w.PromptTokens), CompletionTokens: orZero(w.CompletionTokens),
			CachedTokens: orZero(w.CachedTokens), ReasoningTokens: orZero(w.ReasoningTokens),
		}
	}
	if w.Spec != nil {
		s := Spec(*w.Spec)
		r.Spec = &s
	}
	return r
}

// setChunks turns the chunks into columns.
func (w *wireRecord) setChunks(chunks []Chunk) {
	w.ChunkTimes = make(secondsList, len(chunks))
	for i, c := range chunks {
		w.ChunkTimes[i] = c.At
		if c.Tokens != 0 && w.ChunkTokens == nil {
			w.ChunkTokens = make([]int, len(chunks))
		}
		if c.Choice != 0 && w.ChunkChoice == nil {
			w.ChunkChoice = make([]int, len(chunks))
		}
		if c.Tokens != 0 {
			w.ChunkTokens[i] = c.Tokens
		}
		if c.Choice != 0 {
			w.ChunkChoice[i] = c.Choice
		}
		if c.Shared {
			w.ChunkShared = append(w.ChunkShared, i)
		}
	}
}

// chunks turns the columns back into chunks.
func (w *wireRecord) chunks() ([]Chunk, error) {
	n := len(w.ChunkTimes)
	if w.ChunkTokens != nil && len(w.ChunkTokens) != n || w.ChunkChoice != nil && len(w.ChunkChoice) != n {
		return nil, fmt.Errorf("cannot read record: %d chunk_s, %d chunk_tokens, %d chunk_choice; want equal lengths",
			n, len(w.ChunkTokens), len(w.ChunkChoice))
	}
	if n == 0 {
		return nil, nil
	}
	chunks := make([]Chunk, n)
	for i, at := range w.ChunkTimes {
		chunks[i].At = at
		if w.ChunkTokens != nil {
			chunks[i].Tokens = w.ChunkTokens[i]
		}
		if w.ChunkChoice != nil {
			chunks[i].Choice = w.ChunkChoice[i]
		}
	}
	for _, i := range w.ChunkShared {
		if i < 0 || i >= n {
			return nil, fmt.Errorf("cannot read record: chunk_shared has index %d, want 0 to %d", i, n-1)
		}
		chunks[i].Shared = true
	}
	return chunks, nil
}

func (l Labels) wire() wireLabels {
	w := wireLabels{Run: l.Run, Point: l.Point, Conversation: l.Conversation, Question: l.Question, Category: l.Category}
	if l.HasTurn {
		w.Turn = &l.Turn
	}
	return w
}

func (w wireLabels) labels() Labels {
	return Labels{
		Run: w.Run, Point: w.Point, Conversation: w.Conversation, Question: w.Question, Category: w.Category,
		Turn: orZero(w.Turn), HasTurn: w.Turn != nil,
	}
}

func orZero(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}

// marshalPlain is json.Marshal without HTML escapes, so that members that are
// kept as spelled stay so.
func marshalPlain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
