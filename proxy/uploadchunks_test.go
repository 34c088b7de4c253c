package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// The line before a chunk's data is read as fasthttp's strict grammar has it.
func TestChunkLine(t *testing.T) {
	f := func(line string, size int) {
		t.Helper()
		br := bufio.NewReader(strings.NewReader(line + "next"))
		got, err := chunkLine(br)
		if size < 0 {
			if err != errChunk {
				t.Errorf("%q: got %d, %v; want it refused", line, got, err)
			}
			return
		}
		rest, _ := io.ReadAll(br)
		if got != size || err != nil || string(rest) != "next" {
			t.Errorf("%q: got %d, %v and %q left; want %d", line, got, err, rest, size)
		}
	}
	f("0\r\n", 0)
	f("5\r\n", 5)
	f("00fF\r\n", 255)
	f("7fffffffffffffff\r\n", -1)
	f("7ffffffffffffff\r\n", 0x7ffffffffffffff)
	f("5;name=\"a;b\"\r\n", 5)
	f("5;\r\n", 5)
	f("5 \t\r\n", 5)
	for _, bad := range []string{"", "\r\n", " 5\r\n", "5 ;a\r\n", "5 5\r\n", "-5\r\n", "+5\r\n", "0x5\r\n", "5\n", "5\r5", "5;a\nb\r\n", "5;a\x00\r\n", "g\r\n", ";a\r\n", "5_0\r\n"} {
		f(bad, -1)
	}
	f("5;"+strings.Repeat("a", maxChunkLine+1)+"\r\n", -1)
	if _, err := chunkLine(bufio.NewReader(strings.NewReader("5;a"))); err != io.EOF {
		t.Errorf("got %v of a line that ends early, want io.EOF", err)
	}
}

// chunkConn sends a body in chunks, without end until all is sent.
type chunkConn struct {
	scriptConn
	chunk string
	left  int // chunks
}

// Read implements net.Conn.
func (c *chunkConn) Read(p []byte) (n int, err error) {
	for c.in == "" && c.left > 0 {
		c.in = strings.Repeat(c.chunk, min(c.left, 256))
		if c.left -= min(c.left, 256); c.left == 0 {
			c.in += lastChunk
		}
	}
	return c.scriptConn.Read(p)
}

// What a body in chunks costs grows with its length, not with its square, however
// small the chunks are and however long it is.
func TestChunkedBodyIsLinear(t *testing.T) {
	up := answering(t, func(req *http.Request) string {
		n, _ := io.Copy(io.Discard, req.Body)
		return withLength("200 OK", "text/plain", fmt.Sprint(n))
	})
	cfg := testConfig(t, upstreamOf(up))
	cfg.MaxBodyBytes = 160 << 20
	p := startProxy(t, cfg, nil)
	f := func(size, count int) {
		t.Helper()
		raw := &chunkConn{chunk: chunk(strings.Repeat("x", size)), left: count}
		raw.in = "POST /upload HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
		c, err := newClientConn(raw, p.Server)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = p.http.ServeConn(c)
		runtime.ReadMemStats(&after)
		if _, got := firstAnswer(raw.out.String()); got != fmt.Sprint(size*count) {
			t.Errorf("got %q, want %d bytes", got, size*count)
		}
		if taken, most := int(after.TotalAlloc-before.TotalAlloc), 16*size*count; taken > most {
			t.Errorf("%d chunks of %d bytes took %d bytes of memory, want %d at most", count, size, taken, most)
		}
	}
	f(64, 8<<20/64)
	f(64<<10, 2000) // above 100 MiB
}
