package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"spectap/collector"
)

// fixture is a folder of a sweep, made of Records.
type fixture struct {
	t   *testing.T
	dir string
}

func newFixture(t *testing.T) fixture {
	dir := filepath.Join(t.TempDir(), "results")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return fixture{t, dir}
}

// shape is what a point is made like.
type shape struct {
	name          string
	temperature   float64
	concurrency   int
	conversations int
	categories    []string
	model         string
	unstreamed    bool
	events        int // of a reply; 0: few
	change        func(*collector.Point)
}

var epoch = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// point makes a Point of two turns a conversation whose figures vary with i.
func (s shape) point() collector.Point {
	p := collector.Point{Run: collector.Run{
		ID: "run-1", Point: s.name, Dataset: "mtbench", Metric: collector.MetricSpecBench, GPUs: 2,
		Temperature: s.temperature, Concurrency: s.concurrency, Acceptance: collector.ViewClient, Measure: "tokens",
		Postprocess: "base", Model: s.model, Engine: "vllm", EngineVersion: "0.32.0",
	}}
	for i := range s.conversations {
		category := s.categories[i%len(s.categories)]
		p.Run.Questions = append(p.Run.Questions, collector.Question{ID: json.RawMessage(strconv.Itoa(81 + i)), Category: category, Turns: 2})
		for turn := range 2 {
			p.Records = append(p.Records, s.record(i, turn, category))
		}
	}
	if s.change != nil {
		s.change(&p)
	}
	return p
}

// record is a turn of 1 prefill token, draft-less steps, and steps that accept 0 to 3 drafts.
func (s shape) record(i, turn int, category string) *collector.Record {
	r := &collector.Record{
		ID: fmt.Sprintf("%s-%d-%d", s.name, i, turn), Start: epoch.Add(time.Duration(2*i+turn) * time.Second),
		Labels:          collector.Labels{Run: "run-1", Point: s.name, Conversation: strconv.Itoa(i), Question: strconv.Itoa(81 + i), Category: category, Turn: turn, HasTurn: true},
		UpstreamWritten: collector.At(time.Millisecond), Stamps: collector.StampsKernel, Route: collector.RouteChat, Model: s.model,
		Engine: "vllm", Stream: true, Status: 200, SawDone: true, Finish: "stop",
		Prompt: "SECRET PROMPT", Reply: "SECRET REPLY",
	}
	counts := []int{1, 1, 2 + (i+turn)%3, 1 + (i*3+turn)%4, 4, 1 + i%2}
	for len(counts) < s.events {
		counts = append(counts, 1+(i+len(counts))%4)
	}
	spec := &collector.Spec{Engine: "vllm", Accepted: make([]int, 4), DraftLength: 3}
	at, tokens := time.Duration(20+(7*i+5*turn)%13)*time.Millisecond, 0
	for n, c := range counts {
		tokens += c
		if !s.unstreamed {
			r.Chunks = append(r.Chunks, collector.Chunk{At: at, Tokens: c})
		}
		at += time.Duration(4+(n+i)%3) * time.Millisecond
		if n >= 2 {
			spec.Accepted[c-1]++
			spec.Steps++
			spec.AcceptedTokens += c - 1
			spec.DraftedTokens += 3
		}
	}
	r.Events, r.FirstOutput, r.LastByte, r.Done = len(r.Chunks)+1, collector.At(20*time.Millisecond), collector.At(at), collector.At(at)
	r.Usage, r.Spec = &collector.Usage{PromptTokens: 30, CompletionTokens: tokens}, spec
	return r
}

// add writes the folder of a complete point.
func (f fixture) add(s shape) {
	f.t.Helper()
	p := s.point()
	dir := filepath.Join(f.dir, s.name)
	f.records(dir, p)
	for name, text := range f.files(dir, p) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			f.t.Fatal(err)
		}
	}
}

// made are the files of Points by their records: their intervals take a while.
var made = map[string]map[string][]byte{}

// files are the files of a Point whose records are in dir.
func (f fixture) files(dir string, p collector.Point) map[string][]byte {
	f.t.Helper()
	key, err := os.ReadFile(filepath.Join(dir, collector.FileRecords))
	if err != nil {
		f.t.Fatal(err)
	}
	if made[string(key)] == nil {
		if made[string(key)], _, err = p.Files(); err != nil {
			f.t.Fatal(err)
		}
	}
	return made[string(key)]
}

// records writes the records alone.
func (f fixture) records(dir string, p collector.Point) {
	f.t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		f.t.Fatal(err)
	}
	if err := p.WriteRecords(filepath.Join(dir, collector.FileRecords), collector.KeepTexts); err != nil {
		f.t.Fatal(err)
	}
}

// file writes a file of the folder.
func (f fixture) file(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o666); err != nil {
		f.t.Fatal(err)
	}
}

// fail writes the folder of a point that was set aside.
func (f fixture) fail(s shape, reason string) {
	f.t.Helper()
	f.records(filepath.Join(f.dir, s.name+".failed"), s.point())
	text, err := json.Marshal(map[string]string{"schema": "spectap.error/1", "point": s.name, "reason": reason})
	if err != nil {
		f.t.Fatal(err)
	}
	f.file(filepath.Join(s.name+".failed", "error.json"), string(text))
}

// page makes the report and returns its text.
func (f fixture) page() string {
	f.t.Helper()
	path := filepath.Join(f.dir, FileReport)
	if _, err := Write(f.dir, path, Options{}); err != nil {
		f.t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}
