package tap

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spectap/collector"
)

// capture is one request to a real server, as it went over the socket.
type capture struct {
	name    string
	route   Route
	request map[string]json.RawMessage
	choices int
	head    *http.Response
	reads   []piece // the body without its HTTP framing
	body    []byte
	clean   bool // the body ended as HTTP says
}

// piece is what one socket read brought of the body.
type piece struct {
	at   time.Duration
	data []byte
}

// captureFolders lists the captures in testdata, and those under SPECTAP_CAPTURES_DIR.
func captureFolders(t testing.TB) []string {
	t.Helper()
	roots := []string{filepath.Join("testdata", "vllm-0.32")}
	if dir := os.Getenv("SPECTAP_CAPTURES_DIR"); dir != "" {
		roots = append(roots, dir)
	}
	var all []string
	for _, root := range roots {
		found, err := filepath.Glob(filepath.Join(root, "*", "response.raw"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no captures in %q: %v", root, err)
		}
		for _, f := range found {
			all = append(all, filepath.Dir(f))
		}
	}
	return all
}

// readCapture reads a folder; ok is false where it holds no HTTP exchange of its own (two
// pipelined requests, a client that sent garbage).
func readCapture(t testing.TB, dir string) (c capture, ok bool) {
	t.Helper()
	c.name = filepath.Base(dir)
	request, err := os.ReadFile(filepath.Join(dir, "request.http"))
	if err != nil {
		t.Fatal(err)
	}
	c.readRequest(request)
	response, err := os.ReadFile(filepath.Join(dir, "response.raw"))
	if err != nil {
		t.Fatal(err)
	}
	c.head, err = http.ReadResponse(bufio.NewReader(bytes.NewReader(response)), nil)
	if err != nil {
		return c, false
	}
	start := bytes.Index(response, []byte("\r\n\r\n")) + 4
	if c.head.StatusCode == http.StatusContinue {
		if c.head, err = http.ReadResponse(bufio.NewReader(bytes.NewReader(response[start:])), nil); err != nil {
			return c, false
		}
		start += bytes.Index(response[start:], []byte("\r\n\r\n")) + 4
	}
	from, to := start, len(response)
	unframe := identityBody
	if len(c.head.TransferEncoding) > 0 {
		unframe = chunkedBody
	}
	payload, clean := unframe(response[from:to], c.head.ContentLength)
	c.clean = clean
	c.cut(t, dir, payload, start)
	return c, true
}

func (c *capture) readRequest(request []byte) {
	line, _, _ := bytes.Cut(request, []byte("\r\n"))
	if fields := strings.Fields(string(line)); len(fields) > 1 {
		c.route = RouteOf(fields[1])
	}
	c.choices = 1
	if _, body, found := bytes.Cut(request, []byte("\r\n\r\n")); found {
		body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
		if json.Unmarshal(body, &c.request) != nil {
			return
		}
		if n := 0; json.Unmarshal(c.request["n"], &n) == nil && n > 1 {
			c.choices = n
		}
		if prompts := []json.RawMessage(nil); json.Unmarshal(c.request["prompt"], &prompts) == nil && len(prompts) > 1 {
			c.choices *= len(prompts)
		}
	}
}

// span is a part of the response that belongs to the body.
type span struct{ from, to int }

func identityBody(b []byte, length int64) ([]span, bool) {
	if length >= 0 && int64(len(b)) > length {
		b = b[:length]
	}
	return []span{{0, len(b)}}, length < 0 || int64(len(b)) == length
}

// chunkedBody finds the data of HTTP chunks. It is clean where the last chunk came.
func chunkedBody(b []byte, _ int64) (spans []span, clean bool) {
	for at := 0; at < len(b); {
		end := bytes.Index(b[at:], []byte("\r\n"))
		if end < 0 {
			break
		}
		size := 0
		if _, err := fmt.Sscanf(string(b[at:at+end]), "%x", &size); err != nil {
			break
		}
		if size == 0 {
			return spans, true
		}
		at += end + 2
		spans = append(spans, span{at, min(at+size, len(b))})
		at += size + 2
	}
	return spans, false
}

// cut divides the body as the socket reads did.
func (c *capture) cut(t testing.TB, dir string, spans []span, start int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "reads.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "response.raw"))
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	for position := 0; ; {
		var read struct {
			TNS   int64 `json:"t_ns"`
			Bytes int   `json:"bytes"`
		}
		if err := decoder.Decode(&read); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		var data []byte
		for _, s := range spans {
			from, to := max(s.from+start, position), min(s.to+start, position+read.Bytes)
			if from < to {
				data = append(data, raw[from:to]...)
			}
		}
		position += read.Bytes
		if len(data) > 0 {
			c.reads = append(c.reads, piece{time.Duration(read.TNS), data})
			c.body = append(c.body, data...)
		}
	}
}

// replay shows a Tap the capture in the captured reads. The bytes are overwritten after each
// call, so that a Tap that keeps them gives itself away.
func (c *capture) replay(t *Tap) *collector.Record {
	t.Head(c.head.StatusCode, c.head.Header.Get("Content-Type"), c.head.Header.Get("Content-Encoding"))
	last := time.Duration(0)
	for _, p := range c.reads {
		scratch := bytes.Clone(p.data)
		t.Observe(p.at, scratch)
		for i := range scratch {
			scratch[i] = '#'
		}
		last = p.at
	}
	t.End(last, c.clean)
	r := &collector.Record{}
	t.Fill(r)
	return r
}

func (c *capture) options() Options {
	return Options{Route: c.route, KeepText: true, Choices: c.choices}
}
