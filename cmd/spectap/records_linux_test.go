package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A records file on a full disk is told before the first request.
func TestRecordsOnFullDisk(t *testing.T) {
	_, stderr := mustSpectap(t, 2, "proxy", "--records", "/dev/full", "--listen", "127.0.0.1:0", "--admin", "off")
	if !strings.Contains(stderr, "no space left on device") || !strings.Contains(stderr, "--records") {
		t.Errorf("got %s, want the cause and the setting", stderr)
	}
}

// A records file that takes nothing more delays no request: /status counts what
// is lost so far, and the end of the program is late by seconds, not for ever,
// and says so.
func TestRecordsOnPipeThatNobodyReads(t *testing.T) {
	run := recordRequests(t)
	run.cancel()
	if code := <-run.ended; code != 1 {
		t.Errorf("got exit code %d, want 1", code)
	}
	text := run.told.String()
	if !strings.Contains(text, "the records file fails; /status counts what is lost") || !strings.Contains(text, "no line was taken for 5s") || !strings.Contains(text, "cannot write all records") {
		t.Errorf("the loss is not told: %s", text)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "cannot write all records, 0 are lost") || strings.HasPrefix(line, "{") && !json.Valid([]byte(line)) {
			t.Errorf("got %s", line)
		}
	}
}

// recording is a proxy that writes its records to a pipe.
type recording struct {
	fifo, data string
	told       *shared
	cancel     context.CancelFunc
	ended      chan int
}

// recordRequests runs a proxy until cancel, and sends it requests whose
// records are more than a pipe takes that nobody reads.
func recordRequests(t *testing.T) recording {
	t.Helper()
	engine, _ := serveEngine(t, fastEngine())
	r := recording{fifo: filepath.Join(t.TempDir(), "records"), told: new(shared), ended: make(chan int, 1)}
	if err := syscall.Mkfifo(r.fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"proxy", "--upstream", engine, "--listen", "127.0.0.1:0", "--admin", "off", "--log_format", "json", "--records", r.fifo}
	listening := make(announced, 1)
	p := program{stdout: io.Discard, stderr: io.MultiWriter(listening, r.told), env: map[string]string{}, argv: append([]string{"spectap"}, args...)}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	t.Cleanup(cancel)
	go func() { r.ended <- p.run(ctx, args) }()
	r.data = (<-listening).Listen
	for range 300 { // a pipe takes 64 KiB
		resp, err := http.Post("http://"+r.data+"/v1/completions", "application/json", strings.NewReader(`{"model":"fake-model","prompt":"a","max_tokens":16,"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !bytes.Contains(text, []byte("[DONE]")) {
			t.Fatalf("got %d %.100q, %v", resp.StatusCode, text, err)
		}
	}
	return r
}

// The program ends when its records file is whole: what is queued is still written.
func TestRecordsAreWholeAtTheEnd(t *testing.T) {
	run := recordRequests(t)
	reader, err := os.OpenFile(run.fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	run.cancel()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // until no request is served any more
		c, err := net.Dial("tcp", run.data)
		if err != nil {
			break
		}
		_ = c.Close()
		if time.Now().After(end) {
			t.Fatal("the proxy goes on listening")
		}
	}
	if err := reader.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Errorf("the file has not been closed: %v", err)
	}
	if n := strings.Count(string(text), `"path":"/v1/completions"`); n != 300 || !strings.HasSuffix(string(text), "}\n") {
		t.Errorf("got %d records, want 300 whole ones", n)
	}
	if code := <-run.ended; code != 0 {
		t.Errorf("got exit code %d, want 0: %s", code, run.told)
	}
}
