package main

import (
	"strings"
	"testing"

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
