package deploy

import "testing"

// A sweep through `spectap proxy` sees the engine's statistics as one straight
// to the engine does.
func TestSweepThroughProxy(t *testing.T) {
	engine := startEngine(t, "--prefill", "1ms", "--step", "1ms")
	questions := writeQuestions(t, 4)
	args := []string{"--mtbench", questions, "--concurrency", "4", "--output_length", "32"}
	direct := runSweep(t, nil, append(args, "--url", engine)...)
	through := runSweep(t, nil, append(args, "--url", startProxy(t, nil, engine).URL)...)
	if got, want := acceptance(t, through), acceptance(t, direct); got != want {
		t.Errorf("got %s, without the proxy %s", got, want)
	}
}
