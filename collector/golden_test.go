package collector

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// goldenDirVar names a folder with more cases than testdata has, at any depth; a
// relative one is looked for from the package's folder and from the module's root.
const goldenDirVar = "SPECTAP_GOLDEN_DIR"

// goldenRun is the input.json of a case (testdata/golden/specdec_bench).
type goldenRun struct {
	Metric          Metric          `json:"metric"`
	GPUs            int             `json:"num_gpus"`
	AppendedRuns    int             `json:"appended_runs"`
	CompletionOrder [][2]int        `json:"completion_order"`
	IgnoreEOS       bool            `json:"ignore_eos"`
	Requests        []goldenRequest `json:"requests"`
}

type goldenRequest struct {
	Index      int             `json:"index"`
	QuestionID json.RawMessage `json:"question_id"`
	Category   json.RawMessage `json:"category"`
	System     *string         `json:"system_prompt"`
	Turns      []goldenTurn    `json:"turns"`
}

type goldenTurn struct {
	Prompt string `json:"prompt"`
	Reply  string `json:"reply"`
	Server *struct {
		Histogram []int `json:"acceptance_histogram"`
	} `json:"server"`
	CompletionTokens int             `json:"completion_tokens"`
	FinishReason     string          `json:"finish_reason"`
	StopReason       json.RawMessage `json:"stop_reason"`
	Start            float64         `json:"request_start"`
	Counts           []int           `json:"cumulative_tokens"`
	Arrivals         []float64       `json:"arrival_times"`
	ChunkLengths     []int           `json:"chunk_lengths"`
	TokenTimes       []float64       `json:"token_times"`
}

// eosEnded says that the last token is the tokenizer's EOS.
func (t goldenTurn) eosEnded(ignored bool) bool {
	null := len(t.StopReason) == 0 || string(t.StopReason) == "null"
	return t.FinishReason == "stop" && null && !ignored
}

// client is what specdec_bench makes of the stream.
func (t goldenTurn) client(ignoreEOS bool) Turn {
	lengths, times := streamChunks(t.Counts, t.Start, t.Arrivals, t.eosEnded(ignoreEOS))
	turn := Turn{Lengths: lengths, Times: times, Prompt: t.Prompt, Reply: t.Reply}
	for _, length := range lengths {
		turn.Tokens += length
	}
	return turn
}

// server is what the statistics block and the usage say.
func (t goldenTurn) server(bool) Turn {
	turn := Turn{Tokens: t.CompletionTokens, Times: append([]float64{t.Start}, t.Arrivals...), Prompt: t.Prompt, Reply: t.Reply}
	if t.Server != nil {
		turn.Lengths = HistogramLengths(t.Server.Histogram)
	}
	return turn
}

func (g goldenRun) conversations(view func(goldenTurn, bool) Turn) []Conversation {
	convs := make([]Conversation, len(g.Requests))
	for i, r := range g.Requests {
		convs[i] = Conversation{Index: r.Index, QuestionID: r.QuestionID, Category: r.Category, System: r.System}
		for _, t := range r.Turns {
			convs[i].Turns = append(convs[i].Turns, view(t, g.IgnoreEOS))
		}
	}
	return convs
}

// ended are the turns in the order in which they ended.
func (g goldenRun) ended(convs []Conversation) []Turn {
	var turns []Turn
	for _, at := range g.CompletionOrder {
		i := slices.IndexFunc(convs, func(c Conversation) bool { return c.Index == at[0] })
		turns = append(turns, convs[i].Turns[at[1]])
	}
	if len(g.CompletionOrder) == 0 {
		for _, c := range convs {
			turns = append(turns, c.Turns...)
		}
	}
	return turns
}

func (g goldenRun) hasServer() bool {
	for _, r := range g.Requests {
		for _, t := range r.Turns {
			if t.Server == nil || t.Server.Histogram == nil {
				return false
			}
		}
	}
	return true
}

// TestGolden compares every file of every case, byte for byte, in both views.
func TestGolden(t *testing.T) {
	cases := goldenCases(t, filepath.Join("testdata", "golden"))
	if len(cases) < 25 {
		t.Fatalf("got %d cases in testdata, want at least 25", len(cases))
	}
	cases = append(cases, goldenCases(t, filepath.Join("testdata", "golden_more"))...)
	if dir := os.Getenv(goldenDirVar); dir != "" {
		if _, err := os.Stat(dir); err != nil && !filepath.IsAbs(dir) {
			dir = filepath.Join("..", dir)
		}
		more := goldenCases(t, dir)
		if len(more) == 0 {
			t.Fatalf("%s=%q has no folder with an input.json", goldenDirVar, dir)
		}
		cases = append(cases, more...)
	}
	for _, dir := range cases {
		t.Run(filepath.Base(dir), func(t *testing.T) { testGoldenCase(t, dir) })
	}
}

// goldenCases are the folders below dir, and dir itself, that have an input.json.
func goldenCases(t *testing.T, dir string) []string {
	t.Helper()
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	var cases []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && entry.Name() == "input.json" {
			cases = append(cases, filepath.Dir(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func testGoldenCase(t *testing.T, dir string) {
	var run goldenRun
	text, err := os.ReadFile(filepath.Join(dir, "input.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &run); err != nil {
		t.Fatal(err)
	}
	t.Run("chunks", func(t *testing.T) { testGoldenChunks(t, run) })
	client := run.conversations(goldenTurn.client)
	t.Run("client view", func(t *testing.T) {
		compareAcceptance(t, dir, run, client, "acceptance_rate.py312.json", "acceptance_rate.json")
		compareTiming(t, dir, run, client, "timing.py312.json", "timing.json")
		compareSpecBench(t, dir, run, client)
		got, err := Responses(run.Metric, client)
		if err != nil {
			t.Fatal(err)
		}
		compareFile(t, dir, got, ResponsesFile(run.Metric))
	})
	t.Run("server view", func(t *testing.T) {
		server := run.conversations(goldenTurn.server)
		compareTiming(t, dir, run, server, "timing.server.py312.json", "timing.server.json", "timing.py312.json", "timing.json")
		if !run.hasServer() {
			t.Log("a turn has no histogram: no acceptance in the server's view")
			return
		}
		compareAcceptance(t, dir, run, server, "acceptance_rate.server.py312.json", "acceptance_rate.server.json", "acceptance_rate.py312.json", "acceptance_rate.json")
	})
}

func testGoldenChunks(t *testing.T, run goldenRun) {
	for _, r := range run.Requests {
		for i, turn := range r.Turns {
			lengths, times := streamChunks(turn.Counts, turn.Start, turn.Arrivals, turn.eosEnded(run.IgnoreEOS))
			if !slices.Equal(lengths, turn.ChunkLengths) {
				t.Errorf("request %d turn %d: got lengths %v, want %v", r.Index, i, lengths, turn.ChunkLengths)
			}
			if !slices.Equal(times, turn.TokenTimes) {
				t.Errorf("request %d turn %d: got times %v, want %v", r.Index, i, times, turn.TokenTimes)
			}
		}
	}
}

func compareAcceptance(t *testing.T, dir string, run goldenRun, convs []Conversation, names ...string) {
	t.Helper()
	o, err := Acceptance(run.Metric, convs)
	if err != nil {
		t.Fatal(err)
	}
	average, err := AverageAL(run.Metric, convs)
	if shown, _ := o.Get("Average_AL"); err != nil || string(AppendCompact(nil, shown)) != string(AppendCompact(nil, al{average, isInt(shown)}.json())) {
		t.Errorf("got AverageAL %v (%v), want Average_AL %v", average, err, shown)
	}
	compareFile(t, dir, appendRuns(t, o, run.AppendedRuns), names...)
}

func isInt(v any) bool {
	_, ok := v.(int)
	return ok
}

func compareTiming(t *testing.T, dir string, run goldenRun, convs []Conversation, names ...string) {
	t.Helper()
	r, err := Timing(run.ended(convs), run.GPUs)
	if err != nil {
		t.Fatal(err)
	}
	compareFile(t, dir, appendRuns(t, r.Object(), run.AppendedRuns), names...)
}

func compareSpecBench(t *testing.T, dir string, run goldenRun, convs []Conversation) {
	t.Helper()
	if run.Metric != MetricSpecBench {
		return
	}
	o, err := Acceptance(run.Metric, convs)
	if err != nil {
		t.Fatal(err)
	}
	compareFile(t, dir, AppendIndented(nil, o), "specbench_results.py312.json", "specbench_results.json")
}

// appendRuns writes a result file that already has n results.
func appendRuns(t *testing.T, o Object, n int) []byte {
	t.Helper()
	var file []byte
	for range n + 1 {
		next, err := AppendResult(file, o)
		if err != nil {
			t.Fatal(err)
		}
		file = next
	}
	return file
}

// compareFile compares bytes with the first of the files that exists.
func compareFile(t *testing.T, dir string, got []byte, names ...string) {
	t.Helper()
	for _, name := range names {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs:\n%s", name, firstDifference(got, want))
		}
		return
	}
	t.Errorf("%s has none of %q", dir, names)
}

// firstDifference shows both texts around the first byte that differs.
func firstDifference(got, want []byte) string {
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	around := func(b []byte) string { return string(b[max(0, min(i-60, len(b))):min(len(b), i+60)]) }
	return "got  ..." + around(got) + "...\nwant ..." + around(want) + "..."
}
