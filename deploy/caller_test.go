package deploy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// caller is a client that speaks HTTP by hand on one connection at a time.
type caller struct {
	address string
	conn    net.Conn
	in      *bufio.Reader
}

// callTimeout ends a request that hangs.
const callTimeout = 2 * time.Minute

// prompt is one request; equal ones get equal replies.
type prompt struct {
	number, tokens int
	stream         bool
}

func (p prompt) raw(id string) string {
	body := fmt.Sprintf(`{"model":"fake-model","messages":[{"role":"user","content":"Tell me about river %d."}],"max_tokens":%d,"ignore_eos":true,"temperature":0,"stream":%t}`, p.number, p.tokens, p.stream)
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: test\r\nX-Request-Id: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", id, len(body), body)
}

// send writes a request; a new connection is opened where there is none.
func (c *caller) send(p prompt, id string) error {
	if c.conn == nil {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			return err
		}
		c.conn, c.in = conn, bufio.NewReaderSize(conn, 8<<10)
	}
	_ = c.conn.SetDeadline(time.Now().Add(callTimeout)) // fails only on a closed connection
	_, err := io.WriteString(c.conn, p.raw(id))
	return err
}

// head reads the head of an answer.
func (c *caller) head() (*http.Response, error) { return http.ReadResponse(c.in, nil) }

// passing is what differs between two equal replies.
var passing = regexp.MustCompile(`"(id|created|request_id)":("[^"]*"|\d+)`)

// answer reads an answer to its end: status, type and body without ids and times.
func (c *caller) answer() (string, error) {
	resp, err := c.head()
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Content-Type"), " ", passing.ReplaceAllString(string(body), "-")), err
}

func (c *caller) ask(p prompt, id string) (string, error) {
	if err := c.send(p, id); err != nil {
		return "", err
	}
	return c.answer()
}

// hangUp closes the connection, with a reset or in good order.
func (c *caller) hangUp(reset bool) {
	if c.conn == nil {
		return
	}
	if reset {
		_ = c.conn.(*net.TCPConn).SetLinger(0) // fails only on a closed connection
	}
	_ = c.conn.Close()
	c.conn = nil
}

func hostOf(url string) string { return strings.TrimPrefix(url, "http://") }

// recordLine is what these tests read of a line of records.jsonl.
type recordLine struct {
	Schema    string `json:"schema"`
	ID        string `json:"id"`
	RequestID string `json:"x_request_id"`
	Status    int    `json:"status"`
	ErrorKind string `json:"error_kind"`
	Error     string `json:"error"`
	Retries   int    `json:"retries"`
	SawDone   bool   `json:"saw_done"`
}

// recordsByRequest reads the records of a whole file by the client's request id: each
// has one line, and the last line is whole.
func recordsByRequest(t testing.TB, path string) map[string]recordLine {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(text, []byte("\n")) {
		t.Errorf("%s does not end with a whole line", path)
	}
	recs := map[string]recordLine{}
	for line := range bytes.Lines(text) {
		var r recordLine
		if err := json.Unmarshal(line, &r); err != nil {
			t.Errorf("cannot read line %q: %v", line, err)
			continue
		}
		if r.Schema != "spectap.record/1" {
			continue
		}
		if _, twice := recs[r.RequestID]; twice {
			t.Errorf("two records of request %q", r.RequestID)
		}
		recs[r.RequestID] = r
	}
	return recs
}

// kindsOf counts records by their error kind.
func kindsOf(recs map[string]recordLine) map[string]int {
	kinds := map[string]int{}
	for _, r := range recs {
		kinds[r.ErrorKind]++
	}
	return kinds
}

// proxyStatus is what these tests read of /status.
type proxyStatus struct {
	InFlight          int            `json:"in_flight"`
	ClientConnections int            `json:"client_connections"`
	IdleUpstream      int            `json:"idle_upstream_connections"`
	Requests          int            `json:"requests_total"`
	Outcomes          map[string]int `json:"outcomes_total"`
	Retries           int            `json:"retries_total"`
	Panics            int            `json:"panics_total"`
	SinkDrops         int            `json:"sink_drops_total"`
}

func (p *proxyProcess) status(t testing.TB) proxyStatus {
	t.Helper()
	text, err := fetch(p.Admin + "/status")
	if err != nil {
		t.Fatal(err)
	}
	var s proxyStatus
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}
