// Package live is the page of the admin port that shows what passes at the
// moment: it keeps short windows of figures made from Records and sends them to
// browsers. It keeps no content, no header and no query string.
//
//	Emit ──▶ board (windows of figures) ──▶ snapshot ──▶ hub ──▶ open pages
//	           pure, time is an argument      JSON       one text for all of them
//
// Start with Page; board.add is where a Record becomes figures.
package live

import (
	"net/http"
	"sync"
	"time"

	"spectap/collector"
)

// Config is what the page shows beside Records.
type Config struct {
	State func() State // at the time of an update; nil is none
	Now   func() time.Time
}

// State is what a proxy knows beside Records.
type State struct {
	Version  string `json:"version"`
	Upstream string `json:"upstream"` // without user information
	Listen   string `json:"listen"`   // address of the data port, or unix:/path; empty where nobody said
	Engine   string `json:"engine"`
	Measure  string `json:"measure"`
	NotReady string `json:"not_ready"` // why requests would not be served; empty where they would be, or nobody knows
	Draining bool   `json:"draining"`
	InFlight int    `json:"in_flight"`

	Refused        uint64 `json:"refused_total"`
	Panics         uint64 `json:"panics_total"`
	SinkDrops      uint64 `json:"sink_drops_total"`
	TelemetryDrops uint64 `json:"telemetry_drops_total"` // spans that no collector took
}

// Page is a Sink that shows its Records in a browser.
type Page struct {
	cfg   Config
	start time.Time
	hub   *hub

	mu    sync.Mutex // of board; held for microseconds
	board *board
}

// New returns an empty page. It runs nothing until a browser opens it.
func New(cfg Config) *Page {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	p := &Page{cfg: cfg, start: cfg.Now(), board: newBoard()}
	p.hub = newHub(p.encode)
	return p
}

// Emit implements collector.Sink. It waits for no page.
func (p *Page) Emit(rec *collector.Record) {
	now := p.cfg.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.board.add(now.Sub(p.start), rec)
}

// Close implements collector.Sink: it ends the streams of open pages.
func (p *Page) Close() error {
	p.hub.close()
	return nil
}

// Handler serves the page at / and its updates at /live (text/event-stream).
func (p *Page) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", servePage)
	mux.HandleFunc("GET /live", p.hub.serve)
	return mux
}
