package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"
)

// newPolicy reads the settings that say what a request carries.
func newPolicy(cfg Config) (Policy, error) {
	p := Policy{Measure: Measure(cfg.Measure), Override: cfg.Override, KeepText: cfg.KeepTexts || cfg.captures().prompt, HashUser: cfg.HashUser, Fill: map[string]json.RawMessage{}}
	if cfg.Set != "" {
		if err := json.Unmarshal([]byte(cfg.Set), &p.Fill); err != nil {
			return p, fmt.Errorf("cannot use SPECTAP_SET (--set) %q: %w", cfg.Set, err)
		}
	}
	for name, text := range map[string]string{
		"temperature": cfg.Temperature, "top_p": cfg.TopP, "top_k": cfg.TopK, "min_p": cfg.MinP,
		"repetition_penalty": cfg.RepetitionPenalty, "seed": cfg.Seed, "skip_special_tokens": cfg.SkipSpecialTokens,
	} {
		if text != "" {
			p.Fill[name] = json.RawMessage(text)
		}
	}
	if cfg.MaxTokens != "" {
		n, err := strconv.Atoi(cfg.MaxTokens)
		if err != nil {
			return p, fmt.Errorf("cannot use SPECTAP_MAX_TOKENS (--max_tokens) %q: %w", cfg.MaxTokens, err)
		}
		p.MaxTokens = n
	}
	return p, nil
}

// refusal returns why a request cannot be passed on, or nil.
func refusal(ctx *fasthttp.RequestCtx) *failure {
	h := &ctx.Request.Header
	proto := string(h.Protocol())
	switch {
	case proto != "HTTP/1.1" && proto != "HTTP/1.0":
		return reject(fasthttp.StatusHTTPVersionNotSupported, "http_version", "only HTTP/1.1 and HTTP/1.0 are understood")
	case string(h.Method()) == fasthttp.MethodConnect:
		return reject(fasthttp.StatusNotImplemented, "not_implemented", "CONNECT is not supported")
	}
	return ambiguous(h.RawHeaders())
}

// ambiguous refuses heads that two servers could read differently. fasthttp
// accepts a body with both framings, obsolete line folding, and names with a
// space in them ("Transfer-Encoding : chunked").
func ambiguous(raw []byte) *failure {
	framings := 0
	for len(raw) > 0 {
		line, rest, _ := bytes.Cut(raw, []byte{'\n'})
		raw = rest
		if line = bytes.TrimSuffix(line, []byte{'\r'}); len(line) == 0 {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			return reject(fasthttp.StatusBadRequest, "bad_request", "obsolete line folding in the request head")
		}
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok || !isToken(string(name)) {
			return reject(fasthttp.StatusBadRequest, "bad_request", "a name in the request head is not a token of RFC 9110")
		}
		if bytes.ContainsFunc(value, isControl) {
			return reject(fasthttp.StatusBadRequest, "bad_request", "a value in the request head has a control character")
		}
		if isField(name, fasthttp.HeaderTransferEncoding) && !isField(bytes.TrimSpace(value), "chunked") { // fasthttp takes identity
			return reject(fasthttp.StatusBadRequest, "bad_request", "a Transfer-Encoding other than chunked in the request head")
		}
		if framesBody(name) {
			framings++
		}
	}
	if framings > 1 {
		return reject(fasthttp.StatusBadRequest, "bad_request", "more than one Content-Length or Transfer-Encoding in the request head")
	}
	return nil
}

// framesBody says whether a field tells where the body ends.
func framesBody(name []byte) bool {
	return isField(name, fasthttp.HeaderContentLength) || isField(name, fasthttp.HeaderTransferEncoding)
}

// isControl reports whether a rune of a field value is a control character that
// RFC 9110 section 5.5 does not allow.
func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// appendHead appends the head of the request as it goes upstream: target and
// fields are the client's bytes, the version and the framing are ours.
func (s *Server) appendHead(dst []byte, ctx *fasthttp.RequestCtx, f *flight, bodyLen int) []byte {
	in := &ctx.Request.Header
	dst = append(append(dst, in.Method()...), ' ')
	target := in.RequestURI()
	if s.to.base != "" {
		target = originForm(target)
	}
	if string(target) != "*" { // the whole server has no path
		dst = append(dst, s.to.base...)
	}
	dst = append(append(dst, target...), " HTTP/1.1\r\n"...)
	replaced := f.replaced
	if len(in.Host()) == 0 {
		dst = appendField(dst, fasthttp.HeaderHost, s.to.host)
		replaced = append(replaced, fasthttp.HeaderHost)
	}
	if bodyLen == 0 && !hasBody(in) {
		bodyLen = -1
	}
	dst = appendRequestFields(dst, in, f.measured, replaced, bodyLen)
	if f.upgrade {
		dst = appendUpgrade(dst, in.Peek(fasthttp.HeaderUpgrade))
	}
	return append(dst, "\r\n"...)
}

// hasBody says whether the client framed a body, even an empty one. fasthttp's own
// fields say so of each POST and DELETE, once it has looked for a body.
func hasBody(h *fasthttp.RequestHeader) bool {
	for line := range bytes.Lines(h.RawHeaders()) {
		if name, _, _ := bytes.Cut(line, []byte{':'}); framesBody(name) {
			return true
		}
	}
	return false
}

// originForm returns the path and query of a request target as they came.
func originForm(target []byte) []byte {
	if len(target) == 0 || target[0] == '/' || target[0] == '*' {
		return target
	}
	_, rest, ok := bytes.Cut(target, []byte("://"))
	if !ok {
		return target
	}
	if i := bytes.IndexAny(rest, "/?"); i >= 0 {
		if rest[i] == '?' {
			return append([]byte{'/'}, rest[i:]...)
		}
		return rest[i:]
	}
	return []byte{'/'}
}

// pathOf returns the path of a request target, without its query.
func pathOf(target []byte) string {
	path, _, _ := bytes.Cut(originForm(target), []byte{'?'})
	return string(path)
}

// generates says whether a POST path that the tap does not read is still a
// model call, so that a Record is made of it.
func generates(path string) bool {
	return strings.Contains(path, "/v1/") || strings.HasSuffix(path, "/generate") || strings.HasSuffix(path, "/completion")
}

func isEventStream(h *fasthttp.ResponseHeader) bool {
	return h.StatusCode() == fasthttp.StatusOK && bytes.HasPrefix(bytes.ToLower(h.ContentType()), []byte("text/event-stream"))
}

// buffer returns a buffer for a request head.
func (s *Server) buffer() *[]byte {
	if b, ok := s.buffers.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

// serverLog passes on that fasthttp logged something. The text stays out: it
// can quote a request, SecureErrorLogMessage or not.
type serverLog struct{ log zerolog.Logger }

// Printf implements fasthttp.Logger.
func (l serverLog) Printf(_ string, args ...any) {
	kind := ""
	if len(args) > 0 {
		kind = fmt.Sprintf("%T", args[len(args)-1])
	}
	l.log.Debug().Str("error_type", kind).Msg("client connection failed")
}
