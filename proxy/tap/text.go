package tap

import (
	"unicode/utf16"
	"unicode/utf8"
)

// appendText appends the text of a raw JSON string, quotes included, to dst.
// Bytes that are not UTF-8 are kept as they are, because a reply must be
// replayed as the server sent it; half of a surrogate pair becomes U+FFFD, as
// in encoding/json. An unknown escape is kept as written.
func appendText(dst, raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return dst
	}
	raw = raw[1 : len(raw)-1]
	for i := 0; i < len(raw); {
		if raw[i] != '\\' || i+1 == len(raw) {
			dst = append(dst, raw[i])
			i++
			continue
		}
		if raw[i+1] == 'u' {
			var r rune
			r, i = unicodeEscape(raw, i)
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = appendEscape(dst, raw[i+1])
		i += 2
	}
	return dst
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case 'n':
		return append(dst, '\n')
	case 't':
		return append(dst, '\t')
	case 'r':
		return append(dst, '\r')
	case 'b':
		return append(dst, '\b')
	case 'f':
		return append(dst, '\f')
	case '"', '\\', '/':
		return append(dst, c)
	}
	return append(dst, '\\', c)
}

// unicodeEscape reads the escape \uXXXX at raw[i], and the second half of a surrogate pair after it.
func unicodeEscape(raw []byte, i int) (r rune, end int) {
	r, ok := hex4(raw, i+2)
	if !ok {
		return utf8.RuneError, i + 2
	}
	i += 6
	if !utf16.IsSurrogate(r) {
		return r, i
	}
	if i+1 < len(raw) && raw[i] == '\\' && raw[i+1] == 'u' {
		if low, ok := hex4(raw, i+2); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, i + 6
			}
		}
	}
	return utf8.RuneError, i
}

func hex4(b []byte, i int) (r rune, ok bool) {
	if i+4 > len(b) {
		return 0, false
	}
	for _, c := range b[i : i+4] {
		r <<= 4
		switch {
		case c >= '0' && c <= '9':
			r |= rune(c - '0')
		case c >= 'a' && c <= 'f':
			r |= rune(c - 'a' + 10)
		case c >= 'A' && c <= 'F':
			r |= rune(c - 'A' + 10)
		default:
			return 0, false
		}
	}
	return r, true
}

// text returns the text of a raw JSON string.
func text(raw []byte) string { return string(appendText(nil, raw)) }

// is says whether a raw JSON value is the string s, which needs no escapes.
func is(raw []byte, s string) bool {
	return len(raw) == len(s)+2 && raw[0] == '"' && string(raw[1:len(raw)-1]) == s
}
