package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"spectap/collector"
	"spectap/sweep"
)

// truth is one line of the simulated engine's ground-truth log, as far as a
// measurement can be held against it (proxy/fakevllm).
type truth struct {
	RequestID        string  `json:"x_request_id"`
	Histogram        []int   `json:"histogram"`
	ChunkLengths     []int   `json:"chunk_lengths"`
	CompletionTokens int     `json:"completion_tokens"`
	ArriveUnixNs     int64   `json:"arrive_unix_ns"`
	WriteUnixNs      []int64 `json:"write_unix_ns"`
}

func (p program) checkCommand() *cobra.Command {
	var truthPath string
	c := &cobra.Command{
		Use:   "check --truth truth.jsonl records.jsonl ...",
		Short: "hold records against the simulated engine's own log: figures exactly, times as absolute stamps",
		RunE: func(_ *cobra.Command, paths []string) error {
			if truthPath == "" || len(paths) == 0 {
				return exitError{exitUsage, errors.New("want the engine's log and records files, as in spectap check --truth truth.jsonl D/*/records.jsonl")}
			}
			return p.check(truthPath, paths)
		},
	}
	c.Flags().StringVar(&truthPath, "truth", "", "log of the simulated engine (fakevllm --truth)")
	return c
}

// check prints one line a records file and fails if a figure differs. Times
// are printed only: how good they are depends on the machine.
func (p program) check(truthPath string, paths []string) error {
	log, err := readTruth(truthPath)
	if err != nil {
		return exitError{exitUsage, err}
	}
	differs := 0
	for _, path := range paths {
		point, _, err := readPoint(path)
		if err != nil {
			return exitError{exitUsage, err}
		}
		if point.AIPerf, err = sweep.ReadAIPerf(filepath.Dir(path)); err != nil {
			return exitError{exitFailed, err}
		}
		result, err := comparePoint(point, log)
		if err != nil {
			return exitError{exitFailed, fmt.Errorf("cannot compare %s: %w", path, err)}
		}
		result.print(p.stdout)
		if !result.equal() {
			differs++
		}
	}
	if differs > 0 {
		return exitError{exitFailed, fmt.Errorf("%d of %d points differ from the engine's log", differs, len(paths))}
	}
	return nil
}

// comparison holds a point against the engine's log.
type comparison struct {
	point                   string
	requests, unknown       int
	ours, engine            [2]float64 // Average_AL, client and server view
	histograms              [2]bool    // the chunk length histograms are equal
	outputErrors, gapErrors []float64  // ms, record minus log, absolute: first output, later chunks
	miscounted              int        // requests with another number of events
	clients                 []clientErrors
}

func (c comparison) equal() bool {
	return c.ours == c.engine && c.histograms == [2]bool{true, true} && c.unknown == 0 && c.miscounted == 0
}

func (c comparison) print(w io.Writer) {
	verdict := "equal"
	if !c.equal() {
		verdict = "DIFFERS"
	}
	fmt.Fprintf(w, "%-8s %s: %d requests (%d not in the log, %d with other event counts); Average_AL client %s, log %s; server %s, log %s\n",
		c.point, verdict, c.requests, c.unknown, c.miscounted, text(c.ours[0]), text(c.engine[0]), text(c.ours[1]), text(c.engine[1]))
	for _, e := range []struct {
		name    string
		samples []float64
	}{{"first output", c.outputErrors}, {"later events", c.gapErrors}} {
		fmt.Fprintf(w, "         %s: record minus log, n %d, p50 %.3f ms, p99 %.3f ms, max %.3f ms\n",
			e.name, len(e.samples), quantile(e.samples, 0.5), quantile(e.samples, 0.99), quantile(e.samples, 1))
	}
	for _, client := range c.clients {
		client.print(w)
	}
}

// quantile sorts and interpolates; there is none of nothing.
func quantile(samples []float64, q float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	return collector.Quantile(slices.Sorted(slices.Values(samples)), q)
}

func text(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// comparePoint computes both views from the records and from the log, with one
// metric, and the distance of every stamp.
func comparePoint(point collector.Point, log map[string]truth) (comparison, error) {
	c := comparison{point: point.Run.Point, clients: byClient(point, log)}
	turns := make(map[[2]int]truth) // by conversation and turn
	for _, r := range point.Records {
		if r.SetApart != "" { // in no figure
			continue
		}
		t, ok := log[r.RequestID]
		c.requests++
		conversation, err := strconv.Atoi(r.Labels.Conversation)
		if !ok || err != nil {
			c.unknown++
			continue
		}
		turns[[2]int{conversation, r.Labels.Turn}] = t
		c.stamps(r, t)
	}
	if c.unknown == c.requests {
		return c, fmt.Errorf("none of its %d requests is in the engine's log: want the log of the engine that answered them", c.requests)
	}
	for i, view := range []string{collector.ViewClient, collector.ViewServer} {
		if err := c.view(i, point, view, turns); err != nil {
			return c, err
		}
	}
	return c, nil
}

// view compares one view of acceptance length.
func (c *comparison) view(i int, point collector.Point, view string, turns map[[2]int]truth) (err error) {
	ours, failures := point.Conversations(view)
	if len(failures) > 0 {
		return fmt.Errorf("%d conversations failed, the first because %v", len(failures), failures[0])
	}
	engine := slices.Clone(ours)
	for n := range engine {
		engine[n].Turns = slices.Clone(engine[n].Turns)
		for k := range engine[n].Turns {
			t := turns[[2]int{engine[n].Index, k}]
			engine[n].Turns[k].Lengths = t.ChunkLengths
			if view == collector.ViewServer {
				engine[n].Turns[k].Lengths = collector.HistogramLengths(t.Histogram)
			}
		}
	}
	metric := point.Run.Metric
	c.histograms[i] = maps.Equal(collector.LengthHistogram(metric, ours), collector.LengthHistogram(metric, engine))
	if c.ours[i], err = collector.AverageAL(metric, ours); err != nil {
		return err
	}
	c.engine[i], err = collector.AverageAL(metric, engine)
	return err
}

// stamps notes how far the record's times are from the moments before the
// engine's writes.
func (c *comparison) stamps(r *collector.Record, t truth) {
	if len(r.Chunks) != len(t.WriteUnixNs) {
		c.miscounted++
		return
	}
	for i, chunk := range r.Chunks {
		ms := float64(r.Start.Add(chunk.At).UnixNano()-t.WriteUnixNs[i]) / 1e6
		if i == 0 {
			c.outputErrors = append(c.outputErrors, math.Abs(ms))
			continue
		}
		c.gapErrors = append(c.gapErrors, math.Abs(ms))
	}
}

// readTruth reads the engine's log by request id; the last line of an id counts.
func readTruth(path string) (map[string]truth, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the engine's log: %w", err)
	}
	log := make(map[string]truth)
	lines := bufio.NewReader(bytes.NewReader(text))
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var t truth
			if bad := json.Unmarshal(line, &t); bad != nil {
				return nil, fmt.Errorf("cannot read line %d of %s: %w", n, path, bad)
			}
			log[t.RequestID] = t
		}
		if err == io.EOF {
			return log, nil
		}
	}
}
