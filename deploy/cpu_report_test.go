package deploy

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// report prints the table of a comparison and fails where a bound is passed.
func report(b *testing.B, l load, direct timings, arms []*arm) {
	b.Helper()
	base := arms[0]
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%d streams, %d tokens a reply, %d rounds of %d requests\n", l.streams, l.tokens, len(base.cpu), l.streams*l.each)
	fmt.Fprint(w, "telemetry\tCPU µs/request\tratio to off\tmiddle half\tpeak memory\tTTFT p50\tp99\trequest p50\tp99\t\n")
	fmt.Fprintf(w, "without a proxy\t\t\t\t\t%s\t\n", times(direct))
	for _, a := range arms {
		low, high := quarters(a.ratios(base))
		fmt.Fprintf(w, "%s\t%.0f\t%.3f\t%.3f to %.3f\t%d MiB\t%s\t\n", a.name, 1e6*middle(a.cpu), middle(a.ratios(base)),
			low, high, a.proxy.peakMemory(b)>>20, times(pooled(a.timings)))
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	for _, a := range arms[1:] {
		ratio := middle(a.ratios(base))
		b.ReportMetric(ratio, strings.ReplaceAll(a.name, " ", "_")+"/off")
		if ratio > l.bound {
			b.Errorf("%s: got %.3f of the processor time without telemetry, want at most %v", a.name, ratio, l.bound)
		}
		// The quietest round: what the machine does beside it only ever adds.
		got, limit := a.quietest(0.99), time.Duration(delayBound*float64(base.quietest(0.99)))+delaySlack
		if got > limit {
			b.Errorf("%s: got a 99th percentile of TTFT of %v in its quietest round, want at most %v", a.name, got, limit)
		}
	}
}

// quietest is the least quantile of TTFT of a round.
func (a *arm) quietest(q float64) time.Duration {
	var of []time.Duration
	for _, t := range a.timings {
		of = append(of, quantile(t.ttft, q))
	}
	return slices.Min(of)
}

// peakMemory is the largest resident size that a process had, in bytes.
func (p *process) peakMemory(t testing.TB) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// ratios compares round by round.
func (a *arm) ratios(base *arm) []float64 {
	out := make([]float64, len(a.cpu))
	for i := range a.cpu {
		out[i] = a.cpu[i] / base.cpu[i]
	}
	return out
}

func times(t timings) string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", 1e3*d.Seconds()) }
	return strings.Join([]string{ms(quantile(t.ttft, 0.5)), ms(quantile(t.ttft, 0.99)), ms(quantile(t.took, 0.5)), ms(quantile(t.took, 0.99))}, "\t")
}

func pooled(list []timings) (all timings) {
	for _, t := range list {
		all.ttft, all.took = append(all.ttft, t.ttft...), append(all.took, t.took...)
	}
	slices.Sort(all.ttft)
	slices.Sort(all.took)
	return all
}

// quarters are the bounds of the middle half.
func quarters(list []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return sorted[n/4], sorted[n-1-n/4]
}

// middle is the median.
func middle(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
