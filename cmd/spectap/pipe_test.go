package main

import (
	"bytes"
	"context"
	"net/url"
	"strings"
	"testing"

	"spectap/sweep"
)

// A sweep's own proxy obeys the plan and, for telemetry alone, the environment.
func TestPipeSettings(t *testing.T) {
	server, err := url.Parse("http://user:key@engine:8000")
	if err != nil {
		t.Fatal(err)
	}
	p := program{env: map[string]string{
		"SPECTAP_GENAI_PROVIDER": "sglang", "SPECTAP_TRACE_CHUNKS": "7", "SPECTAP_METRIC_MODELS": "5",
		"SPECTAP_MEASURE": "tokens", "SPECTAP_SEED": "1", "SPECTAP_CAPTURE": "prompt",
	}}
	cfg, observe, err := p.pipeSettings(sweep.Config{}, server)
	if err != nil {
		t.Fatal(err)
	}
	if observe.Provider != "sglang" || observe.ChunkEvents != 7 || observe.Models != 5 {
		t.Errorf("got telemetry %+v, want the environment's", observe)
	}
	if cfg.Measure != "observe" || cfg.Seed != "" || cfg.Capture != "" || cfg.Upstream != "http://engine:8000" {
		t.Errorf("got proxy %+v, want what the plan says alone", cfg)
	}
}

// Settings of telemetry that cannot be used are wrong usage for a sweep, as for a proxy.
func TestSweepRefusesTelemetry(t *testing.T) {
	url, _ := serveEngine(t, fastEngine())
	questions := writeQuestions(t, 1)
	f := func(name, value string) {
		t.Helper()
		var errs bytes.Buffer
		args := []string{"sweep", "--url", url, "--mtbench", questions, "--save_dir", t.TempDir()}
		p := program{stdout: &errs, stderr: &errs, env: map[string]string{name: value}, argv: append([]string{"spectap"}, args...)}
		if code := p.run(context.Background(), args); code != exitUsage || !strings.Contains(errs.String(), name) {
			t.Errorf("%s=%s: got exit code %d and %q, want %d and the variable", name, value, code, errs.String(), exitUsage)
		}
	}
	f("OTEL_TRACES_EXPORTER", "nonsense")
	f("SPECTAP_TRACE_CHUNKS", "many")
	f("SPECTAP_TRACE_CHUNKS", "1000")
}
