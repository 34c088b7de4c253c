package proxy

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Of a request that came to a closed socket, no byte was taken; of one that was
// read, all were, however the connection ends then.
func TestUntaken(t *testing.T) {
	const first = "first request"
	f := func(name, second string, serve func(c *net.TCPConn, sent <-chan struct{}), want bool) {
		t.Run(name, func(t *testing.T) {
			sent, ended := make(chan struct{}), make(chan struct{})
			up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
				_, _ = io.ReadFull(c.br, make([]byte, len(first)))
				c.send("answer")
				serve(c.Conn.(*net.TCPConn), sent)
				close(ended)
			})
			c := connect(t, up.ln.Addr().String())
			c.send(first)
			if _, err := io.ReadFull(c.br, make([]byte, len("answer"))); err != nil {
				t.Fatal(err)
			}
			if want {
				wait(t, "closed", ended)
			}
			c.send(second)
			close(sent)
			wait(t, "closed", ended)
			if n, err := c.br.Read(make([]byte, 1)); err == nil {
				t.Fatalf("got %d bytes, want an end", n)
			}
			eventually(t, "want "+name, func() bool { return untaken(c.Conn, len(second)) == want })
		})
	}
	read := func(c *net.TCPConn, n int, sent <-chan struct{}) {
		_, _ = io.ReadFull(c, make([]byte, n))
		<-sent
	}
	long := strings.Repeat("x", 32<<10)
	f("closed before", "second", func(c *net.TCPConn, _ <-chan struct{}) { _ = c.Close() }, true)
	f("closed before, long", long, func(c *net.TCPConn, _ <-chan struct{}) { _ = c.Close() }, true)
	f("read", "second", func(c *net.TCPConn, sent <-chan struct{}) { read(c, 6, sent); _ = c.Close() }, false)
	f("read in part", long, func(c *net.TCPConn, sent <-chan struct{}) { read(c, 100, sent); _ = c.Close() }, false)
}

// busyConn is an upstream connection in a process that is always late: what it
// writes goes out behind the engine's close, and it learns of an end too late to
// know by the time alone that nothing ran.
type busyConn struct {
	*net.TCPConn
	writes atomic.Int64
	second func() // before the second write
}

func (b *busyConn) Write(p []byte) (int, error) {
	if b.writes.Add(1) == 2 {
		b.second()
	}
	return b.TCPConn.Write(p)
}

func (b *busyConn) Read(p []byte) (int, error) {
	n, err := b.TCPConn.Read(p)
	if err != nil {
		time.Sleep(retryWithin + retryWithin/2)
	}
	return n, err
}

// A request on a connection that the engine had closed goes out again, however
// late the proxy learns of it; one that the engine had read does not.
func TestStaleOnBusyMachine(t *testing.T) {
	f := func(name string, read bool, status, retries int) {
		t.Run(name, func(t *testing.T) {
			idle, closed := make(chan struct{}), make(chan struct{})
			up := startEngine(t, func(e *scripted, c *engineConn, n int) {
				for i := 0; c.request() != nil; i++ {
					e.requests.Add(1)
					if i == 1 {
						return // it was read
					}
					c.send(withLength("200 OK", "application/json", `{}`))
					if n == 0 && !read {
						<-idle
						_ = c.Close()
						close(closed)
						return
					}
				}
			})
			p := startProxy(t, testConfig(t, upstreamOf(up)), func(s *Server) {
				s.pool.dialer.stamp = func(c net.Conn) net.Conn {
					return &busyConn{TCPConn: c.(*net.TCPConn), second: func() {
						if !read {
							close(idle)
							<-closed
						}
					}}
				}
			})
			c := connect(t, p.addr)
			c.send(post(chatPath, `{}`))
			body(t, c.answer("POST"))
			p.recs.next(t)
			c.send(post(chatPath, `{}`))
			resp := c.answer("POST")
			body(t, resp)
			if rec := p.recs.next(t); resp.StatusCode != status || rec.Retries != retries {
				t.Errorf("got status %d, %d retries; want %d, %d", resp.StatusCode, rec.Retries, status, retries)
			}
			if n := up.requests.Load(); n != 2 {
				t.Errorf("the engine read %d requests, want 2", n)
			}
		})
	}
	f("closed", false, 200, 1)
	f("read", true, 502, 0)
}
