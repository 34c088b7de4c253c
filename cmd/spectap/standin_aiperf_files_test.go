package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// standInAnswer is what AIPerf measures of an answer.
type standInAnswer struct {
	start       time.Time
	first, last time.Duration
	text, fail  string
	usage       int
	spec        *struct {
		Accepted int `json:"num_accepted_draft_tokens"`
		Steps    int `json:"num_spec_steps"`
	}
}

func (a *standInAnswer) read(req *http.Request) {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.fail = "ServerDisconnectedError"
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		a.fail = resp.Status
		return
	}
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			a.event(data)
		}
		if err == io.EOF {
			return // a clean end without [DONE] is a success
		}
		if err != nil {
			a.fail = "ClientPayloadError"
			return
		}
	}
}

func (a *standInAnswer) event(data string) {
	var e struct {
		Choices []struct{ Delta struct{ Content string } }
		Usage   *struct {
			Completion int `json:"completion_tokens"`
		}
		Metrics struct {
			Spec *struct {
				Accepted int `json:"num_accepted_draft_tokens"`
				Steps    int `json:"num_spec_steps"`
			} `json:"speculative_decoding"`
		}
	}
	_ = json.Unmarshal([]byte(data), &e) // [DONE], an error event
	if e.Usage != nil {
		a.usage = e.Usage.Completion
	}
	if e.Metrics.Spec != nil {
		a.spec = e.Metrics.Spec
	}
	if len(e.Choices) == 0 || e.Choices[0].Delta.Content == "" {
		return
	}
	if a.last = time.Since(a.start); a.text == "" {
		a.first = a.last
	}
	a.text += e.Choices[0].Delta.Content
}

// keep makes the row of a request.
func (s *standInRun) keep(a standInAnswer, metadata map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row := map[string]any{"metadata": metadata}
	s.rows = append(s.rows, row)
	if a.fail != "" {
		s.failed[a.fail]++
		row["metrics"] = map[string]any{"error_isl": measured(17, "tokens")}
		row["error"] = map[string]any{"type": a.fail, "message": "a server's message, which may hold content"}
		if s.behaviour == "threshold" {
			s.stop()
		}
		return
	}
	ms := func(d time.Duration) any { return measured(float64(d)/1e6, "ms") }
	m := map[string]any{"time_to_first_token": ms(a.first), "request_latency": ms(a.last), "output_sequence_length": measured(float64(a.usage), "tokens"),
		"usage_completion_tokens": measured(float64(a.usage), "tokens"), "inter_chunk_latency": map[string]any{"value": []float64{1, 2}, "unit": "ms"}}
	if a.usage > 1 {
		m["output_token_throughput_per_user"] = measured(float64(a.usage-1)/(a.last-a.first).Seconds(), "tokens/sec/user")
	}
	if a.spec != nil {
		al := 1.0
		if a.spec.Steps > 0 {
			al += float64(a.spec.Accepted) / float64(a.spec.Steps)
		}
		m["spec_decode_acceptance_length"] = measured(al, "ratio")
	}
	row["metrics"] = m
}

func measured(value float64, unit string) map[string]any {
	return map[string]any{"value": value, "unit": unit}
}

// export writes the files. Where every request failed, AIPerf writes no summary.
func (s *standInRun) export() error {
	dir := s.flags["--output-artifact-dir"]
	var lines bytes.Buffer
	sums, units, counts := map[string]float64{}, map[string]string{}, map[string]int{}
	for _, row := range s.rows {
		line, err := json.Marshal(row)
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
		for tag, m := range row["metrics"].(map[string]any) {
			if v, ok := m.(map[string]any)["value"].(float64); ok {
				sums[tag], units[tag] = sums[tag]+v, m.(map[string]any)["unit"].(string)
				counts[tag]++
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "profile_export.jsonl"), lines.Bytes(), 0o644); err != nil {
		return err
	}
	failed, list := 0, []any{}
	for kind, n := range s.failed {
		failed += n
		list = append(list, map[string]any{"error_details": map[string]any{"code": nil, "type": kind, "message": "a server's message, which may hold content"}, "count": n})
	}
	good := len(s.rows) - failed
	if good == 0 {
		return fmt.Errorf("all requests failed")
	}
	if s.behaviour == "lies" {
		good, failed = good-1, failed+1
	}
	file := map[string]any{"schema_version": "1.4", "aiperf_version": "0.13.0", "was_cancelled": s.cancelled, "is_complete": !s.cancelled, "error_summary": list,
		"request_count": map[string]any{"unit": "requests", "avg": good}, "input_config": map[string]any{"models": []string{"m"}}}
	if failed > 0 {
		file["error_request_count"] = map[string]any{"unit": "requests", "avg": failed}
	}
	for tag, sum := range sums {
		file[tag] = map[string]any{"unit": units[tag], "avg": sum / float64(counts[tag]), "sum": sum, "count": counts[tag]}
	}
	text, err := json.Marshal(file)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "profile_export_aiperf.json"), text, 0o644)
}
