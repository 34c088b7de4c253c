package main

import (
	"encoding/json"
	"io"
	"net/http/httptest"
	"testing"

	"github.com/caarlos0/env/v11"
	"github.com/rs/zerolog"

	"spectap/collector/telemetry"
	"spectap/proxy"
)

// /status has what the proxy did and, beside it, how telemetry leaves.
func TestStatusTellsOfTelemetry(t *testing.T) {
	var cfg proxy.Config
	var observe telemetry.Config
	for _, each := range []any{&cfg, &observe} {
		if err := env.ParseWithOptions(each, env.Options{Environment: map[string]string{}}); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:secret@127.0.0.1:1/?key=secret")
	p := program{env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://user:secret@127.0.0.1:1/?key=secret"}}
	w, err := p.watch(cfg, observe, nil, zerolog.New(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	w.admin(adminConfig{}).ServeHTTP(answer, httptest.NewRequest("GET", "/status", nil))
	var st struct {
		Version   string `json:"version"`
		Upstream  string `json:"upstream"`
		Telemetry struct {
			Traces   []string `json:"traces_exporters"`
			Exported *uint64  `json:"spans_exported_total"`
		} `json:"telemetry"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &st); err != nil {
		t.Fatalf("%v in %s", err, answer.Body)
	}
	if st.Version != version() || st.Upstream != cfg.Upstream || len(st.Telemetry.Traces) != 1 || st.Telemetry.Traces[0] != "otlp http http://127.0.0.1:1/" || st.Telemetry.Exported == nil {
		t.Errorf("got %s", answer.Body)
	}
	if err := w.server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
}
