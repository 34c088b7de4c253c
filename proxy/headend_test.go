package proxy

import (
	"strings"
	"testing"
)

// The end of a head is found wherever reads end, and nothing behind it is taken.
func TestHeadEnd(t *testing.T) {
	f := func(in string, want int) {
		t.Helper()
		for size := 1; size <= len(in); size++ {
			var h headEnd
			got := 0
			for rest := in; rest != "" && !h.found; rest = rest[min(size, len(rest)):] {
				got += h.feed([]byte(rest[:min(size, len(rest))]))
			}
			if got != want || h.found != (want < len(in) || strings.HasSuffix(in, "\n")) {
				t.Errorf("%q in reads of %d: got %d, found %v; want %d", in, size, got, h.found, want)
			}
		}
	}
	const head = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	f(head, len(head))
	f(head+"body\r\n\r\n", len(head))
	f("\r\n\r\n\n"+head+head, 5+len(head))
	f("GET / HTTP/1.1\r\n\r\nx", 18)
	f("GET / HTTP/1.1\nHost: h\n\nx\r\n\r\n", 24)
	f("GET / HTTP/1.1\nHost: h\n\r\nx", 25)
	f("GET / HTTP/1.1\r\nA: b\r\n\r\r\nx", 25)
	f("GET / HTTP/1.1\r\nA: b\r\n \r\nC: d\r\n\r\nx", 33)
	f("GET / HTTP/1.1\r\nA: \rb\r\nx", 24)
}

// A head that ends at its first empty line for some readers only is refused at
// once: what stands behind it is never taken for more of it, nor for a request.
func TestHeadGoesOn(t *testing.T) {
	up := startStrict(t, echoStrict)
	p := startProxy(t, testConfig(t, upstreamOf(up.scripted)), nil)
	const next = "POST /smuggled HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
	for _, head := range []string{
		"POST / HTTP/1.1\nHost: h\nContent-Length: 5\n\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\n\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\n\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\r\n",
	} {
		for _, rest := range []string{"a\r\n\r\n" + next, "hello" + next, "X: y\r\n\r\nhello" + next} {
			c := connect(t, p.addr) // which waits for no more than was sent
			c.send(head + rest)
			_ = refusedBody(t, c, 400)
			c.ended()
			if seen := up.take(t, head+rest); len(seen) != 0 {
				t.Errorf("%q: got %v upstream, want nothing", head, seen)
			}
		}
	}
}
