package sweep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"spectap/collector"
)

// aiperfTurn is one turn of AIPerf's multi_turn format.
type aiperfTurn struct {
	Role string `json:"role,omitempty"`
	Text string `json:"text"`
}

// aiperfConversation is one line of AIPerf's multi_turn format. Lines of one
// session id would be joined, so that each has its own.
type aiperfConversation struct {
	Session string       `json:"session_id"`
	Turns   []aiperfTurn `json:"turns"`
}

// sessionID names a conversation in AIPerf's files: its place and its question's id.
func sessionID(i int, q collector.Question) string {
	return strconv.Itoa(i) + "-" + questionText(q.ID)
}

// sessionIndex is the place that a session id names.
func sessionIndex(id string) (int, bool) {
	place, _, _ := strings.Cut(id, "-")
	i, err := strconv.Atoi(place)
	return i, err == nil
}

// aiperfInput writes the questions in AIPerf's multi_turn format. A leading
// system turn becomes the system message (AIPerf's multi_turn loader).
func aiperfInput(questions []collector.Question) ([]byte, error) {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	for i, q := range questions {
		c := aiperfConversation{Session: sessionID(i, q)}
		if q.System != "" {
			c.Turns = append(c.Turns, aiperfTurn{Role: "system", Text: q.System})
		}
		for _, prompt := range q.Prompts {
			c.Turns = append(c.Turns, aiperfTurn{Text: prompt})
		}
		if err := lines.Encode(c); err != nil {
			return nil, fmt.Errorf("cannot write question %s for AIPerf: %w", questionText(q.ID), err)
		}
	}
	return b.Bytes(), nil
}

// aiperfFiles are the places of a point's files for and of AIPerf.
type aiperfFiles struct{ dir string }

func (f aiperfFiles) input() string   { return filepath.Join(f.dir, "conversations.jsonl") }
func (f aiperfFiles) output() string  { return filepath.Join(f.dir, "output.log") }
func (f aiperfFiles) summary() string { return filepath.Join(f.dir, collector.FileAIPerfSummary) }
func (f aiperfFiles) rows() string    { return filepath.Join(f.dir, collector.FileAIPerfRows) }

// aiperfArgs is the command line of a point. What the requests say beside the
// messages are the members that the built-in driver sends.
func (s *Sweep) aiperfArgs(l *load, srv server, files aiperfFiles) ([]string, error) {
	extras, err := l.template.extras()
	if err != nil {
		return nil, err
	}
	// As JSON: a header by name and value is cut at commas, and a value that looks
	// like a number is refused.
	labels, err := json.Marshal(map[string]string{"Baggage": baggage(collector.Labels{Run: s.runID, Point: l.point.Name})})
	if err != nil {
		return nil, fmt.Errorf("cannot write AIPerf's header: %w", err)
	}
	return []string{
		"profile",
		"--model", srv.model,
		"--tokenizer", s.Plan.Config.Tokenizer,
		"--url", s.LoadURL,
		"--endpoint-type", "chat",
		"--streaming",
		"--concurrency", strconv.Itoa(l.point.Concurrency),
		"--input-file", files.input(),
		"--custom-dataset-type", "multi_turn",
		"--num-conversations", strconv.Itoa(len(s.Plan.Questions)), // without it 10 requests are sent
		"--dataset-sampling-strategy", "sequential",
		"--random-seed", "0",
		"--extra-inputs", string(extras),
		"--header", string(labels),
		"--no-gpu-telemetry",
		"--no-server-metrics",
		"--export-level", "records",
		"--ui", "none",
		"--output-artifact-dir", files.dir,
	}, nil
}

// writeInput makes the folder and the input file.
func (f aiperfFiles) writeInput(questions []collector.Question) error {
	text, err := aiperfInput(questions)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.dir, 0o777); err != nil {
		return fmt.Errorf("cannot make AIPerf's folder: %w", err)
	}
	if err := os.WriteFile(f.input(), text, 0o640); err != nil {
		return fmt.Errorf("cannot write AIPerf's input: %w", err)
	}
	return nil
}
