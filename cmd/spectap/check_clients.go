package main

import (
	"fmt"
	"io"
	"math"

	"spectap/collector"
)

// durations are what a client measures of one request, in seconds: the TTFT and
// the time from the first output to the last.
type durations struct {
	ttft, decode float64
	first        int64 // Unix ns of the first output
}

// durations of a request by the engine itself: the TTFT runs from the arrival at
// its machine, so that what a request waits for a busy engine's accept and read
// is in it as in every client's, to the write of the first output.
func (t truth) durations() (durations, bool) {
	if len(t.WriteUnixNs) < 2 || t.ArriveUnixNs == 0 {
		return durations{}, false
	}
	first, last := t.WriteUnixNs[0], t.WriteUnixNs[len(t.WriteUnixNs)-1]
	return durations{float64(first-t.ArriveUnixNs) / 1e9, float64(last-first) / 1e9, first}, true
}

// clientErrors are how far one client's durations are from the engine's log.
type clientErrors struct {
	name   string
	ttft   []float64 // ms, absolute
	first  []float64 // ms, absolute: the moment of the first output
	decode []float64 // percent of the time from first to last output, so of the time per token; absolute
}

func (e *clientErrors) add(measured durations, t truth) {
	engine, ok := t.durations()
	if !ok || engine.decode <= 0 {
		return
	}
	e.ttft = append(e.ttft, math.Abs(measured.ttft-engine.ttft)*1e3)
	e.first = append(e.first, math.Abs(float64(measured.first-engine.first))/1e6)
	e.decode = append(e.decode, math.Abs(measured.decode/engine.decode-1)*100)
}

func (e *clientErrors) print(w io.Writer) {
	fmt.Fprintf(w, "         %s off the log, n %d: TTFT p50 %.3f ms, p99 %.3f ms, max %.3f ms; moment of the first output p50 %.3f ms, p99 %.3f ms; time per token p50 %.3f %%, p99 %.3f %%\n",
		e.name, len(e.ttft), quantile(e.ttft, 0.5), quantile(e.ttft, 0.99), quantile(e.ttft, 1), quantile(e.first, 0.5), quantile(e.first, 0.99),
		quantile(e.decode, 0.5), quantile(e.decode, 0.99))
}

// byClient compares durations: ours as timing.json has them, from the moment the
// request was written upstream, and AIPerf's own where it drove the point.
func byClient(point collector.Point, log map[string]truth) []clientErrors {
	ours := clientErrors{name: "spectap"}
	for _, r := range point.Records {
		if n := len(r.Chunks); r.SetApart != collector.ApartWarmup && n > 1 && r.UpstreamWritten.Known {
			ours.add(durations{
				(r.Chunks[0].At - r.UpstreamWritten.Offset).Seconds(),
				(r.Chunks[n-1].At - r.Chunks[0].At).Seconds(),
				r.Start.Add(r.Chunks[0].At).UnixNano(),
			}, log[r.RequestID])
		}
	}
	list := []clientErrors{ours}
	if point.AIPerf == nil {
		return list
	}
	theirs := clientErrors{name: "aiperf " + point.AIPerf.Version}
	for _, row := range point.AIPerf.Rows {
		if row.TTFT != nil && row.Latency != nil && !row.Warmup {
			theirs.add(durations{*row.TTFT, *row.Latency - *row.TTFT, row.StartUnixNs + int64(*row.TTFT*1e9)}, log[row.RequestID])
		}
	}
	return append(list, theirs)
}
