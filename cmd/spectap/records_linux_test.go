package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
	engine, _ := serveEngine(t, fastEngine())
	fifo := filepath.Join(t.TempDir(), "records")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"proxy", "--upstream", engine, "--listen", "127.0.0.1:0", "--admin", "off", "--log_format", "json", "--records", fifo}
	listening := make(announced, 1)
	var told shared
	p := program{stdout: io.Discard, stderr: io.MultiWriter(listening, &told), env: map[string]string{}, argv: append([]string{"spectap"}, args...)}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan int, 1)
	go func() { ended <- p.run(ctx, args) }()
	data := "http://" + (<-listening).Listen
	for range 300 { // a pipe takes 64 KiB
		resp, err := http.Post(data+"/v1/completions", "application/json", strings.NewReader(`{"model":"fake-model","prompt":"a","max_tokens":16,"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !bytes.Contains(text, []byte("[DONE]")) {
			t.Fatalf("got %d %.100q, %v", resp.StatusCode, text, err)
		}
	}
	cancel()
	if code := <-ended; code != 1 {
		t.Errorf("got exit code %d, want 1", code)
	}
	text := told.String()
	if !strings.Contains(text, "the records file fails; /status counts what is lost") || !strings.Contains(text, "no line was taken for 5s") || !strings.Contains(text, "cannot write all records") {
		t.Errorf("the loss is not told: %s", text)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "cannot write all records, 0 are lost") || strings.HasPrefix(line, "{") && !json.Valid([]byte(line)) {
			t.Errorf("got %s", line)
		}
	}
}
