package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// capture returns the body of a captured answer without its chunked framing.
func capture(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "cut", name+".raw"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// cutAt feeds a stream in two parts at each index of cuts and releases the rest.
func cutAt(asked Asked, stream []byte, cuts ...int) []byte {
	var c Cutter
	c.Reset(asked)
	var out []byte
	last := 0
	for _, cut := range append(cuts, len(stream)) {
		in := bytes.Clone(stream[last:cut])
		out = c.Feed(out, in)
		for i := range in {
			in[i] = '#' // the Cutter must have kept its own copy
		}
		last = cut
	}
	return c.Release(out)
}

var volatileMembers = regexp.MustCompile(`("id":"|"created":)[^",]+`)

// masked is a capture without what differs from request to request.
func masked(t *testing.T, name string) []byte {
	t.Helper()
	return volatileMembers.ReplaceAll(capture(t, name), []byte("${1}0"))
}

// The injected stream, cut, equals the stream that the server sends uninjected
// to the same request: bytes of vLLM 0.32.0, only id and created masked.
func TestCutEqualsUninjected(t *testing.T) {
	f := func(injected, plain string, asked Asked) {
		t.Helper()
		in, want := masked(t, injected), masked(t, plain)
		for cut := 0; cut <= len(in); cut++ {
			if got := cutAt(asked, in, cut); !bytes.Equal(got, want) {
				t.Fatalf("%s cut at %d differs from %s:\n got %s\nwant %s", injected, cut, plain, got, want)
			}
		}
	}
	usage, tokens := Asked{Usage: true}, Asked{Usage: true, Continuous: true}
	f("nd-chat-stream-usage", "nd-chat-stream-nousage", usage)
	f("nd-chat-stream-cont", "nd-chat-stream-nousage", tokens)
	f("nd-chat-stream-cont", "nd-chat-stream-usage", Asked{Continuous: true}) // the client asked for the final event itself
	f("nd-chat-stream-usage", "nd-chat-stream-optempty", usage)
	f("nd-chat-stream-cont", "nd-chat-stream-contonly", tokens) // alone it yields nothing on vLLM
	f("nd-comp-stream-usage", "nd-comp-stream-nousage", usage)
	f("nd-comp-stream-cont", "nd-comp-stream-nousage", tokens)
	f("nd-comp-stream-cont", "nd-comp-stream-contonly", tokens)
	f("nd-comp-stream-cont", "nd-comp-stream-usage", Asked{Continuous: true})
	f("nd-chat-minp-t1-stream", "nd-chat-minp-t1-stream", tokens) // an error in the stream
	f("bf-chat-stream-noopts", "bf-chat-stream-noopts", usage)    // the server sends usage unasked
	f("bf-chat-stream-noopts", "bf-chat-stream-noopts", Asked{})  // observe
	f("nd-chat-stream-usage", "nd-chat-stream-usage", Asked{})    // the client's own
}

// referenceCut is the plain form of what a Cutter does, over a whole stream,
// with encoding/json.
func referenceCut(asked Asked, stream []byte) []byte {
	if !asked.Usage && !asked.Continuous {
		return stream
	}
	var out []byte
	finish := -1 // where the last finish event starts in out, while only comments have followed it
	own, plain := false, false
	for len(stream) > 0 {
		unit := referenceUnit(stream)
		stream = stream[len(unit):]
		if unit[0] == ':' || unit[0] == '\n' || unit[0] == '\r' || own {
			out = append(out, unit...)
			continue
		}
		data, kind := referenceKind(unit)
		switch {
		case kind.usage && !kind.filled && kind.empty && asked.Usage:
			if finish >= 0 {
				out = append(out[:finish:finish], referencePutBack(out[finish:], data)...)
			}
			finish = -1
			continue
		case kind.usage && kind.filled && (!kind.finish || !plain) && !asked.Continuous && !asked.KeepEvents:
			own = true
		case kind.usage && kind.filled && asked.Continuous:
			unit = referenceDrop(unit, asked.NullUsage)
		}
		plain = plain || kind.filled && !kind.usage
		finish = -1
		if kind.finish && asked.Usage && !own {
			finish = len(out)
		}
		out = append(out, unit...)
	}
	return out
}

// referenceUnit returns the comment line, blank line or event that stream starts with.
func referenceUnit(stream []byte) []byte {
	for at, first := 0, true; at < len(stream); first = false {
		end := len(stream)
		if i := bytes.IndexAny(stream[at:], "\r\n"); i >= 0 {
			end = at + i
		}
		next := min(end+1, len(stream))
		if bytes.HasPrefix(stream[end:], []byte("\r\n")) {
			next = end + 2
		}
		if end == at || first && stream[0] == ':' {
			return stream[:next]
		}
		at = next
	}
	return stream
}

type referenceFacts struct{ usage, filled, empty, finish bool }

func referenceKind(unit []byte) (map[string]json.RawMessage, referenceFacts) {
	var data string
	lines := 0
	for line := range strings.SplitSeq(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(unit)), "\n") {
		line = strings.TrimPrefix(line, "\uFEFF")
		if rest, ok := strings.CutPrefix(line, "data:"); ok {
			lines++
			data = rest
		} else if line == "data" || strings.HasPrefix(line, "event") {
			return nil, referenceFacts{}
		}
	}
	var members map[string]json.RawMessage
	if lines != 1 || json.Unmarshal([]byte(data), &members) != nil {
		return nil, referenceFacts{}
	}
	var list []json.RawMessage
	var facts referenceFacts
	isList := len(members["choices"]) > 0 && members["choices"][0] == '[' && json.Unmarshal(members["choices"], &list) == nil
	facts.empty, facts.filled = isList && len(list) == 0, len(list) > 0
	facts.usage = members["usage"] != nil && string(members["usage"]) != "null"
	for _, one := range list {
		var choice map[string]json.RawMessage
		var reason string
		_ = json.Unmarshal(one, &choice)
		if r := choice["finish_reason"]; len(r) > 2 && r[0] == '"' && json.Unmarshal(r, &reason) == nil {
			facts.finish = true
		}
	}
	return members, facts
}

func referencePutBack(held []byte, usage map[string]json.RawMessage) []byte {
	unit := referenceUnit(held)
	members, _ := referenceKind(unit)
	brace := bytes.LastIndexByte(unit, '}')
	out := bytes.Clone(unit[:brace])
	for _, name := range []string{"system_fingerprint", "timings"} {
		if _, has := members[name]; !has && usage[name] != nil && string(usage[name]) != "null" {
			out = fmt.Appendf(out, ",%q:%s", name, usage[name])
		}
	}
	return append(append(out, unit[brace:]...), held[len(unit):]...)
}

// The generated events write usage in these forms only.
var (
	referenceData  = regexp.MustCompile(`(?:\A|[\r\n])(?:\x{FEFF})?data:[^\r\n]*`)
	referenceUsage = regexp.MustCompile(`,\s*"usage"\s*:\s*\{[^{}]*\}|"usage"\s*:\s*\{[^{}]*\}\s*,\s*`)
	referenceNull  = regexp.MustCompile(`("usage"\s*:\s*)\{[^{}]*\}`)
)

func referenceDrop(unit []byte, null bool) []byte {
	return referenceData.ReplaceAllFunc(unit, func(line []byte) []byte {
		if null {
			return referenceNull.ReplaceAll(line, []byte("${1}null"))
		}
		return referenceUsage.ReplaceAll(line, nil)
	})
}

// pieces are what the generated streams are made of.
var pieces = []string{
	`data: {"id":"1","choices":[{"index":0,"delta":{"content":"a } b"},"finish_reason":null}]}` + "\n\n",
	`data: {"id":"1","choices":[{"index":0,"delta":{"content":"\"usage\":{}"},"finish_reason":null}],"usage":{"n":1}}` + "\n\n",
	`data: {"id":"1","choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop","token_ids":null}]}` + "\n\n",
	`data: {"id":"1","choices":[{"index":0,"text":"","finish_reason":"length"}],"usage":{"n":2},"x":null}` + "\n\n",
	`data: {"id":"1","choices":[],"usage":{"n":3},"system_fingerprint":"f","metrics":{"a":[1]}}` + "\n\n",
	`data: {"choices": [], "usage": {"n": 3}, "timings": {"a": 1}}` + "\r\n\r\n",
	`data: {"id":"1","choices":[],"usage":null,"sglext":{"a":1}}` + "\n\n",
	`data: {"usage":{"n":4},"choices":[{"finish_reason":null}]}` + "\n\n",
	`data: {"choices":[{"delta":{"role":"assistant"},"finish_reason":null}]} ` + "\n\n",
	`data:{"choices":[{"finish_reason":"stop"}],"system_fingerprint":"own"}` + "\r\n\r\n",
	`data: {"choices":[{"finish_reason":"stop"}]}` + "\r\r",
	": keep-alive\n\n", ": ping\r\n", "\n",
	"event: sglext_ids\ndata: {\"choices\":[],\"usage\":{\"n\":1}}\n\n",
	"data: {\"choices\":[],\ndata: \"usage\":{}}\n\n",
	`data: {"error": {"message": "x", "code": 400}}` + "\n\n",
	"data: {broken\n\n", "data: [DONE]\n\n", "id: 7\ndata: {\"choices\":[{\"finish_reason\":\"stop\"}]}\nretry: 1\n\n",
	"data: {\"choices\":[],\"usage\":{\"n\":9}}\n", "\xef\xbb\xbfdata: {\"choices\":[ ],\"usage\":{}}\n\n", "data", "\r", "plain text",
}

var askedForms = []Asked{
	{}, {Usage: true}, {Usage: true, Continuous: true}, {Continuous: true},
	{Usage: true, Continuous: true, NullUsage: true}, {Usage: true, KeepEvents: true},
}

// FuzzCut holds a Cutter against the reference over generated streams, cut in
// every place that the fuzzer finds, and in single bytes.
func FuzzCut(f *testing.F) {
	for i := range pieces {
		f.Add([]byte{byte(i), byte(i), 4, 18}, []byte{7, 33, 90})
		f.Add([]byte{0, 2, byte(i), 4, 18}, []byte{120, 1, 1})
	}
	f.Fuzz(func(t *testing.T, order, cuts []byte) {
		var stream []byte
		for _, i := range order[:min(len(order), 12)] {
			stream = append(stream, pieces[int(i)%len(pieces)]...)
		}
		places, at := []int{}, 0
		for _, step := range cuts {
			if at += int(step); at <= len(stream) {
				places = append(places, at)
			}
		}
		single := make([]int, len(stream))
		for i := range single {
			single[i] = i
		}
		for _, asked := range askedForms {
			want := referenceCut(asked, stream)
			for _, way := range [][]int{nil, places, single} {
				if got := cutAt(asked, stream, way...); !bytes.Equal(got, want) {
					t.Fatalf("asked %+v, cut at %v of %q:\n got %q\nwant %q", asked, way, stream, got, want)
				}
			}
		}
	})
}

// FuzzCutBytes feeds what is no stream at all: nothing may panic, and without
// anything that looks like usage no byte may be lost.
func FuzzCutBytes(f *testing.F) {
	for _, piece := range pieces {
		f.Add([]byte(piece), 5)
	}
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		cut = max(0, min(cut, len(stream)))
		for _, asked := range askedForms {
			got := cutAt(asked, stream, cut)
			if !bytes.Contains(stream, []byte("usage")) && !bytes.Equal(got, stream) {
				t.Fatalf("asked %+v, cut at %d of %q: got %q", asked, cut, stream, got)
			}
			if whole := cutAt(asked, stream); !bytes.Equal(got, whole) {
				t.Fatalf("asked %+v, %q cut at %d: %q, whole: %q", asked, stream, cut, got, whole)
			}
		}
	})
}
