// Package fakevllm is a simulated engine that speaks as vLLM 0.32 does: what the
// proxy and the sweep are tested against without a GPU. What it answers depends
// on its seed and the request alone; how long it takes depends on the load. It
// keeps a ground-truth log of what it did.
//
// Start with Config and New; reply.go is the step model, stream.go the wire.
package fakevllm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// version is that of the vLLM whose captures this engine is held against.
const version = "0.32.0"

// Config describes an engine. The zero Config is useful: it answers at once and
// replies run to their token limit.
type Config struct {
	Model       string    // empty: "fake-model"
	OwnedBy     string    // of /v1/models; empty: "vllm"
	APIKey      string    // empty: none is asked for
	MaxModelLen int       // context in tokens; 0: 32768
	Seed        uint64    // of every reply
	DraftLength int       // drafts of a verify step (k); 0: 5
	Acceptance  []float64 // probability that position i is accepted if the one before was, at an easy prompt and temperature 0; the last goes for the rest; empty: 0.8, 0.7, 0.65, 0.6, 0.55
	Draftless   float64   // share of decode steps without drafts
	DropBlocks  float64   // share of requests whose block is lost, with the last two steps in one event, as vLLM 0.29 does on a GPU
	EOS         float64   // probability that a token is EOS

	Prefill, PrefillPerToken time.Duration // until the first token
	Step, StepPerRequest     time.Duration // of a decode step, and more for each other running request
	StreamInterval           int           // tokens that pile up before an event; 0 or 1: every step

	NoSpecStats bool      // no per-request statistics, as before vLLM 0.29
	NoSpec      bool      // no speculative decoding at all: a token a step, no statistics, no counters of drafts
	Fault       string    // a scripted fault for every request, or "name@n/m" for every m-th
	Truth       io.Writer // truth.jsonl; one Write a line

	TracesEndpoint string // OTLP/HTTP collector of a span a finished sequence, as http://127.0.0.1:4318/v1/traces; empty: no spans
	ServiceName    string // service.name of the spans; empty: "vllm"
}

// Engine is a running simulated engine.
type Engine struct {
	cfg     Config
	fault   fault
	srv     http.Server
	started int64           // Unix seconds
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	tracer  *tracer
	busy    sync.RWMutex // read-locked by every generation, so that Close waits for its log line

	mu       sync.Mutex // guards what follows
	counters counters
	truthErr error
}

// New checks cfg, fills in its defaults and returns an engine to Serve.
func New(cfg Config) (*Engine, error) {
	cfg.Model = cmp.Or(cfg.Model, "fake-model")
	cfg.OwnedBy = cmp.Or(cfg.OwnedBy, "vllm")
	cfg.MaxModelLen = cmp.Or(cfg.MaxModelLen, 32768)
	cfg.DraftLength = cmp.Or(cfg.DraftLength, 5)
	if len(cfg.Acceptance) == 0 {
		cfg.Acceptance = []float64{0.8, 0.7, 0.65, 0.6, 0.55}
	}
	if cfg.NoSpec {
		cfg.NoSpecStats, cfg.Draftless = true, 1
	}
	if cfg.Truth == nil {
		cfg.Truth = io.Discard
	}
	for _, p := range append([]float64{cfg.Draftless, cfg.DropBlocks, cfg.EOS}, cfg.Acceptance...) {
		if !(p >= 0 && p <= 1) {
			return nil, fmt.Errorf("cannot use %v as acceptance, draftless, drop_blocks or eos: want a probability, 0 to 1", p)
		}
	}
	if cfg.DraftLength < 1 || cfg.DraftLength > 64 {
		return nil, fmt.Errorf("cannot use draft_length %d: want 1 to 64", cfg.DraftLength)
	}
	f, err := parseFault(cfg.Fault)
	if err != nil {
		return nil, err
	}
	tracer, err := newTracer(cfg.TracesEndpoint, cfg.ServiceName)
	if err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, fault: f, tracer: tracer, started: time.Now().Unix()}
	e.counters = counters{perPos: make([]int, cfg.DraftLength), finished: map[string]int{}}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.srv.Handler = http.HandlerFunc(e.handle)
	e.srv.IdleTimeout = 5 * time.Second // uvicorn's
	e.srv.BaseContext = func(net.Listener) context.Context { return e.ctx }
	e.srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if s, ok := c.(Stamped); ok {
			return context.WithValue(ctx, stampedKey{}, s)
		}
		return ctx
	}
	return e, nil
}

// Serve answers on ln until Close; it returns nil after a Close.
func (e *Engine) Serve(ln net.Listener) error {
	if err := e.srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Stamped is a connection that knows when its last read arrived at the machine:
// a request waits for a busy engine from then on. Where Serve's listener gives
// such connections, the truth log tells that time.
type Stamped interface{ Arrived() time.Time }

type stampedKey struct{}

// arrival is when a request's head arrived, as far as its connection knows.
func arrival(r *http.Request, now time.Time) time.Time {
	if s, ok := r.Context().Value(stampedKey{}).(Stamped); ok {
		if at := s.Arrived(); !at.IsZero() {
			return at
		}
	}
	return now
}

// Close cuts what is running, sends the spans that are queued, and returns the
// first error of the truth log.
func (e *Engine) Close() error {
	e.stop()
	err := e.srv.Close()
	e.busy.Lock()
	defer e.busy.Unlock()
	e.tracer.close()
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(err, e.truthErr)
}

// handle routes as vLLM's FastAPI application does.
func (e *Engine) handle(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "uvicorn")
	if strings.HasPrefix(r.URL.Path, "/v1") && e.cfg.APIKey != "" && r.Header.Get("Authorization") != "Bearer "+e.cfg.APIKey {
		respond(w, 401, "application/json", `{"error":"Unauthorized"}`)
		return
	}
	w.Header().Set("Vary", "Origin")
	method, kind, body := "GET", "application/json", ""
	switch r.URL.Path {
	case "/v1/chat/completions", "/v1/completions":
		method = "POST"
	case "/v1/models":
		body = fmt.Sprintf(`{"object":"list","data":[{"id":%[1]s,"object":"model","created":%[2]d,"owned_by":%[4]s,"root":%[1]s,"parent":null,"max_model_len":%[3]d,"permission":[{"id":"modelperm-aed6e8f0c428cb3a","object":"model_permission","created":%[2]d,"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}]}]}`,
			text(e.cfg.Model), e.started, e.cfg.MaxModelLen, text(e.cfg.OwnedBy))
	case "/version":
		body = `{"version":"` + version + `"}`
	case "/health":
		kind = ""
	case "/metrics":
		kind, body = "text/plain; version=1.0.0; charset=utf-8", e.metrics()
	default:
		respond(w, 404, kind, `{"detail":"Not Found"}`)
		return
	}
	switch {
	case r.Method == "HEAD" && r.URL.Path == "/metrics": // a mounted application answers what its route does not
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	case r.Method != method:
		w.Header().Set("Allow", method)
		respond(w, 405, "application/json", `{"detail":"Method Not Allowed"}`)
	case method == "POST":
		e.generate(w, r)
	default:
		respond(w, 200, kind, body)
	}
}

func respond(w http.ResponseWriter, status int, contentType, body string) {
	if contentType != "" {
		w.Header().Set("Content-Type", contentType)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // a client that left is not told
}

// Truth is what the engine did for one request: one line of truth.jsonl.
type Truth struct {
	RequestID    string  `json:"x_request_id"`
	Histogram    []int   `json:"histogram"`            // verify steps by accepted drafts
	ChunkLengths []int   `json:"chunk_lengths"`        // tokens of each step as emitted, EOS removed, the prefill's first; what specdec_bench counts
	Draftless    int     `json:"steps_without_drafts"` // decode steps that verified nothing
	Completion   int     `json:"completion_tokens"`
	Finish       string  `json:"finish_reason"`  // empty where the reply did not end
	ArriveUnixNs int64   `json:"arrive_unix_ns"` // its head arrived, or was read where the connection does not know
	WriteUnixNs  []int64 `json:"write_unix_ns"`  // one per event that carried tokens, taken just before its write
	Fault        string  `json:"fault"`          // the scripted fault, "client_gone", "closed" or ""
	Status       int     `json:"status"`
	PromptTokens int     `json:"prompt_tokens"`
	BlockDropped bool    `json:"block_dropped"` // the statistics were lost and the last two steps merged
	Traceparent  string  `json:"traceparent"`   // as it came
}

// log appends t to the truth log: one Write call, one whole line.
func (e *Engine) log(t *Truth) {
	e.mu.Lock()
	defer e.mu.Unlock()
	line, _ := json.Marshal(t) // numbers and strings: no error
	_, err := e.cfg.Truth.Write(append(line, '\n'))
	e.truthErr = cmp.Or(e.truthErr, err)
}

// counters are the engine's own, as /metrics shows them. A step counts when it is
// executed, whether or not its request ends or its tokens are sent.
type counters struct {
	requests, running         int
	drafts, prompt, generated int
	perPos                    []int          // accepted at a position, from 0
	finished                  map[string]int // replies by their end
}

// tally reads or changes the counters.
func (e *Engine) tally(f func(*counters)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.counters)
}

// metrics is Prometheus text as vLLM's, of what tells about speculation and load.
func (e *Engine) metrics() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, family, b := &e.counters, "", []byte(nil)
	add := func(name, kind, labels string, value int) {
		if name != family {
			b = fmt.Appendf(b, "# TYPE vllm:%s %s\n", name, kind)
		}
		family = name
		b = fmt.Appendf(b, "vllm:%s{engine=\"0\",model_name=%s%s} %d.0\n", name, text(e.cfg.Model), labels, value)
	}
	accepted := 0
	for i, n := range c.perPos {
		if e.cfg.NoSpec {
			break
		}
		accepted += n
		add("spec_decode_num_accepted_tokens_per_pos_total", "counter", fmt.Sprintf(`,position="%d"`, i), n)
	}
	if !e.cfg.NoSpec {
		add("spec_decode_num_accepted_tokens_total", "counter", "", accepted)
		add("spec_decode_num_drafts_total", "counter", "", c.drafts)
		add("spec_decode_num_draft_tokens_total", "counter", "", c.drafts*e.cfg.DraftLength)
	}
	add("generation_tokens_total", "counter", "", c.generated)
	add("prompt_tokens_total", "counter", "", c.prompt)
	add("prefix_cache_queries_total", "counter", "", c.prompt)
	add("prefix_cache_hits_total", "counter", "", 0)
	add("num_preemptions_total", "counter", "", 0)
	add("request_success_total", "counter", `,finished_reason="stop"`, c.finished["stop"])
	add("request_success_total", "counter", `,finished_reason="length"`, c.finished["length"])
	add("num_requests_running", "gauge", "", c.running)
	add("cache_config_info", "gauge", `,block_size="16",kv_cache_size_tokens="262144",num_gpu_blocks="16384"`, 1)
	return string(b)
}
