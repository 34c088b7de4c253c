package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestSplice(t *testing.T) {
	f := func(body, want string, edits ...Edit) {
		t.Helper()
		got, err := Splice(nil, []byte(body), edits)
		if err != nil {
			t.Fatalf("Splice(%q): %v", body, err)
		}
		if string(got) != want {
			t.Errorf("Splice(%q)\n got %s\nwant %s", body, got, want)
		}
	}
	zero := Edit{"temperature", []byte("0")}
	f(`{}`, `{"temperature":0}`, zero)
	f(` { } `, ` {"temperature":0 } `, zero)
	f(`{"a":1}`, `{"a":1,"temperature":0}`, zero)
	f(`{"temperature":1}`, `{"temperature":0}`, zero)
	f(`{"temperature":1,"a":2}`, `{"a":2,"temperature":0}`, zero)
	f(`{"a":1, "temperature":1, "b":2}`, `{"a":1,"b":2,"temperature":0}`, zero)
	f(`{"temperature":1,"a":1.0,"temperature":2,"b":1e400,"temperature":3}`, `{"a":1.0,"b":1e400,"temperature":0}`, zero)
	f(`{"\u0074emperature":1,"a":12345678901234567890}`, `{"a":12345678901234567890,"temperature":0}`, zero)                                        // an escaped key is the same key
	f(`{"messages":[{"temperature":1,"c":"\"temperature\":1"}]}`, `{"messages":[{"temperature":1,"c":"\"temperature\":1"}],"temperature":0}`, zero) // only the top level
	f("{\n  \"a\": 1,\n  \"b\": 2\n}\n", "{\n  \"a\": 1,\n  \"b\": 2,\"temperature\":0\n}\n", zero)
	f(`{"a":1,"b":2}`, `{"b":2}`, Edit{Key: "a"})
	f(`{"a":1}`, `{}`, Edit{Key: "a"})
	f(`{"a":1}`, `{"a":3}`, Edit{"a", []byte("2")}, Edit{"a", []byte("3")}) // the later edit counts
	f(`{"a":1}`, `{"a":1,"é\"":3}`, Edit{`é"`, []byte("3")})
	f(`{"a":1}`, `{"a":1}`)
}

func TestSpliceRefuses(t *testing.T) {
	for _, body := range []string{
		``, ` `, `null`, `[1]`, `"a"`, `{`, `{"a"`, `{"a":1`, `{"a":1,}`, `{"a":1}x`, `{"a":1}{`, `{"a":[1,2}`, `{"a":NaN}`,
		`{"a":01}`, `{'a':1}`, "\xef\xbb\xbf{}", `{"a":1 "b":2}`,
	} {
		dst := []byte("before")
		got, err := Splice(dst, []byte(body), []Edit{{"k", []byte("1")}})
		if err == nil {
			t.Errorf("Splice(%q) = %q, want an error", body, got)
		}
		if string(got) != "before" {
			t.Errorf("Splice(%q) left %q in dst, want it as it was", body, got)
		}
	}
}

// checkSplice holds a splice against encoding/json: same members after decoding, ours last and once.
func checkSplice(t *testing.T, body []byte, edits []Edit) {
	t.Helper()
	out, err := Splice(nil, body, edits)
	var want map[string]json.RawMessage
	valid := json.Unmarshal(body, &want) == nil && want != nil
	if err != nil {
		if valid {
			t.Fatalf("Splice(%q) refused what encoding/json takes", body)
		}
		return
	}
	if !valid { // bad escapes and control characters pass; they must stay wrong
		if json.Valid(out) && json.Valid(body) != json.Valid(out) && !lostInvalid(body, edits) {
			t.Fatalf("Splice(%q) made invalid JSON valid: %q", body, out)
		}
		return
	}
	for _, e := range edits {
		delete(want, e.Key)
		if e.Value != nil {
			want[e.Key] = e.Value
		}
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("Splice(%q) = %q: %v", body, out, err)
	}
	if len(got) != len(want) {
		t.Fatalf("Splice(%q) = %q: %d members, want %d", body, out, len(got), len(want))
	}
	for key, value := range want {
		if !bytes.Equal(got[key], value) {
			t.Fatalf("Splice(%q): %q is %s, want %s", body, key, got[key], value)
		}
	}
	for _, e := range edits {
		if n := countKey(t, out, e.Key); e.Value != nil && n != 1 || e.Value == nil && n != 0 {
			t.Fatalf("Splice(%q) = %q: %q stands %d times", body, out, e.Key, n)
		}
	}
}

// lostInvalid reports whether the edits delete the member that made body invalid.
func lostInvalid(body []byte, edits []Edit) bool {
	for _, e := range edits {
		if bytes.Contains(body, []byte(e.Key)) || bytes.IndexByte(body, '\\') >= 0 {
			return true
		}
	}
	return false
}

func countKey(t *testing.T, body []byte, key string) int {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // a number may be too large for a float64
	n, depth, wantKey := 0, 0, false
	for {
		token, err := d.Token()
		if err != nil {
			return n
		}
		switch v := token.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
			} else {
				depth--
			}
			wantKey = depth == 1
			continue
		case string:
			if depth == 1 && wantKey {
				if v == key {
					n++
				}
				wantKey = false
				continue
			}
		}
		wantKey = depth == 1
	}
}

func FuzzSplice(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"b":[1,{"a":2}],"a":"x"}`, ` {"\u0061" : 1 , "c":null } `, `{"a":1,"b":2}`, `{"b":{"a":"\"a\":1"},"a":tru}`, string(chatBody(200)),
		"{\"a\":\"\n\"}", `{"a":"\x"}`, `{"":1,"":2}`,
	} {
		f.Add([]byte(seed), "a", []byte("7"), "b")
	}
	f.Fuzz(func(t *testing.T, body []byte, key string, value []byte, deleted string) {
		if !json.Valid(value) {
			value = []byte(`{"x":1}`)
		}
		value = bytes.TrimSpace(value) // read back, a value has no space around it
		if strings.ToValidUTF8(key, "") != key {
			key = "key"
		}
		edits := []Edit{{key, value}}
		if deleted != key && strings.ToValidUTF8(deleted, "") == deleted {
			edits = append(edits, Edit{Key: deleted})
		}
		checkSplice(t, body, edits)
	})
}

// chatBody is a chat request with about size bytes.
func chatBody(size int) []byte {
	head := `{"model":"smollm2","messages":[{"role":"system","content":"You are helpful."},{"role":"user","content":"`
	tail := `"}],"temperature":0.7,"max_tokens":128,"top_p":0.9,"stream":true,"stop":["\n\n"]}`
	text := strings.Repeat("Say \\\"why\\\" the sky is blue. ", size/29+1)
	return fmt.Appendf(nil, "%s%s%s", head, text[:max(0, (size-len(head)-len(tail))/29*29)], tail)
}

func benchEdits() []Edit {
	return []Edit{{"temperature", []byte("0")}, {"top_p", []byte("1")}, {"top_k", []byte("0")},
		{"stream_options", []byte(`{"include_usage":true}`)}}
}

// The two Splice benchmarks do the same work, so that one run compares them.
func BenchmarkSplice(b *testing.B) {
	body, edits := chatBody(1024), benchEdits()
	dst := make([]byte, 0, 2048)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		out, err := Splice(dst, body, edits)
		if err != nil || len(out) < 1000 {
			b.Fatalf("got %d bytes and error %v", len(out), err)
		}
	}
}

func BenchmarkSpliceEncodingJSON(b *testing.B) {
	body, edits := chatBody(1024), benchEdits()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(body, &m); err != nil {
			b.Fatal(err)
		}
		for _, e := range edits {
			m[e.Key] = e.Value
		}
		if out, err := json.Marshal(m); err != nil || len(out) < 1000 {
			b.Fatalf("got %d bytes and error %v", len(out), err)
		}
	}
}

// Splice allocates nothing where dst has room.
func TestSpliceAllocations(t *testing.T) {
	body, edits, dst := chatBody(1024), benchEdits(), make([]byte, 0, 2048)
	if n := testing.AllocsPerRun(100, func() { _, _ = Splice(dst, body, edits) }); n > 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}
