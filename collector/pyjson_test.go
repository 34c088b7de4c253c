package collector

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// jsonValue draws a value of AppendIndented that is made of floats, text, bools,
// nil, lists and objects, at most depth deep.
func jsonValue(t *rapid.T, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Float64Range(-1e300, 1e300).Draw(t, "float")
	case 3:
		return rapid.String().Draw(t, "string")
	case 4:
		list := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "items") {
			list = append(list, jsonValue(t, depth-1))
		}
		return list
	}
	o := Object{}
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		o.Set(rapid.String().Draw(t, "key"), jsonValue(t, depth-1))
	}
	return o
}

// plain is what encoding/json decodes the text of a value to.
func plain(v any) any {
	switch v := v.(type) {
	case Object:
		m := map[string]any{}
		for _, member := range v {
			m[member.Key] = plain(member.Value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = plain(item)
		}
		return list
	}
	return v
}

// TestPyJSONDecodes: encoding/json reads back what was written, both layouts are
// one text but for blanks, and decoding in order writes the same bytes again.
func TestPyJSONDecodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := jsonValue(t, 3)
		compact, indented := AppendCompact(nil, v), AppendIndented(nil, v)
		for _, text := range [][]byte{compact, indented} {
			var got any
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if want := plain(v); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: got %#v, want %#v", text, got, want)
			}
		}
		again, err := DecodeOrdered(indented)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendCompact(nil, again); !bytes.Equal(got, compact) {
			t.Fatalf("got %s, want %s", got, compact)
		}
		if bytes.ContainsFunc(compact, func(r rune) bool { return r > 0x7e || r < 0x20 }) {
			t.Fatalf("%q is not printable ASCII", compact)
		}
		var squeezed [2]bytes.Buffer
		if json.Compact(&squeezed[0], compact) != nil || json.Compact(&squeezed[1], indented) != nil || squeezed[0].String() != squeezed[1].String() {
			t.Fatalf("%s and %s are not one text", compact, indented)
		}
	})
}

func TestPyJSONLayout(t *testing.T) {
	f := func(v any, compact, indented string) {
		t.Helper()
		if got := string(AppendCompact(nil, v)); got != compact {
			t.Errorf("got %s, want %s", got, compact)
		}
		if got := string(AppendIndented(nil, v)); got != indented {
			t.Errorf("got %s, want %s", got, indented)
		}
	}
	f(Object{}, "{}", "{}")
	f([]any{}, "[]", "[]")
	f([]string(nil), "[]", "[]")
	f([]int{1, -2}, "[1, -2]", "[\n    1,\n    -2\n]")
	f(Object{{"a", []string{"b"}}, {"c", Object{}}}, `{"a": ["b"], "c": {}}`, "{\n    \"a\": [\n        \"b\"\n    ],\n    \"c\": {}\n}")
	f(int64(1)<<53+1, "9007199254740993", "9007199254740993")
	f(json.RawMessage(` {"b":1,"a":1.0,"b":2e0} `), `{"b": 2.0, "a": 1.0}`, "{\n    \"b\": 2.0,\n    \"a\": 1.0\n}") // a Python dict: first place, last value
	f(json.RawMessage(nil), "null", "null")
	f(json.RawMessage(`{broken`), `"{broken"`, `"{broken"`)                                 // never an invalid file
	f("a\xffb\xed\xa0\x80", `"a\ufffdb\ufffd\ufffd\ufffd"`, `"a\ufffdb\ufffd\ufffd\ufffd"`) // not UTF-8
	f(json.RawMessage(`"\ud800x"`), `"\ufffdx"`, `"\ufffdx"`)                               // a lone surrogate
}

func TestDecodeOrderedRefuses(t *testing.T) {
	for _, text := range []string{"", "{", "[1,]", "1 2", "{\"a\" 1}", "nan", "'a'", strings.Repeat("[", 20000)} {
		if v, err := DecodeOrdered([]byte(text)); err == nil {
			t.Errorf("%.20q: got %v, want an error", text, v)
		}
	}
}

// FuzzPyJSON: any JSON text is accepted exactly where encoding/json accepts it,
// and what is written from it decodes, and writes, the same again.
func FuzzPyJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.50,-0,1e400,"\ud800"],"a":null}`, `"\u2028"`, `[[],{}]`, `{"":{"":""}}`, "\"\xff\"", `1E5`, `nul`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := DecodeOrdered(text)
		if (err == nil) != json.Valid(text) {
			t.Fatalf("got error %v, json.Valid says %v", err, json.Valid(text))
		}
		if err != nil {
			return
		}
		compact := AppendCompact(nil, v)
		if bytes.Contains(compact, []byte("Infinity")) { // beyond a double, or a text that says so
			return
		}
		again, err := DecodeOrdered(AppendIndented(nil, v))
		if err != nil {
			t.Fatalf("cannot read back %s: %v", compact, err)
		}
		if got := AppendCompact(nil, again); !bytes.Equal(got, compact) {
			t.Fatalf("got %s, want %s", got, compact)
		}
		var mine, theirs any
		if json.Unmarshal(compact, &mine) == nil && json.Unmarshal(text, &theirs) == nil && !reflect.DeepEqual(mine, theirs) {
			t.Fatalf("%q became %s", text, compact)
		}
	})
}
