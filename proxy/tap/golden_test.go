package tap

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spectap/collector"
)

var update = flag.Bool("update", false, "rewrite the golden Records in testdata")

// golden is the part of a Record that the tap fills.
type golden struct {
	ResponseID, Model, Engine string
	FirstOutput               *int64 // nanoseconds, as the chunks' times
	Events                    int
	SawDone                   bool
	Finish, StopReason        string
	ErrorKind, Error          string
	Usage                     *goldenUsage `json:",omitempty"`
	Spec                      *goldenSpec  `json:",omitempty"`
	SpecMissing               string       `json:",omitempty"`
	Reply, Reasoning          string       `json:",omitempty"`
	Warnings                  []string     `json:",omitempty"`
	Chunks                    []goldenChunk
}

// Types of their own, so that the JSON form of a Record does not change these files.
type (
	goldenUsage collector.Usage
	goldenSpec  collector.Spec
)

type goldenChunk struct {
	At             int64
	Tokens, Choice int
	Shared         bool `json:",omitempty"`
}

func goldenOf(r *collector.Record) golden {
	g := golden{
		ResponseID: r.ResponseID, Model: r.Model, Engine: r.Engine, Events: r.Events, SawDone: r.SawDone,
		Finish: r.Finish, StopReason: r.StopReason, ErrorKind: r.ErrorKind, Error: r.Error,
		Usage: (*goldenUsage)(r.Usage), Spec: (*goldenSpec)(r.Spec), SpecMissing: r.SpecMissing,
		Reply: r.Reply, Reasoning: r.Reasoning, Warnings: r.Warnings,
	}
	if r.FirstOutput.Known {
		at := int64(r.FirstOutput.Offset)
		g.FirstOutput = &at
	}
	for _, c := range r.Chunks {
		g.Chunks = append(g.Chunks, goldenChunk{int64(c.At), c.Tokens, c.Choice, c.Shared})
	}
	return g
}

// checkGolden compares a Record with the file path, or writes it with -update.
func checkGolden(t *testing.T, path string, r *collector.Record) {
	t.Helper()
	got, err := json.MarshalIndent(goldenOf(r), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got, -update rewrites it):\n%s", path, diff)
	}
}

// TestGoldenCaptures replays the captures of vLLM 0.32.0 in testdata.
func TestGoldenCaptures(t *testing.T) {
	found, err := filepath.Glob(filepath.Join("testdata", "vllm-0.32", "*", "response.raw"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, f := range found {
		c, ok := readCapture(t, filepath.Dir(f))
		if !ok {
			t.Fatalf("%s is no HTTP answer", f)
		}
		t.Run(c.name, func(t *testing.T) {
			checkGolden(t, filepath.Dir(f)+".record.json", c.replay(New(c.options())))
		})
	}
}
