package proxy

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// What surelyPlain says of an event is what look says of it, and it says it of
// most events of a stream.
func TestSurelyPlain(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("tap", "testdata", "vllm-0.32", "*", "response.raw"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	all, plain := 0, 0
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range bytes.Split(raw, []byte("data: ")) {
			unit, _, ok := bytes.Cut(part, []byte("\n\n"))
			if !ok {
				continue
			}
			unit = append(append([]byte("data: "), unit...), "\n\n"...)
			e := look(unit)
			if e.filled && !e.hasUsage && !e.finish {
				all++
			}
			if surelyPlain(unit) {
				plain++
				if !e.filled || e.hasUsage || e.finish {
					t.Errorf("%s: look says %+v of %q", path, e, unit)
				}
			}
		}
	}
	if plain < all*9/10 || all < 100 {
		t.Errorf("%d of %d plain events are seen as such", plain, all)
	}
}

// Near misses are left to look.
func TestSurelyPlainNearMisses(t *testing.T) {
	f := func(data string, want bool) {
		t.Helper()
		if got := surelyPlain([]byte("data: " + data + "\n\n")); got != want {
			t.Errorf("%s: got %v, want %v", data, got, want)
		}
	}
	f(`{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}`, true)
	f(`{"choices":[{"delta":{"content":"\"finish_reason\":\"stop\", \"usage\":{}"},"finish_reason":null}]}`, true) // in a text
	f(`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, false)
	f(`{"choices":[{"finish_reason":null},{"finish_reason":"stop"}]}`, false) // two choices
	f(`{"choices":[{"finish_reason":null}],"usage":{"n":1}}`, false)
	f(`{"choices":[{"finish_reason":null}],"usage":null}`, false)
	f(`{"choices":[{"finish_reason": null}]}`, false)     // another spelling
	f(`{"choices":[{"delta":{}}]}`, false)                // says nothing of the finish
	f(`{"choices":[],"usage":{"n":1}}`, false)            // the usage event
	f(`{"choices":[],"x":{"finish_reason":null}}`, false) // no choice
	f(`[DONE]`, false)
}
