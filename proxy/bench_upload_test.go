package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// BenchmarkUpload sends request bodies of several sizes through the proxy: with a
// length, and in chunks of 4 KiB. The engine answers when it has read them.
func BenchmarkUpload(b *testing.B) {
	up := startEngine(b, func(_ *scripted, c *engineConn, _ int) {
		head := make([]byte, 32<<20)
		for skipRequest(c.br, head) {
			c.send(withLength("200 OK", "text/plain", "ok"))
		}
	})
	s, err := New(testConfig(b, upstreamOf(up)), nil, zerolog.Nop())
	if err != nil {
		b.Fatal(err)
	}
	addr := startBuilt(b, s)
	run := func(name, request string, size int) {
		b.Run(name, func(b *testing.B) {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			br := bufio.NewReader(c)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = io.WriteString(c, request)
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp.Status, err)
				}
			}
		})
	}
	for _, size := range []int{100, 4 << 10, 400 << 10, 16 << 20} {
		text := strings.Repeat("x", size)
		run(fmt.Sprintf("length/%d", size), post("/upload", text), size)
		var chunks strings.Builder
		for rest := text; rest != ""; {
			n := min(len(rest), 4<<10)
			chunks.WriteString(chunk(rest[:n]))
			rest = rest[n:]
		}
		run(fmt.Sprintf("chunks/%d", size), "POST /upload HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks.String()+lastChunk, size)
	}
}
