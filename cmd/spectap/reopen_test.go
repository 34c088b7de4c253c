package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"spectap/collector"
	"spectap/proxy"
)

// SIGHUP makes a new records file where the old one was moved away; what comes
// after it is in the new one, behind the line of the run.
func TestReopenOnHangup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	var log bytes.Buffer
	sink, err := recordsSink(proxy.Config{Records: path, RecordsMaxBytes: 1 << 20}, zerolog.New(&log))
	if err != nil {
		t.Fatal(err)
	}
	stop := reopenOnHangup(sink, path, zerolog.New(&log))
	sink.Emit(&collector.Record{ID: "old"})
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		if _, err := os.Stat(path); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no new file came")
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	sink.Emit(&collector.Record{ID: "new"})
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	for file, id := range map[string]string{path + ".1": `"old"`, path: `"new"`} {
		text, err := os.ReadFile(file)
		if first, rest, _ := strings.Cut(string(text), "\n"); err != nil || !strings.Contains(first, collector.SchemaRun) || !strings.Contains(rest, id) {
			t.Errorf("%s: got %q, %v; want the line of the run, and record %s", file, text, err, id)
		}
	}
	if !strings.Contains(log.String(), "records file was opened again") {
		t.Errorf("got log %q", log.String())
	}
}
