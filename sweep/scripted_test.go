package sweep

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spectap/collector"
)

// sent is one generation request as the server got it.
type sent struct {
	path    string
	header  http.Header
	body    map[string]json.RawMessage
	history []message
	labels  map[string]string // of the baggage header, decoded
	n       int               // how many were sent before it
}

func (q sent) preflight() bool { return q.labels["spectap.point"] == "preflight" }

// answer is what the scripted server says to one request.
type answer struct {
	status     int // 0: 200
	text       string
	body       string // of an error status
	noBlock    bool
	noCounts   bool
	inBand     bool // an error event instead of a finish
	cut        bool // the connection breaks in the middle
	noFinish   bool
	reasoning  string
	histogram  []int // nil: [0,1]
	late       bool  // the total comes with the last event only
	wait       func(context.Context)
	completion int    // tokens; 0: 3
	finish     string // "": length
}

// scripted is a server that answers as vLLM does, by a script.
type scripted struct {
	t         *testing.T
	mu        sync.Mutex
	sent      []sent
	script    func(sent) answer
	models    string
	health    func(call int) int // status; nil: 200
	calls     map[string]int
	finished  int    // as vllm:request_success_total
	cache     string // labels of vllm:cache_config_info; "": a block size and a cache size
	version   string // ""; 0.32.0
	positions int    // of a draft; 0: 5
	noMetrics bool
	noDrafts  bool // /metrics has nothing of speculation
	lag       int  // readings of /metrics for which the last request is not counted
	server    *httptest.Server
}

const oneModel = `{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm","root":"m","parent":null,"max_model_len":2048}]}`

func newScripted(t *testing.T, script func(sent) answer) *scripted {
	s := &scripted{t: t, script: script, models: oneModel, calls: map[string]int{}}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	call := s.calls[r.URL.Path]
	s.calls[r.URL.Path]++
	s.mu.Unlock()
	switch r.URL.Path {
	case "/health":
		if s.health != nil {
			w.WriteHeader(s.health(call))
		}
	case "/v1/models":
		io.WriteString(w, s.models)
	case "/version":
		fmt.Fprintf(w, `{"version":%q}`, cmp.Or(s.version, "0.32.0"))
	case "/metrics":
		if s.noMetrics {
			http.NotFound(w, r)
			return
		}
		s.metrics(w)
	case "/v1/chat/completions", "/v1/completions":
		s.generate(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (s *scripted) metrics(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.finished
	if s.lag > 0 {
		s.lag, n = s.lag-1, max(n-1, 0)
	}
	fmt.Fprintf(w, "vllm:request_success_total{finished_reason=\"stop\"} %d\n", n)
	if !s.noDrafts {
		fmt.Fprintf(w, "vllm:spec_decode_num_drafts_total %d\n", n)
		for i := range cmp.Or(s.positions, 5) {
			fmt.Fprintf(w, "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"%d\"} 0\n", i)
		}
	}
	fmt.Fprintf(w, "vllm:cache_config_info{%s} 1.0\n", cmp.Or(s.cache, `block_size="16",kv_cache_size_tokens="46592"`))
}

func (s *scripted) generate(w http.ResponseWriter, r *http.Request) {
	q := sent{path: r.URL.Path, header: r.Header, labels: map[string]string{}}
	if err := json.NewDecoder(r.Body).Decode(&q.body); err != nil {
		s.t.Errorf("the request is not JSON: %v", err)
	}
	_ = json.Unmarshal(q.body["messages"], &q.history)
	for member := range strings.SplitSeq(r.Header.Get("Baggage"), ",") {
		key, value, _ := strings.Cut(member, "=")
		q.labels[key], _ = url.PathUnescape(value)
	}
	s.mu.Lock()
	q.n = len(s.sent)
	s.sent = append(s.sent, q)
	s.mu.Unlock()
	a := s.script(q)
	if a.wait != nil {
		a.wait(r.Context())
	}
	if a.status != 0 && a.status != http.StatusOK {
		w.WriteHeader(a.status)
		io.WriteString(w, a.body)
		return
	}
	s.stream(w, a)
}

// stream writes the events: text, finish, usage with the block.
func (s *scripted) stream(w http.ResponseWriter, a answer) {
	event := func(v any) {
		text, _ := json.Marshal(v)
		fmt.Fprintf(w, "data: %s\n\n", text)
		w.(http.Flusher).Flush()
	}
	type object = map[string]any
	tokens := 3
	if a.completion > 0 {
		tokens = a.completion
	}
	usage := func(n int) any {
		if a.noCounts || a.late && n < tokens {
			return nil
		}
		return object{"completion_tokens": n}
	}
	event(object{"choices": []any{object{"delta": object{"content": a.text, "reasoning": a.reasoning}}}, "usage": usage(1)})
	if a.cut {
		panic(http.ErrAbortHandler)
	}
	if a.inBand {
		event(object{"error": object{"type": "BadRequestError", "code": 400}})
		io.WriteString(w, "data: [DONE]\n\n")
		return
	}
	if !a.noFinish {
		s.mu.Lock()
		s.finished++
		s.mu.Unlock()
		event(object{"choices": []any{object{"delta": object{"content": ""}, "finish_reason": cmp.Or(a.finish, "length")}}, "usage": usage(tokens)})
	}
	last := object{"choices": []any{}, "usage": object{"completion_tokens": tokens}}
	if !a.noBlock {
		histogram := a.histogram
		if histogram == nil {
			histogram = []int{0, 1}
		}
		last["metrics"] = object{"speculative_decoding": object{"acceptance_histogram": histogram}}
	}
	event(last)
	io.WriteString(w, "data: [DONE]\n\n")
}

// requests returns what was asked, without preflight.
func (s *scripted) requests() []sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept []sent
	for _, q := range s.sent {
		if !q.preflight() {
			kept = append(kept, q)
		}
	}
	return kept
}

// recorder stands for the measuring proxy: it reads answers into Records.
type recorder struct {
	collector.Memory
	forget bool // emit nothing
}

func (p *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := http.DefaultTransport.RoundTrip(req)
	id := req.Header.Get("X-Request-ID")
	if err != nil || id == "" {
		return resp, err
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	r := &collector.Record{RequestID: id, Status: resp.StatusCode, Engine: "vllm", Stream: true, Start: start, UpstreamWritten: collector.At(1), FirstOutput: collector.At(2), LastByte: collector.At(time.Second), Done: collector.At(time.Second)}
	r.Labels = labelsOf(req.Header.Get("Baggage"))
	if body, err := req.GetBody(); err == nil {
		_ = json.NewDecoder(body).Decode(&r.SamplingSent)
		delete(r.SamplingSent, "messages")
	}
	readAnswer(r, text)
	switch {
	case resp.StatusCode >= 400:
		r.ErrorKind, r.SpecMissing = collector.ErrHTTPStatus, collector.MissingError
	case err != nil:
		r.ErrorKind, r.SpecMissing = collector.ErrTruncated, collector.MissingTruncated
	}
	if !p.forget {
		p.Emit(r)
	}
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(text), failing{err}))
	return resp, nil
}

// failing is a reader that ends with an error, or at once.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

func labelsOf(header string) collector.Labels {
	m := map[string]string{}
	for member := range strings.SplitSeq(header, ",") {
		key, value, _ := strings.Cut(member, "=")
		m[key], _ = url.PathUnescape(value)
	}
	turn, err := strconv.Atoi(m["spectap.turn"])
	return collector.Labels{Run: m["spectap.run"], Point: m["spectap.point"], Conversation: m["spectap.conversation"],
		Question: m["spectap.question"], Category: m["spectap.category"], Turn: turn, HasTurn: err == nil}
}

// readAnswer fills a Record from a whole stream; times are by event number.
func readAnswer(r *collector.Record, text []byte) {
	before := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var e struct {
			Choices []struct {
				Delta  struct{ Content, Reasoning string }
				Finish string `json:"finish_reason"`
			}
			Usage *struct {
				Completion int `json:"completion_tokens"`
			}
			Metrics *struct {
				Spec struct {
					Histogram []int `json:"acceptance_histogram"`
				} `json:"speculative_decoding"`
			}
			Error *struct{ Type string }
		}
		if json.Unmarshal([]byte(data), &e) != nil {
			continue
		}
		if e.Error != nil {
			r.ErrorKind, r.Error = collector.ErrInBand, e.Error.Type
		}
		for _, c := range e.Choices {
			r.Reply += c.Delta.Content
			r.Reasoning += c.Delta.Reasoning
			if c.Finish != "" {
				r.Finish = c.Finish
			}
			chunk := collector.Chunk{At: time.Duration(len(r.Chunks)+2) * time.Millisecond}
			if e.Usage != nil {
				chunk.Tokens, before = e.Usage.Completion-before, e.Usage.Completion
			}
			r.Chunks = append(r.Chunks, chunk)
		}
		if len(e.Choices) == 0 && e.Usage != nil {
			r.Usage = &collector.Usage{CompletionTokens: e.Usage.Completion}
		}
		if e.Metrics != nil {
			r.Spec = specOf(e.Metrics.Spec.Histogram)
		}
	}
	if r.Spec == nil && r.SpecMissing == "" {
		r.SpecMissing = collector.MissingNotReported
	}
}

func specOf(histogram []int) *collector.Spec {
	s := &collector.Spec{Engine: "vllm", Accepted: histogram, DraftLength: len(histogram) - 1}
	for j, n := range histogram {
		s.Steps += n
		s.AcceptedTokens += j * n
	}
	s.DraftedTokens = s.Steps * s.DraftLength
	return s
}
