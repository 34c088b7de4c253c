package tap

import "errors"

// ErrJSON says that bytes are not the JSON that was expected. The walker checks
// structure (brackets, commas, colons, literals, numbers' characters), not
// escapes or UTF-8: what passes here is wrong the same way before and after.
var ErrJSON = errors.New("not valid JSON")

// Space returns the index of the first byte of b at or after i that is not JSON white space.
func Space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// Members calls f for each top-level member of the JSON object that b[i:]
// starts with, after white space: key is the raw text between its quotes,
// b[from:to] the whole member from the key's opening quote to the end of its
// value, value the raw value. f returns false to stop early. Members returns
// the index after the closing brace, or where it stopped.
func Members(b []byte, i int, f func(key, value []byte, from, to int) bool) (int, error) {
	i = Space(b, i)
	if i >= len(b) || b[i] != '{' {
		return i, ErrJSON
	}
	i = Space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		from := i
		end, err := skipString(b, i)
		if err != nil {
			return i, err
		}
		key := b[from+1 : end-1]
		i = Space(b, end)
		if i >= len(b) || b[i] != ':' {
			return i, ErrJSON
		}
		start := Space(b, i+1)
		if i, err = SkipValue(b, start); err != nil {
			return i, err
		}
		if !f(key, b[start:i], from, i) {
			return i, nil
		}
		i = Space(b, i)
		if i >= len(b) {
			return i, ErrJSON
		}
		if b[i] == '}' {
			return i + 1, nil
		}
		if b[i] != ',' {
			return i, ErrJSON
		}
		i = Space(b, i+1)
	}
}

// Elements calls f for each element of the JSON array that b[i:] starts with,
// after white space. f returns false to stop early.
func Elements(b []byte, i int, f func(value []byte) bool) (int, error) {
	i = Space(b, i)
	if i >= len(b) || b[i] != '[' {
		return i, ErrJSON
	}
	i = Space(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		end, err := SkipValue(b, i)
		if err != nil {
			return end, err
		}
		if !f(b[i:end]) {
			return end, nil
		}
		i = Space(b, end)
		if i >= len(b) {
			return i, ErrJSON
		}
		if b[i] == ']' {
			return i + 1, nil
		}
		if b[i] != ',' {
			return i, ErrJSON
		}
		i = Space(b, i+1)
	}
}

// SkipValue returns the index after the JSON value that starts at b[i]. It does
// not recurse, so nesting is bounded by the input only.
func SkipValue(b []byte, i int) (int, error) {
	if i >= len(b) {
		return i, ErrJSON
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	return skipLiteral(b, i)
}

// skipString returns the index after the closing quote of the string at b[i].
func skipString(b []byte, i int) (int, error) {
	if i >= len(b) || b[i] != '"' {
		return i, ErrJSON
	}
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1, nil
		}
	}
	return i, ErrJSON
}

// skipNested skips an object or array with a stack of open brackets. After each
// value only a comma or the right closing bracket may follow.
func skipNested(b []byte, i int) (int, error) {
	var room [64]byte // deeper nesting moves the stack to the heap
	open := append(room[:0], b[i])
	i++
	fresh := true // directly after an opening bracket, where the container may close
	for {
		i = Space(b, i)
		if i >= len(b) {
			return i, ErrJSON
		}
		top := open[len(open)-1]
		if fresh && b[i] == top+2 { // '[' + 2 == ']', '{' + 2 == '}'
			open, i = open[:len(open)-1], i+1
		} else {
			if top == '{' {
				end, err := skipString(b, i)
				if err != nil {
					return end, err
				}
				i = Space(b, end)
				if i >= len(b) || b[i] != ':' {
					return i, ErrJSON
				}
				i = Space(b, i+1)
			}
			if i < len(b) && (b[i] == '{' || b[i] == '[') {
				open, i, fresh = append(open, b[i]), i+1, true
				continue
			}
			end, err := SkipValue(b, i)
			if err != nil {
				return end, err
			}
			i = end
		}
		for len(open) > 0 { // after a value
			i = Space(b, i)
			if i >= len(b) {
				return i, ErrJSON
			}
			if b[i] == ',' {
				i, fresh = i+1, false
				break
			}
			if b[i] != open[len(open)-1]+2 {
				return i, ErrJSON
			}
			open, i = open[:len(open)-1], i+1
		}
		if len(open) == 0 {
			return i, nil
		}
	}
}

// skipLiteral skips true, false, null or a number.
func skipLiteral(b []byte, i int) (int, error) {
	for _, word := range [...]string{"true", "false", "null"} {
		if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
			return i + len(word), nil
		}
	}
	return skipNumber(b, i)
}

// skipNumber follows the number grammar of RFC 8259 section 6.
func skipNumber(b []byte, i int) (int, error) {
	if i < len(b) && b[i] == '-' {
		i++
	}
	start := i
	i = digits(b, i)
	if i == start || b[start] == '0' && i > start+1 {
		return i, ErrJSON
	}
	if i < len(b) && b[i] == '.' {
		start, i = i+1, digits(b, i+1)
		if i == start {
			return i, ErrJSON
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		start, i = i, digits(b, i)
		if i == start {
			return i, ErrJSON
		}
	}
	return i, nil
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}
