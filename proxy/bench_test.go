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

	"spectap/collector"
)

// BenchmarkStream sends one streamed request of 100 events through the proxy,
// each event one write of the engine. direct is the same without the proxy:
// the allocations of client and engine are in both.
func BenchmarkStream(b *testing.B) {
	var parts []string
	for i := range 100 {
		parts = append(parts, chunk(tokenEvent(fmt.Sprintf("word %d", i))))
	}
	parts = append(parts, chunk(finishEvent), chunk(doneEvent), lastChunk)
	up := startEngine(b, func(_ *scripted, c *engineConn, _ int) {
		head := make([]byte, len(post(chatPath, chatStream))+4096)
		for {
			if !skipRequest(c.br, head) {
				return
			}
			c.send(streamHead)
			c.send(parts...)
		}
	})
	run := func(b *testing.B, addr string) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		br := bufio.NewReader(c)
		request := post(chatPath, chatStream)
		b.ReportAllocs()
		for b.Loop() {
			_, _ = io.WriteString(c, request)
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("direct", func(b *testing.B) { run(b, up.ln.Addr().String()) })
	for _, measure := range []string{"observe", "usage", "tokens"} {
		b.Run(measure, func(b *testing.B) {
			cfg := testConfig(b, upstreamOf(up))
			cfg.Measure = measure
			s, err := New(cfg, &collector.Memory{}, zerolog.Nop())
			if err != nil {
				b.Fatal(err)
			}
			p := startBuilt(b, s)
			run(b, p)
		})
	}
}

// skipRequest reads one request with a Content-Length body, without allocating much.
func skipRequest(br *bufio.Reader, buf []byte) bool {
	length := 0
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return false
		}
		if len(line) <= 2 {
			break
		}
		if name := "content-length:"; len(line) > len(name) && strings.EqualFold(string(line[:len(name)]), name) {
			_, _ = fmt.Sscanf(string(line[len(name):]), "%d", &length)
		}
	}
	_, err := io.ReadFull(br, buf[:length])
	return err == nil
}
