package deploy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// leaving is where a client leaves, and how.
type leaving struct {
	stage string // "prefill", "stream" or "unstreamed"
	how   string // "FIN", "RST" or "half-close"
}

// The application is told of a client that leaves, through spectap as without it:
// before the first event, between events, and while it waits for a whole answer.
func TestTransparencyLeave(t *testing.T) {
	for _, parser := range parsers {
		t.Run(parser, func(t *testing.T) {
			server := startUvicorn(t, parser, nil)
			records := filepath.Join(t.TempDir(), "records.jsonl")
			proxy := startProxy(t, nil, server.URL, "--records", records)
			n := 0
			for _, stage := range []string{"prefill", "stream", "unstreamed"} {
				for _, how := range []string{"FIN", "RST", "half-close"} {
					l := leaving{stage, how}
					direct, through := l.leave(t, server.URL, server.URL, fmt.Sprintf("direct-%d", n)), l.leave(t, server.URL, proxy.URL, fmt.Sprintf("through-%d", n))
					if direct != through {
						t.Errorf("%v: the client got %q behind it without spectap, %q with", l, direct, through)
					}
					n++
				}
			}
			proxy.stop(t)
			gone := 0
			for _, r := range readRealRecords(t, records) {
				if r.ErrorKind == "client_gone" && r.SpecMissing == "client_gone" {
					gone++
				} else if strings.HasPrefix(r.Path, "/v1/chat") {
					t.Errorf("got record %+v, want client_gone", r)
				}
			}
			if gone != n {
				t.Errorf("got %d records of clients that left, want %d", gone, n)
			}
		})
	}
}

// leave asks, leaves, and returns what came after that, which only who has closed
// half can see.
func (l leaving) leave(t *testing.T, server, url, name string) string {
	t.Helper()
	w := dialWire(t, url)
	w.write(post("/v1/chat/completions", fmt.Sprintf(`{"messages":[],"stream":%v}`, l.stage != "unstreamed"), "X-Gate: "+name, "X-Case: "+name))
	caseOf(t, server, name, "began")
	if l.stage == "stream" {
		w.head(t)
		for range 2 {
			openGate(t, server, name, 1)
			w.event(t)
		}
	}
	tcp := w.conn.(*net.TCPConn) // dialWire dials tcp
	rest := ""
	switch l.how {
	case "RST":
		_ = tcp.SetLinger(0) // fails only on a closed connection, as below
		_ = tcp.Close()
	case "FIN":
		_ = tcp.Close()
	case "half-close":
		_ = tcp.CloseWrite()
		left, err := io.ReadAll(w.in)
		rest = fmt.Sprint(strings.Contains(string(left), "data:"), err)
	}
	if got := caseOf(t, server, name, "http.disconnect"); got[1] != "http.disconnect" {
		t.Errorf("%s: the application saw %q, want http.disconnect before anything else", name, got)
	}
	return rest
}

// openGate lets so many events pass.
func openGate(t *testing.T, server, name string, events int) {
	t.Helper()
	answer, err := http.Post(fmt.Sprintf("%s/gate/%s?n=%d", server, name, events), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
}

// head reads a head.
func (w *wire) head(t *testing.T) {
	t.Helper()
	if _, err := w.in.ReadString('\n'); err != nil {
		t.Fatalf("no answer: %v", err)
	}
	w.fields()
}

// event reads the next chunk, which is to be one event.
func (w *wire) event(t *testing.T) string {
	t.Helper()
	part, err := readChunk(w.in)
	if err != nil {
		t.Fatalf("no event: %v", err)
	}
	text := string(part)
	if text != "" && (!strings.HasSuffix(text, "\n\n") || strings.Count(text, "\n\n") != 1) {
		t.Errorf("got %q in a chunk, want one event", text)
	}
	return text
}

// Every event reaches the client before the next one is sent, each in a chunk of
// its own, in every mode: the last ones come together.
func TestTransparencyEvents(t *testing.T) {
	server := startUvicorn(t, "httptools", nil)
	f := func(name, capture string) {
		t.Run(name, func(t *testing.T) {
			direct := stepThrough(t, server.URL, server.URL, capture+"-direct", capture)
			for _, mode := range []string{"observe", "usage", "tokens"} {
				proxy := startProxy(t, nil, server.URL, "--measure", mode)
				through := stepThrough(t, server.URL, proxy.URL, capture+"-"+mode, capture)
				if !slices.Equal(direct, through) {
					t.Errorf("%s: events differ\nwithout spectap %q\n   with spectap %q", mode, direct, through)
				}
			}
		})
	}
	f("chat", "dd-chat-stream-usage")
	f("tools", "bf-chat-tools-required")
	f("logprobs", "nd-chat-stream-logprobs")
	f("choices", "nd-chat-stream-n2")
	f("completions", "dd-comp-stream-usage")
}

// stepThrough returns the events of a capture, each of which is sent only when the
// one before has come.
func stepThrough(t *testing.T, server, url, name, capture string) (events []string) {
	t.Helper()
	w := dialWire(t, url)
	path, body := "/v1/chat/completions", `{"messages":[],"stream":true}`
	if strings.Contains(capture, "-n2") {
		body = `{"messages":[],"n":2,"stream":true}`
	}
	if strings.Contains(capture, "-comp-") {
		path, body = "/v1/completions", `{"prompt":"a","stream":true}`
	}
	w.write(post(path, body, "X-Gate: "+name, "X-Capture: "+capture))
	w.head(t)
	for len(events) < 3 {
		openGate(t, server, name, 1)
		events = append(events, w.event(t))
	}
	openGate(t, server, name, 1000)
	var rest strings.Builder
	for {
		part, err := readChunk(w.in)
		if err != nil {
			t.Fatal(err)
		}
		if len(part) == 0 {
			return append(events, strings.SplitAfter(rest.String(), "\n\n")...)
		}
		rest.Write(part)
	}
}
