package fakevllm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Truth is what the engine did for one request: one line of truth.jsonl.
type Truth struct {
	RequestID    string  `json:"x_request_id"`
	Histogram    []int   `json:"histogram"`            // verify steps by accepted drafts, over all choices
	ChunkLengths []int   `json:"chunk_lengths"`        // tokens of each step as emitted, EOS removed, the prefill's first; what specdec_bench counts
	Draftless    int     `json:"steps_without_drafts"` // decode steps that verified nothing
	Completion   int     `json:"completion_tokens"`
	Finish       string  `json:"finish_reason"` // of the first choice; empty where the reply did not end
	WriteUnixNs  []int64 `json:"write_unix_ns"` // one per event that carried tokens, taken just before its write
	Fault        string  `json:"fault"`         // the scripted fault, "client_gone", "closed" or ""
	ResponseID   string  `json:"response_id"`
	Path         string  `json:"path"`
	Status       int     `json:"status"`
	Stream       bool    `json:"stream"`
	StopReason   any     `json:"stop_reason"`
	Temperature  float64 `json:"temperature"`
	PromptTokens int     `json:"prompt_tokens"`
	Choices      int     `json:"choices"`
	BlockDropped bool    `json:"block_dropped"` // the statistics were lost and the last two steps merged
	Messages     int     `json:"messages"`
	LastUserSHA  string  `json:"last_user_sha"` // first 16 hex digits of SHA-256 of the last user message
	ReplySHA     string  `json:"reply_sha"`     // the same of the first choice's text
	StartUnixNs  int64   `json:"start_unix_ns"`
	EndUnixNs    int64   `json:"end_unix_ns"`
	PerStep      []int   `json:"per_step_accepted"` // accepted drafts of each verify step
}

// newTruth starts the line of a request; r is nil where its body was not understood.
func newTruth(r *request, path string, now time.Time) *Truth {
	t := &Truth{Path: path, Status: 200, StartUnixNs: now.UnixNano(), Histogram: []int{}, ChunkLengths: []int{}, WriteUnixNs: []int64{}, PerStep: []int{}}
	if r == nil {
		return t
	}
	t.RequestID, t.ResponseID, t.Stream, t.Fault = r.xid, r.id, r.Stream.bool(), r.fault.name
	t.Temperature, t.Choices, t.Messages = r.temperature(), r.choices(), len(r.Messages)
	for _, p := range r.prompts {
		t.PromptTokens += p.tokens
	}
	if n := len(r.users); n > 0 {
		t.LastUserSHA = shortSHA(r.users[n-1])
	}
	return t
}

func shortSHA(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

func (t *Truth) fill(c *tally) {
	t.Histogram, t.ChunkLengths, t.Draftless, t.Completion, t.PerStep = c.histogram, c.chunks, c.draftless, c.completions, c.accepted
}

// log appends t to the truth log: one Write call, one whole line.
func (e *Engine) log(t *Truth) {
	t.EndUnixNs = time.Now().UnixNano()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cfg.KeepTruth {
		e.truth = append(e.truth, *t)
	}
	if e.cfg.Truth == nil {
		return
	}
	line, err := json.Marshal(t)
	if err == nil {
		_, err = e.cfg.Truth.Write(append(line, '\n'))
	}
	if err != nil && e.truthErr == nil {
		e.truthErr = err
	}
}

// Truth returns the lines so far, where Config.KeepTruth asked for them.
func (e *Engine) Truth() []Truth {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Truth(nil), e.truth...)
}
