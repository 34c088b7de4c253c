package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spectap/collector"
)

// Records of another engine are said to be that, not to be without chunks.
func TestCheckAgainstAnotherLog(t *testing.T) {
	point := collector.Point{Run: collector.Run{Metric: "MTBench"}, Records: []*collector.Record{{RequestID: "ours"}}}
	_, err := comparePoint(point, map[string]truth{"theirs": {ChunkLengths: []int{1, 2}}})
	if err == nil || !strings.Contains(err.Error(), "none of its 1 requests is in the engine's log") {
		t.Errorf("got %v, want an error that names the log", err)
	}
}

// What both clients measured against the log, absolute: the TTFT and the moment of
// the first output in milliseconds, the time per token in percent.
func TestCheckByClient(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	number := func(v float64) *float64 { return &v }
	record := func(id string, written, first, last int) *collector.Record {
		return &collector.Record{RequestID: id, Start: time.Unix(0, 1e9), UpstreamWritten: collector.At(ms(written)), Chunks: []collector.Chunk{{At: ms(first)}, {At: ms(last)}}}
	}
	log := map[string]truth{
		"a": {ArriveUnixNs: 1e9 + 3e6, WriteUnixNs: []int64{1e9 + 53e6, 1e9 + 60e6, 1e9 + 153e6}},
		"b": {ArriveUnixNs: 1e9, WriteUnixNs: []int64{1e9 + 50e6, 1e9 + 150e6}},
		"c": {ArriveUnixNs: 1e9, WriteUnixNs: []int64{1e9 + 50e6}}, // too short for a time per token
	}
	point := collector.Point{
		Records: []*collector.Record{record("a", 2, 54, 154), record("b", 1, 50, 152), record("c", 0, 1, 2), record("d", 0, 1, 2)},
		AIPerf: &collector.AIPerf{Version: "0.13.0", Rows: []collector.AIPerfRow{
			{RequestID: "a", StartUnixNs: 1e9 - 8e6, TTFT: number(0.075), Latency: number(0.185)}, {RequestID: "b", TTFT: number(0.04), Latency: number(0.14), Warmup: true}, {RequestID: "b"},
		}},
	}
	got := byClient(point, log)
	want := []clientErrors{
		{"spectap", []float64{2, 1}, []float64{1, 0}, []float64{0, 2}},
		{"aiperf 0.13.0", []float64{25}, []float64{14}, []float64{10}},
	}
	round := cmp.Transformer("round", func(v float64) float64 { return math.Round(v*1e6) / 1e6 })
	if d := cmp.Diff(want, got, cmp.AllowUnexported(clientErrors{}), round); d != "" {
		t.Error(d)
	}
}
