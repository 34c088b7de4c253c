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
	fmt.Fprintf(w, "\n%d streams, %d tokens a reply, %d rounds of %d requests\n", l.streams, l.tokens, cpuRounds, l.streams*l.each)
	fmt.Fprint(w, "telemetry\tCPU µs/request\tratio to off\tof single rounds\tTTFT p50\tp99\trequest p50\tp99\t\n")
	fmt.Fprintf(w, "without a proxy\t\t\t\t%s\t\n", times(direct))
	for _, a := range arms {
		ratios := a.ratios(base)
		fmt.Fprintf(w, "%s\t%.0f\t%.3f\t%.3f to %.3f\t%s\t\n", a.name, 1e6*middle(a.cpu), middle(a.cpu)/middle(base.cpu),
			slices.Min(ratios), slices.Max(ratios), times(pooled(a.timings)))
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	for _, a := range arms[1:] {
		ratio := middle(a.cpu) / middle(base.cpu)
		b.ReportMetric(ratio, strings.ReplaceAll(a.name, " ", "_")+"/off")
		if ratio > cpuBound {
			b.Errorf("%s: got %.3f of the processor time without telemetry, want at most %v", a.name, ratio, cpuBound)
		}
		got, limit := quantile(pooled(a.timings).ttft, 0.99), time.Duration(delayBound*float64(quantile(pooled(base.timings).ttft, 0.99)))+delaySlack
		if got > limit {
			b.Errorf("%s: got a 99th percentile of TTFT of %v, want at most %v", a.name, got, limit)
		}
	}
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

// middle is the median.
func middle(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
