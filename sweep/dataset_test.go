package sweep

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"spectap/collector"
)

// The readers give what specdec_bench's give (testdata/readers.json).
func TestReadersVectors(t *testing.T) {
	var cases []struct {
		Name     string
		File     string
		N        *int `json:"num_requests"`
		Requests []struct {
			ID       json.RawMessage `json:"question_id"`
			Category *string
			Turns    []string
		}
	}
	readJSON(t, "readers.json", &cases)
	if len(cases) != 7 {
		t.Fatalf("got %d cases, want 7", len(cases))
	}
	for _, c := range cases {
		parse, n := parseMTBench, 80
		if strings.HasPrefix(c.Name, "specbench") {
			parse, n = parseSpecBench, 480
		}
		if c.N != nil {
			n = *c.N
		}
		rows, err := parse([]byte(c.File))
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		rows = choose(rows, SelectFirst, n)
		if len(rows) != len(c.Requests) {
			t.Errorf("%s: got %d requests, want %d", c.Name, len(rows), len(c.Requests))
			continue
		}
		for i, want := range c.Requests {
			id, category := want.ID, ""
			if want.Category == nil {
				id = nil
			} else {
				category = *want.Category
			}
			q := collector.Question{ID: id, Category: category, Turns: len(want.Turns), Prompts: want.Turns}
			if d := cmp.Diff(q, rows[i]); d != "" {
				t.Errorf("%s: request %d (-want +got):\n%s", c.Name, i, d)
			}
		}
	}
}

// The selection is specdec_bench's (testdata/selection.json).
func TestSelectionVectors(t *testing.T) {
	var cases []struct {
		Categories []string
		N          int
		Rows       []int
	}
	readJSON(t, "selection.json", &cases)
	if len(cases) != 20 {
		t.Fatalf("got %d cases, want 20", len(cases))
	}
	for i, c := range cases {
		if c.Categories == nil {
			c.Categories = make([]string, 10) // no category column
		}
		if got := stratified(c.Categories, c.N); !slices.Equal(got, c.Rows) {
			t.Errorf("case %d, n %d: got %v, want %v", i, c.N, got, c.Rows)
		}
	}
}

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What cannot be asked or counted is refused with its line.
func TestMalformedQuestions(t *testing.T) {
	f := func(dataset, text, want string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "q.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := NewPlan(Config{URL: "http://h", SaveDir: t.TempDir(), Dataset: dataset, DatasetPath: path})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	good := `{"turns": ["a", "b"]}` + "\n"
	f("mtbench", good+"\n"+good, "line 2: is empty")
	f("mtbench", good+"\n", "line 2: is empty")
	f("mtbench", good+good+"{", "line 3: is not a JSON object")
	f("mtbench", "[1]", "line 1: is not a JSON object")
	f("mtbench", "\xef\xbb\xbf"+good, "line 1: begins with a byte order mark")
	f("mtbench", "null", "line 1: is not a JSON object")
	f("mtbench", `{"prompt": "one string"}`, `line 1: cannot use "prompt": want a list of strings`)
	f("mtbench", `{"turns": [1, 2]}`, `line 1: cannot use "turns"`)
	f("mtbench", `{"turns": []}`, `line 1: "turns" is empty`)
	f("mtbench", `{"question_id": 1}`, `line 1: neither "turns" nor "prompt"`)
	f("mtbench", good+`{"turns": ["a"]}`, "line 2 has one turn")
	f("mtbench", "", "has no questions")
	spec := `{"question_id": 1, "category": "c", "turns": ["a"]}` + "\n"
	f("specbench", spec+`{"question_id": 1, "turns": ["a"]}`, `line 2: "category" is missing`)
	f("specbench", `{"question_id": 1.5, "category": "c", "turns": ["a"]}`, `line 1: cannot use "question_id" 1.5`)
	f("specbench", `{"question_id": null, "category": "c", "turns": ["a"]}`, `line 1: cannot use "question_id" null`)
	f("specbench", `{"question_id": 1, "category": 2, "turns": ["a"]}`, `line 1: cannot use "category"`)
	f("specbench", spec+"\xff{}", "line 2")
	f("mtbench", "{\"turns\": [\"a\", \"\xff\"]}", "line 1: is not UTF-8")
}

// MT-Bench has positional ids and categories, whatever the file says.
func TestMTBenchPlaces(t *testing.T) {
	cfg := Config{URL: "http://h", SaveDir: t.TempDir(), MTBench: questions(t, 85)}
	p, err := NewPlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Questions) != 80 || p.Turns() != 160 {
		t.Fatalf("got %d questions, want the first 80", len(p.Questions))
	}
	for i, want := range map[int]string{0: "81 writing", 9: "90 writing", 10: "91 roleplay", 79: "160 humanities"} {
		if got := string(p.Questions[i].ID) + " " + p.Questions[i].Category; got != want {
			t.Errorf("question %d: got %s, want %s", i, got, want)
		}
	}
}

// speedRow is a row as prepare_data.py writes it; list elements are optional.
type speedRow struct {
	ID       string   `parquet:"question_id,optional"`
	Category string   `parquet:"category,optional"`
	Sub      string   `parquet:"sub_category,optional"`
	Turns    []string `parquet:"turns,list"`
	Multi    bool     `parquet:"multiturn"`
}

func writeSpeed(t *testing.T, path string, rows []speedRow) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
}

func speedRows(prefix string, categories ...string) []speedRow {
	var rows []speedRow
	for i, c := range categories {
		rows = append(rows, speedRow{ID: fmt.Sprintf("%s%d", prefix, i), Category: c, Turns: []string{"first " + prefix, "second"}[:1+i%2]})
	}
	return rows
}

func ids(questions []collector.Question) string {
	var names []string
	for _, q := range questions {
		names = append(names, questionText(q.ID))
	}
	return strings.Join(names, " ")
}

// SPEED-Bench is read from a file or a folder in the order of its names, and
// chosen round robin over the categories.
func TestSpeedBench(t *testing.T) {
	dir := t.TempDir()
	writeSpeed(t, filepath.Join(dir, "b", "test.parquet"), speedRows("b", "math", "code"))
	writeSpeed(t, filepath.Join(dir, "a.parquet"), speedRows("a", "qa", "qa", "qa", "math"))
	f := func(path, choice string, n int, want string) {
		t.Helper()
		cfg := Config{URL: "http://h", SaveDir: filepath.Join(t.TempDir(), "o"), Dataset: "speed", DatasetPath: path, Select: choice}
		if n > 0 {
			cfg.NumRequests = &n
		}
		p, err := NewPlan(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(p.Questions); got != want {
			t.Errorf("%s, %s, %d: got %s, want %s", path, choice, n, got, want)
		}
		if p.Metric != collector.MetricSpecBench {
			t.Errorf("got metric %s", p.Metric)
		}
	}
	f(dir, "", 0, "a0 a1 a2 a3 b0 b1")
	f(dir, "", 4, "a0 a3 b1 a1")
	f(dir, SelectFirst, 4, "a0 a1 a2 a3")
	f(filepath.Join(dir, "b", "test.parquet"), SelectStratified, 0, "b0 b1")
	rows, err := readSpeedBench(filepath.Join(dir, "a.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(collector.Question{ID: json.RawMessage(`"a1"`), Category: "qa", Turns: 2, Prompts: []string{"first a", "second"}}, rows[1]); d != "" {
		t.Errorf("row 1 (-want +got):\n%s", d)
	}
}

// Writers name what lies between a list and its elements differently.
func TestSpeedBenchListForms(t *testing.T) {
	f := func(name string, turns parquet.Node) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "x.parquet")
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		schema := parquet.NewSchema("s", parquet.Group{"question_id": parquet.String(), "turns": turns})
		w := parquet.NewGenericWriter[any](out, schema)
		row := parquet.Row{parquet.ValueOf("7").Level(0, 0, 0)}
		leaf := schema.Columns()
		for i := range leaf {
			if leaf[i][0] == "turns" {
				most, _ := schema.Lookup(leaf[i]...)
				row = append(row, parquet.ValueOf("x").Level(0, most.MaxDefinitionLevel, i), parquet.ValueOf("y").Level(1, most.MaxDefinitionLevel, i))
			}
		}
		if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		out.Close()
		rows, err := readSpeedBench(path)
		if err != nil || len(rows) != 1 || !slices.Equal(rows[0].Prompts, []string{"x", "y"}) || string(rows[0].ID) != `"7"` {
			t.Errorf("%s: got %+v, %v", name, rows, err)
		}
	}
	item := parquet.Repeated(parquet.Group{"item": parquet.Optional(parquet.String())})
	f("list.item", parquet.Optional(parquet.Group{"list": item}))
	f("array", parquet.Group{"array": parquet.Repeated(parquet.String())})
	f("repeated", parquet.Repeated(parquet.String()))
}

// Rows whose text was never fetched are refused if they are chosen.
func TestSpeedBenchPlaceholder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	rows := speedRows("s", "qa", "math", "qa")
	rows[2].Turns = []string{placeholder + " tool"}
	writeSpeed(t, path, rows)
	load := func(n int) error {
		_, err := NewPlan(Config{URL: "http://h", SaveDir: filepath.Join(t.TempDir(), "o"), Dataset: "speed", DatasetPath: path, NumRequests: &n})
		return err
	}
	if err := load(2); err != nil {
		t.Errorf("the row is not chosen: got %v", err)
	}
	if err := load(3); err == nil || !strings.Contains(err.Error(), `"s2"`) || !strings.Contains(err.Error(), `"qa"`) {
		t.Errorf("got %v, want question and category named", err)
	}
}

// What is no SPEED-Bench is refused.
func TestSpeedBenchRefusals(t *testing.T) {
	f := func(path, want string) {
		t.Helper()
		if _, err := readSpeedBench(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	dir := t.TempDir()
	f(filepath.Join(dir, "none"), "cannot read --dataset_path")
	f(dir, "has no .parquet file")
	if err := os.WriteFile(filepath.Join(dir, "bad.parquet"), []byte("not parquet at all"), 0o644); err != nil {
		t.Fatal(err)
	}
	f(dir, "bad.parquet")
	other := filepath.Join(t.TempDir(), "o.parquet")
	if err := parquet.WriteFile(other, []struct{ A int64 }{{1}}); err != nil {
		t.Fatal(err)
	}
	f(other, "want the columns")
	numbers := filepath.Join(t.TempDir(), "n.parquet")
	if err := parquet.WriteFile(numbers, []struct {
		ID    int64   `parquet:"question_id"`
		Turns []int64 `parquet:"turns,list"`
	}{{1, []int64{2}}}); err != nil {
		t.Fatal(err)
	}
	f(numbers, "row 0 has no turns")
}
