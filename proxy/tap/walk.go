package tap

import (
	"bytes"
	"strconv"
)

// The reader of this file is the lenient sibling of json.go: it descends into
// what it knows in one pass, and skips the rest by counting brackets. It lets
// NaN and Infinity pass, which Python's json.dumps writes. It must never be used
// to rewrite bytes; json.go is for that. Every function returns the index after
// what it read, or -1 where the bytes are not JSON.

// object calls f for each member of the object at b[i]. f gets the raw key and
// the index of the value, and returns the index after the value, or -1.
func object(b []byte, i int, f func(key []byte, i int) int) int {
	if i >= len(b) || b[i] != '{' {
		return -1
	}
	i = Space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		end := stringEnd(b, i)
		if end < 0 {
			return -1
		}
		key := b[i+1 : end-1]
		i = Space(b, end)
		if i >= len(b) || b[i] != ':' {
			return -1
		}
		if i = f(key, Space(b, i+1)); i < 0 {
			return -1
		}
		i = Space(b, i)
		if i >= len(b) {
			return -1
		}
		switch b[i] {
		case '}':
			return i + 1
		case ',':
			i = Space(b, i+1)
		default:
			return -1
		}
	}
}

// array calls f with the index of each element of the array at b[i]; f returns
// the index after the element, or -1.
func array(b []byte, i int, f func(i int) int) int {
	if i >= len(b) || b[i] != '[' {
		return -1
	}
	i = Space(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = f(i); i < 0 {
			return -1
		}
		i = Space(b, i)
		if i >= len(b) {
			return -1
		}
		switch b[i] {
		case ']':
			return i + 1
		case ',':
			i = Space(b, i+1)
		default:
			return -1
		}
	}
}

// members is object for a value that may be something else, which is skipped.
func members(b []byte, i int, f func(key []byte, i int) int) int {
	if i < len(b) && b[i] == '{' {
		return object(b, i, f)
	}
	return skip(b, i)
}

// elements is array for a value that may be something else, which is skipped.
func elements(b []byte, i int, f func(i int) int) int {
	if i < len(b) && b[i] == '[' {
		return array(b, i, f)
	}
	return skip(b, i)
}

// count returns the number of elements of the array at b[i], or -1 where the value is no array.
func count(b []byte, i int) (n, end int) {
	if i >= len(b) || b[i] != '[' {
		return -1, skip(b, i)
	}
	end = array(b, i, func(i int) int {
		n++
		return skip(b, i)
	})
	return n, end
}

// raw returns the value at b[i], nil for null, and the index after it.
func raw(b []byte, i int) (value []byte, end int) {
	end = skip(b, i)
	if end < 0 || b[i] == 'n' {
		return nil, end
	}
	return b[i:end], end
}

// rawString is raw for strings: any other value is nil.
func rawString(b []byte, i int) (value []byte, end int) {
	value, end = raw(b, i)
	if len(value) > 0 && value[0] != '"' {
		value = nil
	}
	return value, end
}

// skip returns the index after the value at b[i]. Brackets inside a skipped
// container are counted, not matched. It does not recurse.
func skip(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return stringEnd(b, i)
	case '{', '[':
		return skipBrackets(b, i)
	}
	return scalarEnd(b, i)
}

func skipBrackets(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = stringEnd(b, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// stringEnd returns the index after the closing quote of the string at b[i].
func stringEnd(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for j := i + 1; ; {
		quote := bytes.IndexByte(b[j:], '"')
		if quote < 0 {
			return -1
		}
		j += quote
		slashes := j
		for slashes > i+1 && b[slashes-1] == '\\' {
			slashes--
		}
		if (j-slashes)%2 == 0 {
			return j + 1
		}
		j++
	}
}

// scalarEnd returns the index after the number or literal at b[i]. It looks at the first byte only.
func scalarEnd(b []byte, i int) int {
	switch c := b[i]; {
	case c >= '0' && c <= '9', c == '-', c == 't', c == 'f', c == 'n', c == 'N', c == 'I':
	default:
		return -1
	}
	for i < len(b) {
		switch b[i] {
		case ',', ']', '}', ' ', '\n', '\r', '\t':
			return i
		case '"', '{', '[', ':':
			return -1
		}
		i++
	}
	return i
}

// natural reads a raw JSON value as a whole number from 0 to 2^53. Anything
// else (NaN, a string, a negative number, a fraction) is missing.
func natural(value []byte) (n int, ok bool) {
	if len(value) == 0 || len(value) > 32 {
		return 0, false
	}
	for _, c := range value {
		if c < '0' || c > '9' || n > 1<<49 {
			return naturalFloat(value)
		}
		n = n*10 + int(c-'0')
	}
	return n, n <= 1<<53
}

// naturalFloat reads the spellings 58.0 and 5.8e1.
func naturalFloat(value []byte) (int, bool) {
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(f >= 0 && f <= 1<<53) || f != float64(int(f)) || value[0] < '0' || value[0] > '9' {
		return 0, false
	}
	return int(f), true
}

// naturals reads a raw JSON array of whole numbers; nil where it is something else.
func naturals(value []byte) []int {
	list, ok := []int{}, true
	end := array(value, 0, func(i int) int {
		v, end := raw(value, i)
		n, isNumber := natural(v)
		ok = ok && isNumber
		list = append(list, n)
		return end
	})
	if end < 0 || !ok {
		return nil
	}
	return list
}
