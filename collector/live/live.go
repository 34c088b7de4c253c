// Package live is the page of the admin port that shows what passes now: it
// keeps short windows of figures made from Records and sends them to browsers.
package live

import (
	"net/http"
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
	Version, Upstream, Engine, Measure string
	Ready, Draining                    bool
	InFlight                           int
	SinkDrops                          uint64
}

// Page is a Sink that shows its Records in a browser.
type Page struct{ cfg Config }

// New returns an empty page.
func New(cfg Config) *Page { return &Page{cfg: cfg} }

// Emit implements collector.Sink.
func (p *Page) Emit(*collector.Record) {}

// Close implements collector.Sink: it ends the streams of open pages.
func (p *Page) Close() error { return nil }

// Handler serves the page at / and its updates at /live (text/event-stream).
func (p *Page) Handler() http.Handler { return http.NotFoundHandler() }
