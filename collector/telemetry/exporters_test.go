package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The ways out that the variables ask for.
func TestExporters(t *testing.T) {
	f := func(of signal, want string, env ...string) {
		t.Helper()
		got, err := exporters(environment(env), of)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s %q: got %v, %v; want %s", of, env, got, err, want)
		}
	}
	f(signalTraces, "[]")
	f(signalMetrics, "[prometheus]")
	f(signalTraces, "[]", "OTEL_EXPORTER_OTLP_ENDPOINT= ") // empty is unset
	f(signalTraces, "[otlp grpc http://c:4317]", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317")
	f(signalTraces, "[otlp grpc c:4317]", "OTEL_EXPORTER_OTLP_ENDPOINT=c:4317")
	f(signalTraces, "[otlp http http://c:4318]", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318")
	f(signalTraces, "[otlp http http://c]", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c")
	f(signalTraces, "[otlp grpc http://c]", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	f(signalTraces, "[otlp http http://c:4317]", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")
	f(signalTraces, "[otlp http http://c:4318]", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	f(signalTraces, "[otlp http http://t/x]", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t/x")
	f(signalMetrics, "[prometheus otlp grpc http://c:4317]", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t/x")
	f(signalTraces, "[otlp http localhost:4318]", "OTEL_TRACES_EXPORTER=otlp")
	f(signalTraces, "[otlp grpc localhost:4317]", "OTEL_TRACES_EXPORTER=OTLP", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	f(signalTraces, "[]", "OTEL_TRACES_EXPORTER=none", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317")
	f(signalTraces, "[console]", "OTEL_TRACES_EXPORTER=console", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317")
	f(signalMetrics, "[otlp http http://c:4318 prometheus]", "OTEL_METRICS_EXPORTER=otlp, prometheus", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318")
	f(signalMetrics, "[]", "OTEL_METRICS_EXPORTER=none")
	f(signalTraces, "[]", "OTEL_SDK_DISABLED=True", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317")
	f(signalTraces, "[otlp grpc http://c:4317]", "OTEL_SDK_DISABLED=1", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317") // only true is true
	f(signalTraces, "[otlp http https://c/v1]", "OTEL_EXPORTER_OTLP_ENDPOINT=https://user:SECRET@c/v1?token=SECRET#SECRET")
}

// Values that cannot be used: every one is told at once, with its variable, and no secret.
func TestExportersRefuse(t *testing.T) {
	f := func(of signal, env []string, want ...string) {
		t.Helper()
		_, err := exporters(environment(env), of)
		if err == nil {
			t.Errorf("%q: got no error", env)
			return
		}
		if got := strings.Split(err.Error(), "\n"); len(got) != len(want) {
			t.Errorf("%q: got %d errors, want %d: %q", env, len(got), len(want), got)
		}
		for _, text := range want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q: got %q, want %q in it", env, err, text)
			}
		}
		if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: a secret in %q", env, err)
		}
	}
	garbage := filepath.Join(t.TempDir(), "garbage.pem")
	if err := os.WriteFile(garbage, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	f(signalTraces, []string{"OTEL_TRACES_EXPORTER=zipkin"}, `cannot use OTEL_TRACES_EXPORTER "zipkin": want one of otlp, console, none`)
	f(signalTraces, []string{"OTEL_TRACES_EXPORTER=prometheus"}, "want one of otlp, console, none")
	f(signalMetrics, []string{"OTEL_METRICS_EXPORTER=otlp,statsd"}, `OTEL_METRICS_EXPORTER "statsd"`)
	f(signalTraces, []string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=http"}, `OTEL_EXPORTER_OTLP_PROTOCOL "http": want one of grpc, http/protobuf, http/json`)
	f(signalTraces, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=10.0.0.1:4317"}, `OTEL_EXPORTER_OTLP_ENDPOINT "10.0.0.1:4317": want a URL`)
	f(signalTraces, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=c:4318"}, "want http:// or https:// and a host")
	f(signalTraces, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=htpp://c:4317"}, `"htpp://c:4317": want http:// or https:// and a host`) // the SDK would take it for TLS
	f(signalTraces, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://"}, "want http:// or https:// and a host")
	f(signalTraces, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://u:SECRET@h:x/?SECRET"}, `"http://h:x/"`)
	f(signalTraces, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317",
		"OTEL_EXPORTER_OTLP_TIMEOUT=5s",
		"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=zstd",
		"OTEL_EXPORTER_OTLP_INSECURE=yes",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer SECRET,SECRET",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=%zzSECRET",
		"OTEL_EXPORTER_OTLP_CERTIFICATE=" + garbage,
		"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE=/no/such/file",
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=" + garbage,
		"OTEL_EXPORTER_OTLP_METRICS_TIMEOUT=x", // of the other signal
	},
		`OTEL_EXPORTER_OTLP_TIMEOUT "5s"`, `OTEL_EXPORTER_OTLP_TRACES_COMPRESSION "zstd"`, `OTEL_EXPORTER_OTLP_INSECURE "yes"`,
		"OTEL_EXPORTER_OTLP_HEADERS (its value is not shown)", "OTEL_EXPORTER_OTLP_TRACES_HEADERS (its value is not shown)",
		"OTEL_EXPORTER_OTLP_CERTIFICATE \"", `OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE "/no/such/file"`, "OTEL_EXPORTER_OTLP_CLIENT_KEY")
}

func environment(pairs []string) map[string]string {
	env := map[string]string{}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	return env
}
