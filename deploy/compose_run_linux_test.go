package deploy

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

// composeEnvironment is a service's environment with other addresses and folders.
func composeEnvironment(s types.ServiceConfig, replace map[string]string) (environ []string) {
	for name := range s.Environment {
		value := valueOf(s, name)
		if other, ok := replace[name]; ok && value != "" {
			value = other
		}
		environ = append(environ, name+"="+value)
	}
	slices.Sort(environ)
	return environ
}

// The services of the demo and spectap of the other file as processes, with exactly
// their commands and variables but other addresses: they answer through each other,
// are well, and send spans where the profile says.
func TestComposeRuns(t *testing.T) {
	for file := range composeFiles {
		for _, profiles := range []string{"", observability} {
			t.Run(file+" "+profiles, func(t *testing.T) { composeRuns(t, file, profiles) })
		}
	}
}

func composeRuns(t *testing.T, file, profiles string) {
	spans := startReceiver(t, 0)
	var engineSpans atomic.Int64
	otlpHTTP := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, err := io.ReadAll(r.Body); err == nil && r.URL.Path == "/v1/traces" && bytes.Contains(text, []byte("llm_request")) {
			engineSpans.Add(1)
		}
	}))
	t.Cleanup(otlpHTTP.Close)
	engine, records := refused(t), filepath.Join(t.TempDir(), "records.jsonl")
	s := composed(t, file, profiles).Services["spectap"]
	p := start(t, composeEnvironment(s, map[string]string{
		"SPECTAP_LISTEN": "127.0.0.1:0", "SPECTAP_ADMIN": "127.0.0.1:0", "SPECTAP_UPSTREAM": "http://" + engine,
		"SPECTAP_RECORDS": records, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + spans.address,
	}), command(t, "spectap"), s.Command...)
	data, admin := "http://"+p.printed(t, `"listen":"([0-9.:]+)"`), p.printed(t, `"admin":"([0-9.:]+)"`)
	check := s.HealthCheck.Test[2:] // after CMD and the program
	if out := runIn(t, ".", []string{"SPECTAP_ADMIN=" + admin}, command(t, "spectap"), check...); string(out) != "ok\n" {
		t.Errorf("without the engine: got health %q, want ok", out)
	}
	e := composed(t, "demo.yaml", profiles).Services["fakevllm"]
	args := make([]string, len(e.Command))
	for i, arg := range e.Command {
		args[i] = strings.NewReplacer("--listen=:8000", "--listen="+engine, "http://otel-collector:4318", otlpHTTP.URL).Replace(arg)
	}
	model := start(t, composeEnvironment(e, nil), command(t, "fakevllm"), args...)
	model.printed(t, `fakevllm: .* on (http://[0-9.:]+),`)
	poll(t, "/readyz follows the engine", func() bool { return statusOf(t, "http://"+admin+"/readyz") == 200 })
	answer, err := http.Post(data+"/v1/chat/completions", "application/json", strings.NewReader(`{"model": "fake-model", "max_tokens": 16, "messages": [{"role": "user", "content": "Hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var reply struct {
		Usage struct {
			Completion_tokens int
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&reply); err != nil || answer.StatusCode != 200 || reply.Usage.Completion_tokens == 0 {
		t.Errorf("got %d of the completion, %+v, %v", answer.StatusCode, reply, err)
	}
	poll(t, "the request in /metrics", func() bool {
		text, err := fetch("http://" + admin + "/metrics")
		return err == nil && bytes.Contains(text, []byte("\nspectap_verify_steps_total{")) && bytes.Contains(text, []byte(`service_name="spectap"`))
	})
	p.stop(t)
	model.stop(t)
	composeEnded(t, p, profiles, spans.spans.Load(), engineSpans.Load())
	if valueOf(s, "SPECTAP_RECORDS") != "" {
		if text, err := os.ReadFile(records); err != nil || bytes.Count(text, []byte("\n")) < 2 {
			t.Errorf("got records %q (%v), want the run and the request", text, err)
		}
	}
}

// composeEnded checks the exit code and that there are spans if there is a collector.
func composeEnded(t *testing.T, p *process, profiles string, spans, engine int64) {
	t.Helper()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("got exit code %d after SIGTERM, want 0", code)
	}
	log, want := p.output.tail(64<<10), profiles != ""
	if traces, all := strings.Count(log, `"signal":"traces","exporter":"otlp grpc"`), strings.Count(log, "exporting telemetry"); all != traces || (all == 1) != want {
		t.Errorf("got %d exporters, %d of spans by gRPC; want spans alone to be pushed, with profiles %q", all, traces, profiles)
	}
	if got := spans > 0; got != want {
		t.Errorf("got %d spans of spectap with profiles %q", spans, profiles)
	}
	if got := engine > 0; got != want {
		t.Errorf("got %d exports of the engine with profiles %q", engine, profiles)
	}
}
