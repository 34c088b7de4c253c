package collector

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A schedule comes back from the run line with all its nanoseconds, and a run
// without one has no such member.
func TestScheduleWire(t *testing.T) {
	start := time.Unix(1700000000, 123456789).UTC()
	run := Run{Point: "t0_q20", Schedule: &Schedule{Rate: 20, Arrivals: ArrivalsPoisson, Seed: -3, Start: start,
		Offsets: []time.Duration{1, 50 * time.Millisecond, 3 * time.Second}}, Baseline: true}
	text, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	want := `"schedule":{"request_rate_per_second":20,"arrivals":"poisson","seed":-3,"start_unix_ns":1700000000123456789,"intended_start_s":[0.000000001,0.05,3]}`
	if !strings.Contains(string(text), want) || !strings.Contains(string(text), `"baseline":true`) {
		t.Errorf("got %s\nwant %s and baseline", text, want)
	}
	var back Run
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if at, known := back.Schedule.Intended(1); !known || !at.Equal(start.Add(50*time.Millisecond)) || !back.Baseline {
		t.Errorf("got %v, %v, baseline %v", at, known, back.Baseline)
	}
	for _, conversation := range []int{-1, 3} {
		if _, known := back.Schedule.Intended(conversation); known {
			t.Errorf("conversation %d has an intended start, want none", conversation)
		}
	}
	closed, err := json.Marshal(Run{Point: "t0_c1", Concurrency: 1})
	if err != nil || strings.Contains(string(closed), "schedule") || strings.Contains(string(closed), "baseline") {
		t.Errorf("got %s, %v: want no new member", closed, err)
	}
	for _, bad := range []string{`{"request_rate_per_second":0}`, `{"request_rate_per_second":-1}`, `{}`, `[]`} {
		if err := json.Unmarshal([]byte(bad), new(Schedule)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

// What a table shows as a point's load.
func TestLoad(t *testing.T) {
	for want, s := range map[string]Summary{"32": {Concurrency: 32}, "20/s": {RequestRate: 20}, "0.5/s": {RequestRate: 0.5}} {
		if got := s.Load(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := (Run{Schedule: &Schedule{Rate: 2.5}}).Load(); got != "2.5/s" {
		t.Errorf("got %s", got)
	}
}
