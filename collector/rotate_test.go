package collector

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// lines returns the ids of a records file's Records, in order, and whether its first line is a run's.
func lines(t *testing.T, path string) (ids []string, described bool) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	points, bad, err := ReadPoints(bytes.NewReader(text))
	if err != nil || len(bad) > 0 || len(points) != 1 {
		t.Fatalf("%s: got %d points, bad lines %v, %v", path, len(points), bad, err)
	}
	for _, r := range points[0].Records {
		ids = append(ids, r.ID)
	}
	return ids, points[0].Run.ID == "run"
}

// names lists a folder.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// emitTo writes n Records with the Rotation, one a second, each of the same length.
func emitTo(t *testing.T, path string, r Rotation, n int) {
	t.Helper()
	j, err := OpenJSONL(path)
	if err != nil {
		t.Fatal(err)
	}
	j.Rotation = r
	if err := j.WriteRun(Run{ID: "run"}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		j.Emit(&Record{ID: fmt.Sprintf("%03d", i), Start: noon.Add(time.Duration(i) * time.Second)})
	}
	if err := j.Close(); err != nil || j.Dropped() != 0 {
		t.Fatalf("got %v, %d dropped", err, j.Dropped())
	}
}

// Every Record is in one file, each file begins with the run and is within the
// limit, and the names say when a file was set aside.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "records.jsonl")
	emitTo(t, path, Rotation{MaxBytes: 2000}, 20)
	var all []string
	files := names(t, dir)
	for _, name := range files {
		info, _ := os.Stat(filepath.Join(dir, name))
		if info.Size() > 2000 {
			t.Errorf("%s: got %d bytes, want at most 2000", name, info.Size())
		}
		ids, described := lines(t, filepath.Join(dir, name))
		if !described || len(ids) == 0 {
			t.Errorf("%s: got %v, run line first: %v", name, ids, described)
		}
		all = append(all, ids...)
	}
	if len(files) < 3 || files[len(files)-1] != "records.jsonl" || files[0][:len("records-20261130T1200")] != "records-20261130T1200" {
		t.Errorf("got files %v, want several, named by time", files)
	}
	if len(all) != 20 || !slices.IsSorted(all) {
		t.Errorf("got %v, want every record once, in order of the names", all)
	}
}

func TestRotationKeeps(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "records-notes.jsonl")
	if err := os.WriteFile(other, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	emitTo(t, filepath.Join(dir, "records.jsonl"), Rotation{MaxBytes: 2000, Keep: 2}, 40)
	files := names(t, dir)
	if len(files) != 4 || !slices.Contains(files, "records-notes.jsonl") {
		t.Fatalf("got %v, want the file, two set aside, and the other one untouched", files)
	}
	ids, _ := lines(t, filepath.Join(dir, "records.jsonl"))
	last, _ := lines(t, filepath.Join(dir, files[1]))
	if got, want := ids[len(ids)-1], "039"; got != want || last[len(last)-1] >= ids[0] {
		t.Errorf("got %v behind %v, want the newest ones", ids, last)
	}
}

// Two files set aside in the same millisecond keep their order.
func TestAsideName(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.jsonl")
	for range 3 {
		name := asideName(path, noon)
		if err := os.WriteFile(name, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	j := JSONL{path: path, Rotation: Rotation{Keep: 2}}
	if err := j.removeOld(); err != nil {
		t.Fatal(err)
	}
	want := []string{"r-20261130T120000.000Z.002.jsonl", "r-20261130T120000.000Z.003.jsonl"}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A file that was moved away is left whole, and a new one begins with the run.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	path, moved := filepath.Join(dir, "records.jsonl"), filepath.Join(dir, "moved")
	j, err := OpenJSONL(path)
	if err != nil {
		t.Fatal(err)
	}
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	step(j.WriteRun(Run{ID: "run"}))
	j.Emit(&Record{ID: "1"})
	step(j.Reopen()) // nobody moved it: it goes on
	j.Emit(&Record{ID: "2"})
	step(os.Rename(path, moved))
	j.Emit(&Record{ID: "3"})
	step(j.Reopen())
	j.Emit(&Record{ID: "4"})
	step(j.Close())
	for _, want := range []struct {
		path string
		ids  []string
	}{{moved, []string{"1", "2", "3"}}, {path, []string{"4"}}} {
		if ids, described := lines(t, want.path); !slices.Equal(ids, want.ids) || !described {
			t.Errorf("%s: got %v, run line first: %v; want %v", want.path, ids, described, want.ids)
		}
	}
}

// A folder that is gone costs no Record: the old file goes on, and who asked is told.
func TestReopenFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	j, err := OpenJSONL(filepath.Join(dir, "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	moved := dir + "2"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	if err := j.WriteRun(Run{ID: "run"}); err != nil {
		t.Fatal(err)
	}
	if err := j.Reopen(); err == nil {
		t.Error("got no error of a folder that is gone")
	}
	j.Emit(&Record{ID: "1"})
	if err := j.Close(); err != nil || j.Dropped() != 0 {
		t.Errorf("got %v, %d dropped; want nothing lost", err, j.Dropped())
	}
	if ids, _ := lines(t, filepath.Join(moved, "records.jsonl")); !slices.Equal(ids, []string{"1"}) {
		t.Errorf("got %v, want record 1", ids)
	}
}
