// Package fakevllm is a simulated engine that speaks as vLLM 0.32 does, byte
// shapes included: what the proxy and the sweep are tested against without a
// GPU. What it answers depends on its seed and the request alone; how long it
// takes depends on the load. It keeps a ground-truth log of what it did.
//
// Start with Config and New; engine.go is the step model, stream.go the wire.
package fakevllm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Config describes an engine. The zero Config is useful: it answers at once and
// replies run to their token limit.
type Config struct {
	Model       string    // empty: "fake-model"
	Version     string    // of /version and the fingerprint; empty: "0.32.0"
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
	Detailed    bool      // statistics with the per-step lists
	Fault       string    // a scripted fault for every request, or "name@n/m" for every m-th
	Truth       io.Writer // truth.jsonl; one Write a line
	KeepTruth   bool      // Engine.Truth returns the lines
}

// Engine is a running simulated engine.
type Engine struct {
	cfg      Config
	fault    fault
	srv      *fasthttp.Server
	count    counters
	requests atomic.Int64
	done     chan struct{}
	once     sync.Once

	mu       sync.Mutex // guards what follows
	truth    []Truth
	truthErr error
	conns    map[net.Conn]struct{}
}

// New checks cfg, fills in its defaults and returns an engine to Serve.
func New(cfg Config) (*Engine, error) {
	cfg.Model = orDefault(cfg.Model, "fake-model")
	cfg.Version = orDefault(cfg.Version, "0.32.0")
	cfg.OwnedBy = orDefault(cfg.OwnedBy, "vllm")
	cfg.MaxModelLen = orDefault(cfg.MaxModelLen, 32768)
	cfg.DraftLength = orDefault(cfg.DraftLength, 5)
	if len(cfg.Acceptance) == 0 {
		cfg.Acceptance = []float64{0.8, 0.7, 0.65, 0.6, 0.55}
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	f, err := parseFault(cfg.Fault)
	if err != nil {
		return nil, err
	}
	e := &Engine{cfg: cfg, fault: f, done: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	e.count.perPos = make([]int, cfg.DraftLength)
	e.count.started = float64(time.Now().UnixNano()) / 1e9
	e.srv = &fasthttp.Server{Handler: e.handle, ErrorHandler: malformed, IdleTimeout: keepAlive, MaxRequestBodySize: 256 << 20,
		ReadBufferSize: 128 << 10, NoDefaultServerHeader: true, NoDefaultDate: true, NoDefaultContentType: true, CloseOnShutdown: true, Logger: quiet{}}
	return e, nil
}

// keepAlive is uvicorn's: an idle connection is closed after it.
const keepAlive = 5 * time.Second

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

func (c *Config) validate() error {
	var errs []error
	check := func(name string, v float64) {
		if !(v >= 0 && v <= 1) {
			errs = append(errs, fmt.Errorf("cannot use %s %v: want a probability, 0 to 1", name, v))
		}
	}
	for _, p := range c.Acceptance {
		check("acceptance", p)
	}
	check("draftless", c.Draftless)
	check("drop_blocks", c.DropBlocks)
	check("eos", c.EOS)
	if c.DraftLength < 1 || c.DraftLength > 64 {
		errs = append(errs, fmt.Errorf("cannot use draft_length %d: want 1 to 64", c.DraftLength))
	}
	return errors.Join(errs...)
}

func (e *Engine) fingerprint() string { return "vllm-" + e.cfg.Version + "-5a68d905" }

// Serve answers on ln until Close; it returns nil after a Close.
func (e *Engine) Serve(ln net.Listener) error {
	err := e.srv.Serve(uvicornListener{ln, e})
	select {
	case <-e.done:
		return nil
	default:
		return err
	}
}

// Close cuts what is running and returns the first error of the truth log.
func (e *Engine) Close() error {
	e.once.Do(func() { close(e.done) })
	e.mu.Lock()
	open := slices.Collect(maps.Keys(e.conns))
	e.mu.Unlock()
	for _, c := range open { // takes the lock
		_ = c.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := e.srv.ShutdownWithContext(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(err, e.truthErr)
}

// sleep waits d, or fails when the engine closes.
func (e *Engine) sleep(d time.Duration) error {
	if d <= 0 {
		select {
		case <-e.done:
			return errClosed
		default:
			return nil
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-e.done:
		return errClosed
	}
}

// handle routes as vLLM's FastAPI application does.
func (e *Engine) handle(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.SetNoDefaultContentType(true)
	ctx.Response.Header.Set("server", "uvicorn")
	path := string(ctx.Path())
	if strings.HasPrefix(path, "/v1") && e.cfg.APIKey != "" && string(ctx.Request.Header.Peek("Authorization")) != "Bearer "+e.cfg.APIKey {
		reply(ctx, 401, "application/json", []byte(`{"error":"Unauthorized"}`))
		return
	}
	ctx.Response.Header.Set("vary", "Origin")
	serve, want := e.route(path)
	switch {
	case want == "" && strings.HasSuffix(path, "/") && len(path) > 1:
		e.redirect(ctx, path)
	case want == "":
		reply(ctx, 404, "application/json", (&apiError{detail: "Not Found"}).body())
	case !strings.Contains(want, string(ctx.Method())):
		ctx.Response.Header.Set("allow", want)
		reply(ctx, 405, "application/json", (&apiError{detail: "Method Not Allowed"}).body())
	default:
		serve(ctx)
	}
}

func (e *Engine) route(path string) (func(*fasthttp.RequestCtx), string) {
	text := func(contentType, body string) func(*fasthttp.RequestCtx) {
		return func(ctx *fasthttp.RequestCtx) { reply(ctx, 200, contentType, []byte(body)) }
	}
	switch path {
	case "/v1/chat/completions", "/v1/completions":
		return e.generate, "POST"
	case "/v1/models":
		return text("application/json", e.models()), "GET"
	case "/version":
		return text("application/json", `{"version":"`+e.cfg.Version+`"}`), "GET"
	case "/health":
		return text("", ""), "GET"
	case "/ping":
		return text("", ""), "GET, POST"
	case "/metrics":
		return text("text/plain; version=1.0.0; charset=utf-8", string(e.metrics())), "GET"
	}
	return nil, ""
}

func (e *Engine) redirect(ctx *fasthttp.RequestCtx, path string) {
	to := strings.TrimSuffix(path, "/")
	if _, known := e.route(to); known == "" {
		reply(ctx, 404, "application/json", (&apiError{detail: "Not Found"}).body())
		return
	}
	ctx.Response.Header.Del("vary") // location stands before it
	ctx.Response.Header.Set("location", "http://"+string(ctx.Host())+to)
	ctx.Response.Header.Set("vary", "Origin")
	reply(ctx, 307, "", nil)
}

func (e *Engine) models() string {
	now := int64(e.count.started)
	return fmt.Sprintf(`{"object":"list","data":[{"id":"%[1]s","object":"model","created":%[2]d,"owned_by":"%[3]s","root":"%[1]s","parent":null,"max_model_len":%[4]d,"permission":[{"id":"modelperm-aed6e8f0c428cb3a","object":"model_permission","created":%[2]d,"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}]}]}`,
		e.cfg.Model, now, e.cfg.OwnedBy, e.cfg.MaxModelLen)
}

func reply(ctx *fasthttp.RequestCtx, status int, contentType string, body []byte) {
	ctx.SetStatusCode(status)
	if contentType != "" {
		ctx.SetContentType(contentType)
	}
	ctx.SetBody(body)
}

func malformed(ctx *fasthttp.RequestCtx, _ error) {
	ctx.Response.Header.Set("server", "uvicorn")
	ctx.SetConnectionClose()
	reply(ctx, 400, "text/plain; charset=utf-8", []byte("Invalid HTTP request received."))
}

// generate answers the two generation routes.
func (e *Engine) generate(ctx *fasthttp.RequestCtx) {
	path, now := string(ctx.Path()), time.Now()
	f, r, refused := e.read(ctx, path)
	conn := ctx.Conn()
	if refused == nil || refused.inBand {
		if failed, took := f.before(e, conn); took {
			if failed == nil {
				failed = &apiError{}
			}
			refused = failed
		}
	}
	if refused != nil && !refused.inBand {
		e.refuse(ctx, r, path, refused, now)
		return
	}
	g := e.newGeneration(r, conn, path, now)
	g.refused = refused
	if r.Stream.bool() {
		ctx.SetContentType("text/event-stream; charset=utf-8")
		ctx.Response.ImmediateHeaderFlush = true
		ctx.SetBodyStream(g, -1)
		return
	}
	err := g.run(func(int) error { return nil })
	g.end(err)
	if err != nil {
		ctx.SetConnectionClose()
	}
	reply(ctx, 200, "application/json", g.body())
}

// read parses the request and chooses its fault.
func (e *Engine) read(ctx *fasthttp.RequestCtx, path string) (fault, *request, *apiError) {
	f := fault{every: 1}
	if n := e.requests.Add(1); n%int64(e.fault.every) == 0 {
		f = e.fault
	}
	var err error
	if h := ctx.Request.Header.Peek("X-Fake-Fault"); len(h) > 0 {
		if f, err = parseFault(string(h)); err != nil {
			return f, nil, badRequest("X-Fake-Fault", err.Error())
		}
	}
	kind, _, _ := strings.Cut(string(ctx.Request.Header.ContentType()), ";")
	if kind != "application/json" {
		e := schemaError("", "Unsupported Media Type: Only 'application/json' is allowed")
		return f, nil, e
	}
	r, refused := parse(ctx.Request.Body(), path == "/v1/chat/completions", &e.cfg)
	if r != nil {
		r.fault = f
		r.xid = string(ctx.Request.Header.Peek("X-Request-Id"))
		r.id = e.responseID(r)
	}
	return f, r, refused
}

// responseID is made of X-Request-ID, else of the body's request_id, else invented.
func (e *Engine) responseID(r *request) string {
	prefix := "cmpl-"
	if r.chat {
		prefix = "chatcmpl-"
	}
	id := orDefault(r.xid, r.RequestID)
	if id == "" {
		id = shortSHA(fmt.Sprint(e.cfg.Seed, e.requests.Load(), time.Now().UnixNano()))
	}
	return prefix + id
}

// refuse answers an error status and logs it; a status of 0 has no answer left to give.
func (e *Engine) refuse(ctx *fasthttp.RequestCtx, r *request, path string, a *apiError, now time.Time) {
	t := newTruth(r, path, now)
	t.Status = a.status
	t.RequestID = string(ctx.Request.Header.Peek("X-Request-Id"))
	e.log(t)
	if a.status != 0 {
		reply(ctx, a.status, "application/json", a.body())
	}
}
