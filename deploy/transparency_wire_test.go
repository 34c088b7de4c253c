package deploy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wireTimeout ends a conversation in which somebody waits for ever.
const wireTimeout = 30 * time.Second

// wire is a client's connection, spoken by hand.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
}

func dialWire(t testing.TB, url string) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(wireTimeout)); err != nil {
		t.Fatal(err)
	}
	return &wire{conn: conn, in: bufio.NewReader(conn)}
}

// write sends what fits: a server may answer and close before it has all.
func (w *wire) write(text string) { _, _ = io.WriteString(w.conn, text) }

// seenAnswer is what a client saw of one answer.
type seenAnswer struct {
	Interim []string // status lines before the last
	Status  string
	Fields  []string // in lower case, sorted; without framing and the time
	Framing string
	Chunks  int // of the body, where it has some
	Body    string
	Cut     string // why the body is not whole
}

// read reads an answer to a request of that method.
func (w *wire) read(method string) (a seenAnswer) {
	for {
		line, err := w.in.ReadString('\n')
		if err != nil {
			a.Cut = "before the head: " + cause(err)
			return a
		}
		a.Status = strings.TrimSpace(line)
		fields := w.fields()
		code := strings.Fields(a.Status + " 0 0")[1]
		if code[0] == '1' && code != "101" {
			a.Interim = append(a.Interim, a.Status)
			continue
		}
		a.body(w.in, method, code, fields)
		return a
	}
}

// fields reads the lines of a head.
func (w *wire) fields() (all []string) {
	for {
		line, err := w.in.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		if err != nil || line == "" {
			return all
		}
		name, value, _ := strings.Cut(line, ":")
		all = append(all, strings.ToLower(name)+":"+value)
	}
}

func (a *seenAnswer) body(in *bufio.Reader, method, code string, fields []string) {
	length := -1
	a.Framing = "until close"
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "date":
			a.Fields = append(a.Fields, "date: some")
		case "transfer-encoding":
			a.Framing = value
		case "content-length":
			length, _ = strconv.Atoi(value)
			a.Framing = "length"
			a.Fields = append(a.Fields, field)
		default:
			a.Fields = append(a.Fields, field)
		}
	}
	slices.Sort(a.Fields)
	var body []byte
	var err error
	switch {
	case method == http.MethodHead || code == "204" || code == "304":
		a.Framing = "none"
	case a.Framing == "chunked":
		a.Chunks, body, err = readChunks(in)
	case length >= 0:
		body = make([]byte, length)
		_, err = io.ReadFull(in, body)
	default:
		body, err = io.ReadAll(in)
	}
	a.Body = string(body)
	if err != nil {
		a.Cut = "in the body: " + cause(err)
	}
}

// readChunks reads a chunked body to its last chunk.
func readChunks(in *bufio.Reader) (chunks int, body []byte, err error) {
	for {
		part, err := readChunk(in)
		if err != nil || len(part) == 0 {
			return chunks, body, err
		}
		body = append(body, part...)
		chunks++
	}
}

// readChunk reads a chunk, the last one of which is empty.
func readChunk(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	size, err := strconv.ParseUint(strings.TrimSuffix(line, "\r\n"), 16, 31)
	if err != nil {
		return nil, err
	}
	part := make([]byte, size+2)
	if _, err := io.ReadFull(in, part); err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(part, []byte("\r\n")) {
		return nil, fmt.Errorf("a chunk or the body ends in %q", part[size:])
	}
	return part[:size], nil
}

// end says what became of the connection behind an answer: "open" if another
// request is answered on it.
func (w *wire) end() string {
	w.write("GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
	if next := w.read(http.MethodGet); next.Status == "HTTP/1.1 200 OK" {
		return "open"
	} else if next.Cut == "" {
		return next.Status
	}
	return "closed"
}

// cause is the kind of a failed read: a close and a reset behind all that was sent
// are the same to a client.
func cause(err error) string {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "closed"
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "nothing came"
	}
	return err.Error()
}
