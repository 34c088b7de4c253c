package report

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// none is what a table shows where there is no value.
const none = "–"

// fixed writes a number with so many decimals and thousands apart.
func fixed(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return none
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	whole, rest, _ := strings.Cut(text, ".")
	if rest != "" {
		rest = "." + rest
	}
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "−", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if sign != "" && strings.Trim(whole+rest, "0.,") == "" {
		sign = "" // no minus zero
	}
	return sign + whole + rest
}

// rate writes tokens per second: three digits at least.
func rate(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		return fixed(v, 0)
	case a >= 100:
		return fixed(v, 1)
	default:
		return fixed(v, 2)
	}
}

// seconds writes a duration with its unit, three digits at least.
func seconds(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return none
	case a >= 100:
		return fixed(v, 0) + " s"
	case a >= 1:
		return fixed(v, 2) + " s"
	case a >= 0.1:
		return fixed(v*1e3, 0) + " ms"
	case a >= 0.01:
		return fixed(v*1e3, 1) + " ms"
	default:
		return fixed(v*1e3, 2) + " ms"
	}
}

// milliseconds writes a duration in ms without the unit, for a column that names it.
func milliseconds(v float64) string {
	switch a := math.Abs(v) * 1e3; {
	case a >= 100:
		return fixed(v*1e3, 0)
	case a >= 10:
		return fixed(v*1e3, 1)
	default:
		return fixed(v*1e3, 2)
	}
}

func percent(v float64) string { return fixed(100*v, 1) + " %" }

// count writes a whole number with thousands apart.
func count(n int) string { return fixed(float64(n), 0) }

// counted is a number and its noun: "1 request", "2 requests".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// visible keeps characters that can be seen, and blanks. Control characters, those
// that turn the direction of writing among them, become U+FFFD.
func visible(r rune) rune {
	if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
		return '\uFFFD'
	}
	return r
}

// short cuts a text that is longer than n characters.
func short(s string, n int) string {
	s = strings.Map(visible, strings.ToValidUTF8(s, "\uFFFD"))
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	runes := []rune(s)
	return strings.TrimSpace(string(runes[:n-1])) + "…"
}

// sentence begins a text with a capital and ends it with a full stop.
func sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(s[size:], ".") + "."
}

// list joins texts as a sentence does.
func list(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}
