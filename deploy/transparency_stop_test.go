package deploy

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// uvicorn is stopped in mid-stream: a client sees the same end with spectap as
// without it, and never a clean end of a stream that was cut.
func TestTransparencyStop(t *testing.T) {
	f := func(name string, signal syscall.Signal, field, kind string, whole bool, args ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			server := startUvicorn(t, "httptools", nil, args...)
			records := filepath.Join(t.TempDir(), "records.jsonl")
			proxy := startProxy(t, nil, server.URL, "--measure", "observe", "--records", records)
			request := post("/v1/chat/completions", `{"messages":[],"stream":true}`, field, "X-Case: a")
			direct, through := dialWire(t, server.URL), dialWire(t, proxy.URL)
			for _, w := range []*wire{direct, through} {
				w.write(request)
				w.head(t)
			}
			openGate(t, server.URL, "stop", 4) // two each
			for _, w := range []*wire{direct, through} {
				w.untilEvent(t)
			}
			if err := server.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			want, got := direct.toEnd(), through.toEnd()
			if want.Cut != got.Cut || want.Framing != got.Framing || (got.Cut == "") != whole || whole && want.Body != got.Body {
				t.Errorf("the end differs, or is whole: %v is not so\nwithout spectap %+v\n   with spectap %+v", whole, want, got)
			}
			<-server.ended
			next := dialWire(t, proxy.URL)
			next.write("GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
			if a := next.read("GET"); a.Status != "HTTP/1.1 502 Bad Gateway" || !strings.Contains(a.Body, "spectap_upstream_refused") {
				t.Errorf("got %+v of a server that is gone, want 502", a)
			}
			proxy.stop(t)
			for _, r := range readRealRecords(t, records) {
				if r.Path == "/v1/chat/completions" && r.ErrorKind != kind {
					t.Errorf("got error kind %q, want %q", r.ErrorKind, kind)
				}
			}
		})
	}
	f("SIGTERM, the stream ends", syscall.SIGTERM, "X-Pace: 0.1", "", true)
	f("SIGTERM, the server waits no longer", syscall.SIGTERM, "X-Gate: stop", "truncated", false, "--timeout-graceful-shutdown", "1")
	f("SIGKILL", syscall.SIGKILL, "X-Gate: stop", "truncated", false)
}

// untilEvent reads until an event has begun.
func (w *wire) untilEvent(t *testing.T) {
	t.Helper()
	if _, err := w.in.Peek(len("fff\r\ndata: ")); err != nil {
		t.Fatalf("no event: %v", err)
	}
}

// toEnd reads the rest of a chunked answer, and behind a cut one what the
// connection does then.
func (w *wire) toEnd() (a seenAnswer) {
	_, body, err := readChunks(w.in)
	a.Body = string(body)
	if err == nil {
		return a // with spectap the connection may be used again
	}
	a.Cut = cause(err)
	if rest, err := io.ReadAll(w.in); len(rest) > 0 || err != nil && cause(err) != "closed" {
		a.Framing = fmt.Sprintf("then %q, %v", rest, err)
	}
	return a
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
