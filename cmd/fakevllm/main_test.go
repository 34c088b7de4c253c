package main

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"
)

// TestParse: both spellings of a flag, and the lists.
func TestParse(t *testing.T) {
	var help bytes.Buffer
	o, err := parse([]string{"--draft-length", "3", "--acceptance", "0.9,0.5 0.1", "--no-spec-stats", "--drop_blocks=0.3", "--prefill-per-token=1ms", "--fault", "cut@3/10"}, &help)
	if err != nil {
		t.Fatal(err)
	}
	c := o.cfg
	if c.DraftLength != 3 || !slices.Equal(c.Acceptance, []float64{0.9, 0.5, 0.1}) || !c.NoSpecStats || c.DropBlocks != 0.3 || c.PrefillPerToken != time.Millisecond || c.Fault != "cut@3/10" {
		t.Errorf("got %+v", c)
	}
	t.Setenv("OTEL_SERVICE_NAME", "engine-1")
	o, err = parse([]string{"--otlp-traces-endpoint", "http://127.0.0.1:4318/v1/traces"}, &help)
	if err != nil || o.cfg.TracesEndpoint != "http://127.0.0.1:4318/v1/traces" || o.cfg.ServiceName != "engine-1" {
		t.Errorf("got %+v, %v", o, err)
	}
	if o, err = parse([]string{"--draft_length", "4", "--no_spec_stats"}, &help); err != nil || o.cfg.DraftLength != 4 || !o.cfg.NoSpecStats {
		t.Errorf("got %+v, %v", o, err)
	}
}

// TestUsage: mistakes are usage errors, before anything listens.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"stray"}, {"--acceptance", "x"}, {"--drop_blocks", "2"}, {"--fault", "melt"}, {"--draft_length", "99"}, {"--otlp_traces_endpoint", "localhost:4317"}} {
		if err := run(args, &bytes.Buffer{}); !errors.Is(err, errUsage) {
			t.Errorf("%q: got %v, want a usage error", args, err)
		}
	}
}
