package collector

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// Member is one key and value of an Object.
type Member struct {
	Key   string
	Value any
}

// Object is a JSON object that keeps the order of its members, as a Python dict
// does. A value is nil, bool, int, int64, float64, json.Number, string, Object,
// []any, []string, []int or json.RawMessage.
type Object []Member

// Get returns the value of the last member with this key.
func (o Object) Get(key string) (any, bool) {
	for i := len(o) - 1; i >= 0; i-- {
		if o[i].Key == key {
			return o[i].Value, true
		}
	}
	return nil, false
}

// Set gives a key a value. A key that exists keeps its place, as in a Python dict.
func (o *Object) Set(key string, value any) {
	for i := range *o {
		if (*o)[i].Key == key {
			(*o)[i].Value = value
			return
		}
	}
	*o = append(*o, Member{key, value})
}

// pyLayout is what tells json.dump's two layouts apart.
type pyLayout struct {
	indented bool
}

// AppendIndented appends v as Python's json.dump(v, indent=4) writes it: 4
// spaces a level, no newline at the end. Source: CPython Lib/json/encoder.py.
func AppendIndented(dst []byte, v any) []byte { return pyLayout{indented: true}.value(dst, v, 0) }

// AppendCompact appends v as Python's json.dumps(v) writes it, with ", " and
// ": " as separators. Source: CPython Lib/json/encoder.py.
func AppendCompact(dst []byte, v any) []byte { return pyLayout{}.value(dst, v, 0) }

func (l pyLayout) value(dst []byte, v any, level int) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float64:
		return appendPyFloat(dst, v)
	case json.Number:
		return appendPyNumber(dst, v)
	case string:
		return appendPyString(dst, v)
	case json.RawMessage:
		return l.raw(dst, v, level)
	}
	return l.container(dst, v, level)
}

func (l pyLayout) container(dst []byte, v any, level int) []byte {
	switch v := v.(type) {
	case Object:
		return l.object(dst, v, level)
	case []any:
		return appendPyList(l, dst, v, level)
	case []string:
		return appendPyList(l, dst, v, level)
	case []int:
		return appendPyList(l, dst, v, level)
	case []Object:
		return appendPyList(l, dst, v, level)
	}
	panic(fmt.Sprintf("BUG: cannot write a %T as JSON", v))
}

// raw writes JSON text in Python's layout. Text that is not JSON is written as a string.
func (l pyLayout) raw(dst []byte, text json.RawMessage, level int) []byte {
	if len(text) == 0 {
		return append(dst, "null"...)
	}
	v, err := DecodeOrdered(text)
	if err != nil {
		return appendPyString(dst, string(text))
	}
	return l.value(dst, v, level)
}

func (l pyLayout) object(dst []byte, o Object, level int) []byte {
	if len(o) == 0 {
		return append(dst, "{}"...)
	}
	dst = append(dst, '{')
	for i, m := range o {
		dst = l.separator(dst, i, level+1)
		dst = appendPyString(dst, m.Key)
		dst = append(dst, ": "...)
		dst = l.value(dst, m.Value, level+1)
	}
	return append(l.newline(dst, level), '}')
}

func appendPyList[T any](l pyLayout, dst []byte, items []T, level int) []byte {
	if len(items) == 0 {
		return append(dst, "[]"...)
	}
	dst = append(dst, '[')
	for i, item := range items {
		dst = l.separator(dst, i, level+1)
		dst = l.value(dst, item, level+1)
	}
	return append(l.newline(dst, level), ']')
}

// separator goes in front of item i of a container whose items stand on a level.
func (l pyLayout) separator(dst []byte, i, level int) []byte {
	if i > 0 {
		dst = append(dst, ',')
		if !l.indented {
			dst = append(dst, ' ')
		}
	}
	return l.newline(dst, level)
}

func (l pyLayout) newline(dst []byte, level int) []byte {
	if !l.indented {
		return dst
	}
	dst = append(dst, '\n')
	for range level {
		dst = append(dst, "    "...)
	}
	return dst
}

// appendPyFloat appends repr(f): the shortest text that reads back to f, in
// exponent form if the decimal exponent is below -4 or at least 16, with ".0"
// where there would be no point. Infinities and NaN are written as json.dump
// does, although JSON has no such text. Source: CPython Python/pystrtod.c
// (format code 'r') and Lib/json/encoder.py (floatstr).
func appendPyFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	for _, c := range dst[start:] {
		if c == '.' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

// appendPyNumber appends what json.dump makes of a number that json.load read:
// text without point and exponent is an integer of any size, other text a double.
func appendPyNumber(dst []byte, n json.Number) []byte {
	for i := range len(n) {
		if c := n[i]; c == '.' || c == 'e' || c == 'E' {
			f, _ := strconv.ParseFloat(string(n), 64) // out of range gives an infinity, as in Python
			return appendPyFloat(dst, f)
		}
	}
	if n == "-0" {
		n = "0"
	}
	return append(dst, n...)
}

const lowerHex = "0123456789abcdef"

// appendPyString appends a JSON string of ASCII characters only; what is not
// UTF-8 becomes U+FFFD. Source: CPython Modules/_json.c (ascii_escape_unicode).
func appendPyString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			dst = appendPyASCII(dst, c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		if r > 0xffff {
			dst = appendPyEscape(dst, 0xd800+(r-0x10000)>>10)
			r = 0xdc00 + (r-0x10000)&0x3ff
		}
		dst = appendPyEscape(dst, r)
	}
	return append(dst, '"')
}

func appendPyASCII(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	}
	if c < 0x20 || c == 0x7f {
		return appendPyEscape(dst, rune(c))
	}
	return append(dst, c)
}

func appendPyEscape(dst []byte, unit rune) []byte {
	return append(dst, '\\', 'u', lowerHex[unit>>12&0xf], lowerHex[unit>>8&0xf], lowerHex[unit>>4&0xf], lowerHex[unit&0xf])
}
