package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"github.com/rs/zerolog"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
)

// pull is the way out by which Prometheus comes and reads.
type pull struct {
	registry *prometheus.Registry
	reader   *otelprom.Exporter
	log      zerolog.Logger
}

// newPull makes a registry of its own, with Go's and the process's metrics in it.
func newPull(log zerolog.Logger) (*pull, error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	reader, err := otelprom.New(
		otelprom.WithRegisterer(registry),
		otelprom.WithoutScopeInfo(), // there is one scope
		otelprom.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
	)
	return &pull{registry, reader, log}, err
}

// maxScrapes bounds the scrapes at one time.
const maxScrapes = 8

// disabled is what /metrics says where OTEL_SDK_DISABLED turned everything off: a
// valid text without a metric, so that a scraper does not take the process for dead.
const disabled = "# OTEL_SDK_DISABLED is true: there are no metrics\n"

// handler serves Prometheus' text, or OpenMetrics' with exemplars for those who ask for it.
func (m *metrics) handler() http.Handler {
	if m == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			_, _ = w.Write([]byte(disabled)) // fails only when the asker left
		})
	}
	return limited(promhttp.HandlerFor(m.pull.registry, promhttp.HandlerOpts{
		EnableOpenMetrics:   true,
		ErrorHandling:       promhttp.ContinueOnError,
		ErrorLog:            scrapeLog{m.pull.log},
		MaxRequestsInFlight: maxScrapes,
	}))
}

// scrapeLimit is how long the answer to one scrape may take. One that does not
// read holds its place among maxScrapes.
const scrapeLimit = 30 * time.Second

func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(scrapeLimit)) // a recorder of a test has none
		next.ServeHTTP(w, r)
	})
}

// scrapeLog implements promhttp.Logger.
type scrapeLog struct{ log zerolog.Logger }

// Println implements promhttp.Logger.
func (l scrapeLog) Println(v ...any) {
	l.log.Warn().Interface("error", v).Msg("metrics could not be read whole")
}
