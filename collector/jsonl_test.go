package collector

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const jsonlChildVar = "SPECTAP_TEST_JSONL_CHILD"

// TestMain lets the test binary be the process that TestJSONLKilled kills.
func TestMain(m *testing.M) {
	if path := os.Getenv(jsonlChildVar); path != "" {
		j, err := OpenJSONL(path)
		if err != nil {
			panic(err)
		}
		for i := 0; ; i++ {
			j.Emit(&Record{ID: fmt.Sprint(i), Chunks: make([]Chunk, 40)})
		}
	}
	os.Exit(m.Run())
}

func TestJSONLKilled(t *testing.T) {
	torn := 0
	for range 5 {
		path := filepath.Join(t.TempDir(), "records.jsonl")
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), jsonlChildVar+"="+path)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for { // until there is something to tear
			if info, err := os.Stat(path); err == nil && info.Size() > 1<<18 {
				break
			}
		}
		child.Process.Kill()
		child.Wait()
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		torn += count(!bytes.HasSuffix(before, []byte("\n")))
		j, err := OpenJSONL(path)
		if err != nil {
			t.Fatal(err)
		}
		j.Emit(&Record{ID: "after"})
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, recs, bad, err := readJSONL(bytes.NewReader(text))
		if err != nil || len(bad) > 1 || len(recs) < 10 || recs[len(recs)-1].ID != "after" {
			t.Fatalf("got %d records, bad lines %v, error %v; want many, the last after the kill", len(recs), bad, err)
		}
	}
	// The kernel may end a write early between two pages; a buffer would be torn nearly always.
	if torn > 1 {
		t.Errorf("%d of 5 files ended in a partial line, want whole lines", torn)
	}
}

func TestJSONLPartialTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	if err := os.WriteFile(path, []byte(`{"schema":"spectap.rec`), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := OpenJSONL(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.WriteRun(Run{Point: "t0_c1"}); err != nil {
		t.Fatal(err)
	}
	j.Emit(&Record{ID: "1"})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	runs, recs, bad, err := readJSONL(f)
	if err != nil || len(runs) != 1 || len(recs) != 1 || len(bad) != 1 || bad[0].Line != 1 {
		t.Errorf("got %d runs, %d records, bad %v, %v; want 1, 1, line 1", len(runs), len(recs), bad, err)
	}
}

// failingWriter takes limit bytes, then its disk is full until it is emptied.
type failingWriter struct {
	bytes.Buffer
	limit int
}

var errFull = errors.New("no space left on device")

func (w *failingWriter) Write(b []byte) (int, error) {
	room := max(0, w.limit-w.Len())
	if len(b) <= room {
		return w.Buffer.Write(b)
	}
	w.Buffer.Write(b[:room])
	return room, errFull
}

func TestJSONLFullDisk(t *testing.T) {
	line, err := encodeRecord(&Record{ID: "1"}, false)
	if err != nil {
		t.Fatal(err)
	}
	w := &failingWriter{limit: len(line) + 10}
	j := newJSONL(w, jsonlQueue, false)
	var failures []error // written by the goroutine that Close waits for
	j.Failed = func(err error) { failures = append(failures, err) }
	j.Emit(&Record{ID: "1"})
	j.Emit(&Record{ID: "2"})
	if err := j.WriteRun(Run{}); !errors.Is(err, errFull) { // behind both
		t.Errorf("got %v from WriteRun, want %v", err, errFull)
	}
	if err := j.Err(); !errors.Is(err, errFull) {
		t.Errorf("got Err %v, want %v", err, errFull)
	}
	w.limit = 1 << 20 // only the goroutine writes, and it waits for the queue
	j.Emit(&Record{ID: "3"})
	if err := j.Close(); !errors.Is(err, errFull) {
		t.Errorf("got Close %v, want %v", err, errFull)
	}
	if got := j.Dropped(); got != 1 {
		t.Errorf("got %d dropped, want 1", got)
	}
	if len(failures) != 1 || !errors.Is(failures[0], errFull) {
		t.Errorf("got failures %v, want the first one only", failures)
	}
	_, recs, bad, err := readJSONL(&w.Buffer)
	if err != nil || len(recs) != 2 || recs[0].ID != "1" || recs[1].ID != "3" || len(bad) != 1 || bad[0].Line != 2 {
		t.Errorf("got %d records, bad %v, %v; want records 1 and 3, line 2 bad", len(recs), bad, err)
	}
}

// blockedWriter waits until it is let go.
type blockedWriter struct{ entered, gate chan struct{} }

func (w blockedWriter) Write(b []byte) (int, error) {
	w.entered <- struct{}{}
	<-w.gate
	return len(b), nil
}

func TestJSONLNeverBlocks(t *testing.T) {
	w := blockedWriter{make(chan struct{}, 16), make(chan struct{})}
	j := newJSONL(w, 2, false)
	j.Emit(&Record{})
	<-w.entered // one is being written, two wait
	for range 5 {
		j.Emit(&Record{})
	}
	if got := j.Dropped(); got != 3 {
		t.Errorf("got %d dropped, want 3", got)
	}
	close(w.gate)
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

func TestJSONLTexts(t *testing.T) {
	for _, keep := range []bool{false, true} {
		var b bytes.Buffer
		j := newJSONL(&b, jsonlQueue, false)
		j.KeepTexts = keep
		if err := j.WriteRun(Run{Questions: []Question{{System: "secret", Prompts: []string{"secret"}}}}); err != nil {
			t.Fatal(err)
		}
		j.Emit(&Record{Prompt: "secret", Reply: "secret", Reasoning: "secret", Headers: map[string]string{"x-a": "secret"}})
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Count(b.String(), "secret"), 6*count(keep); got != want {
			t.Errorf("KeepTexts %v: got %d texts, want %d", keep, got, want)
		}
	}
}

func TestReadJSONL(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("{\"schema\":\"spectap.record/1\",\"id\":\"0\"}\n\nnot json\n")
	b.WriteString("{\"schema\":\"spectap.run/1\",\"point\":\"t0_c1\"}\n{\"schema\":\"spectap.record/9\"}\n")
	b.WriteString(`{"schema":"spectap.record/1","id":"1","reply":"` + strings.Repeat("x", 3<<20) + "\"}\r\n")
	b.WriteString("{\"schema\":\"spectap.run/1\",\"point\":\"t0_c2\"}\n{\"schema\":\"spectap.record/1\",\"id\":\"2\"}")
	points, bad, err := ReadPoints(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range points {
		for _, r := range p.Records {
			got = append(got, p.Run.Point+"/"+r.ID)
		}
	}
	if want := []string{"/0", "t0_c1/1", "t0_c2/2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(bad) != 2 || bad[0].Line != 3 || bad[1].Line != 5 || !errors.Is(bad[1], errSchema) {
		t.Errorf("got bad lines %v, want 3 and 5 (unknown schema)", bad)
	}
	runs, recs, _, err := readJSONL(bytes.NewReader(b.Bytes()))
	if len(runs) != 2 || len(recs) != 3 || err != nil {
		t.Errorf("got %d runs, %d records, %v; want 2, 3", len(runs), len(recs), err)
	}
	broken := io.MultiReader(strings.NewReader("{\"schema\":\"spectap.record/1\"}\n"), errReader{})
	if _, recs, _, err := readJSONL(broken); !errors.Is(err, errFull) || len(recs) != 1 {
		t.Errorf("got %d records, %v; want 1 and the reader's error", len(recs), err)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errFull }

// BenchmarkReadJSONL reads Records of 300 chunks.
func BenchmarkReadJSONL(b *testing.B) {
	r := capturedTurn{Counts: slices.Repeat([]int{2}, 300), Completion: 600, Finish: "length"}.record(time.Unix(1, 0))
	for i := range r.Chunks {
		r.Chunks[i].At += time.Duration(i * 12347)
	}
	line, err := encodeRecord(r, false)
	if err != nil {
		b.Fatal(err)
	}
	text := bytes.Repeat(line, 100)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, recs, _, _ := readJSONL(bytes.NewReader(text)); len(recs) != 100 {
			b.Fatalf("got %d records", len(recs))
		}
	}
}

// readJSONL reads all lines of a records file, whatever points they are of.
func readJSONL(r io.Reader) (runs []Run, recs []*Record, bad []LineError, err error) {
	points, bad, err := ReadPoints(r)
	for _, p := range points {
		if p.described {
			runs = append(runs, p.Run)
		}
		recs = append(recs, p.Records...)
	}
	return runs, recs, bad, err
}
