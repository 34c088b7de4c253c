package collector

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// FuzzPoint makes the files of whatever a records file holds: damaged figures
// give an error or files that are JSON, never a panic and never a list of billions.
func FuzzPoint(f *testing.F) {
	add := func(change func(*Record)) {
		r := capturedTurn{Counts: []int{1, 3, 2}, Completion: 6, Finish: "stop"}.record(time.Unix(1, 0))
		r.Labels = Labels{Conversation: "0", HasTurn: true}
		r.Spec, r.SpecMissing = &Spec{Accepted: []int{0, 1, 1}, Steps: 2, DraftLength: 2}, ""
		change(r)
		line, err := r.MarshalJSON()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(`{"schema":"spectap.run/1","metric":"AcceptanceRate","gpus":1,"questions":[{"question_id":1,"turns":1}]}` + "\n" + string(line))
		f.Add(`{"schema":"spectap.run/1","metric":"SpecBench","gpus":1}` + "\n" + string(line))
	}
	const huge = 1 << 60
	add(func(*Record) {})
	add(func(r *Record) { r.Usage = nil })
	add(func(r *Record) { r.Usage.CompletionTokens = 0 })
	add(func(r *Record) { r.Usage.CompletionTokens = -5 })
	add(func(r *Record) { r.Usage.CompletionTokens = huge })
	add(func(r *Record) { r.Usage.CompletionTokens = huge; r.Spec.Accepted = []int{huge} })
	add(func(r *Record) { r.Spec.DraftLength = huge })
	add(func(r *Record) { r.Spec.DraftLength = -huge })
	add(func(r *Record) { r.Spec.Accepted = []int{} })
	add(func(r *Record) { r.Spec.Accepted = []int{1<<63 - 1, 1<<63 - 1} })
	add(func(r *Record) { r.Spec.Accepted = []int{1, 1<<63 - 1} })
	add(func(r *Record) { r.Spec.Accepted = []int{-1, 3} })
	add(func(r *Record) { r.Spec, r.SpecMissing = nil, MissingNotReported; r.Chunks[2].Tokens = 1<<63 - 1 })
	add(func(r *Record) { r.Chunks = nil; r.Usage.CompletionTokens = 1 })
	add(func(r *Record) { r.Chunks = r.Chunks[:1]; r.Usage.CompletionTokens = 1; r.Spec.Accepted = []int{} })
	add(func(r *Record) { r.Chunks[1].Tokens = -7 })
	add(func(r *Record) { r.Spec.PerStepAccepted, r.Spec.PerStepDrafted = []int{huge, -1}, []int{huge, huge} })
	add(func(r *Record) { r.Labels.Turn = huge })
	f.Fuzz(func(t *testing.T, text string) {
		points, _, err := ReadPoints(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range points {
			p.Lenient = true
			files, _, err := p.Files()
			if err != nil {
				continue
			}
			for name, text := range files {
				if strings.HasSuffix(name, ".json") && name != FileConfiguration && !json.Valid(text) {
					t.Errorf("%s is not JSON: %s", name, text)
				}
			}
		}
	})
}
