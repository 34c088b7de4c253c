package collector

import (
	"encoding/json"
	"math/big"
	"strings"
)

// idKey is the text of a question id as the key of a JSON object: a string as it
// is, anything else as json.dump writes it ("81", "null", "true").
func idKey(id json.RawMessage) string {
	v, err := DecodeOrdered(id)
	if err != nil {
		return strings.TrimSpace(idText(id))
	}
	if s, ok := v.(string); ok {
		return s
	}
	return string(AppendCompact(nil, v))
}

// idIdentity tells question ids apart as a Python dict does: 1 and 1.0 are one
// key, 1 and "1" are two.
func idIdentity(id json.RawMessage) string {
	if text, ok := plainIdentity(id); ok {
		return text
	}
	v, err := DecodeOrdered(id)
	if err != nil {
		return idText(id)
	}
	switch v := v.(type) {
	case string:
		return `"` + v
	case json.Number:
		return numberIdentity(v)
	case bool:
		if v {
			return "1"
		}
		return "0"
	}
	return string(AppendCompact(nil, v))
}

// plainIdentity is idIdentity of the two spellings that nearly all ids have, which
// need no parser: a whole number, and a text of ASCII without escapes.
func plainIdentity(id json.RawMessage) (text string, ok bool) {
	n := len(id)
	switch {
	case n == 0:
		return "", false
	case id[0] >= '1' && id[0] <= '9':
		for _, c := range id {
			if c < '0' || c > '9' {
				return "", false
			}
		}
		return string(id), true
	case n < 2 || id[0] != '"' || id[n-1] != '"':
		return "", false
	}
	for _, c := range id[1 : n-1] {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return "", false
		}
	}
	return string(id[:n-1]), true
}

// numberIdentity is the exact value of a number, as a fraction.
func numberIdentity(n json.Number) string {
	if i, ok := new(big.Int).SetString(string(n), 10); ok {
		return i.String()
	}
	f, err := n.Float64()
	if r := new(big.Rat).SetFloat64(f); err == nil && r != nil {
		return r.RatString()
	}
	return string(n)
}
