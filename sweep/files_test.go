package sweep

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spectap/collector"
)

// What a full disk leaves of a point: the records that it took, and nothing where there are none.
func TestRescue(t *testing.T) {
	f := func(name string, start bool, want ...string) {
		t.Helper()
		dir := t.TempDir()
		files, err := newPointFiles(dir, name, false)
		if err != nil {
			t.Fatal(err)
		}
		if start {
			if err := files.start(collector.Run{ID: "r"}); err != nil {
				t.Fatal(err)
			}
			files.emit(&collector.Record{ID: "1"})
			if err := os.WriteFile(filepath.Join(files.partial, "half.json"), nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		full := errors.New("no space left on device")
		got := files.rescue(full)
		if !errors.Is(got, full) {
			t.Errorf("got %v, want the reason in it", got)
		}
		var left []string
		for _, e := range entries(t, dir) {
			for _, file := range entries(t, filepath.Join(dir, e)) {
				left = append(left, e+"/"+file)
			}
		}
		if !slices.Equal(left, want) {
			t.Errorf("got %v on the disk, want %v", left, want)
		}
		if start != strings.Contains(got.Error(), name+".failed") {
			t.Errorf("got %q, want the folder named where there is one", got)
		}
		if !start {
			return
		}
		if text, err := os.ReadFile(filepath.Join(dir, name+".failed", collector.FileRecords)); err != nil || strings.Count(string(text), "\n") != 2 {
			t.Errorf("got records %q, %v; want the run and one record", text, err)
		}
	}
	f("t0_c1", true, "t0_c1.failed/error.json", "t0_c1.failed/records.jsonl")
	f("t0_c1", false)
}
