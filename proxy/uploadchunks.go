package proxy

import (
	"bufio"
	"io"

	"github.com/valyala/fasthttp"
)

// maxChunkDigits keeps the size of a chunk a number.
const maxChunkDigits = 15

// chunked reads a body that comes in chunks (RFC 9112 section 7.1). What stands in
// the client's framing beside the data, extensions and a trailer, goes no further.
func (u *upload) chunked(c *clientConn, h *fasthttp.RequestHeader) error {
	most := u.s.cfg.MaxBodyBytes
	if err := u.begin(u.s.uploads.buffer(0), most); err != nil {
		return err
	}
	br := u.s.chunkReader(c)
	defer u.s.uploads.readers.Put(br)
	for {
		size, err := chunkLine(br)
		if err != nil {
			return cutOff(err)
		}
		if size == 0 {
			break
		}
		if size > most-len(*u.buf) {
			return fasthttp.ErrBodyTooLarge
		}
		if err := u.fill(br, len(*u.buf)+size, most); err != nil {
			return err
		}
		if err := crlf(br); err != nil {
			return cutOff(err)
		}
	}
	if err := h.ReadTrailer(br); err != nil {
		return cutOff(err)
	}
	rest, _ := br.Peek(br.Buffered())
	c.unread(rest)
	return nil
}

// chunkReader returns a reader that holds a trailer of the length of a head.
func (s *Server) chunkReader(r io.Reader) *bufio.Reader {
	if br, ok := s.uploads.readers.Get().(*bufio.Reader); ok {
		br.Reset(r)
		return br
	}
	return bufio.NewReaderSize(r, s.cfg.MaxHeadBytes)
}

// chunkLine reads the line before a chunk's data and returns its size. Blanks may
// follow the size, or extensions, whose text is dropped; one of two readers could
// take more than that differently.
func chunkLine(br *bufio.Reader) (size int, err error) {
	digits, blanks, extension := 0, false, false
	for length := 0; ; length++ {
		c, err := br.ReadByte()
		switch {
		case err != nil:
			return 0, err
		case digits > maxChunkDigits, length > maxChunkLine:
			return 0, errChunk
		case c == '\r' && digits > 0:
			if err := br.UnreadByte(); err != nil {
				return 0, err
			}
			return size, crlf(br)
		case extension && !isControl(rune(c)):
		case length == digits && hexDigit(c) >= 0:
			size = size<<4 | hexDigit(c)
			digits++
		case digits > 0 && !extension && (c == ' ' || c == '\t'):
			blanks = true
		case digits > 0 && !extension && !blanks && c == ';':
			extension = true
		default:
			return 0, errChunk
		}
	}
}

// crlf reads CR LF.
func crlf(br *bufio.Reader) error {
	for _, want := range []byte("\r\n") {
		c, err := br.ReadByte()
		if err != nil {
			return err
		}
		if c != want {
			return errChunk
		}
	}
	return nil
}

// hexDigit returns the value of a digit, or -1.
func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
