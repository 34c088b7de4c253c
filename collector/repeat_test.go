package collector

import (
	"bytes"
	"encoding/json"
	"testing"
)

// The first run of a point is as a point that runs once; files count from 1.
func TestRepeat(t *testing.T) {
	f := func(repeat Repeat, suffix, text string) {
		t.Helper()
		run := Run{Point: "t0_c32" + suffix, Repeat: repeat}
		line, err := json.Marshal(run)
		if err != nil || repeat.Suffix() != suffix || run.BasePoint() != "t0_c32" {
			t.Errorf("got suffix %q, base %q (%v)", repeat.Suffix(), run.BasePoint(), err)
		}
		if has := bytes.Contains(line, []byte(`"repeat"`)); has != (text != "") || !bytes.Contains(line, []byte(text)) {
			t.Errorf("got %s, want %q", line, text)
		}
	}
	f(0, "", "")
	f(1, "_r2", `"repeat":2`)
	f(9, "_r10", `"repeat":10`)
	for _, text := range []string{`0`, `-1`, `1.5`, `"2"`, `100001`, `[]`} {
		var r Repeat
		if err := json.Unmarshal([]byte(text), &r); err == nil {
			t.Errorf("%s: got %d, want an error", text, r)
		}
	}
}

// What a sweep asked before a point changes nothing that is made of it.
func TestWarmupIsInNothing(t *testing.T) {
	p := gpuPoint(t, "draft_t0_c1.json")
	after := countersOf(p.Records)
	p.Run.Before, p.Run.After, p.Run.Warmup = &Counters{HasSpec: true}, &after, 1
	want, plain, err := p.Files()
	if err != nil {
		t.Fatal(err)
	}
	q := p
	for i, r := range p.Records { // an earlier, failed, retried and slower request of everybody's
		w := *r
		w.SetApart, w.Start, w.Retries, w.Warnings = ApartWarmup, r.Start.Add(-3600e9), 2, []string{"w"}
		if i == 0 {
			w.ErrorKind, w.Spec = ErrTruncated, nil
		}
		q.Records = append([]*Record{&w}, q.Records...)
	}
	got, summary, err := q.Files()
	if err != nil || summary.Audit != AuditExact || len(got) != len(want) || len(want) < 3 {
		t.Fatalf("got %d files, audit %q, error %v; want %d", len(got), summary.Audit, err, len(want))
	}
	for name, text := range want {
		if !bytes.Equal(got[name], text) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got[name], text)
		}
	}
	a, _ := json.Marshal(plain)
	b, _ := json.Marshal(summary)
	if !bytes.Equal(a, b) || !q.Whole() {
		t.Errorf("got summary %s\nwant %s", b, a)
	}
}

// The server counts a shard's warm-up while other shards are measured, so that
// there it is in the audit, and in the audit alone.
func TestWarmupOfAShard(t *testing.T) {
	p := gpuPoint(t, "draft_t0_c1.json")
	p.Run.Shard = &Shard{Index: 0, Of: 2, Run: p.Run.ID}
	plain, _ := speculationOf(t, p)
	w := *p.Records[0]
	w.SetApart = ApartWarmup
	p.Records = append([]*Record{&w}, p.Records...)
	after := countersOf(p.Records)
	p.Run.Before, p.Run.After = &Counters{HasSpec: true}, &after
	got, summary := speculationOf(t, p)
	if got.Audit.Verdict != AuditExact || len(got.LeftOut) != 0 || summary.Incomplete || summary.AverageAL != plain.Client.AverageAL || got.Steps != plain.Steps {
		t.Errorf("got audit %+v, left out %v, AL %v; want it exact and %v", got.Audit, got.LeftOut, summary.AverageAL, plain.Client.AverageAL)
	}
}
