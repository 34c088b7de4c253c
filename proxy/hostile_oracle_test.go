package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// strictRequest is a request as a reader takes it that forgives nothing.
type strictRequest struct {
	method, target, host, body string
	chunked                    bool
	head                       string
}

var errAmbiguous = errors.New("two readers could take this differently")

// readStrict reads the request at the front of in by the grammar of RFC 9112,
// without any of the leniency that it allows. io.ErrUnexpectedEOF: more must come.
func readStrict(in string) (r strictRequest, rest string, err error) {
	head, body, ok := strings.Cut(in, "\r\n\r\n")
	if !ok {
		return r, in, io.ErrUnexpectedEOF
	}
	r.head = head
	lines := strings.Split(head, "\r\n")
	parts := strings.Split(lines[0], " ")
	if len(parts) != 3 || !strictToken(parts[0]) || !isVisible(parts[1]) || parts[2] != "HTTP/1.1" {
		return r, in, errAmbiguous
	}
	r.method, r.target = parts[0], parts[1]
	lengths, codings, hosts := []string{}, []string{}, 0
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !strictToken(name) || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return r, in, errAmbiguous
		}
		switch value = strings.Trim(value, " \t"); strings.ToLower(name) {
		case "content-length":
			lengths = append(lengths, value)
		case "transfer-encoding":
			codings = append(codings, value)
		case "host":
			hosts++
			r.host = value
		}
	}
	switch {
	case hosts != 1, len(lengths)+len(codings) > 1:
		return r, in, errAmbiguous
	case len(codings) == 1:
		r.chunked = true
		if !strings.EqualFold(codings[0], "chunked") {
			return r, in, errAmbiguous
		}
		return readStrictChunks(r, body)
	case len(lengths) == 0:
		return r, body, nil
	}
	n, err := strconv.ParseUint(lengths[0], 10, 40)
	if err != nil || strings.Trim(lengths[0], "0123456789") != "" {
		return r, in, errAmbiguous
	}
	if uint64(len(body)) < n {
		return r, in, io.ErrUnexpectedEOF
	}
	r.body = body[:n]
	return r, body[n:], nil
}

// readStrictChunks reads a chunked body without extensions and trailers.
func readStrictChunks(r strictRequest, in string) (strictRequest, string, error) {
	for {
		size, rest, ok := strings.Cut(in, "\r\n")
		if !ok {
			return r, in, io.ErrUnexpectedEOF
		}
		n, err := strconv.ParseUint(size, 16, 40)
		if err != nil || strings.Trim(size, "0123456789abcdefABCDEF") != "" {
			return r, in, errAmbiguous
		}
		if uint64(len(rest)) < n+2 {
			return r, in, io.ErrUnexpectedEOF
		}
		if rest[n:n+2] != "\r\n" {
			return r, in, errAmbiguous
		}
		r.body += rest[:n]
		if in = rest[n+2:]; n == 0 {
			return r, in, nil
		}
	}
}

// isVisible says whether a request target has no byte that ends or hides it.
func isVisible(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f })
}

func strictToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// strictEngine answers what it reads strictly, and keeps it. What it cannot
// read, or has a coding that the proxy never sends, is kept as bad.
type strictEngine struct {
	*scripted
	mu   sync.Mutex
	seen []strictRequest
	bad  []string
}

func startStrict(t testing.TB, answer func(r strictRequest) string) *strictEngine {
	e := &strictEngine{}
	e.scripted = startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		in, buf := "", make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			in += string(buf[:n])
			for in != "" {
				r, rest, err := readStrict(in)
				if err == io.ErrUnexpectedEOF {
					break
				}
				e.note(r, in, err)
				if err != nil {
					return
				}
				in = rest
				c.send(answer(r))
			}
			if err != nil {
				if in != "" {
					e.note(strictRequest{}, in, err)
				}
				return
			}
		}
	})
	return e
}

func (e *strictEngine) note(r strictRequest, in string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil || r.chunked {
		e.bad = append(e.bad, in)
		return
	}
	e.seen = append(e.seen, r)
}

// take returns what came since the last call; what came badly fails the test.
func (e *strictEngine) take(t testing.TB, input string) []strictRequest {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, bad := range e.bad {
		t.Errorf("%q: the engine got %q, which two readers could take differently", input, bad)
	}
	seen := e.seen
	e.seen, e.bad = nil, nil
	return seen
}

// scriptConn is a client that sends bytes and then nothing more. What it was
// sent until then, and in all, is kept.
type scriptConn struct {
	in      string
	out     bytes.Buffer
	waited  bool
	instant int // bytes of out when the first read found nothing more
}

// Read implements net.Conn.
func (c *scriptConn) Read(p []byte) (int, error) {
	if c.in == "" {
		if !c.waited {
			c.waited, c.instant = true, c.out.Len()
		}
		return 0, io.EOF
	}
	n := copy(p, c.in)
	c.in = c.in[n:]
	return n, nil
}

// Write implements net.Conn.
func (c *scriptConn) Write(p []byte) (int, error) { return c.out.Write(p) }

// The rest of net.Conn does nothing.
func (c *scriptConn) Close() error                     { return nil }
func (c *scriptConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *scriptConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *scriptConn) SetDeadline(time.Time) error      { return nil }
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }

// serveBytes lets the proxy serve a connection that sends input; it returns
// when the proxy has ended it. There is no socket, so nobody leaves early.
func serveBytes(t testing.TB, p *stack, input string) *scriptConn {
	t.Helper()
	raw := &scriptConn{in: input}
	c, err := newClientConn(raw, p.Server)
	if err != nil {
		t.Fatal(err)
	}
	_ = p.http.ServeConn(c) // an error is what the input deserves
	return raw
}
