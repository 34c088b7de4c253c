package compare

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// benchRun describes a folder of specdec_bench's by hand.
type benchRun struct {
	als    []float64 // of each MT-Bench question
	tps    float64
	ttft   float64
	config string // configuration.json
}

// write makes the folder.
func (b benchRun) write(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	requests := []string{}
	for i, al := range b.als {
		requests = append(requests, fmt.Sprintf("%q: %v", fmt.Sprint(i), al))
	}
	put(t, filepath.Join(dir, "acceptance_rate.json"),
		`[{"Request_AL": {`+strings.Join(requests, ", ")+`}, "Category_AL": {"writing": 1}, "Average_AL": 1, "Joint_Acceptance_Rate": {"1": 1.0, "2": 0.5, "4": 0.25}}]`)
	if b.tps > 0 {
		put(t, filepath.Join(dir, "timing.json"), fmt.Sprintf(`[{"Output TPS": %v, "Output TPS/gpu": %v, "TTFT Time": {"mean": "%.4f"}}]`, b.tps, b.tps, b.ttft))
	}
	if b.config != "" {
		put(t, filepath.Join(dir, "configuration.json"), b.config)
	}
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string) Input {
	t.Helper()
	in, err := Open(path)
	if err != nil {
		t.Fatalf("cannot open: %v", err)
	}
	return in
}

// compared opens and compares folders.
func compared(t *testing.T, opts Options, paths ...string) Result {
	t.Helper()
	var inputs []Input
	for _, p := range paths {
		inputs = append(inputs, open(t, p))
	}
	r, err := Compare(inputs, opts)
	if err != nil {
		t.Fatalf("cannot compare: %v", err)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Fatalf("the result is no JSON: %v", err)
	}
	return r
}

// figure finds a figure of the first comparison by its name, as --fail-if has it.
func figure(t *testing.T, r Result, point, name string) Figure {
	t.Helper()
	for _, p := range r.Comparisons[0].Points {
		for _, f := range p.Figures {
			if p.Point == point && quantityName(f.Quantity, f.Scope, f.Key) == name {
				return f
			}
		}
	}
	t.Fatalf("point %s has no %s", point, name)
	return Figure{}
}

func near(t *testing.T, what string, got *float64, want, within float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: got none, want %v", what, want)
		return
	}
	if d := *got - want; d > within || d < -within || d != d {
		t.Errorf("%s: got %v, want %v", what, *got, want)
	}
}
