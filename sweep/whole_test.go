package sweep

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spectap/collector"
)

// A point whose files are not whole is not complete: it is said which file and why,
// the folder is set aside as it is, and the point runs again.
func TestResumeWithDamagedPoint(t *testing.T) {
	c := newCampaign(t)
	c.cfg.MTBench = questions(t, 1) // of which no interval is made, which takes time
	c.must(nil, "t0_c1", "t0_c2")
	aside := 0
	f := func(file string, change func([]byte) []byte, says string) {
		t.Helper()
		path := filepath.Join(c.cfg.SaveDir, "t0_c2", file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		next := change(bytes.Clone(text))
		if next == nil {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, next, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		var plan strings.Builder
		dry, err := NewPlan(c.cfg)
		if err := errors.Join(err, dry.Describe(&plan)); err != nil || dry.Complete() || !strings.Contains(plan.String(), "t0_c2 (damaged, would be set aside and run again: "+file) {
			t.Errorf("%s: got the plan %s (%v)", file, plan.String(), err)
		}
		result := c.must(nil, "t0_c2")
		want := "point t0_c2 is not kept, it is set aside and runs again: its files are damaged: " + file + ": "
		if got := strings.Join(result.Warnings, "\n"); !strings.Contains(got, want) || !strings.Contains(got, says) || len(result.Summaries) != 2 {
			t.Errorf("%s: got warnings %q, want %q and %q", file, got, want, says)
		}
		aside++
		dir := filepath.Join(c.cfg.SaveDir, asideFolder, "t0_c2."+string(rune('0'+aside)))
		if kept, err := os.ReadFile(filepath.Join(dir, file)); next != nil && (err != nil || !bytes.Equal(kept, next)) || !exists(filepath.Join(dir, "error.json")) {
			t.Errorf("%s: got %v in %s, want the damaged folder and error.json", file, entries(t, dir), dir)
		}
	}
	lines := func(keep func([][]byte) [][]byte) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Join(keep(bytes.SplitAfter(b, []byte("\n"))), nil) }
	}
	f(collector.FileRecords, func(b []byte) []byte { return b[:len(b)*3/4] }, "unexpected end of JSON input")
	f(collector.FileRecords, lines(func(l [][]byte) [][]byte { return l[:len(l)-2] }), "1 not_run (conversation/turn ")
	f(collector.FileRecords, func(b []byte) []byte { return b[:50] }, "line 1: ")
	f(collector.FileTiming, func(b []byte) []byte { return b[:50] }, "it is no whole JSON")
	f(collector.FileTiming, func(b []byte) []byte { return nil }, "it is missing")
	f(collector.FileSpeculation, func(b []byte) []byte { return b[:len(b)-3] }, "it is no whole JSON")
	f(collector.FilePerformance, func(b []byte) []byte { return nil }, "it is missing")
	f(collector.FileTiming, func(b []byte) []byte { return []byte("[{}]") }, "its figures are not those of records.jsonl")
	c.must(nil) // all are whole
	if got := entries(t, filepath.Join(c.cfg.SaveDir, asideFolder)); len(got) != aside {
		t.Errorf("got %v set aside, want %d folders", got, aside)
	}
}

// The figures of kept points are those of their records, whatever sweep.json says:
// it is told and put right. What was appended to a file of figures does not matter.
func TestResumeDoesNotTrustTheBook(t *testing.T) {
	c := newCampaign(t)
	first := c.must(nil, "t0_c1", "t0_c2")
	book := filepath.Join(c.cfg.SaveDir, collector.FileBook)
	text, err := os.ReadFile(book)
	table, err2 := os.ReadFile(filepath.Join(c.cfg.SaveDir, "summary.csv"))
	timing := filepath.Join(c.cfg.SaveDir, "t0_c1", collector.FileTiming)
	old, err3 := os.ReadFile(timing)
	more, err4 := collector.AppendResult(old, collector.Object{{Key: "x", Value: true}})
	if err := errors.Join(err, err2, err3, err4, os.WriteFile(timing, more, 0o666)); err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(text, []byte(`"average_al": `))
	end := at + bytes.IndexByte(text[at:], ',')
	edited := slices.Concat(text[:at], []byte(`"average_al": 99`), text[end:])
	if err := os.WriteFile(book, edited, 0o666); err != nil {
		t.Fatal(err)
	}
	result := c.must(nil)
	if got, want := asJSON(t, result.Summaries), asJSON(t, first.Summaries); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := strings.Join(result.Warnings, "\n"), "sweep.json said otherwise of t0_c1 than its records, whose figures are taken: average_al: was 99, is "; !strings.HasPrefix(got, want) || strings.Contains(got, ";") {
		t.Errorf("got warnings %q, want %q alone", got, want)
	}
	for name, was := range map[string][]byte{"sweep.json": text, "summary.csv": table} {
		if is, err := os.ReadFile(filepath.Join(c.cfg.SaveDir, name)); err != nil || !bytes.Equal(is, was) {
			t.Errorf("got %s\n%s\nwant it as it was\n%s", name, is, was)
		}
	}
}
