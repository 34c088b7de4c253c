package proxy

import (
	"bufio"
	"bytes"
	"iter"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"
)

// appendRequestFields appends a request's fields as they go upstream: the
// client's own lines, in its order and spelling. Left out are those of its
// connection, those in replaced, and on tapped routes Accept-Encoding, or the tap
// would see compressed bytes. The framing becomes a Content-Length in its place;
// length below 0 is no body.
func appendRequestFields(dst []byte, src *fasthttp.RequestHeader, tapped bool, replaced []string, length int) []byte {
	var named [][]byte
	for name, value := range lines(src.RawHeaders()) {
		if isField(name, fasthttp.HeaderConnection) {
			named = append(named, value)
		}
	}
	for name, value := range lines(src.RawHeaders()) {
		switch {
		case isField(name, fasthttp.HeaderContentLength), isField(name, fasthttp.HeaderTransferEncoding):
			if length >= 0 {
				dst = appendLength(dst, name, length)
				length = -1
			}
		case hopByHop(name), namedBy(named, name) && !isField(name, fasthttp.HeaderHost), // HTTP/1.1 demands a Host
			isField(name, fasthttp.HeaderExpect) && isField(bytes.TrimSpace(value), "100-continue"), // fasthttp met it
			tapped && isField(name, fasthttp.HeaderAcceptEncoding),
			slices.ContainsFunc(replaced, func(other string) bool { return isField(name, other) }):
		default:
			dst = append(append(append(append(dst, name...), ':'), value...), "\r\n"...)
		}
	}
	for _, name := range replaced {
		if value := src.Peek(name); len(value) > 0 {
			dst = appendField(dst, name, string(value))
		}
	}
	if length >= 0 {
		dst = appendLength(dst, nil, length)
	}
	return dst
}

// appendLength keeps the client's spelling of the name.
func appendLength(dst, name []byte, length int) []byte {
	if !isField(name, fasthttp.HeaderContentLength) {
		name = []byte(fasthttp.HeaderContentLength)
	}
	return appendField(dst, string(name), strconv.Itoa(length))
}

func appendField(dst []byte, name, value string) []byte {
	return append(append(append(append(dst, name...), ": "...), value...), "\r\n"...)
}

// lines yields the fields of a raw head: name, and what stands between colon and line end.
func lines(raw []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for line := range bytes.SplitSeq(raw, []byte{'\n'}) {
			name, value, ok := bytes.Cut(bytes.TrimSuffix(line, []byte{'\r'}), []byte{':'})
			if ok && !yield(name, value) {
				return
			}
		}
	}
}

// copyResponseHeaders copies status and end-to-end fields of a response. Names
// keep their spelling and fields their order, but for the few that fasthttp has
// places for. Content-Length and Transfer-Encoding are the caller's. fasthttp's
// setters leave Date to its server, only its parser stores one: so the head is
// written and parsed.
func copyResponseHeaders(dst, src *fasthttp.ResponseHeader) {
	src.SetNoDefaultContentType(true) // or All invents one
	head := append([]byte("HTTP/1.1 "), strconv.Itoa(src.StatusCode())...)
	head = append(append(append(head, ' '), src.StatusMessage()...), "\r\nContent-Length: 0\r\n"...)
	var named [][]byte
	for name, value := range src.All() {
		if isField(name, fasthttp.HeaderConnection) {
			named = append(named, value)
		}
	}
	for name, value := range src.All() {
		if !hopByHop(name) && !namedBy(named, name) {
			head = appendField(head, string(name), string(value))
		}
	}
	head = append(head, "\r\n"...)
	dst.DisableNormalizing()
	dst.SetNoDefaultContentType(true)
	if err := dst.Read(bufio.NewReaderSize(bytes.NewReader(head), len(head))); err != nil {
		panic("BUG: cannot read the head of an answer again: " + err.Error())
	}
	dst.Del(fasthttp.HeaderContentLength)
}

// methodOf returns a request's method where it is a known one. Another one can
// be any word, and is "_OTHER", as in the HTTP conventions of OpenTelemetry.
func methodOf(method []byte) string {
	switch m := string(method); m {
	case fasthttp.MethodGet, fasthttp.MethodHead, fasthttp.MethodPost, fasthttp.MethodPut, fasthttp.MethodPatch,
		fasthttp.MethodDelete, fasthttp.MethodConnect, fasthttp.MethodOptions, fasthttp.MethodTrace, "QUERY":
		return m
	}
	return "_OTHER"
}

// traceparentOf returns the trace context of a request, "" where the field is
// none (W3C Trace Context section 3.2.2): its value could be anything. What a
// later version adds to the four known parts is left out.
func traceparentOf(h *fasthttp.RequestHeader) string {
	const length = 55
	v := h.Peek("traceparent")
	if len(v) < length || len(v) > length && (v[length] != '-' || string(v[:2]) == "00") {
		return ""
	}
	v = v[:length]
	for i, c := range v {
		switch {
		case i == 2 || i == 35 || i == 52:
			if c != '-' {
				return ""
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return ""
		}
	}
	return string(v)
}

// hopByHop reports whether a field is for one connection only (RFC 9110 section
// 7.6.1), or for framing, which each side has of its own.
func hopByHop(key []byte) bool {
	for _, name := range [...]string{
		fasthttp.HeaderConnection, "Keep-Alive", fasthttp.HeaderTE, fasthttp.HeaderTrailer,
		fasthttp.HeaderTransferEncoding, fasthttp.HeaderUpgrade, fasthttp.HeaderContentLength,
	} {
		if isField(key, name) {
			return true
		}
	}
	return len(key) > len("Proxy-") && isField(key[:len("Proxy-")], "Proxy-")
}

func isField(key []byte, name string) bool {
	return len(key) == len(name) && bytes.EqualFold(key, []byte(name))
}

// namedBy reports whether a Connection field names key.
func namedBy(connection [][]byte, key []byte) bool {
	for _, value := range connection {
		for option := range bytes.SplitSeq(value, []byte{','}) {
			if bytes.EqualFold(bytes.Trim(option, " \t"), key) {
				return true
			}
		}
	}
	return false
}
