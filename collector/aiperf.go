package collector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// The files of AIPerf that are read.
const (
	FileAIPerfSummary = "profile_export_aiperf.json"
	FileAIPerfRows    = "profile_export.jsonl"
)

// AIPerf is what NVIDIA AIPerf wrote about a run of its own.
type AIPerf struct {
	Version   string
	Cancelled bool                    // by a signal or by its own threshold of failures
	Complete  bool                    // true where it does not say (before schema 1.4)
	Errors    []AIPerfError           // failed requests by kind
	Metrics   map[string]AIPerfMetric // by tag: "time_to_first_token"
	Rows      []AIPerfRow             // one a request that ended, in the order of the file
	BadRows   int                     // lines that are no row
}

// AIPerfError counts failed requests of one kind. The server's message, which
// may hold content, is not read.
type AIPerfError struct {
	Type  string
	Count int
}

// AIPerfMetric is an aggregate over the run.
type AIPerfMetric struct {
	Unit string  `json:"unit"`
	Avg  float64 `json:"avg"` // the value itself where the metric is one number
}

// AIPerfRow is one request of profile_export.jsonl. Absent figures are nil.
type AIPerfRow struct {
	RequestID      string // X-Request-ID
	CorrelationID  string // X-Correlation-ID: one a conversation
	ConversationID string // session_id of its input file
	Turn           int
	Warmup         bool // in the file, not in the aggregates
	Failed         bool
	StartUnixNs    int64

	TTFT             *float64 // seconds from its start to the first chunk with content or reasoning
	Latency          *float64 // seconds from its start to the last chunk with content
	OutputTokens     *float64 // by its own tokenizer
	UsageTokens      *float64 // by the server's usage
	AcceptanceLength *float64 // 1 + accepted / steps; 1 where there were no steps
}

// ParseAIPerf reads profile_export_aiperf.json and profile_export.jsonl of
// AIPerf 0.13 (schema 1.4) and, as far as members have kept their names, of
// other versions. Members that it does not know are skipped.
func ParseAIPerf(summary, rows []byte) (AIPerf, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(summary, &members); err != nil {
		return AIPerf{}, fmt.Errorf("cannot read %s: %w", FileAIPerfSummary, err)
	}
	var head struct {
		Version   string `json:"aiperf_version"`
		Cancelled bool   `json:"was_cancelled"`
		Complete  *bool  `json:"is_complete"`
		Errors    []struct {
			Details struct {
				Type string          `json:"type"`
				Code json.RawMessage `json:"code"`
			} `json:"error_details"`
			Count int `json:"count"`
		} `json:"error_summary"`
	}
	if err := json.Unmarshal(summary, &head); err != nil {
		return AIPerf{}, fmt.Errorf("cannot read %s: %w", FileAIPerfSummary, err)
	}
	a := AIPerf{Version: head.Version, Cancelled: head.Cancelled, Complete: head.Complete == nil || *head.Complete, Metrics: map[string]AIPerfMetric{}}
	for _, e := range head.Errors {
		a.Errors = append(a.Errors, AIPerfError{strings.TrimSpace(codeText(e.Details.Code) + " " + e.Details.Type), e.Count})
	}
	for tag, text := range members {
		var m struct {
			Unit *string  `json:"unit"`
			Avg  *float64 `json:"avg"`
		}
		if json.Unmarshal(text, &m) == nil && m.Unit != nil && m.Avg != nil {
			a.Metrics[tag] = AIPerfMetric{*m.Unit, *m.Avg}
		}
	}
	for line := range bytes.Lines(rows) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if row, ok := parseAIPerfRow(line); ok {
			a.Rows = append(a.Rows, row)
		} else {
			a.BadRows++
		}
	}
	return a, nil
}

func codeText(code json.RawMessage) string {
	if len(code) == 0 || string(code) == "null" {
		return ""
	}
	return strings.Trim(string(code), `"`)
}

// parseAIPerfRow reads one line. A line without a request id is no row.
func parseAIPerfRow(line []byte) (AIPerfRow, bool) {
	var w struct {
		Metadata struct {
			RequestID      string `json:"x_request_id"`
			CorrelationID  string `json:"x_correlation_id"`
			ConversationID string `json:"conversation_id"`
			Turn           int    `json:"turn_index"`
			Start          int64  `json:"request_start_ns"`
			Phase          string `json:"benchmark_phase"`
			Cancelled      bool   `json:"was_cancelled"`
		} `json:"metadata"`
		Metrics map[string]struct {
			Value json.RawMessage `json:"value"`
			Unit  string          `json:"unit"`
		} `json:"metrics"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(line, &w) != nil || w.Metadata.RequestID == "" {
		return AIPerfRow{}, false
	}
	value := func(tag string) *float64 {
		var v float64
		if m := w.Metrics[tag]; len(m.Value) == 0 || json.Unmarshal(m.Value, &v) != nil {
			return nil
		}
		if v, ok := inSeconds(v, w.Metrics[tag].Unit); ok {
			return &v
		}
		return &v
	}
	m := w.Metadata
	return AIPerfRow{
		RequestID: m.RequestID, CorrelationID: m.CorrelationID, ConversationID: m.ConversationID, Turn: m.Turn,
		Warmup: m.Phase == "warmup", Failed: m.Cancelled || len(w.Error) > 0 && string(w.Error) != "null", StartUnixNs: m.Start,
		TTFT: value("time_to_first_token"), Latency: value("request_latency"),
		OutputTokens: value("output_sequence_length"), UsageTokens: value("usage_completion_tokens"),
		AcceptanceLength: value("spec_decode_acceptance_length"),
	}, true
}

// inSeconds converts a time to seconds; ok is false for what is none.
func inSeconds(v float64, unit string) (seconds float64, ok bool) {
	switch unit {
	case "ns":
		return v / 1e9, true
	case "us", "µs":
		return v / 1e6, true
	case "ms":
		return v / 1e3, true
	case "s", "sec", "seconds":
		return v, true
	}
	return v, false
}

// Seconds is an aggregate that is a time.
func (m AIPerfMetric) Seconds() (float64, bool) { return inSeconds(m.Avg, m.Unit) }

// Failure says why the run is not one of the given number of good requests; ""
// where it is. AIPerf's exit code does not say so: it is 0 for all of these.
func (a AIPerf) Failure(requests int) string {
	good, failed := int(a.Metrics["request_count"].Avg), int(a.Metrics["error_request_count"].Avg)
	counts := fmt.Sprintf("%d of %d requests good, %d failed%s", good, requests, failed, a.errorText())
	switch {
	case a.Cancelled:
		return "AIPerf was cancelled: " + counts
	case !a.Complete:
		return "AIPerf says that its run is not complete: " + counts
	case failed > 0:
		return "AIPerf counts failed requests: " + counts
	case good != requests:
		return "AIPerf counts another number of requests: " + counts
	}
	return ""
}

func (a AIPerf) errorText() string {
	var kinds []string
	for _, e := range a.Errors {
		kinds = append(kinds, fmt.Sprintf("%d %s", e.Count, e.Type))
	}
	if len(kinds) == 0 {
		return ""
	}
	return " (" + strings.Join(kinds, ", ") + ")"
}
