package tap

import "strings"

// failureText returns what an error says of itself without its message: type
// and code. Errors are objects, strings (vLLM's 401), or flat objects whose type
// and code stand at the root; a string may hold anything, so it is not repeated.
func failureText(e *event) string {
	kind, code := e.kind, e.code
	members(e.failure, 0, func(key []byte, i int) (end int) {
		switch string(key) {
		case "type":
			kind, end = rawString(e.failure, i)
		case "code":
			code, end = raw(e.failure, i)
		default:
			return skip(e.failure, i)
		}
		return end
	})
	return joinFailure(plain(kind), plain(code))
}

func joinFailure(kind, code string) string {
	switch {
	case kind == "" && code == "":
		return "untyped error"
	case kind == "":
		return "code " + code
	case code == "":
		return kind
	}
	return kind + " (" + code + ")"
}

// plain returns a short identifier or number as text, and "" for anything that
// could be prose. Words stand only where each has a capital, as in "Bad Request".
func plain(v []byte) string {
	s := string(v)
	if len(v) > 1 && v[0] == '"' {
		s = text(v)
	}
	if len(s) > 64 {
		return ""
	}
	words := strings.Contains(s, " ")
	for i, c := range s {
		start := words && (i == 0 || s[i-1] == ' ')
		switch {
		case c >= 'A' && c <= 'Z':
		case start:
			return ""
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '.', c == '-', c == ' ':
		default:
			return ""
		}
	}
	return s
}

// reasonNotRead stands for a finish reason that is none: it could be prose.
const reasonNotRead = "other"

// reason returns a finish reason, "" where there is none.
func reason(v []byte) string {
	s := plain(v)
	if s == "" && len(v) > 2 {
		return reasonNotRead
	}
	return s
}

// failed says whether an event reports an error: under error, or flat with object "error".
func (e *event) failed() bool { return filled(e.failure) || is(e.object, "error") }
