package collector

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// shardPoint is a shard of a point of four questions: it asked those of its index
// mod of, from start on, one second each, one after another.
func shardPoint(index, of int, start time.Time) Point {
	s := Shard{Index: index, Of: of, Run: "run-" + string(rune('a'+index)), Concurrency: 1, Host: "node-" + string(rune('a'+index)), Questions: "hash"}
	p := Point{Run: Run{ID: s.Run, Point: "t0_c2", Metric: MetricAcceptanceRate, GPUs: 1, Concurrency: of, Shard: &s}}
	for i := range 4 {
		p.Run.Questions = append(p.Run.Questions, Question{ID: json.RawMessage(`"q` + string(rune('0'+i)) + `"`), Turns: 1, NotAsked: i%of != index})
		if i%of != index {
			continue
		}
		p.Records = append(p.Records, &Record{
			ID: s.Run + string(rune('0'+i)), Start: start, Labels: Labels{Run: s.Run, Point: "t0_c2", Conversation: string(rune('0' + i)), HasTurn: true},
			Status: 200, Stream: true, Finish: "length", Usage: &Usage{CompletionTokens: 4},
			Chunks: []Chunk{{At: time.Second / 2, Tokens: 1}, {At: time.Second, Tokens: 3}}, LastByte: At(time.Second), Done: At(time.Second),
			Spec: &Spec{Accepted: []int{0, 0, 1}, Steps: 1, AcceptedTokens: 2, DraftedTokens: 2, DraftLength: 2},
		})
		start = start.Add(time.Second)
	}
	return p
}

func mergedWarnings(t *testing.T, points ...Point) ([]string, Summary) {
	t.Helper()
	m, err := MergeShards(points)
	if err != nil {
		t.Fatal(err)
	}
	m.Lenient = true
	_, summary, err := m.Files()
	if err != nil {
		t.Fatal(err)
	}
	return summary.Warnings, summary
}

// Time is merged from absolute times: from the first start of all to the last end.
func TestMergedTime(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := func(shift time.Duration, tps float64, warned bool) {
		t.Helper()
		a, b := shardPoint(0, 2, start), shardPoint(1, 2, start.Add(shift))
		warnings, summary := mergedWarnings(t, b, a)
		if summary.OutputTPS != tps || summary.Incomplete || summary.Conversations != 4 {
			t.Errorf("shifted by %v: got %v tokens/s of %d conversations, want %v of 4", shift, summary.OutputTPS, summary.Conversations, tps)
		}
		at := slices.IndexFunc(warnings, func(w string) bool { return strings.Contains(w, "ran at once for") })
		if (at >= 0) != warned {
			t.Errorf("shifted by %v: got warnings %q", shift, warnings)
		}
		if !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "clocks of 2 hosts") }) {
			t.Errorf("got warnings %q, want what a clock that is off does", warnings)
		}
	}
	f(0, 16/2.0, false)
	f(100*time.Millisecond, 16/2.1, false)
	f(time.Second, 16/3.0, true) // together for one second of three
	f(6*time.Second, 16/8.0, true)
}

// A shard of which every request failed is in no window.
func TestMergedFailedShard(t *testing.T) {
	a, b := shardPoint(0, 2, time.Unix(1e9, 0)), shardPoint(1, 2, time.Unix(1e9, 0))
	for _, r := range b.Records {
		r.ErrorKind = ErrTruncated
	}
	warnings, summary := mergedWarnings(t, a, b)
	if slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "at once") }) || !summary.Incomplete || summary.Failed != 2 {
		t.Errorf("got %d failed and warnings %q, want 2 and nothing of time", summary.Failed, warnings)
	}
}

// Clocks are not mentioned on one host.
func TestMergedOnOneHost(t *testing.T) {
	a, b := shardPoint(0, 2, time.Unix(1e9, 0)), shardPoint(1, 2, time.Unix(1e9, 0))
	b.Run.Shard.Host = a.Run.Shard.Host
	if warnings, _ := mergedWarnings(t, a, b); slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "clocks") }) {
		t.Errorf("got warnings %q", warnings)
	}
}

// A record of another run is of nobody's conversation, one of any shard is not.
func TestMergedForeignRecord(t *testing.T) {
	a, b := shardPoint(0, 2, time.Unix(1e9, 0)), shardPoint(1, 2, time.Unix(1e9, 0))
	b.Records[0].Labels.Run = "run-of-others"
	_, summary := mergedWarnings(t, a, b)
	if summary.LeftOut[ReasonForeign] != 1 || summary.LeftOut[ReasonMissing] != 1 || !summary.Incomplete {
		t.Errorf("got %v left out, want one foreign and its turn missing", summary.LeftOut)
	}
}

// The readings that a merged point is audited with.
func TestMergedCounters(t *testing.T) {
	at := func(requests float64) *Counters {
		return &Counters{HasSpec: true, RequestsFinished: requests, Drafts: requests, DraftTokens: 2 * requests, AcceptedTokens: 2 * requests,
			AcceptedPerPos: []float64{requests, requests}, GenerationTokens: 4 * requests}
	}
	f := func(name string, want string, before, after *float64, readings ...*Counters) {
		t.Helper()
		a, b := shardPoint(0, 2, time.Unix(1e9, 0)), shardPoint(1, 2, time.Unix(1e9, 0))
		a.Run.Before, a.Run.After, b.Run.Before, b.Run.After = readings[0], readings[1], readings[2], readings[3]
		m, err := MergeShards([]Point{a, b})
		if err != nil {
			t.Fatal(err)
		}
		audit, _ := m.audit(newBlockSums(m.Records), m.expectedBlocks())
		if audit.Verdict != want {
			t.Errorf("%s: got %s (%s), want %s", name, audit.Verdict, audit.Reason, want)
		}
		if (m.Run.Before == nil) != (before == nil) {
			t.Fatalf("%s: got counters %v", name, m.Run.Before)
		}
		if before != nil && (m.Run.Before.RequestsFinished != *before || m.Run.After.RequestsFinished != *after) {
			t.Errorf("%s: got %v to %v, want %v to %v", name, m.Run.Before.RequestsFinished, m.Run.After.RequestsFinished, *before, *after)
		}
	}
	n := func(v float64) *float64 { return &v }
	f("one server, at once", AuditExact, n(10), n(14), at(10), at(13), at(11), at(14))
	f("one server, one after another", AuditExact, n(22), n(26), at(10), at(12), at(12), at(14))
	f("two servers, each alone", AuditExact, n(17), n(21), at(10), at(12), at(7), at(9))
	f("one server, with others", AuditForeign, n(10), n(20), at(10), at(16), at(11), at(20))
	f("two servers, with others", AuditNone, nil, nil, at(10), at(13), &Counters{HasSpec: true, GenerationTokens: 900}, &Counters{HasSpec: true, GenerationTokens: 1900, RequestsFinished: 3})
	f("less than was asked", AuditNone, nil, nil, at(10), at(12), at(11), at(12))
	f("restarted in between", AuditNone, nil, nil, at(10), at(2), at(1), at(3))
	f("none", AuditNone, nil, nil, nil, nil, at(1), at(3))
}

// The run line keeps what it says of shards, and refuses what cannot be.
func TestShardOnTheWire(t *testing.T) {
	one := shardPoint(1, 3, time.Unix(1e9, 0)).Run
	merged := one
	merged.Shard, merged.Shards = nil, []Shard{*one.Shard, {Index: 2, Of: 3, Run: "x", Concurrency: 4}}
	for _, run := range []Run{one, merged} {
		text, err := run.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var got Run
		if err := got.UnmarshalJSON(text); err != nil || !reflect.DeepEqual(got.Shard, run.Shard) || !reflect.DeepEqual(got.Shards, run.Shards) {
			t.Errorf("got %+v and %+v (%v), want %+v and %+v", got.Shard, got.Shards, err, run.Shard, run.Shards)
		}
		if first, err := ReadRun(strings.NewReader(string(text) + "\nnot read")); err != nil || first.ID != run.ID {
			t.Errorf("got run %q (%v), want %q", first.ID, err, run.ID)
		}
	}
	f := func(shard string) {
		t.Helper()
		var got Run
		if err := got.UnmarshalJSON([]byte(`{"schema":"` + SchemaRun + `",` + shard + `}`)); err == nil || !strings.Contains(err.Error(), "shard") {
			t.Errorf("%s: got %v, want it refused", shard, err)
		}
	}
	f(`"shard":{"index":3,"of":3}`)
	f(`"shard":{"index":-1,"of":3}`)
	f(`"shard":{"index":0,"of":1000000000}`)
	f(`"shards":[{"index":0,"of":2},{"index":1,"of":3}]`)
}

// The merged configuration is the first shard's, and says what differed.
func TestMergedConfiguration(t *testing.T) {
	a, b := shardPoint(0, 2, time.Unix(1e9, 0)), shardPoint(1, 2, time.Unix(1e9, 0))
	a.Run.Configuration = json.RawMessage(`{"top_p": 1.0, "save_dir": "x/0", "timestamp": "2026-01-02T03:04:06+00:00", "shard": "0/2", "shard_concurrency": 1}`)
	b.Run.Configuration = json.RawMessage(`{"top_p": 1.0, "save_dir": "x/1", "timestamp": "2026-01-02T03:04:05+00:00", "shard": "1/2", "shard_concurrency": 1}`)
	m, err := MergeShards([]Point{b, a})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
    "top_p": 1.0,
    "save_dir": "x/0",
    "timestamp": "2026-01-02T03:04:05+00:00",
    "shards": [
        {
            "shard": 0,
            "of": 2,
            "run": "run-a",
            "concurrency": 1,
            "host": "node-a",
            "differs": {
                "timestamp": "2026-01-02T03:04:06+00:00"
            }
        },
        {
            "shard": 1,
            "of": 2,
            "run": "run-b",
            "concurrency": 1,
            "host": "node-b",
            "differs": {
                "save_dir": "x/1"
            }
        }
    ]
}`
	if got := strings.TrimSpace(string(m.Run.Configuration)); got != want {
		t.Errorf("got %s", got)
	}
}
