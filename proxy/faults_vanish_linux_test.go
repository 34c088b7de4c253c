package proxy

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"spectap/collector"
)

// vanish cuts the network of one connection: its end drops every packet that
// comes, so nothing is acknowledged, no probe answered and nothing reset.
func vanish(t testing.TB, c net.Conn) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	nothing := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing})
	})
	if err != nil || set != nil {
		t.Fatalf("cannot drop packets: %v, %v", err, set)
	}
}

// watches returns how many clients are watched.
func (p *stack) watches() int { return watchedFlights(p.watcher) }

// watchedFlights leaves connections to the engine out.
func watchedFlights(w *watcher) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, who := range w.watched {
		if _, ok := who.(*flight); ok {
			n++
		}
	}
	return n
}

// A client whose host vanishes without a FIN ends its request at the engine,
// whether the answer is on its way or nothing is.
func TestVanishedClient(t *testing.T) {
	f := func(name string, limit time.Duration, events bool) {
		t.Run(name, func(t *testing.T) {
			begun, gone := make(chan struct{}), make(chan struct{})
			up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
				c.request()
				if events {
					c.send(streamHead)
				}
				close(begun)
				for events {
					if _, err := io.WriteString(c, chunk(tokenEvent("a"))); err != nil {
						break
					}
					time.Sleep(5 * time.Millisecond)
				}
				c.gone()
				close(gone)
			})
			cfg := testConfig(t, upstreamOf(up))
			cfg.ClientTimeout = limit
			p := startProxy(t, cfg, nil)
			c := connect(t, p.addr)
			c.send(post(chatPath, chatStream))
			wait(t, "request at the engine", begun)
			vanish(t, c.Conn)
			wait(t, "upstream connection closed", gone)
			if rec := p.recs.next(t); rec.ErrorKind != collector.ErrClientGone {
				t.Errorf("got kind %q, want client_gone", rec.ErrorKind)
			}
			p.atBase(t, 0)
		})
	}
	f("prefill", time.Second, false) // a second is the shortest wait before a probe
	f("mid stream", 200*time.Millisecond, true)
}

// A client that waits for longer than the limit is there all the same.
func TestWaitingClientStays(t *testing.T) {
	const limit = time.Second
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		c.request()
		time.Sleep(5 * limit / 2) // the prefill
		c.send(withLength("200 OK", "application/json", "{}"))
	})
	cfg := testConfig(t, upstreamOf(up))
	cfg.ClientTimeout = limit
	p := startProxy(t, cfg, nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, whole))
	if got := body(t, c.answer("POST")); got != "{}" {
		t.Errorf("got %q", got)
	}
}

// An engine whose host vanishes is given up after the stall limit; without one
// the kernel's probes find out.
func TestVanishedEngine(t *testing.T) {
	gone := make(chan struct{})
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		if c.request() == nil { // the connection whose options are read below
			return
		}
		c.send(streamHead, chunk(tokenEvent("a")))
		vanish(t, c.Conn)
		<-gone
	})
	cfg := testConfig(t, upstreamOf(up))
	limitStall(&cfg)
	p := startProxy(t, cfg, nil)
	c := connect(t, p.addr)
	c.send(post(chatPath, chatStream))
	outcome{status: 200, body: tokenEvent("a"), cut: true, kind: collector.ErrStalled, text: "SPECTAP_STALL_TIMEOUT"}.check(t, c, p)
	close(gone)
	_ = c.Close()
	p.atBase(t, 0)

	conn, err := p.pool.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	option := func(level, name int) (value int) {
		raw, err := conn.socket.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) { value, _ = unix.GetsockoptInt(int(fd), level, name) })
		return value
	}
	if on, idle := option(unix.SOL_SOCKET, unix.SO_KEEPALIVE), option(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE); on != 1 || idle > 15 {
		t.Errorf("got keep-alive %d after %d s, want probes after 15 s", on, idle)
	}
}
