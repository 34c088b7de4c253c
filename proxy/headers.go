package proxy

import (
	"bufio"
	"bytes"

	"github.com/valyala/fasthttp"
)

// copyRequestHeaders copies method, target and end-to-end fields of a request.
// On tapped routes Accept-Encoding is left out, or the tap would see compressed
// bytes. Content-Length and Transfer-Encoding are the caller's: it knows the
// body. Names are normalised by fasthttp, known fields move first; order and
// duplicates stay otherwise.
func copyRequestHeaders(dst, src *fasthttp.RequestHeader, tapped bool) {
	dst.SetMethodBytes(src.Method())
	dst.SetRequestURIBytes(src.RequestURI())
	dst.SetNoDefaultContentType(true)
	named := src.PeekAll(fasthttp.HeaderConnection)
	for key, value := range src.All() {
		if hopByHop(key) || namedBy(named, key) || isField(key, fasthttp.HeaderExpect) ||
			tapped && isField(key, fasthttp.HeaderAcceptEncoding) {
			continue
		}
		dst.AddBytesKV(key, value)
	}
}

// copyResponseHeaders copies status and end-to-end fields of a response.
// Content-Length and Transfer-Encoding are the caller's. The upstream's Date
// stays where the server of dst writes none (Server.NoDefaultDate).
func copyResponseHeaders(dst, src *fasthttp.ResponseHeader) {
	setDate(dst, src.Peek(fasthttp.HeaderDate))
	dst.SetStatusCode(src.StatusCode())
	dst.SetStatusMessage(src.StatusMessage())
	dst.SetNoDefaultContentType(true)
	src.SetNoDefaultContentType(true) // or All invents one
	named := src.PeekAll(fasthttp.HeaderConnection)
	for key, value := range src.All() {
		if hopByHop(key) || namedBy(named, key) {
			continue
		}
		dst.AddBytesKV(key, value)
	}
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

// setDate empties h but for a Date, and does nothing without one. fasthttp's
// setters leave Date to its server; only its parser stores one.
func setDate(h *fasthttp.ResponseHeader, date []byte) {
	if len(date) == 0 {
		return
	}
	head := append([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: "), date...)
	head = append(head, "\r\n\r\n"...)
	if err := h.Read(bufio.NewReaderSize(bytes.NewReader(head), len(head))); err != nil {
		return // a date that no parser takes is not worth a failed request
	}
	h.Del(fasthttp.HeaderContentLength)
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
