package telemetry

import (
	"context"
	"net/http"

	"spectap/collector"
)

// traces makes spans. A nil *traces makes none.
type traces struct{}

func newTraces(Config) (*traces, error) { return nil, nil }

// begin opens the spans of a request and puts their context into h. The returned
// context carries the CLIENT span for exemplars; end is nil where nothing is sampled.
func (t *traces) begin(*collector.Record, collector.Headers) (ctx context.Context, end func(*collector.Record)) {
	return context.Background(), nil
}

func (t *traces) transport(base http.RoundTripper) http.RoundTripper { return base }

func (t *traces) shutdown(context.Context) error { return nil }
