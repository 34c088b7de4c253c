package proxy

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"

	"spectap/collector"
)

// counts are totals since the start.
type counts struct {
	requests, retries, refused, panics atomic.Uint64

	mu         sync.Mutex
	outcomes   map[string]uint64 // measured requests by ErrorKind; "ok" for none
	unmeasured map[string]uint64 // measured requests by SpecMissing
}

func (c *counts) outcome(rec *collector.Record, measured bool) {
	if !measured {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outcomes == nil {
		c.outcomes, c.unmeasured = make(map[string]uint64), make(map[string]uint64)
	}
	kind := rec.ErrorKind
	if kind == "" {
		kind = "ok"
	}
	c.outcomes[kind]++
	if rec.Spec == nil {
		c.unmeasured[rec.SpecMissing]++
	}
}

// Status is the JSON of /status, save what others add.
type Status struct {
	Upstream          string            `json:"upstream"`
	Engine            string            `json:"engine"`
	Measure           string            `json:"measure"`
	Draining          bool              `json:"draining"`
	InFlight          int               `json:"in_flight"`
	ClientConnections int               `json:"client_connections"`
	IdleUpstream      int               `json:"idle_upstream_connections"`
	Requests          uint64            `json:"requests_total"` // every path, refused ones excluded
	Outcomes          map[string]uint64 `json:"outcomes_total"` // requests with a Record, by error kind; "ok" is none
	Unmeasured        map[string]uint64 `json:"unmeasured_total"`
	Retries           uint64            `json:"retries_total"`
	Refused           uint64            `json:"refused_total"` // not HTTP, or too large
	Panics            uint64            `json:"panics_total"`  // recovered
	SinkDrops         uint64            `json:"sink_drops_total"`
}

// Status returns what the proxy did so far.
func (s *Server) Status() Status {
	st := Status{
		Upstream: s.cfg.Upstream, Engine: string(s.Engine()), Measure: s.cfg.Measure,
		Draining: s.stopping.Load(), InFlight: s.flights.count(),
		ClientConnections: int(max(s.http.GetOpenConnectionsCount(), 0)), IdleUpstream: s.pool.idleCount(),
		Requests: s.counts.requests.Load(), Retries: s.counts.retries.Load(), Refused: s.counts.refused.Load(),
		Panics: s.counts.panics.Load(), SinkDrops: dropped(s.sink),
	}
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	st.Outcomes, st.Unmeasured = maps.Clone(s.counts.outcomes), maps.Clone(s.counts.unmeasured)
	return st
}

// dropped sums what the sinks lost because their queues were full.
func dropped(sink collector.Sink) (n uint64) {
	if tee, ok := sink.(collector.Tee); ok {
		for _, one := range tee {
			n += dropped(one)
		}
		return n
	}
	if d, ok := sink.(interface{ Dropped() uint64 }); ok {
		return d.Dropped()
	}
	return 0
}

// Admin returns the handler of the probes: /livez says that the process listens,
// /readyz that requests would be served.
func (s *Server) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.Ready(r.Context()); err != nil {
			plain(w, http.StatusServiceUnavailable, err.Error()+"\n")
			return
		}
		plain(w, http.StatusOK, "ok\n")
	})
	return mux
}

// errDraining is what /readyz says once Shutdown has begun.
var errDraining = errors.New("draining")

// Ready asks the engine whether it would serve a request; the error says why not
// and is fit for anybody's eyes.
func (s *Server) Ready(ctx context.Context) error {
	if s.stopping.Load() {
		return errDraining
	}
	return s.probe.ready(ctx)
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}
