package collector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// DecodeOrdered reads JSON text and keeps what Python's json.load keeps: the
// order of the members, and which number is an integer. It returns Object,
// []any, json.Number, string, bool or nil. A repeated key keeps its first place
// and its last value, as in a Python dict.
func DecodeOrdered(text []byte) (any, error) {
	if !json.Valid(text) {
		return nil, invalidJSON(text)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := decodeValue(d)
	if err != nil {
		return nil, fmt.Errorf("cannot parse JSON: %w", err)
	}
	return v, nil
}

// invalidJSON says what is wrong with text that is not one JSON value.
func invalidJSON(text []byte) error {
	var v json.RawMessage
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("cannot parse JSON: %w", err)
	}
	return errors.New("cannot parse JSON: not one JSON value")
}

func decodeValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return decodeObject(d)
	case json.Delim('['):
		return decodeList(d)
	}
	return token, nil
}

func decodeObject(d *json.Decoder) (any, error) {
	o := Object{}
	places := map[string]int{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := decodeValue(d)
		if err != nil {
			return nil, err
		}
		key := token.(string) // the decoder lets nothing else stand here
		if i, ok := places[key]; ok {
			o[i].Value = v
			continue
		}
		places[key] = len(o)
		o = append(o, Member{key, v})
	}
	_, err := d.Token()
	return o, err
}

func decodeList(d *json.Decoder) (any, error) {
	list := []any{}
	for d.More() {
		v, err := decodeValue(d)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, err
}
