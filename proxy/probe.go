package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	teeLimit     = 256 << 10        // largest answer of /v1/models or /version that is read
	probeTimeout = 2 * time.Second  // of one question to the engine
	probeFirst   = time.Second      // wait after the first unanswered probe; it doubles
	probeSlowest = 30 * time.Second // longest wait between probes
)

// prober asks the engine what it is, in the background and without anybody's
// credentials, until it is known; and whether it is healthy, when asked.
type prober struct {
	s      *Server
	client *http.Client
	base   string
	ctx    context.Context // ends with stop
	cancel context.CancelFunc
	once   sync.Once
	ended  sync.WaitGroup
}

func newProber(s *Server) *prober {
	p := &prober{s: s, base: "http://" + s.to.host + s.to.base}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.client = &http.Client{
		Timeout: probeTimeout,
		Transport: &http.Transport{ // TLS, where there is any, is the dialer's
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				c, _, err := s.pool.dialer.dial(ctx)
				return c, err
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p
}

// start runs the background probe once, unless the engine is set.
func (p *prober) start() {
	p.once.Do(func() {
		if p.s.Engine() == EngineUnknown {
			p.ended.Go(p.run)
		}
	})
}

func (p *prober) run() {
	for wait := probeFirst; ; wait = min(2*wait, probeSlowest) {
		p.ask()
		if p.s.Engine() != EngineUnknown {
			return
		}
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (p *prober) stop() {
	p.cancel()
	p.ended.Wait()
}

// ask settles the engine from /v1/models, then /version: TensorRT-LLM has
// vLLM's /version, too.
func (p *prober) ask() {
	defer func() {
		if r := recover(); r != nil { // on this goroutine it would end the process
			p.s.counts.panics.Add(1)
		}
	}()
	for _, path := range []string{"/v1/models", "/version"} {
		status, body, err := p.get(p.ctx, path)
		if err != nil {
			return
		}
		if status == http.StatusOK && p.s.settle(engineFrom(path, body)) {
			return
		}
	}
}

func (p *prober) get(ctx context.Context, path string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, teeLimit))
	return resp.StatusCode, body, err
}

// errNotReady says why /readyz refuses; the text goes to whoever asks.
var errNotReady = errors.New("upstream is not healthy")

// ready follows the engine's /health; where it has none, a connection is enough.
func (p *prober) ready(ctx context.Context) error {
	status, _, err := p.get(ctx, "/health")
	switch {
	case err != nil:
		return errNotReady
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		return nil // it answered, so it accepts connections
	case status != http.StatusOK:
		return errNotReady
	}
	return nil
}

// probed returns the probe's path that a client's GET path stands for, or "".
func probed(path string) string {
	for _, known := range []string{"/v1/models", "/version"} {
		if strings.TrimRight(path, "/") == known {
			return known
		}
	}
	return ""
}

func engineFrom(path string, body []byte) Engine {
	if path == "/v1/models" {
		return EngineFromModels(body)
	}
	return EngineFromVersion(body)
}

// settle keeps the engine if it is one and none was known; true if one is known now.
func (s *Server) settle(e Engine) bool {
	if e != EngineUnknown && s.engine.CompareAndSwap(EngineUnknown, e) {
		s.log.Info().Str("engine", string(e)).Msg("engine detected")
	}
	return s.Engine() != EngineUnknown
}

// settleEngine learns the engine from an answer that passed.
func (b *stream) settleEngine() {
	if b.s.Engine() != EngineUnknown {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			b.s.counts.panics.Add(1)
		}
	}()
	if b.teeing && b.f.rec.ErrorKind == "" {
		b.s.settle(engineFrom(probed(b.f.rec.Path), b.tee))
	}
	b.s.settle(Engine(b.f.rec.Engine))
}
