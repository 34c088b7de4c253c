package proxy

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"
)

// A body in chunks is read whole wherever the network cuts it, up to the longest
// one, with what stands behind it left for the next request.
func TestChunkedBody(t *testing.T) {
	const most = 40000
	f := func(body string, want int, bad error) {
		t.Helper()
		for _, step := range []int{1, 7, 1 << 20} {
			cfg := testConfig(t, "http://127.0.0.1:1")
			cfg.MaxBodyBytes, cfg.MaxBodiesBytes = most, most
			s, err := New(cfg, records{}, zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			c, err := newClientConn(&stepConn{scriptConn{in: body + "next"}, step}, s)
			if err != nil {
				t.Fatal(err)
			}
			c.phase.Store(int32(inBody))
			c.body.s = s
			err = c.body.chunked(c)
			if err != bad {
				t.Errorf("%.40q by %d: got %v, want %v", body, step, err, bad)
			}
			if got := strings.Trim(string(*c.body.buf), "x"); bad == nil && (len(*c.body.buf) != want || got != "") {
				t.Errorf("%.40q by %d: got %d bytes with %.20q, want %d", body, step, len(*c.body.buf), got, want)
			}
			if rest, _ := io.ReadAll(c); bad == nil && string(rest) != "next" {
				t.Errorf("%.40q by %d: got %q behind it", body, step, rest)
			}
			c.body.free()
			if taken := s.uploads.taken.Load(); taken != 0 {
				t.Errorf("%.40q by %d: %d bytes of the budget are lost", body, step, taken)
			}
			if err := s.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	x := func(n int) string { return strings.Repeat("x", n) }
	f(lastChunk, 0, nil)
	f(chunk(x(5))+"0\r\nTrailer-Field: a\r\n\r\n", 5, nil)
	f("5;name=\"a;b\"\r\nxxxxx\r\n"+lastChunk, 5, nil)
	f(chunk(x(100))+chunk(x(30000))+lastChunk, 30100, nil)
	f(chunk(x(most))+lastChunk, most, nil)
	f(strings.Repeat(chunk(x(8)), most/8)+lastChunk, most, nil)
	f(chunk(x(most))+chunk("x")+lastChunk, 0, fasthttp.ErrBodyTooLarge)
	f(fmt.Sprintf("%x\r\n", most+1), 0, fasthttp.ErrBodyTooLarge)
	f("7ffffffffffffff\r\n", 0, fasthttp.ErrBodyTooLarge)
	f(chunk(x(5))+"g\r\n", 0, errChunk)
	f("5\nxxxxx\r\n", 0, errChunk)
	f("5\r\nxxxxxx\n", 0, errChunk)
	f("0\r\nno field\r\n\r\n", 0, errChunk)
}

// stepConn brings a few bytes a read.
type stepConn struct {
	scriptConn
	step int
}

// Read implements net.Conn.
func (c *stepConn) Read(p []byte) (int, error) { return c.scriptConn.Read(p[:min(len(p), c.step)]) }

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
