package compare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spectap/collector"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	f := func(path string, wants ...string) {
		t.Helper()
		_, err := Open(path)
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want an error that says %q", filepath.Base(path), err, want)
			}
		}
	}
	folder := func(name string, files map[string]string) string {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(at, 0o777); err != nil {
			t.Fatal(err)
		}
		for file, text := range files {
			put(t, filepath.Join(at, file), text)
		}
		return at
	}
	f(filepath.Join(dir, "none"), "no such file", "want the folder of a sweep")
	f(folder("empty", nil), "has no points", collector.FileRecords)
	f(folder("config", map[string]string{"configuration.json": configA}), "neither acceptance_rate.json nor timing.json")
	f(folder("norecords", map[string]string{"records.jsonl": ""}), "not the records file of one point")
	f(folder("garbage", map[string]string{"records.jsonl": "{\"a\": 1}\nnot JSON\n"}), "records.jsonl")
	f(folder("nan", map[string]string{"acceptance_rate.json": `[{"Request_AL": {"0": NaN}}]`}), "cannot parse JSON")
	f(folder("nantext", map[string]string{"acceptance_rate.json": `[{"Request_AL": {"0": "NaN"}}]`}), "the AL of request 0 is NaN", "want a number of at least 1")
	f(folder("negative", map[string]string{"acceptance_rate.json": `[{"Request_AL": {"0": 0.5}}]`}), "the AL of request 0 is 0.5")
	f(folder("nolist", map[string]string{"acceptance_rate.json": `{"Request_AL": {"0": 2}}`}), "want a list of results")
	f(folder("nothing", map[string]string{"acceptance_rate.json": `[]`}), "at least one")
	f(folder("noal", map[string]string{"acceptance_rate.json": `[{"Average_AL": 2}]`}), "no Request_AL")
	f(folder("uneven", map[string]string{"acceptance_rate.json": `[{"Request_AL": {"0": 2}}]`, "timing.json": `[{"Output TPS": 1}, {"Output TPS": 2}]`}), "holds 1 results", "2")
	f(folder("zero", map[string]string{"timing.json": `[{"Output TPS": 0}]`}), "Output TPS is 0")
	f(folder("badconfig", map[string]string{"acceptance_rate.json": `[{"Request_AL": {"0": 2}}]`, "configuration.json": "{"}), "configuration.json")
	f(folder("badresponses", map[string]string{"acceptance_rate.json": `[{"Request_AL": {"0": 2}}]`, "responses.jsonl": "{\"question_id\": 0}\n{"}), "line 2")
	folder("failed/t0_c8.failed", map[string]string{"error.json": `{"reason": "the server died"}`, "records.jsonl": ""})
	folder("failed/.t0_c32.partial", map[string]string{"records.jsonl": ""})
	f(filepath.Join(dir, "failed"), "no point that can be compared", "t0_c8: the server died", "t0_c32: it is running, or was killed")
	p := drafter.point()
	for _, r := range p.Records {
		r.ErrorKind, r.Error = collector.ErrTruncated, "cut"
	}
	broken := folder("allfailed", nil)
	if err := p.WriteRecords(filepath.Join(broken, "records.jsonl"), collector.DropTexts); err != nil {
		t.Fatal(err)
	}
	f(broken, "no conversation was measured", "truncated (cut)")
	p.Records = nil
	norecords := folder("runline", nil)
	if err := p.WriteRecords(filepath.Join(norecords, "records.jsonl"), collector.DropTexts); err != nil {
		t.Fatal(err)
	}
	f(norecords, "no conversation was measured", "160 turns failed or are missing")
}

// What is wrong with one point keeps no other from being compared, and is told.
func TestBrokenPointBesideGoodOnes(t *testing.T) {
	dir := t.TempDir()
	a := filepath.Join(dir, "a")
	benchRun{als: alsA, config: configA}.write(t, filepath.Join(a, "good"))
	put(t, filepath.Join(benchRun{als: alsA, config: configA}.write(t, filepath.Join(a, "bad")), "timing.json"), "[{")
	if err := os.MkdirAll(filepath.Join(a, "t0_c99.failed"), 0o777); err != nil {
		t.Fatal(err)
	}
	b := benchRun{als: alsB, config: configA}.write(t, filepath.Join(dir, "b"))
	r := compared(t, Options{}, a, b)
	if in := r.Inputs[0]; len(in.Broken) != 1 || in.Broken[0].Point != "bad" || len(in.Failed) != 1 || in.Failed[0].Point != "t0_c99" {
		t.Errorf("got %+v, want one folder that cannot be read and one failed point", r.Inputs[0])
	}
	for _, want := range []string{"bad cannot be read", "t0_c99 failed"} {
		if !strings.Contains(r.Text(), want) {
			t.Errorf("the text does not say %q:\n%s", want, r.Text())
		}
	}
}

// Conversations that failed are left out, counted and told.
func TestIncompletePoint(t *testing.T) {
	dir := t.TempDir()
	p := better.point()
	for _, r := range p.Records[:6] {
		r.ErrorKind = collector.ErrTruncated
	}
	if err := p.WriteRecords(filepath.Join(dir, "records.jsonl"), collector.DropTexts); err != nil {
		t.Fatal(err)
	}
	r, err := Compare([]Input{input(t, drafter), open(t, dir)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := figure(t, r, "t1_c8", "AL")
	if f.N != 77 || r.Inputs[1].Points[0].LeftOut[0] != 3 {
		t.Errorf("got %d pairs, %v left out, want 77 and 3", f.N, r.Inputs[1].Points[0].LeftOut)
	}
	if !strings.Contains(r.Text(), "conversations left out") {
		t.Error("the text does not say that conversations were left out")
	}
}

// Several runs in one records file are no point.
func TestRecordsOfAProxy(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "records.jsonl")
	p := drafter.point()
	p.Run.Metric = ""
	if err := p.WriteRecords(path, collector.DropTexts); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "want one that names its data set") {
		t.Errorf("got %v, want an error that asks for a point", err)
	}
}
