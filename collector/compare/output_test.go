package compare

import (
	"encoding/csv"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the golden files again")

// example is a comparison with a bit of everything: times without an interval, a
// point without a partner, a failed one, a difference of each level, a gate.
func example(t *testing.T) Result {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	at := func(config, concurrency string) string {
		return strings.Replace(config, `"concurrency": 8`, `"concurrency": `+concurrency, 1)
	}
	benchRun{als: alsA, tps: 1000, ttft: 0.1, config: configA}.write(t, "a/1")
	benchRun{als: alsA, tps: 3000, ttft: 0.15, config: at(configA, "32")}.write(t, "a/2")
	benchRun{als: alsB, tps: 1200, ttft: 0.08, config: configB}.write(t, "b/1")
	if err := os.MkdirAll("b/t0_c32.failed", 0o777); err != nil {
		t.Fatal(err)
	}
	put(t, "b/t0_c32.failed/error.json", `{"reason": "1 of 24 requests failed; the first: truncated"}`)
	var opts Options
	for _, text := range []string{"AL < -0.05", "tps < -5%"} {
		c, err := ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		opts.FailIf = append(opts.FailIf, c)
	}
	return compared(t, opts, "a", "b")
}

// rounded cuts numbers after six digits: the last ones are the processor's own.
func rounded(text string) string {
	return regexp.MustCompile(`-?[0-9]+\.[0-9]+(e-?[0-9]+)?`).ReplaceAllStringFunc(text, func(s string) string {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return s
		}
		return strconv.FormatFloat(v, 'g', 6, 64)
	})
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; go test ./collector/compare -run Output -update writes it again. Got:\n%s", filepath.Base(path), got)
	}
}

// The formats as they were: whoever reads spectap.compare/1 finds what was there.
func TestOutput(t *testing.T) {
	here, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	r := example(t)
	text, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join(here, "compare.json"), rounded(string(text)))
	golden(t, filepath.Join(here, "compare.txt"), r.Text())
	golden(t, filepath.Join(here, "compare.md"), r.Markdown())
	golden(t, filepath.Join(here, "compare.csv"), rounded(string(r.CSV())))
}

// The text can be read in 100 columns, whatever the names.
func TestTextWidth(t *testing.T) {
	long := strings.Repeat("a long name ", 12)
	dir := t.TempDir()
	config := strings.Replace(configA, "q.jsonl", long, 1)
	a := benchRun{als: alsA, tps: 1000, ttft: 0.1, config: config}.write(t, filepath.Join(dir, "a"))
	b := benchRun{als: alsB, tps: 123456, ttft: 12.3, config: strings.Replace(config, `"output_length": 256`, `"output_length": 512, "runtime_params": {"x": "`+long+`"}`, 1)}.write(t, filepath.Join(dir, "b"))
	r := compared(t, Options{}, a, b)
	few, fewer := drafter, better
	few.questions, fewer.questions = 10, 10
	simulated, err := Compare([]Input{input(t, few), input(t, fewer)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{r.Text(), simulated.Text(), example(t).Text()} {
		for _, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > 100 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

// Every figure is a row of the CSV, and JSON has no number that is none.
func TestEveryFigureIsThere(t *testing.T) {
	r := example(t)
	rows, err := csv.NewReader(strings.NewReader(string(r.CSV()))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.figures()); len(rows) != n+1 || n < 4 {
		t.Errorf("got %d rows of %d figures, want one each and a header", len(rows), n)
	}
	text, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Schema      string
		Comparisons []struct {
			Points []struct {
				Figures []struct {
					Quantity   string
					Difference struct {
						Value, Low, High *float64
						Known            *bool
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if v.Schema != "spectap.compare/1" || len(v.Comparisons[0].Points[0].Figures) != len(r.figures()) {
		t.Errorf("got %+v", v)
	}
	f := v.Comparisons[0].Points[0].Figures[0]
	if f.Quantity != "AL" || f.Difference.Known == nil || !*f.Difference.Known || f.Difference.Low == nil || f.Difference.High == nil {
		t.Errorf("got %+v, want the AL with an interval", f)
	}
}

// A cell of a Markdown table stays in its cell.
func TestMarkdownCells(t *testing.T) {
	table := table{head: []string{"a", "b"}}
	table.add("x | y\n<script>", "`z`")
	if got, want := table.markdown(), "| a | b |\n|---|---:|\n| x \\| y &lt;script> | \\`z\\` |\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
