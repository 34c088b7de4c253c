package main

import (
	"context"
	"encoding/json"
	"errors"
	stdlog "log"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"spectap/collector"
	"spectap/collector/live"
	"spectap/collector/telemetry"
	"spectap/proxy"
)

// adminConfig are the settings of the admin port that no package owns.
type adminConfig struct {
	Pprof bool `env:"SPECTAP_PPROF" envDefault:"false" unit:"true or false" help:"serve Go's profiles at /debug/pprof on the admin port; a heap dump can hold prompts"`
}

// flushTimeout is how long telemetry may take to export what it has at the end.
const flushTimeout = 5 * time.Second

// adminIdle is how long an idle connection to the admin port is kept: longer than
// scrapers wait from one time to the next.
const adminIdle = 2 * time.Minute

// watched is a proxy and what looks on at it.
type watched struct {
	server    *proxy.Server
	telemetry *telemetry.Telemetry
	page      *live.Page
	readiness readiness
	listen    string // address of the data port; set before the admin port serves
}

// watch makes a proxy whose Records go to sink, to the live page, and through
// telemetry to spans and metrics. The caller closes sink.
func (p program) watch(cfg proxy.Config, observe telemetry.Config, sink collector.Sink, log zerolog.Logger) (*watched, error) {
	w := &watched{}
	w.page = live.New(live.Config{State: w.pageState, Now: time.Now})
	var err error
	if w.server, err = proxy.New(cfg, collector.Tee{sink, w.page}, log); err != nil {
		return nil, err
	}
	observe.Upstream, observe.Version, observe.Env, observe.Log = cfg.Upstream, version(), p.env, log
	observe.State = func() telemetry.State { return metricState(w.server.Status()) }
	if w.telemetry, err = telemetry.New(observe); err != nil {
		return nil, errors.Join(err, w.server.Shutdown(context.Background()))
	}
	w.server.Observer = w.telemetry
	return w, nil
}

// close exports what telemetry still has and ends the live page. The server was shut down before.
func (w *watched) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	err := w.page.Close()
	w.readiness.wait()
	return errors.Join(err, w.telemetry.Shutdown(ctx))
}

// admin returns the handler of the admin port: probes and status of the proxy,
// /metrics, and the live page at / with its stream.
func (w *watched) admin(cfg adminConfig) http.Handler {
	mux := http.NewServeMux()
	probes := w.server.Admin()
	for _, path := range []string{"/livez", "/readyz"} {
		mux.Handle(path, probes)
	}
	mux.HandleFunc("GET /status", w.status)
	mux.Handle("GET /metrics", w.telemetry.Metrics())
	mux.Handle("/", w.page.Handler())
	if cfg.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// status answers /status: what the proxy did, and how telemetry leaves.
func (w *watched) status(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(rw)
	enc.SetIndent("", "  ")
	_ = enc.Encode(struct { // fails only when the asker left
		Version string `json:"version"`
		proxy.Status
		Telemetry telemetry.Status `json:"telemetry"`
	}{version(), w.server.Status(), w.telemetry.Status()})
}

// adminServer returns a server of the admin port.
func adminServer(handler http.Handler, log zerolog.Logger) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: adminIdle,
		ErrorLog: stdlog.New(adminLog{log}, "", 0),
	}
}

// adminLog takes what net/http tells of the admin port. Of a panic it passes the
// stack on, and not the value: that can hold what passes.
type adminLog struct{ log zerolog.Logger }

// Write implements io.Writer.
func (l adminLog) Write(text []byte) (int, error) {
	told := string(text)
	if strings.HasPrefix(told, "http: panic serving") {
		_, stack, _ := strings.Cut(told, "\ngoroutine ")
		told = "panic; goroutine " + stack
	}
	l.log.Error().Str("error", strings.TrimSpace(told)).Msg("the admin port failed")
	return len(text), nil
}

func metricState(s proxy.Status) telemetry.State {
	return telemetry.State{
		InFlight: s.InFlight, ClientConnections: s.ClientConnections, IdleUpstream: s.IdleUpstream,
		Retries: s.Retries, Refused: s.Refused, Panics: s.Panics, SinkDrops: s.SinkDrops,
	}
}

func (w *watched) pageState() live.State {
	st, spans := w.server.Status(), w.telemetry.Status()
	return live.State{
		Version: version(), Upstream: collector.StripUserinfo(st.Upstream), Listen: w.listen, Engine: st.Engine, Measure: st.Measure,
		NotReady: w.readiness.last(w.server.Ready), Draining: st.Draining, InFlight: st.InFlight,
		Refused: st.Refused, Panics: st.Panics, SinkDrops: st.SinkDrops, TelemetryDrops: spans.SpansFailed + spans.SpansDropped,
	}
}
