package collector

import (
	"errors"
	"fmt"
	"math"
)

// TimingResult is timing.json before it is rounded: raw samples, seconds.
type TimingResult struct {
	OutputTPS       float64 // tokens of all turns over the time from the first start to the last end, per second
	OutputTPSPerGPU float64

	E2E           []float64 // last time minus start, of turns with at least 2 times
	TTFT          []float64 // first event minus start, of the same turns
	StepTime      []float64 // all gaps of turns with at least 3 times; as in timing.py, the first one is the TTFT
	GenerationTPS []float64 // (tokens - 1) over last minus first event, of turns with at least 3 times
	OutputTokens  []float64 // tokens of every turn

	Warnings []string
}

// Timing computes timing.json of turns in the order in which they ended. It
// returns an error where specdec_bench raises an exception, but for one case: a
// turn with at least 3 times whose last equals its second has no rate; it is left
// out of GenerationTPS, and one of the Warnings counts and names all such turns. Source: specdec_bench
// metrics/timing.py.
func Timing(turns []Turn, gpus int) (TimingResult, error) {
	if len(turns) == 0 {
		return TimingResult{}, errors.New("cannot compute timing: no turn was measured")
	}
	if gpus < 1 {
		return TimingResult{}, fmt.Errorf("cannot compute timing for %d GPUs: set --num_gpus to at least 1", gpus)
	}
	r := newTimingResult(turns)
	tokens, start, end := 0, math.Inf(1), math.Inf(-1)
	var rateless []string
	for i, t := range turns {
		if len(t.Times) == 0 {
			return TimingResult{}, fmt.Errorf("cannot compute timing: turn %d of %d has no start time", i+1, len(turns))
		}
		tokens += t.Tokens
		start = min(start, t.Times[0])
		end = max(end, t.Times[len(t.Times)-1])
		if !r.add(t) {
			rateless = append(rateless, t.name(i))
		}
	}
	if n := len(rateless); n > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d turns have no generation rate, because their events with tokens came at one moment: %s",
			n, len(turns), firstNames(rateless)))
	}
	if !(end > start) {
		return TimingResult{}, fmt.Errorf("cannot compute timing: %d turns start at %g s and end at %g s, so there is no time between", len(turns), start, end)
	}
	if len(r.E2E) == 0 {
		return TimingResult{}, fmt.Errorf("cannot compute timing: none of %d turns brought an event with tokens: %w", len(turns), errNotStreamed)
	}
	r.OutputTPS = float64(tokens) / (end - start)
	r.OutputTPSPerGPU = r.OutputTPS / float64(gpus)
	return r, nil
}

// errNotStreamed says that no answer came as a stream, so that nothing is known of its times.
var errNotStreamed = errors.New("no answer was streamed")

// newTimingResult makes room for the samples of all turns.
func newTimingResult(turns []Turn) TimingResult {
	gaps := 0
	for _, t := range turns {
		gaps += len(t.Times)
	}
	samples := make([]float64, 4*len(turns)+gaps)
	take := func(n int) []float64 {
		part := samples[:0:n]
		samples = samples[n:]
		return part
	}
	n := len(turns)
	return TimingResult{E2E: take(n), TTFT: take(n), GenerationTPS: take(n), OutputTokens: take(n), StepTime: take(gaps)}
}

// add adds the samples of a turn. It returns false where the turn should have a
// rate and has none: all its events came at one moment.
func (r *TimingResult) add(t Turn) (rated bool) {
	r.OutputTokens = append(r.OutputTokens, float64(t.Tokens))
	if len(t.Times) < 2 {
		return true
	}
	first, second, last := t.Times[0], t.Times[1], t.Times[len(t.Times)-1]
	r.E2E = append(r.E2E, last-first)
	r.TTFT = append(r.TTFT, second-first)
	if len(t.Times) < 3 {
		return true
	}
	for j, at := range t.Times[1:] {
		r.StepTime = append(r.StepTime, at-t.Times[j])
	}
	if last == second {
		return false
	}
	r.GenerationTPS = append(r.GenerationTPS, float64(t.Tokens-1)/(last-second))
	return true
}

// Object is the object of timing.json. Blocks without samples are left out.
func (r TimingResult) Object() Object {
	o := Object{{"Output TPS", r.OutputTPS}, {"Output TPS/gpu", r.OutputTPSPerGPU}}
	for _, block := range []struct {
		name    string
		samples []float64
	}{
		{"E2E Request Time", r.E2E},
		{"TTFT Time", r.TTFT},
		{"Request Generation Step Time", r.StepTime},
		{"Request Generation Tokens Per Second", r.GenerationTPS},
		{"Number of Output Tokens", r.OutputTokens},
	} {
		if len(block.samples) > 0 {
			o = append(o, Member{block.name, StatsBlock(block.samples)})
		}
	}
	return o
}
