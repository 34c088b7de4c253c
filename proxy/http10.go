package proxy

import (
	"net"

	"github.com/valyala/fasthttp"
)

// unframed answers an HTTP/1.0 client, which knows no chunks (RFC 9112 section
// 6.1), with a body that goes on until the connection ends. fasthttp would send
// chunks, so the answer is written here, and nothing is left to fasthttp but to
// close. A body that breaks off ends in a reset, because a plain end would look whole.
func unframed(ctx *fasthttp.RequestCtx, b *stream) {
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {})
	h := &ctx.Response.Header
	h.SetContentLength(-2) // neither length nor chunks; says Connection: close
	if _, err := b.f.client.Write(h.Header()); err != nil {
		_ = b.Close()
		return
	}
	if _, err := b.WriteTo(b.f.client); err != nil {
		if c, ok := b.f.client.(interface{ SetLinger(sec int) error }); ok {
			_ = c.SetLinger(0)
		}
	}
}
