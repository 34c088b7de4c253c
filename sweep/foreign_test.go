package sweep

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"spectap/collector"
)

// What the Records of a foreign client say: how many were on their way at a time,
// the model and temperature of most, and where they are not one load.
func TestObserved(t *testing.T) {
	rec := func(from, to int, temperature, model string) *collector.Record {
		r := &collector.Record{Start: time.Unix(1, 0).Add(time.Duration(from) * time.Millisecond), Done: collector.At(time.Duration(to-from) * time.Millisecond), Model: model, Engine: "vllm"}
		if temperature != "" {
			r.SamplingSent = map[string]json.RawMessage{"temperature": json.RawMessage(temperature)}
		}
		return r
	}
	half := 0.5
	f := func(inFlight int, model string, temperature float64, warnings int, wanted *float64, recs ...*collector.Record) {
		t.Helper()
		o := observed(recs)
		if got := o.warnings(wanted); o.inFlight != inFlight || o.first != model || o.temperature != temperature || len(got) != warnings {
			t.Errorf("got %d in flight, %q, %v, warnings %q; want %d, %q, %v, %d", o.inFlight, o.first, o.temperature, got, inFlight, model, temperature, warnings)
		}
	}
	f(0, "", 0, 0, nil)
	f(1, "m", 0.5, 0, nil, rec(0, 10, "0.5", "m"), rec(10, 20, "0.5", "m")) // one begins as the other ends
	f(2, "m", 0.5, 0, &half, rec(0, 10, "0.5", "m"), rec(9, 20, "0.50", "m"), rec(25, 30, "0.5", "m"))
	f(1, "m", 0, 1, nil, rec(0, 10, "", "m"))                                                     // nobody said
	f(1, "m", 1, 1, nil, rec(0, 10, "1", "m"), rec(11, 12, "1", "m"), rec(13, 14, "0", "m"))      // two temperatures
	f(1, "m", 0, 1, &half, rec(0, 10, "0", "m"))                                                  // not the label's
	f(1, "b", 0.5, 1, &half, rec(0, 1, "0.5", "a"), rec(2, 3, "0.5", "b"), rec(4, 5, "0.5", "b")) // two models
	early := rec(0, 12, "0.5", "m")
	early.SawDone, early.Chunks = true, []collector.Chunk{{At: 9 * time.Millisecond}}
	f(1, "m", 0.5, 0, nil, early, rec(10, 20, "0.5", "m")) // [DONE] came before the body's end
}

// The point's name is made of what is known, and must be a folder's.
func TestForeignName(t *testing.T) {
	f := func(want, label, temperature, concurrency string) {
		t.Helper()
		cfg := ForeignConfig{Config: Config{URL: "http://h:1", SaveDir: t.TempDir()}, Label: label}
		if temperature != "" {
			cfg.Temperatures = []string{temperature}
		}
		if concurrency != "" {
			cfg.Concurrency = []string{concurrency}
		}
		p, err := NewForeign(cfg)
		got := fmt.Sprint(err != nil)
		if err == nil {
			got = p.Label
		}
		if got != want {
			t.Errorf("label %q, temperature %q, concurrency %q: got %s (%v), want %s", label, temperature, concurrency, got, err, want)
		}
	}
	f("exec", "", "", "")
	f("t0.6_c32", "", "0.60", "32")
	f("t0", "", "0.0", "")
	f("c8", "", "", "8")
	f("mine", "mine", "0", "8")
	for _, bad := range []string{"a/b", "..", ".hidden", "x.failed", `a\b`, "/"} {
		f("true", bad, "", "")
	}
	f("true", "", "x", "")
	f("true", "", "", "0")
}
