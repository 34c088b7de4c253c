package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"spectap/collector/telemetry"
)

// The README's table of metrics is telemetry's catalog.
func TestReadmeMetrics(t *testing.T) {
	var b strings.Builder
	b.WriteString("| metric | kind | unit | labels | meaning |\n|---|---|---|---|---|\n")
	for _, m := range telemetry.Catalog() {
		labels := strings.Join(m.Labels, "`, `")
		if labels != "" {
			labels = "`" + labels + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, m.Unit, labels, strings.TrimSuffix(m.Help, "."))
	}
	const begin, end = "<!-- metrics: begin -->\n", "<!-- metrics: end -->"
	text := readme(t)
	from, to := strings.Index(text, begin)+len(begin), strings.Index(text, end)
	if from < len(begin) || to < from {
		t.Fatal("README.md has no marks for the table of metrics")
	}
	if got := text[from:to]; got != b.String() {
		if !*update {
			t.Fatalf("README.md's metrics differ from telemetry.Catalog; run go test ./cmd/spectap -run Readme -update\ngot\n%s\nwant\n%s", got, b.String())
		}
		if err := os.WriteFile(readmePath, []byte(text[:from]+b.String()+text[to:]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
