package proxy

import "github.com/valyala/fasthttp"

// uploadTail is room behind the longest body, for what ends it in chunks.
const uploadTail = 4 << 10

// chunked reads a body that comes in chunks, in its own buffer: what stands in the
// client's framing beside the data, extensions and a trailer, goes no further.
func (u *upload) chunked(c *clientConn) error {
	most := u.s.cfg.MaxBodyBytes
	if err := u.begin(u.s.uploads.buffer(0), most); err != nil {
		return err
	}
	for chunks := (dechunker{}); ; {
		if len(*u.buf) == cap(*u.buf) {
			if err := u.grow(most + uploadTail); err != nil {
				return err
			}
		}
		b := *u.buf
		n, err := c.Read(b[len(b):cap(b)])
		in := b[len(b) : len(b)+n]
		data, used, broken := chunks.feed(in)
		if broken != nil {
			return broken
		}
		if uint64(len(b)+len(data))+chunks.size > uint64(most) {
			return fasthttp.ErrBodyTooLarge
		}
		*u.buf = b[:len(b)+len(data)]
		if chunks.done() {
			c.unread(in[used:])
			return nil
		}
		if err != nil {
			return cutOff(err)
		}
	}
}
