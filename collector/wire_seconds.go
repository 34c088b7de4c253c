package collector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// seconds is a duration whose JSON is a decimal number of seconds with all its
// nanoseconds, without the rounding of a double.
type seconds time.Duration

// secondsList is a list of such durations. It is one JSON value to
// encoding/json, which would otherwise call a method for each element.
type secondsList []time.Duration

func (m Moment) wire() *seconds {
	if !m.Known {
		return nil
	}
	s := seconds(m.Offset)
	return &s
}

func (s *seconds) moment() Moment {
	if s == nil {
		return Moment{}
	}
	return At(time.Duration(*s))
}

// MarshalJSON implements json.Marshaler.
func (s seconds) MarshalJSON() ([]byte, error) { return appendSeconds(nil, time.Duration(s)), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (s *seconds) UnmarshalJSON(b []byte) error {
	d, err := parseSeconds(string(b))
	*s = seconds(d)
	return err
}

// MarshalJSON implements json.Marshaler.
func (l secondsList) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 2+12*len(l))
	b = append(b, '[')
	for i, d := range l {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendSeconds(b, d)
	}
	return append(b, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler. encoding/json has checked that b is JSON.
func (l *secondsList) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*l = nil
		return nil
	}
	if len(b) < 2 || b[0] != '[' {
		return fmt.Errorf("cannot read %.20q as a list of seconds", b)
	}
	items := bytes.TrimSpace(b[1 : len(b)-1])
	list := secondsList{}
	if len(items) > 0 {
		list = make(secondsList, 0, bytes.Count(items, []byte(","))+1)
	}
	for item := range bytes.SplitSeq(items, []byte(",")) {
		if len(items) == 0 {
			break
		}
		d, err := parseSeconds(string(bytes.TrimSpace(item)))
		if err != nil {
			return err
		}
		list = append(list, d)
	}
	*l = list
	return nil
}

// intList is a list of numbers. It is one JSON value to encoding/json, which takes
// several times as long for an element each.
type intList []int

// UnmarshalJSON implements json.Unmarshaler. encoding/json has checked that b is JSON.
func (l *intList) UnmarshalJSON(b []byte) error {
	if list, ok := plainInts(b); ok {
		*l = list
		return nil
	}
	return json.Unmarshal(b, (*[]int)(l))
}

// plainInts reads a list of numbers of few digits without blanks, as we write it.
func plainInts(b []byte) (list []int, ok bool) {
	const digits = 9
	if len(b) < 3 || b[0] != '[' {
		return nil, false
	}
	list = make([]int, 0, bytes.Count(b, []byte(","))+1)
	n, length := 0, 0
	for _, c := range b[1:] {
		switch {
		case c >= '0' && c <= '9' && length < digits:
			n, length = 10*n+int(c-'0'), length+1
		case (c == ',' || c == ']') && length > 0:
			list, n, length = append(list, n), 0, 0
		default:
			return nil, false
		}
	}
	return list, true
}

// appendSeconds appends d in seconds, with as many decimals as it needs.
func appendSeconds(b []byte, d time.Duration) []byte {
	n := uint64(d)
	if d < 0 {
		b, n = append(b, '-'), -n
	}
	b = strconv.AppendUint(b, n/1e9, 10)
	frac := n % 1e9
	if frac == 0 {
		return b
	}
	b = append(b, '.')
	for div := uint64(1e8); frac > 0; div /= 10 {
		b = append(b, byte('0'+frac/div))
		frac %= div
	}
	return b
}

// parseSeconds reads a decimal number of seconds. Plain decimals are exact;
// exponents and more than nine decimals are rounded to the nanosecond.
func parseSeconds(text string) (time.Duration, error) {
	rest, negative := strings.CutPrefix(text, "-")
	whole, frac, _ := strings.Cut(rest, ".")
	if len(frac) > 9 || strings.ContainsAny(rest, "eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.Abs(f) >= math.MaxInt64/1e9 {
			return 0, fmt.Errorf("cannot read %q as seconds", text)
		}
		return time.Duration(math.Round(f * 1e9)), nil
	}
	n, err := strconv.ParseUint(whole+frac+"000000000"[len(frac):], 10, 64)
	if err != nil || whole == "" || n > math.MaxInt64 && !(negative && n == 1<<63) {
		return 0, fmt.Errorf("cannot read %q as seconds", text)
	}
	if negative {
		n = -n
	}
	return time.Duration(n), nil
}
