package report

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A device or a pipe that the page is written to stays what it is.
func TestWriteToPipe(t *testing.T) {
	f := small(t)
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	got := make(chan []byte)
	go func() {
		text, _ := os.ReadFile(path)
		got <- text
	}()
	if _, err := Write(f.dir, path, Options{}); err != nil {
		t.Fatal(err)
	}
	if text := <-got; !strings.Contains(string(text), "</html>") {
		t.Errorf("got %q from the pipe, want the page", text)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("got %v, %v, want the pipe", info, err)
	}
}
