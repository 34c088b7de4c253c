package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
)

// rawField is one line of a head, its value with the spaces around it.
type rawField struct{ name, value string }

// message is a request or an answer as it stood on the wire.
type message struct {
	start    string // request line or status line
	fields   []rawField
	interim  []string // status lines and fields of the 1xx answers before it
	framing  string   // "none", "length N", "chunked", "until close"; of an answer without a body, what its head declares
	body     string
	chunks   []int // sizes of a chunked body's chunks
	trailers []string
	cut      string // "" is whole; else how the connection ended inside of it
}

func (m *message) target() string { return strings.SplitN(m.start+"  ", " ", 3)[1] }
func (m *message) status() int    { n, _ := strconv.Atoi(m.target()); return n }

func (m *message) values(name string) (all []string) {
	for _, f := range m.fields {
		if strings.EqualFold(f.name, name) {
			all = append(all, strings.TrimSpace(f.value))
		}
	}
	return all
}

// readRawHead reads a start line and its fields. It knows no HTTP library: what
// it is to find is what libraries smooth out.
func readRawHead(br *bufio.Reader) (*message, error) {
	m := &message{}
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			if line != "" || m.start != "" {
				err = fmt.Errorf("cut inside a head: %w", err)
			}
			return nil, err
		}
		line, ok := strings.CutSuffix(line, "\r\n")
		switch name, value, colon := strings.Cut(line, ":"); {
		case !ok:
			return nil, fmt.Errorf("line %q ends without CR", line)
		case line == "":
			return m, nil
		case m.start == "":
			m.start = line
		case line[0] == ' ' && len(m.fields) > 0: // a folded value
			m.fields[len(m.fields)-1].value += line
		case !colon:
			return nil, fmt.Errorf("field %q has no colon", line)
		default:
			m.fields = append(m.fields, rawField{name, value})
		}
	}
}

// frame finds out how a body ends (RFC 9112 section 6.3).
func (m *message) frame(answer, bodiless bool) {
	length := m.values("Content-Length")
	switch {
	case len(m.values("Transfer-Encoding")) > 0:
		m.framing = "chunked"
	case len(length) > 0:
		m.framing = "length " + length[0]
	case answer && !bodiless:
		m.framing = "until close"
	default:
		m.framing = "none"
	}
}

// readBody reads the body; read is told of the bytes that were got so far.
func (m *message) readBody(br *bufio.Reader, read func(total int)) error {
	var text strings.Builder
	take := func(n int64) error {
		for n != 0 {
			buf := make([]byte, min(uint64(n), 64<<10)) // n below 0 is until the end
			got, err := br.Read(buf)
			text.Write(buf[:got])
			if n > 0 {
				n -= int64(got)
			}
			read(text.Len())
			if err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	length := int64(0)
	switch {
	case m.framing == "chunked":
		err = m.readChunks(br, take)
	case m.framing == "until close":
		if err = take(-1); err == io.EOF {
			err = nil
		}
	case m.framing != "none":
		if length, err = strconv.ParseInt(strings.TrimPrefix(m.framing, "length "), 10, 64); err == nil {
			err = take(length)
		}
	}
	m.body = text.String()
	return err
}

func (m *message) readChunks(br *bufio.Reader, take func(int64) error) error {
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		m.chunks = append(m.chunks, int(n))
		if err := take(n); err != nil {
			return err
		}
		if _, err := br.Discard(2); err != nil {
			return err
		}
	}
	for {
		line, err := br.ReadString('\n')
		if err != nil || line == "\r\n" {
			return err
		}
		m.trailers = append(m.trailers, strings.TrimSpace(line))
	}
}

// readRawAnswer reads an answer with the interim ones before it. The error says
// that none came; one that ends early is no error, but cut.
func readRawAnswer(br *bufio.Reader, method string, read func(int), interim func()) (*message, error) {
	var early []string
	for {
		m, err := readRawHead(br)
		if err != nil {
			return nil, err
		}
		if m.status() < 200 && m.status() != 101 {
			early = append(early, strings.TrimSpace(fmt.Sprint(m.start, m.fields)))
			interim()
			continue
		}
		m.interim = early
		bodiless := method == "HEAD" || m.status() == 204 || m.status() == 304
		m.frame(true, bodiless)
		if !bodiless {
			if err := m.readBody(br, read); err != nil {
				m.cut = endOf(err)
			}
		}
		return m, nil
	}
}

// endOf names the end of a connection.
func endOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "FIN"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "RST"
	}
	return "broken"
}
