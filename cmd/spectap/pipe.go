package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"spectap/collector"
	"spectap/collector/telemetry"
	"spectap/proxy"
	"spectap/sweep"
)

// pipe is a measuring proxy of our own in front of one server, on a unix socket
// in a private temporary folder:
//
//	sweep ──▶ unix socket ──▶ proxy ──▶ server
//	  ▲                        ▲│
//	  │             TCP port ──┘│   for a driver that is another program
//	  └────── Memory ◀── Record ┘
//
// A socket, not fasthttp's in-memory listener: a client that leaves must be
// seen by the proxy as everywhere else.
type pipe struct {
	Client  *http.Client
	BaseURL string // the server's own host, so that the Host header is right
	LoadURL string // a port on loopback; "" where the plan's driver needs none
	Records *collector.Memory

	watched   *watched
	transport *http.Transport
	folder    string
	listeners int
	served    chan error
}

// openPipe starts the proxy.
func (p program) openPipe(plan sweep.Config, log zerolog.Logger) (*pipe, error) {
	base, err := url.Parse(plan.URL)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("cannot read --url %q: want http://host:port", collector.StripUserinfo(plan.URL))
	}
	cfg, observe, err := p.pipeSettings(plan, base)
	if err != nil {
		return nil, fmt.Errorf("%w:\n%w", sweep.ErrUsage, err)
	}
	pipe := &pipe{Records: &collector.Memory{}, BaseURL: "http://" + base.Host, served: make(chan error, 2)}
	if pipe.watched, err = p.watch(cfg, observe, pipe.Records, log); err != nil { // a variable of OpenTelemetry
		return nil, fmt.Errorf("%w:\n%w", sweep.ErrUsage, err)
	}
	if value := plan.Authorization(); value != "" && cfg.HashUser {
		pipe.watched.server.Observer = authorizer{pipe.watched.telemetry, value}
	}
	if pipe.folder, err = os.MkdirTemp("", "spectap-"); err != nil {
		return nil, fmt.Errorf("cannot make a folder for the socket: %w; set TMPDIR", err)
	}
	socket := filepath.Join(pipe.folder, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot listen on %q: %w; set TMPDIR to a short path", socket, err), os.RemoveAll(pipe.folder))
	}
	pipe.serve(listener)
	if err := pipe.listenTCP(plan); err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	pipe.transport = unixTransport(socket)
	pipe.Client = &http.Client{Transport: pipe.watched.telemetry.Transport(pipe.transport)}
	return pipe, nil
}

// pipeSettings are the proxy's settings, which the plan alone makes, and those of
// telemetry, which are the environment's as for every other proxy.
func (p program) pipeSettings(plan sweep.Config, server *url.URL) (cfg proxy.Config, observe telemetry.Config, err error) {
	if err := env.ParseWithOptions(&cfg, env.Options{Environment: map[string]string{}}); err != nil {
		return cfg, observe, fmt.Errorf("cannot read the proxy's defaults: %w", err)
	}
	bare := *server
	bare.User = nil // the sweep's requests carry it as their Authorization
	cfg.Upstream, cfg.Measure, cfg.KeepTexts = bare.String(), "observe", true
	cfg.StallTimeout = plan.StallTimeout
	cfg.HashUser = plan.Driver == sweep.DriverAIPerf // another program does not say what it asks
	cfg.IdleTimeout = pipeIdle
	cfg.Listen = "unix:s" // its default is an address that --url may have
	err = errors.Join(cfg.Validate(), parseSettings(p.env, pflag.NewFlagSet("", pflag.ContinueOnError), &observe), observe.Validate())
	return cfg, observe, err
}

// pipeIdle is how long an idle connection is kept: longer than AIPerf keeps one
// (300 s), which sends no request twice.
const pipeIdle = 10 * time.Minute

func (p *pipe) serve(listener net.Listener) {
	p.listeners++
	go func() { p.served <- p.watched.server.Serve(listener) }()
}

// listenTCP opens a port for a driver that is another program.
func (p *pipe) listenTCP(plan sweep.Config) error {
	if plan.Driver != sweep.DriverAIPerf {
		return nil
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cannot listen for the driver's requests: %w", err)
	}
	p.LoadURL = "http://" + listener.Addr().String()
	p.serve(listener)
	return nil
}

// inFlight counts the requests of another program; nil where there is none.
func (p *pipe) inFlight() func() int {
	if p.LoadURL == "" {
		return nil
	}
	return func() int { return p.watched.server.Status().InFlight }
}

// authorizer is an observer that adds the server's key to requests without
// one, so that a driver that is another program need not be told the key on
// its command line, where everyone can read it.
type authorizer struct {
	next  collector.Observer
	value string
}

// Begin implements collector.Observer.
func (a authorizer) Begin(rec *collector.Record, h collector.Headers) func(*collector.Record) {
	if h.Get("Authorization") == "" {
		h.Set("Authorization", a.value)
	}
	return a.next.Begin(rec, h)
}

// unixTransport returns a transport that dials the socket whatever the URL says.
func unixTransport(socket string) *http.Transport {
	var d net.Dialer
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		},
		DisableCompression:  true,
		MaxIdleConns:        0,
		MaxIdleConnsPerHost: 1 << 16,
		IdleConnTimeout:     time.Minute,
	}
}

// Close ends the proxy and removes its folder.
func (p *pipe) Close() error {
	if p.transport != nil {
		p.transport.CloseIdleConnections()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := p.watched.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // live streams were cancelled
	}
	for range p.listeners {
		err = errors.Join(err, <-p.served)
	}
	return errors.Join(err, p.watched.close(), os.RemoveAll(p.folder))
}

// newRunID returns a sortable, unique name of a run.
func newRunID(now time.Time) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return now.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(b[:])
}
