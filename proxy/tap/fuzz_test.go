package tap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"spectap/collector"
)

// seedBodies are streams of real servers, documented shapes and the spellings of the grammar.
func seedBodies(t testing.TB) (bodies [][]byte) {
	t.Helper()
	for _, name := range []string{"nd-chat-stream-cont-tokids", "bf-chat-tools-required", "nd-chat-stream-stop", "bf-load-01", "dd-chat-unicode", "nd-responses-stream", "nd-messages-stream", "nd-kill9-api"} {
		c, ok := readCapture(t, filepath.Join("testdata", "vllm-0.32", name))
		if !ok {
			t.Fatal(name)
		}
		bodies = append(bodies, c.body)
	}
	shapes, err := filepath.Glob(filepath.Join("testdata", "shapes", "*.sse"))
	if err != nil || len(shapes) == 0 {
		t.Fatal("no shapes", err)
	}
	for _, f := range shapes {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, b)
	}
	lf := roleEvent + hiEvent + finishEvent + usageEvent + doneEvent
	return append(bodies,
		[]byte(strings.ReplaceAll(lf, "\n", "\r\n")), []byte(strings.ReplaceAll(lf, "\n", "\r")),
		[]byte("\xef\xbb\xbf"+strings.ReplaceAll(lf, "data: ", ": c\ndata:")), []byte(strings.ReplaceAll(lf, ",", ",\ndata: ")),
		[]byte(strings.TrimRight(lf, "\n")), []byte(`{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}`))
}

// readPieces shows a Tap the pieces, all at one time, and returns the Record without what follows
// the cuts by definition.
func readPieces(o Options, media string, clean bool, pieces ...[]byte) *collector.Record {
	t := New(o)
	t.Head(200, media, "")
	for _, p := range pieces {
		t.Observe(time.Second, bytes.Clone(p))
	}
	t.End(time.Second, clean)
	r := &collector.Record{}
	t.Fill(r)
	for i := range r.Chunks {
		r.Chunks[i].Shared = false
	}
	return r
}

func fuzzOptions(kind byte) (o Options, media string, clean bool) {
	o = Options{Route: Route(kind % 5), KeepText: true, MaxEvent: 1 << 14}
	media = []string{"text/event-stream", "application/json", ""}[kind/5%3]
	return o, media, kind&64 == 0
}

// FuzzCuts: wherever the network cuts the stream, the Record is the same.
func FuzzCuts(f *testing.F) {
	for _, b := range seedBodies(f) {
		for kind := range byte(5) {
			f.Add(b, kind, uint16(len(b)/2), uint16(1))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, kind byte, at, size uint16) {
		o, media, clean := fuzzOptions(kind)
		want := readPieces(o, media, clean, body)
		check := func(what string, pieces ...[]byte) {
			t.Helper()
			if got := readPieces(o, media, clean, pieces...); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: got %+v\nwant %+v", what, got, want)
			}
		}
		cut := min(int(at), len(body))
		check(fmt.Sprintf("cut at %d", cut), body[:cut], body[cut:])
		check("cut into pieces", slices.Collect(slices.Chunk(body, 1+int(size)%997))...)
	})
}

// TestEveryCut cuts the seeds at every byte, and into pieces of several sizes.
func TestEveryCut(t *testing.T) {
	for i, body := range seedBodies(t) {
		for _, route := range seedRoutes(body) {
			o := Options{Route: route, KeepText: true}
			want := readPieces(o, "", true, body)
			for cut := range body {
				if got := readPieces(o, "", true, body[:cut], body[cut:]); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d, route %d, cut at %d: got %+v\nwant %+v", i, route, cut, got, want)
				}
			}
			for _, size := range []int{1, 2, 3, 5, 7, 64, 339} {
				if got := readPieces(o, "", true, slices.Collect(slices.Chunk(body, size))...); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d, route %d, size %d: got %+v\nwant %+v", i, route, size, got, want)
				}
			}
		}
	}
}

// seedRoutes returns the routes whose answer a body looks like.
func seedRoutes(body []byte) []Route {
	switch {
	case bytes.Contains(body, []byte("response.created")):
		return []Route{RouteResponses}
	case bytes.Contains(body, []byte("message_start")):
		return []Route{RouteMessages}
	case bytes.Contains(body, []byte("text_completion")):
		return []Route{RouteCompletions}
	}
	return []Route{RouteChat}
}

// FuzzTap: whatever comes, the tap neither panics nor holds more than it may, and its Record is
// consistent.
func FuzzTap(f *testing.F) {
	for _, b := range seedBodies(f) {
		f.Add(b, byte(1))
		f.Add(b, byte(6))
	}
	for _, s := range []string{`{"choices":[{"index":-1,"delta":{"content":"\ud800"}}],"usage":{"completion_tokens":1e400}}`,
		`{"choices":{"index":0},"usage":[],"metrics":7,"sglext":"x","timings":[]}`, `{"error":{}}`, `{"a":`, "[[[[", `{"choices":[[],{},1,null]}`,
		`{"metrics":{"speculative_decoding":{"acceptance_histogram":{"99999999":1,"-1":2}}}}`} {
		f.Add([]byte("data: "+s+"\n\n"), byte(1))
		f.Add([]byte(s), byte(6))
	}
	f.Fuzz(func(t *testing.T, body []byte, kind byte) {
		o, media, clean := fuzzOptions(kind)
		r := readPieces(o, media, clean, body)
		if r.FirstOutput.Known != (len(r.Chunks) > 0) {
			t.Errorf("first output %+v of %d chunks", r.FirstOutput, len(r.Chunks))
		}
		for _, c := range r.Chunks {
			if c.Tokens < 0 || c.Choice < 0 || c.At != time.Second {
				t.Errorf("chunk %+v", c)
			}
		}
		if (r.Spec == nil) != (r.SpecMissing != "") {
			t.Errorf("block %v, reason %q", r.Spec, r.SpecMissing)
		}
		if len(r.Warnings) > 32 || len(r.Reply)+len(r.Reasoning) > 3*o.MaxEvent {
			t.Errorf("%d warnings, %d bytes of text", len(r.Warnings), len(r.Reply)+len(r.Reasoning))
		}
	})
}

// FuzzWalk holds the lenient walker against encoding/json on what is valid JSON.
func FuzzWalk(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,{"b":"c"}],"d":"x\\\"}"}`, `[]`, ` { "a" : null , "b" : -0.5E-7 } `, `"x\\"`, `{"a":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !json.Valid(b) {
			skip(b, Space(b, 0)) // must not panic
			return
		}
		start := Space(b, 0)
		if end := skip(b, start); end < 0 || Space(b, end) != len(b) {
			t.Fatalf("%q: skip ended at %d", b, end)
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(b, &want) != nil || want == nil {
			return
		}
		got := map[string]json.RawMessage{}
		object(b, start, func(key []byte, i int) int {
			end := skip(b, i)
			var name string
			if err := json.Unmarshal([]byte(`"`+string(key)+`"`), &name); err != nil {
				t.Fatal(err)
			}
			got[name] = b[i:end]
			return end
		})
		if len(got) != len(want) {
			t.Fatalf("%q: got %d members, want %d", b, len(got), len(want))
		}
		for name, value := range want {
			if !bytes.Equal(bytes.TrimSpace(value), got[name]) {
				t.Errorf("%q: got %q, want %q", name, got[name], value)
			}
		}
	})
}

// FuzzText holds appendText against encoding/json on valid strings.
func FuzzText(f *testing.F) {
	for _, s := range []string{`"a\n\t\"\\\/\b\f\r"`, `"\u00e9\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d\u0041"`, `"é😀"`, `"\ud83d\ud83d\ude00"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := text(b)
		var want string
		if !utf8.Valid(b) || len(b) == 0 || b[0] != '"' || json.Unmarshal(b, &want) != nil || b[len(b)-1] != '"' {
			return
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", b, got, want)
		}
	})
}
