package deploy

import (
	"os"
	"path/filepath"
	"testing"
)

// A sweep through `spectap proxy` sees the engine's statistics as one straight
// to the engine does.
func TestSweepThroughProxy(t *testing.T) {
	engine := startEngine(t, "--prefill", "1ms", "--step", "1ms")
	questions := writeQuestions(t, 4)
	args := []string{"--mtbench", questions, "--concurrency", "4", "--output_length", "32"}
	direct := runSweep(t, nil, append(args, "--url", engine)...)
	through := runSweep(t, nil, append(args, "--url", startProxy(t, nil, engine).URL)...)
	const name = "t0_c4/acceptance_rate.json"
	want, err := os.ReadFile(filepath.Join(direct, name))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(through, name))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s: got %s, without the proxy %s", name, got, want)
	}
}
