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

	"spectap/collector"
	"spectap/collector/telemetry"
	"spectap/proxy"
	"spectap/sweep"
)

// pipe is a measuring proxy of our own in front of one server, on a unix socket
// in a private temporary folder:
//
//	sweep ──▶ unix socket ──▶ proxy ──▶ server
//	  ▲                         │
//	  └────── Memory ◀── Record ┘
//
// A socket, not fasthttp's in-memory listener: a client that leaves must be
// seen by the proxy as everywhere else.
type pipe struct {
	Client  *http.Client
	BaseURL string // the server's own host, so that the Host header is right
	Records *collector.Memory

	watched   *watched
	transport *http.Transport
	folder    string
	served    chan error
}

// openPipe starts the proxy.
func (p program) openPipe(plan sweep.Config, log zerolog.Logger) (*pipe, error) {
	base, err := url.Parse(plan.URL)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("cannot read --url %q: want http://host:port", collector.StripUserinfo(plan.URL))
	}
	var cfg proxy.Config
	var observe telemetry.Config
	for _, each := range []any{&cfg, &observe} {
		if err := env.ParseWithOptions(each, env.Options{Environment: map[string]string{}}); err != nil {
			return nil, fmt.Errorf("cannot read the proxy's defaults: %w", err)
		}
	}
	base.User = nil // the sweep's requests carry it as their Authorization
	cfg.Upstream, cfg.Measure, cfg.KeepTexts = base.String(), "observe", true
	cfg.StallTimeout = plan.StallTimeout
	cfg.Listen = "unix:s" // its default is an address that --url may have
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	pipe := &pipe{Records: &collector.Memory{}, BaseURL: "http://" + base.Host, served: make(chan error, 1)}
	if pipe.watched, err = p.watch(cfg, observe, pipe.Records, log); err != nil {
		return nil, err
	}
	if pipe.folder, err = os.MkdirTemp("", "spectap-"); err != nil {
		return nil, fmt.Errorf("cannot make a folder for the socket: %w; set TMPDIR", err)
	}
	socket := filepath.Join(pipe.folder, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot listen on %q: %w; set TMPDIR to a short path", socket, err), os.RemoveAll(pipe.folder))
	}
	go func() { pipe.served <- pipe.watched.server.Serve(listener) }()
	pipe.transport = unixTransport(socket)
	pipe.Client = &http.Client{Transport: pipe.watched.telemetry.Transport(pipe.transport)}
	return pipe, nil
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
	p.transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := p.watched.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // live streams were cancelled
	}
	return errors.Join(err, <-p.served, p.watched.close(), os.RemoveAll(p.folder))
}

// newRunID returns a sortable, unique name of a run.
func newRunID(now time.Time) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return now.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(b[:])
}
