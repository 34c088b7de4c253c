package main

import (
	"context"
	"runtime/metrics"
	"testing"

	"spectap/proxy"
)

// The proxy collects garbage at its own percentage while it serves, unless GOGC says otherwise.
func TestProxyCollectsSooner(t *testing.T) {
	f := func(gogc string, want uint64) {
		t.Helper()
		before := gcPercent()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := make(chan uint64, 1)
		environ := map[string]string{"SPECTAP_LISTEN": "127.0.0.1:0", "SPECTAP_ADMIN": "127.0.0.1:0", "SPECTAP_UPSTREAM": "http://127.0.0.1:1"}
		if gogc != "" {
			environ["GOGC"] = gogc
		}
		p := program{stdout: t.Output(), env: environ, stderr: writerFunc(func(b []byte) (int, error) { // the log: it serves
			select {
			case seen <- gcPercent():
			default:
			}
			cancel()
			return len(b), nil
		})}
		if code := p.run(ctx, []string{"proxy"}); code != 0 {
			t.Errorf("GOGC=%q: got exit code %d", gogc, code)
		}
		if got := <-seen; got != want {
			t.Errorf("GOGC=%q: garbage is collected at %d %%, want %d", gogc, got, want)
		}
		if got := gcPercent(); got != before {
			t.Errorf("GOGC=%q: %d %% afterwards, %d before", gogc, got, before)
		}
	}
	f("", proxy.GCPercent)
	f("200", gcPercent()) // Go's runtime has read it already
}

func gcPercent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
