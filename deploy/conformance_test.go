package deploy

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// conformanceFolder is the variable that names the folder in which
// conformance/setup.sh set the real servers and clients up. These tests run
// only with it, and then want every piece but GuideLLM.
const conformanceFolder = "SPECTAP_CONFORMANCE"

const (
	conformanceTokens      = 48 // of a reply at most
	conformanceConcurrency = 3
	conformancePoint       = "t0_c3"
	conformanceTimeout     = 15 * time.Minute // of one client's run
	servedModel            = "smollm2"
)

// conformanceQuestions are asked of the real model. Some replies end at once, some
// never, some are in characters that take several tokens.
var conformanceQuestions = [][]string{
	{"What is 2 + 2? Answer with one number.", "And 3 + 3?"},
	{"Repeat this line three times: the cat sat on the mat, the cat sat on the mat.", "Repeat it once more, please."},
	{"Name three rivers.", "Which of them is the longest?"},
	{"  Count from 1 to 20, separated by commas.\n", "Count on to 30."},
	{"Write “good morning” in Japanese: おはようございます. Write it five times. 🌅", "And “good night”?\n\nTwice."},
	{"Say yes.", "Say <b>no</b>."},
}

// kit is the folder with the real programs.
type kit struct{ root string }

// openKit returns the kit; the test is skipped where nobody asked for it.
func openKit(t *testing.T) kit {
	t.Helper()
	root := os.Getenv(conformanceFolder)
	if root == "" {
		t.Skipf("%s names no folder with real servers and clients", conformanceFolder)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	return kit{root}
}

// piece is the path of a file of the kit, without which the test fails.
func (k kit) piece(t *testing.T, name ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{k.root}, name...)...)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("a piece of %s is missing: %v; run conformance/setup.sh %s %s", conformanceFolder, err, k.root, name[0])
	}
	return path
}

// Every real client, streamed or not, is measured in front of a real vLLM with
// both kinds of drafts: each request has statistics or a named reason for their
// absence, and the sums are those of the server's counters.
func TestConformance(t *testing.T) {
	k := openKit(t)
	f := func(drafts, level string) {
		t.Helper()
		t.Run(drafts, func(t *testing.T) {
			server := k.serve(t, drafts, "--per-request-spec-decode-metrics", level)
			for _, client := range realClients {
				t.Run(client.name, func(t *testing.T) { client.conform(t, k, server) })
			}
			t.Run("turn 2", func(t *testing.T) { conformHistory(t, k, server) })
			t.Run("reasons", func(t *testing.T) { conformReasons(t, server) })
			t.Run("abort", func(t *testing.T) { conformAbort(t, server) })
		})
	}
	f("ngram", "detailed")
	f("draft", "summary")
}

// conform runs the client through spectap and looks at the files of its point.
func (c realClient) conform(t *testing.T, k kit, server realServer) {
	program, ok := c.program(t, k)
	if !ok {
		t.Skipf("%s is not in the kit", c.name)
	}
	through := startRecorder(t, server.url, false)
	questions := writeConformanceQuestions(t, c.turns)
	before := server.counters(t)
	dir := runSpectap(t, k, c.arguments(k, program, through.url, questions))
	point := readRealPoint(t, dir)
	point.complete(t, c)
	replies := through.replies(t)
	point.agree(t, replies)
	server.agree(t, before, replies)
	if c.aiperf {
		point.crossChecked(t)
	}
	server.histories(t, replies, c.turns)
	t.Log(point.summary(replies))
}

// runSpectap runs spectap to its end and returns the folder of the one point.
func runSpectap(t *testing.T, k kit, arguments []string) string {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), conformanceTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command(t, "spectap"), append([]string{arguments[0], "--save_dir", dir}, arguments[1:]...)...)
	cmd.Env = environment([]string{"DO_NOT_TRACK=1"})
	cmd.Dir = t.TempDir() // clients leave files where they run
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTimeout
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("spectap %q: %v\n%s", arguments, err, out)
	}
	return filepath.Join(dir, conformancePoint)
}

// writeConformanceQuestions writes the first turns of the questions in MT-Bench's form.
func writeConformanceQuestions(t *testing.T, turns int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "question.jsonl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := json.NewEncoder(file)
	for i, question := range conformanceQuestions {
		if err := lines.Encode(map[string]any{"question_id": 81 + i, "category": "c" + strconv.Itoa(i%2), "turns": question[:turns]}); err != nil {
			t.Fatal(err)
		}
	}
	return path
}
