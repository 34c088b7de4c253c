package fakevllm

import (
	"bytes"
	"net"
	"slices"
	"time"
)

// uvicornListener gives connections that write heads as uvicorn does.
type uvicornListener struct {
	net.Listener
	e *Engine
}

func (l uvicornListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	u := &uvicornConn{Conn: c, e: l.e}
	l.e.mu.Lock()
	l.e.conns[u] = struct{}{}
	l.e.mu.Unlock()
	return u, nil
}

// uvicornConn rewrites each response head that fasthttp writes (always at the
// start of a Write): names in lower case, first date, server, content-length.
type uvicornConn struct {
	net.Conn
	e *Engine
}

func (c *uvicornConn) Close() error {
	c.e.mu.Lock()
	delete(c.e.conns, c)
	c.e.mu.Unlock()
	return c.Conn.Close()
}

// SetLinger lets a fault reset the connection, where it has a lower layer that can.
func (c *uvicornConn) SetLinger(sec int) error {
	if l, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		return l.SetLinger(sec)
	}
	return nil
}

func (c *uvicornConn) Write(b []byte) (int, error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if !bytes.HasPrefix(b, []byte("HTTP/1.1 ")) || end < 0 || bytes.HasPrefix(b, []byte("HTTP/1.1 100")) {
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(append(uvicornHead(b[:end], time.Now()), b[end+4:]...)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func uvicornHead(head []byte, now time.Time) []byte {
	lines := bytes.Split(head, []byte("\r\n"))
	out := append([]byte(nil), lines[0]...)
	out = append(out, "\r\ndate: "...)
	out = now.UTC().AppendFormat(out, "Mon, 02 Jan 2006 15:04:05 GMT")
	fields := lines[1:]
	for i, l := range fields {
		name, _, _ := bytes.Cut(l, []byte(":"))
		fields[i] = append(bytes.ToLower(name), l[len(name):]...)
	}
	rank := func(l []byte) int {
		for i, name := range []string{"server", "allow", "content-length"} {
			if bytes.HasPrefix(l, []byte(name)) {
				return i
			}
		}
		return 3
	}
	slices.SortStableFunc(fields, func(a, b []byte) int { return rank(a) - rank(b) })
	for _, l := range fields {
		out = append(append(out, "\r\n"...), l...)
	}
	return append(out, "\r\n\r\n"...)
}
