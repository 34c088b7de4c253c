package tap

import (
	"bytes"
	"strings"
)

// plainEncoding says whether a Content-Encoding leaves the bytes as they are.
func plainEncoding(encoding string) bool {
	encoding = strings.TrimSpace(encoding)
	return encoding == "" || strings.EqualFold(encoding, "identity")
}

// readMode chooses by Content-Type. Servers are not careful with it, so what is neither a stream
// nor JSON is told by its first byte.
func readMode(contentType string) int {
	media, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "text/event-stream":
		return readStream
	case "application/json":
		return readBody
	}
	return readSniff
}

// sniff tells a JSON object from an event stream by the first byte: a field's name, a comment, a
// line end, or a BOM.
func sniff(first byte) int {
	switch first {
	case '{':
		return readBody
	case 'd', 'e', 'i', 'r', ':', '\n', '\r', '\xef':
		return readStream
	}
	return readNothing
}

// trim removes white space at both ends: servers send "[DONE]\r" and "{...} ".
func trim(b []byte) []byte {
	if len(b) > 0 && b[0] > ' ' && b[len(b)-1] > ' ' {
		return b
	}
	return bytes.TrimSpace(b)
}
