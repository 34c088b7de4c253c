package proxy

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// BenchmarkRelay sends a message and waits for its echo, over a direct connection
// and through a relay: half the difference of a pair is what the relay adds to a
// message.
func BenchmarkRelay(b *testing.B) {
	up := echoing(b, nil)
	p := startProxy(b, testConfig(b, upstreamOf(up)), nil)
	for _, size := range []int{200, 4000, 64000} {
		message := strings.Repeat("x", size)
		for _, way := range []struct{ name, addr string }{{"direct", up.ln.Addr().String()}, {"relay", p.addr}} {
			b.Run(fmt.Sprintf("%s/%d", way.name, size), func(b *testing.B) {
				c := upgraded(b, way.addr)
				echo := make([]byte, size)
				b.SetBytes(int64(2 * size))
				b.ReportAllocs()
				for b.Loop() {
					c.send(message)
					if _, err := io.ReadFull(c.br, echo); err != nil {
						b.Fatal(err)
					}
				}
				_ = c.Close()
			})
		}
	}
}
