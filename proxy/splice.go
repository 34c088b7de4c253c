package proxy

import (
	"bytes"
	"encoding/json"
	"slices"

	"spectap/proxy/tap"
)

// Edit sets or deletes one top-level member of a JSON object.
type Edit struct {
	Key   string
	Value []byte // raw JSON; nil deletes the member
}

// Splice appends body, a JSON object, to dst with the edits made, in one pass
// and without decoding a value: order, spelling of numbers and white space of
// all other members stay. Every member that an edit names is removed, also
// duplicates and keys spelled with escapes, and ours follow once, at the end:
// Python's parser takes the last of duplicates, stricter ones refuse them. Of
// two edits of one key the later counts. An error means that body is no JSON
// object; dst then comes back as it was, and the caller forwards body itself.
func Splice(dst, body []byte, edits []Edit) ([]byte, error) {
	start := len(dst)
	open := tap.Space(body, 0)
	run, last := open+1, open+1 // body[run:last] is kept and not yet copied
	kept, dropping := 0, false
	dst = slices.Grow(dst, len(body)+roomOf(edits))
	dst = append(dst, body[:min(open+1, len(body))]...)
	end, err := tap.Members(body, open, func(key, _ []byte, from, to int) bool {
		if findEdit(edits, key) >= 0 {
			dst = appendRun(dst, body[run:last], &kept)
			run, last, dropping = to, to, true
			return true
		}
		if dropping {
			run, dropping = from, false
		}
		last = to
		return true
	})
	if err != nil || tap.Space(body, end) != len(body) {
		return dst[:start], tap.ErrJSON
	}
	if !dropping {
		dst = appendRun(dst, body[run:last], &kept)
	}
	dst = appendEdits(dst, edits, kept > 0)
	return append(dst, body[tailStart(body, end):]...), nil
}

// appendRun appends members that stand together in the body, with the comma before them.
func appendRun(dst, run []byte, kept *int) []byte {
	if len(run) == 0 {
		return dst
	}
	if *kept > 0 {
		dst = append(dst, ',')
	}
	*kept++
	return append(dst, run...)
}

// tailStart returns where the white space before the closing brace, which stands before end, begins.
func tailStart(body []byte, end int) int {
	i := end - 1
	for body[i-1] == ' ' || body[i-1] == '\n' || body[i-1] == '\r' || body[i-1] == '\t' {
		i--
	}
	return i
}

func appendEdits(dst []byte, edits []Edit, comma bool) []byte {
	for i, e := range edits {
		if e.Value == nil || editOf(edits[i+1:], e.Key) >= 0 {
			continue
		}
		if comma {
			dst = append(dst, ',')
		}
		comma = true
		dst = appendKey(dst, e.Key)
		dst = append(append(dst, ':'), e.Value...)
	}
	return dst
}

// roomOf returns the most bytes that edits add.
func roomOf(edits []Edit) (n int) {
	for _, e := range edits {
		n += len(e.Key) + len(e.Value) + len(`,"":`)
	}
	return n
}

// findEdit returns the index of the edit for a raw key, or -1.
func findEdit(edits []Edit, raw []byte) int {
	for _, c := range raw {
		if c == '\\' {
			return editOf(edits, unescape(raw))
		}
	}
	for i := range edits {
		if string(raw) == edits[i].Key {
			return i
		}
	}
	return -1
}

func editOf(edits []Edit, key string) int {
	for i := range edits {
		if edits[i].Key == key {
			return i
		}
	}
	return -1
}

// unescape decodes the text between the quotes of a JSON string. What cannot be decoded is returned as it is.
func unescape(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	quoted := make([]byte, 0, len(raw)+2)
	quoted = append(append(append(quoted, '"'), raw...), '"')
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return string(raw)
	}
	return s
}

// appendKey appends a key in quotes. A quote, backslash or control character in it is escaped.
func appendKey(dst []byte, key string) []byte {
	for i := 0; i < len(key); i++ {
		if key[i] < 0x20 || key[i] == '"' || key[i] == '\\' || key[i] >= 0x80 {
			quoted, err := json.Marshal(key)
			if err != nil {
				panic("BUG: cannot encode a string: " + err.Error())
			}
			return append(dst, quoted...)
		}
	}
	return append(append(append(dst, '"'), key...), '"')
}
