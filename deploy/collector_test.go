package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Without a collector, with one that never answers and with a slow one, a sweep
// and a proxy do what they do without telemetry and end well.
func TestBrokenCollector(t *testing.T) {
	t.Parallel()
	engine := startEngine(t, "--prefill", "1ms", "--step", "1ms")
	args := []string{"--mtbench", writeQuestions(t, 4), "--concurrency", "4", "--output_length", "32"}
	want := acceptance(t, runSweep(t, nil, append(args, "--url", engine)...))
	f := func(name, protocol, address string) {
		t.Helper()
		t.Run(name+", "+protocol, func(t *testing.T) {
			t.Parallel() // each waits for its last exports
			environ := append(otlp(address), "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol)
			proxy := startProxy(t, environ, engine)
			if got := acceptance(t, runSweep(t, environ, append(args, "--url", proxy.URL)...)); got != want {
				t.Errorf("got %s, without telemetry %s", got, want)
			}
			proxy.stop(t)
			if code := proxy.cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("got exit code %d of the proxy, want 0", code)
			}
			if log := proxy.output.tail(64 << 10); !strings.Contains(log, "some spans were lost") {
				t.Errorf("the proxy's log does not say that spans were lost:\n%s", log)
			}
		})
	}
	slow := startReceiver(t, time.Minute).address
	none, hole := refused(t), blackHole(t)
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		f("refuses", protocol, none)
		f("never answers", protocol, hole)
	}
	f("takes a minute", "grpc", slow)
}

func acceptance(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "t0_c4/acceptance_rate.json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
