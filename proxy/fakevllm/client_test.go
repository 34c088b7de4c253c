package fakevllm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spectap/proxy/fakevllm"
)

// engine is a running engine and what it logged.
type engine struct {
	*fakevllm.Engine
	mu   sync.Mutex
	log  []fakevllm.Truth
	next io.Writer // gets the lines too
}

func (e *engine) Write(line []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var tr fakevllm.Truth
	if err := json.Unmarshal(line, &tr); err != nil {
		return 0, err
	}
	e.log = append(e.log, tr)
	if e.next != nil {
		return e.next.Write(line)
	}
	return len(line), nil
}

// Truth returns the lines so far.
func (e *engine) Truth() []fakevllm.Truth {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.log)
}

// start serves an engine on loopback until the test ends.
func start(t testing.TB, cfg fakevllm.Config) (*engine, string) {
	t.Helper()
	e, err := &engine{next: cfg.Truth}, error(nil)
	cfg.Truth = e
	e.Engine, err = fakevllm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- e.Serve(ln) }()
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return e, ln.Addr().String()
}

// send writes one raw request, which is to end its connection, and returns
// everything up to that end.
func send(t testing.TB, addr string, raw []byte) ([]byte, error) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // against hanging only
	if _, err := c.Write(bytes.Replace(raw, []byte("\r\n"), []byte("\r\nConnection: close\r\n"), 1)); err != nil {
		t.Fatal(err)
	}
	return io.ReadAll(c)
}

// post is a raw POST of a JSON body with further header lines.
func post(path, body string, header ...string) []byte {
	h := ""
	for _, l := range header {
		h += l + "\r\n"
	}
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost:8000\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", path, h, len(body), body)
}

// answer is a response cut into its parts; chunks are the HTTP chunks of a chunked body.
type answer struct {
	status string
	names  []string // header names in lower case, sorted, without date, connection and x-request-id
	body   []byte
	chunks []string
	whole  bool // the last chunk came
}

func cut(t testing.TB, raw []byte) answer {
	t.Helper()
	head, body, ok := bytes.Cut(raw, []byte("\r\n\r\n"))
	if !ok {
		t.Fatalf("no head in %q", raw)
	}
	lines := strings.Split(string(head), "\r\n")
	a := answer{status: lines[0], body: body}
	for _, l := range lines[1:] {
		name, _, _ := strings.Cut(strings.ToLower(l), ":")
		if name != "date" && name != "connection" && name != "x-request-id" {
			a.names = append(a.names, name)
		}
	}
	slices.Sort(a.names)
	if !slices.Contains(a.names, "transfer-encoding") {
		return a
	}
	a.body = nil
	for len(body) > 0 && !a.whole {
		size, rest, _ := bytes.Cut(body, []byte("\r\n"))
		n, err := strconv.ParseInt(string(size), 16, 32)
		if err != nil {
			t.Fatalf("chunk size %q: %v", size, err)
		}
		if n == 0 {
			a.whole = true
			break
		}
		a.chunks = append(a.chunks, string(rest[:n]))
		a.body = append(a.body, rest[:n]...)
		body = rest[n+2:]
	}
	return a
}

// events are the data of an event stream.
func (a answer) events() []string {
	var list []string
	for _, block := range strings.Split(strings.ReplaceAll(string(a.body), "\r\n", "\n"), "\n\n") {
		for _, l := range strings.Split(block, "\n") {
			if data, ok := strings.CutPrefix(l, "data: "); ok {
				list = append(list, data)
			}
		}
	}
	return list
}

// shape is a JSON text's keys in order with the types of their values; arrays
// show their elements' shapes, equal neighbours once.
func shape(text string) string {
	d := json.NewDecoder(strings.NewReader(text))
	var value func() string
	value = func() string {
		tok, err := d.Token()
		if err != nil {
			return "!" + text
		}
		switch v := tok.(type) {
		case json.Delim:
			var parts []string
			for d.More() {
				part := ""
				if v == '{' {
					key, _ := d.Token()
					part = key.(string) + ":"
				}
				part += value()
				if v == '{' || len(parts) == 0 || parts[len(parts)-1] != part {
					parts = append(parts, part)
				}
			}
			end, _ := d.Token()
			return v.String() + strings.Join(parts, ",") + fmt.Sprint(end)
		case nil:
			return "null"
		default:
			return fmt.Sprintf("%T", v)
		}
	}
	return value()
}

// shapes is the sequence of event shapes, runs collapsed.
func (a answer) shapes() []string {
	var list []string
	for _, data := range a.events() {
		s := data
		if strings.HasPrefix(data, "{") {
			s = shape(data)
		}
		if len(list) == 0 || list[len(list)-1] != s {
			list = append(list, s)
		}
	}
	return list
}
