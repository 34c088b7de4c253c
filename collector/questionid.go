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
