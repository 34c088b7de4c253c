package proxy

import "errors"

// errChunk says that a chunked body breaks the grammar of RFC 9112 section 7.1.
var errChunk = errors.New("malformed chunked body")

// maxChunkLine bounds a chunk's extensions and the trailer section.
const maxChunkLine = 8 << 10

// The places in a chunked body where its reading can stop between two reads.
const (
	chunkSize  = iota // before or in the size
	chunkBlank        // blanks after the size
	chunkExt          // in the extensions, before the CR
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	chunkTrailer // at the start of a trailer line
	chunkTrailerName
	chunkTrailerLine
	chunkTrailerLF
	chunkEndLF
	chunkDone
)

// dechunker removes the chunked transfer coding, wherever the network cuts it.
// The zero dechunker is ready.
type dechunker struct {
	state  int
	size   uint64 // left of the chunk
	digits int
	line   int // bytes of extensions, or of the trailer section
}

// done says that the last chunk and the trailer section were read.
func (d *dechunker) done() bool { return d.state == chunkDone }

// feed moves the data in b to its front and returns it, and how many bytes of b
// belong to this body.
func (d *dechunker) feed(b []byte) (data []byte, used int, err error) {
	data = b[:0]
	for i := 0; i < len(b) && d.state != chunkDone; {
		if d.state == chunkData {
			n := min(uint64(len(b)-i), d.size)
			data = append(data, b[i:i+int(n)]...)
			i += int(n)
			if d.size -= n; d.size == 0 {
				d.state = chunkDataCR
			}
			used = i
			continue
		}
		if err := d.step(b[i]); err != nil {
			return data, i, err
		}
		i++
		used = i
	}
	return data, used, nil
}

// step takes one byte of framing.
func (d *dechunker) step(c byte) error {
	switch d.state {
	case chunkSize:
		return d.sizeByte(c)
	case chunkBlank:
		return d.blankByte(c)
	case chunkExt:
		return d.skipLine(c, chunkSizeLF)
	case chunkSizeLF:
		if d.size == 0 {
			d.line = 0
			return d.expect(c, '\n', chunkTrailer)
		}
		return d.expect(c, '\n', chunkData)
	case chunkDataCR:
		return d.expect(c, '\r', chunkDataLF)
	case chunkDataLF:
		d.digits, d.line = 0, 0
		return d.expect(c, '\n', chunkSize)
	case chunkTrailer:
		if c == '\r' {
			d.state = chunkEndLF
			return nil
		}
		d.state = chunkTrailerName
		return d.nameByte(c)
	case chunkTrailerName:
		if c == ':' {
			d.state = chunkTrailerLine
			return nil
		}
		return d.nameByte(c)
	case chunkTrailerLine:
		return d.skipLine(c, chunkTrailerLF)
	case chunkTrailerLF:
		return d.expect(c, '\n', chunkTrailer)
	case chunkEndLF:
		return d.expect(c, '\n', chunkDone)
	}
	return errChunk
}

func (d *dechunker) sizeByte(c byte) error {
	digit := -1
	switch {
	case c >= '0' && c <= '9':
		digit = int(c - '0')
	case c >= 'a' && c <= 'f':
		digit = int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		digit = int(c-'A') + 10
	}
	if digit >= 0 {
		if d.digits++; d.digits > 15 {
			return errChunk
		}
		d.size = d.size<<4 | uint64(digit)
		return nil
	}
	if d.digits == 0 {
		return errChunk
	}
	switch c {
	case '\r':
		d.state = chunkSizeLF
	case ';':
		d.state = chunkExt
	case ' ', '\t':
		d.state = chunkBlank
	default:
		return errChunk
	}
	return nil
}

// blankByte takes a byte behind the blanks that may follow a size: "5 5" is no
// size, and one of two readers could take it for 55.
func (d *dechunker) blankByte(c byte) error {
	if c == ';' {
		d.state = chunkExt
		return nil
	}
	if c != ' ' && c != '\t' && c != '\r' {
		return errChunk
	}
	return d.skipLine(c, chunkSizeLF)
}

// skipLine drops a byte of a line; its CR leads to the next state. A bare LF
// could hide a chunk from one of two readers, so it is refused.
func (d *dechunker) skipLine(c byte, next int) error {
	if d.line++; d.line > maxChunkLine || c != '\r' && isControl(rune(c)) {
		return errChunk
	}
	if c == '\r' {
		d.state = next
	}
	return nil
}

// nameByte takes a byte of a trailer field's name. What is no field ends no body:
// a reader that wants fields would say that it is cut.
func (d *dechunker) nameByte(c byte) error {
	if d.line++; d.line > maxChunkLine || !isToken(string([]byte{c})) {
		return errChunk
	}
	return nil
}

func (d *dechunker) expect(c, want byte, next int) error {
	if c != want {
		return errChunk
	}
	d.state = next
	return nil
}
