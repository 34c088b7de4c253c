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

	server *proxy.Server
	folder string
	served chan error
}

// openPipe starts the proxy.
func openPipe(plan sweep.Config, log zerolog.Logger) (*pipe, error) {
	base, err := url.Parse(plan.URL)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("cannot read --url %q: want http://host:port", collector.StripUserinfo(plan.URL))
	}
	var cfg proxy.Config
	if err := env.ParseWithOptions(&cfg, env.Options{Environment: map[string]string{}}); err != nil {
		return nil, fmt.Errorf("cannot read the proxy's defaults: %w", err)
	}
	base.User = nil // the sweep's requests carry it as their Authorization
	cfg.Upstream, cfg.Measure, cfg.KeepTexts = base.String(), "observe", true
	cfg.StallTimeout = plan.StallTimeout
	cfg.Listen = "unix:s" // its default is an address that --url may have
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &pipe{Records: &collector.Memory{}, BaseURL: "http://" + base.Host, served: make(chan error, 1)}
	if p.server, err = proxy.New(cfg, p.Records, log); err != nil {
		return nil, err
	}
	if p.folder, err = os.MkdirTemp("", "spectap-"); err != nil {
		return nil, fmt.Errorf("cannot make a folder for the socket: %w; set TMPDIR", err)
	}
	socket := filepath.Join(p.folder, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot listen on %q: %w; set TMPDIR to a short path", socket, err), os.RemoveAll(p.folder))
	}
	go func() { p.served <- p.server.Serve(listener) }()
	p.Client = unixClient(socket)
	return p, nil
}

// unixClient returns a client that dials the socket whatever the URL says.
func unixClient(socket string) *http.Client {
	var d net.Dialer
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		},
		DisableCompression:  true,
		MaxIdleConns:        0,
		MaxIdleConnsPerHost: 1 << 16,
		IdleConnTimeout:     time.Minute,
	}}
}

// Close ends the proxy and removes its folder.
func (p *pipe) Close() error {
	p.Client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := p.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // live streams were cancelled
	}
	return errors.Join(err, <-p.served, os.RemoveAll(p.folder))
}

// newRunID returns a sortable, unique name of a run.
func newRunID(now time.Time) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return now.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(b[:])
}
