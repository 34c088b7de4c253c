package deploy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// duckdbEnv is the environment of the README's queries.
var duckdbEnv = pythonEnv{folder: "parquet"}

// queryTimeout ends a query that hangs.
const queryTimeout = time.Minute

// query runs SQL in DuckDB in a folder and returns the rows of each query.
func query(t *testing.T, dir string, queries ...string) [][][]any {
	t.Helper()
	script, err := filepath.Abs(filepath.Join("parquet", "query.py"))
	if err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(queries)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, duckdbEnv.interpreter(t), script)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, environment([]string{"PYTHONDONTWRITEBYTECODE=1"}), bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("query.py: %v\n%s", err, stderr.Bytes())
	}
	var answers [][][]any
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatalf("cannot read %q: %v", out, err)
	}
	return answers
}

// readmeQueries are the README's queries over records in Parquet.
func readmeQueries(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Query many records\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var queries []string
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(section, -1) {
		queries = append(queries, block[1])
	}
	if len(queries) != 3 {
		t.Fatalf("got %d queries in the README, want 3", len(queries))
	}
	return queries
}

// fleetRecord is what the queries need of a line of a records file.
type fleetRecord struct {
	ID          string   `json:"id"`
	Start       *int64   `json:"start_unix_ns"`
	TTFT        *float64 `json:"ttft_s"`
	Model       string   `json:"model"`
	Stream      bool     `json:"stream"`
	ErrorKind   string   `json:"error_kind"`
	SetApart    string   `json:"set_apart"`
	ChunkTokens []int    `json:"chunk_tokens"`
	Prompt      *int     `json:"prompt_tokens"`
	Cached      *int     `json:"cached_tokens"`
	Spec        *struct {
		Accepted []int `json:"accepted_histogram"`
	} `json:"spec"`
	file string
	line int
}

func readFleet(t *testing.T, files ...string) []fleetRecord {
	t.Helper()
	var all []fleetRecord
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			if !strings.Contains(line, `"spectap.record/1"`) {
				continue
			}
			r := fleetRecord{file: file, line: i + 1}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
	}
	return all
}

// The README's queries give, in a real DuckDB, the figures that are counted here
// from the same records, and those of the sweep's own files: two models with
// drafts of different lengths, a sweep and a proxy's file with failures in it.
func TestParquetQueries(t *testing.T) {
	duckdbEnv.interpreter(t) // before anything runs
	work := t.TempDir()
	engine := func(model string, args ...string) string {
		return startEngine(t, append([]string{"--model", model, "--prefill", "1ms", "--step", "1ms", "--eos", "0"}, args...)...)
	}
	long, short := engine("long", "--draft_length", "5"), engine("short", "--draft_length", "3", "--fault", "cut@3/9")
	sweep := runSweep(t, nil, "--url", long, "--mtbench", writeQuestions(t, 6), "--concurrency", "4", "--output_length", "48")
	sidecar := filepath.Join(work, "sidecar.jsonl")
	proxy := startProxy(t, nil, short, "--records", sidecar, "--measure", "tokens", "--engine", "vllm")
	askFleet(t, proxy.URL, 20)
	proxy.stop(t)

	point := filepath.Join(sweep, "t0_c4")
	files := []string{filepath.Join(point, "records.jsonl"), sidecar}
	collect := exec.Command(command(t, "spectap"), append([]string{"collect", "--format", "parquet", "--rows_per_file", "10", "--save_dir", filepath.Join(work, "out")}, files...)...)
	collect.Env = environment(nil)
	if out, err := collect.CombinedOutput(); err != nil {
		t.Fatalf("cannot collect: %v\n%s", err, out)
	}
	records := readFleet(t, files...)
	answers := query(t, work, append(readmeQueries(t),
		"SELECT DISTINCT key, value FROM parquet_kv_metadata('out/*.parquet')",
		"SELECT count(*), count(*) FILTER (error_kind = 'truncated'), count(*) FILTER (len(chunk_s) > 0), sum(len(injected)) FILTER (model = 'short' AND stream) > 0 FROM 'out/*.parquet'")...)
	compareAnswer(t, "acceptance length by model and day", answers[0], wantLengths(records))
	compareAnswer(t, "acceptance by position", answers[1], wantPositions(records))
	compareAnswer(t, "slowest first tokens", answers[2], wantSlowest(records))
	compareAnswer(t, "schema", answers[3], [][]any{{"spectap.schema", "spectap.columns/1"}})
	failed, chunks := 0, 0
	for _, r := range records {
		if r.ErrorKind == "truncated" {
			failed++
		}
		if len(r.ChunkTokens) > 0 {
			chunks++
		}
	}
	if failed == 0 || len(records) < 32 {
		t.Errorf("got %d records and %d failures, want the sweep's, the proxy's and some", len(records), failed)
	}
	compareAnswer(t, "counts", answers[4], [][]any{{float64(len(records)), float64(failed), float64(chunks), true}})
	compareSweep(t, point, answers)
}

// askFleet asks n streamed questions, some of which the engine breaks off.
func askFleet(t *testing.T, url string, n int) {
	t.Helper()
	broken := 0
	for i := range n {
		body := fmt.Sprintf(`{"model":"short","stream":true,"max_tokens":32,"messages":[{"role":"user","content":"question %d"}]}`, i)
		answer, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			broken++
		}
		answer.Body.Close()
	}
	if broken == 0 || broken > n/2 {
		t.Errorf("got %d of %d answers broken off, want a few", broken, n)
	}
}

// wantLengths counts the answer of the first query: the model and the day, how many
// requests, and both views. Every event is a step here, and no reply ends at EOS.
func wantLengths(records []fleetRecord) [][]any {
	type key struct{ model, day string }
	type sums struct{ requests, chunks, tokens, serverChunks, serverTokens float64 }
	byKey := map[key]*sums{}
	for _, r := range records {
		if r.ErrorKind != "" || r.SetApart != "" || len(r.ChunkTokens) == 0 {
			continue
		}
		k := key{r.Model, time.Unix(0, *r.Start).UTC().Format(time.DateOnly)}
		if byKey[k] == nil {
			byKey[k] = &sums{}
		}
		s := byKey[k]
		s.requests++
		s.serverChunks, s.serverTokens = s.serverChunks+1, s.serverTokens+1 // the prefill's
		for _, n := range r.ChunkTokens {
			s.chunks, s.tokens = s.chunks+1, s.tokens+float64(n)
		}
		for accepted, steps := range r.Spec.Accepted {
			s.serverChunks, s.serverTokens = s.serverChunks+float64(steps), s.serverTokens+float64(steps*(accepted+1))
		}
	}
	var rows [][]any
	for k, s := range byKey {
		rows = append(rows, []any{k.model, k.day, s.requests, s.tokens / s.chunks, s.serverTokens / s.serverChunks})
	}
	slices.SortFunc(rows, func(a, b []any) int {
		return cmp.Or(cmp.Compare(a[0].(string), b[0].(string)), cmp.Compare(a[1].(string), b[1].(string)))
	})
	return rows
}

// wantPositions counts the answer of the second query.
func wantPositions(records []fleetRecord) [][]any {
	var rows [][]any
	for _, model := range []string{"long", "short"} {
		var above []float64
		steps := 0.0
		for _, r := range records {
			if r.Model != model || r.Spec == nil || r.SetApart != "" {
				continue
			}
			for accepted, n := range r.Spec.Accepted {
				steps += float64(n)
				for len(above) < len(r.Spec.Accepted)-1 {
					above = append(above, 0)
				}
				for position := range accepted {
					above[position] += float64(n)
				}
			}
		}
		for position, n := range above {
			rows = append(rows, []any{model, float64(position), n / steps})
		}
	}
	return rows
}

// wantSlowest sorts the answer of the third query.
func wantSlowest(records []fleetRecord) [][]any {
	var timed []fleetRecord
	for _, r := range records {
		if r.Stream && r.TTFT != nil {
			timed = append(timed, r)
		}
	}
	slices.SortFunc(timed, func(a, b fleetRecord) int { return cmp.Or(cmp.Compare(*b.TTFT, *a.TTFT), cmp.Compare(a.ID, b.ID)) })
	count := func(n *int) any {
		if n == nil {
			return nil
		}
		return float64(*n)
	}
	var rows [][]any
	for _, r := range timed[:10] {
		rows = append(rows, []any{*r.TTFT, time.UnixMicro(*r.Start / 1000), r.Model, count(r.Prompt), count(r.Cached), r.ID, r.file, float64(r.line)})
	}
	return rows
}

// compareAnswer holds the rows of a query against what is wanted: numbers to 12
// digits, times as moments.
func compareAnswer(t *testing.T, name string, got, want [][]any) {
	t.Helper()
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("%s: got %d rows, want %d, at least one:\n%v\n%v", name, len(got), len(want), got, want)
		return
	}
	same := func(got, want any) bool {
		switch want := want.(type) {
		case float64:
			n, ok := got.(float64)
			return ok && math.Abs(n-want) <= 1e-12*max(1, math.Abs(want))
		case time.Time:
			text, _ := got.(string)
			at, err := time.Parse(time.RFC3339Nano, text)
			return err == nil && at.Equal(want)
		}
		return got == want
	}
	for i := range want {
		if !slices.EqualFunc(got[i], want[i], same) {
			t.Errorf("%s: row %d: got %v, want %v", name, i, got[i], want[i])
		}
	}
}

// compareSweep holds the answers for the swept model against the point's own files.
func compareSweep(t *testing.T, point string, answers [][][]any) {
	t.Helper()
	figures := readFigures(t, point)
	chunks, tokens := 0.0, 0.0
	for length, n := range figures.chunks {
		chunks, tokens = chunks+float64(n), tokens+float64(n*length)
	}
	days := slices.DeleteFunc(slices.Clone(answers[0]), func(row []any) bool { return row[0] != "long" })
	if len(days) == 0 || len(days) == 1 && math.Abs(days[0][3].(float64)-tokens/chunks) > 1e-12 { // two if midnight came between
		t.Errorf("got client AL of %v, acceptance_rate.json has %v", days, tokens/chunks)
	}
	var spec struct {
		Rates struct {
			PerPosition []float64 `json:"per_position"`
		} `json:"acceptance_by_draft_position"`
	}
	readJSON(t, filepath.Join(point, "speculation.json"), &spec)
	var want [][]any
	for position, rate := range spec.Rates.PerPosition {
		want = append(want, []any{"long", float64(position), rate})
	}
	got := slices.DeleteFunc(slices.Clone(answers[1]), func(row []any) bool { return row[0] != "long" })
	compareAnswer(t, "acceptance by position of speculation.json", got, want)
}
