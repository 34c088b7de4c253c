package fakevllm

import (
	"encoding/json"
	"testing"
)

// stream is read as pydantic reads a bool.
func TestStreamSpellings(t *testing.T) {
	f := func(text string, want bool) {
		t.Helper()
		var q request
		if err := json.Unmarshal([]byte(`{"stream": `+text+`}`), &q); err != nil || q.streams() != want {
			t.Errorf("stream %s: got %v, %v; want %v", text, q.streams(), err, want)
		}
	}
	for _, text := range []string{`true`, `"true"`, `1`, `1.0`, `"1"`, `"ON"`, `"yes"`, `"T"`, `"y"`} {
		f(text, true)
	}
	for _, text := range []string{`false`, `null`, `0`, `"off"`, `"no"`} {
		f(text, false)
	}
}
