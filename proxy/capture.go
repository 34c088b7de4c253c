package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"spectap/collector"
)

// captures is what SPECTAP_CAPTURE lets into Records; the zero captures lets
// nothing in. Texts stay in Records, headers go on to spans.
type captures struct {
	prompt, reply, reasoning bool
	headers                  []string // in lower case, sorted
	limit                    int      // of one value, in bytes
}

// secretHeaders are parts of header names whose values are credentials, or can
// be. They err on the safe side: Idempotency-Key and X-Session-Id are refused.
var secretHeaders = [...]string{
	"auth", "bearer", "token", "jwt", "assertion", "saml", "cookie", "session", "csrf", "xsrf",
	"secret", "passw", "passphrase", "pwd", "otp", "key", "credential", "cert", "signature", "hmac",
}

// parseCapture reads SPECTAP_CAPTURE; bad is called for each word that it cannot use.
func parseCapture(list string, limit int, bad func(word, wanted string)) captures {
	c := captures{limit: limit}
	for word := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, isHeader := strings.CutPrefix(word, "header:")
		switch {
		case word == "prompt":
			c.prompt = true
		case word == "reply":
			c.reply = true
		case word == "reasoning":
			c.reasoning = true
		case !isHeader:
			bad(word, "want a list of prompt, reply, reasoning and header:NAME")
		case !isToken(name):
			bad(word, "want header: and the name of a request header, as header:X-Tenant")
		case isSecret(name):
			bad(word, "this header can hold a credential, which is never kept")
		default:
			c.headers = append(c.headers, strings.ToLower(name))
		}
	}
	slices.Sort(c.headers)
	c.headers = slices.Compact(c.headers)
	return c
}

// isToken says whether a text is a field name (RFC 9110 section 5.6.2).
func isToken(name string) bool {
	for _, c := range []byte(name) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return name != ""
}

func isSecret(header string) bool {
	header = strings.ToLower(header)
	return slices.ContainsFunc(secretHeaders[:], func(part string) bool { return strings.Contains(header, part) })
}

// words lists what is captured, for people.
func (c captures) words() []string {
	var w []string
	for _, one := range []struct {
		word string
		on   bool
	}{{"prompt", c.prompt}, {"reply", c.reply}, {"reasoning", c.reasoning}} {
		if one.on {
			w = append(w, one.word)
		}
	}
	for _, name := range c.headers {
		w = append(w, "header:"+name)
	}
	return w
}

// request copies the headers that are captured; several fields of a name become
// the list of all (RFC 9110 section 5.2).
func (c captures) request(rec *collector.Record, h *fasthttp.RequestHeader) {
	for _, name := range c.headers {
		fields := h.PeekAll(name)
		if len(fields) == 0 {
			continue
		}
		if rec.Headers == nil {
			rec.Headers = make(map[string]string, len(c.headers))
		}
		value := strings.ToValidUTF8(string(bytes.Join(fields, []byte(", "))), "\uFFFD")
		rec.Headers[name] = c.cut(rec, "header "+name, value)
	}
}

// texts cuts what was captured of the bodies and removes what is not wanted.
func (c captures) texts(rec *collector.Record) {
	for _, one := range []struct {
		what string
		on   bool
		text *string
	}{{"prompt", c.prompt, &rec.Prompt}, {"reply", c.reply, &rec.Reply}, {"reasoning", c.reasoning, &rec.Reasoning}} {
		if !one.on {
			*one.text = ""
			continue
		}
		*one.text = c.cut(rec, one.what, *one.text)
	}
}

// cut returns at most limit bytes of a text, up to the end of a character, and
// warns where the rest is missing.
func (c captures) cut(rec *collector.Record, what, text string) string {
	if len(text) <= c.limit {
		return text
	}
	end := c.limit
	for end > 0 && end > c.limit-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	rec.Warnings = append(rec.Warnings, fmt.Sprintf("the captured %s was cut from %d to %d bytes (SPECTAP_CAPTURE_BYTES)", what, len(text), end))
	return strings.Clone(text[:end]) // or the whole text would stay in memory
}
