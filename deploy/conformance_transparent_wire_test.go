package deploy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// rawTimeout bounds one request; the real server shares its processors.
const rawTimeout = 2 * time.Minute

// rawRequest is a request, byte for byte.
type rawRequest struct {
	head, body string
	waits      bool // for an interim answer, before the body goes out
}

// rawAnswer is what came for it on the socket.
type rawAnswer struct {
	interim []string // status lines of 1xx answers
	status  string   // status line
	fields  []string // "name: value" as they came
	chunks  []string // of a chunked body, else the body
	trailer []string
	body    string
	end     string // what became of the connection: "kept", "closed" or "reset"
}

// exchange sends a request on a connection of its own and reads its answer to
// the end. Whether the connection is kept is found out by a second request.
func (q rawRequest) exchange(address string) (a rawAnswer, err error) {
	c, err := net.DialTimeout("tcp", address, rawTimeout)
	if err != nil {
		return a, err
	}
	defer func() { _ = c.Close() }() // all has been read
	if err := c.SetDeadline(time.Now().Add(rawTimeout)); err != nil {
		return a, err
	}
	first := q.head + q.body
	if q.waits {
		first = q.head
	}
	if _, err := io.WriteString(c, first); err != nil {
		return a, err
	}
	in := bufio.NewReader(c)
	for {
		if a.status, a.fields, err = readHead(in); err != nil {
			return a, fmt.Errorf("cannot read the head: %w", err)
		}
		if !strings.HasPrefix(a.status, "HTTP/1.1 1") {
			break
		}
		a.interim = append(a.interim, a.status)
		if q.waits {
			if _, err := io.WriteString(c, q.body); err != nil {
				return a, err
			}
		}
	}
	if err := a.readBody(in, strings.HasPrefix(q.head, "HEAD ")); err != nil {
		return a, fmt.Errorf("cannot read the body after %d bytes: %w", len(a.body), err)
	}
	a.end = q.ending(c, in)
	return a, nil
}

// readHead reads a status line and the fields after it.
func readHead(in *bufio.Reader) (status string, fields []string, err error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return status, fields, err
		}
		switch line = strings.TrimSuffix(line, "\r\n"); {
		case status == "":
			status = line
		case line == "":
			return status, fields, nil
		default:
			fields = append(fields, line)
		}
	}
}

// field is the value of a header field, "" without it.
func (a *rawAnswer) field(name string) string {
	for _, line := range a.fields {
		key, value, _ := strings.Cut(line, ":")
		if strings.EqualFold(key, name) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (a *rawAnswer) readBody(in *bufio.Reader, head bool) error {
	size := a.field("Content-Length")
	switch status := strings.Fields(a.status)[1]; {
	case head, status == "204", status == "304":
		return nil
	case strings.EqualFold(a.field("Transfer-Encoding"), "chunked"):
		return a.readChunks(in)
	case size != "":
		n, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		body := make([]byte, n)
		read, err := io.ReadFull(in, body)
		a.body = string(body[:read])
		return err
	}
	all, err := io.ReadAll(in)
	a.body = string(all)
	return err
}

func (a *rawAnswer) readChunks(in *bufio.Reader) error {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(line, "\r\n"), 16, 32)
		if err != nil {
			return fmt.Errorf("cannot read the size of a chunk: %w", err)
		}
		if n == 0 {
			a.trailer, err = readTrailer(in)
			return err
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(in, chunk); err != nil {
			return err
		}
		if !bytes.HasSuffix(chunk, []byte("\r\n")) {
			return errors.New("a chunk does not end where its size says")
		}
		a.chunks = append(a.chunks, string(chunk[:n]))
		a.body += string(chunk[:n])
	}
}

// readTrailer reads the fields after the last chunk.
func readTrailer(in *bufio.Reader) (fields []string, err error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return fields, err
		}
		if line = strings.TrimSuffix(line, "\r\n"); line == "" {
			return fields, nil
		}
		fields = append(fields, line)
	}
}

// ending is what became of the connection.
func (q rawRequest) ending(c net.Conn, in *bufio.Reader) string {
	_, _ = io.WriteString(c, "GET /version HTTP/1.1\r\nHost: vllm.test\r\nConnection: close\r\n\r\n") // a closed one shows when it is read
	status, _, err := readHead(in)
	switch {
	case err == nil && strings.HasPrefix(status, "HTTP/1.1 200"):
		return "kept"
	case err == nil, len(status) > 0:
		return "unexpected bytes"
	case errors.Is(err, io.EOF):
		return "closed"
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "hangs"
	}
	return "closed" // a reset answers the second request
}

// splits counts the events that do not end at the end of a chunk and go on in
// the next one.
func (a *rawAnswer) splits() (n int) {
	for _, chunk := range a.chunks {
		if !strings.HasSuffix(chunk, "\n\n") {
			n++
		}
	}
	return n
}
