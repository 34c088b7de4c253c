package proxy

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// sameEvent compares what a Cutter needs of an event that is no end of a choice.
func sameEvent(a, b event) bool {
	return a.filled == b.filled && a.empty == b.empty && a.finish == b.finish && a.hasUsage == b.hasUsage &&
		(!a.hasUsage || a.close == b.close && a.usageFrom == b.usageFrom && a.usageTo == b.usageTo &&
			a.usageValue == b.usageValue && a.usageValueEnd == b.usageValueEnd)
}

// What a shape says of an event is what look says of it, in every capture, and
// it says it of most events of a long answer.
func TestShapeCaptures(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("tap", "testdata", "vllm-0.32", "*", "response.raw"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	most := map[string]bool{"bf-load-00": true, "nn-chat-stream-usage": true, "nd-chat-twoturn": true, "nd-comp-stream-cont": true}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all, known := 0, 0
		var s shape
		for _, part := range bytes.Split(raw, []byte("data: ")) {
			data, _, whole := bytes.Cut(part, []byte("\n\n"))
			unit := append(append([]byte("data: "), data...), "\n\n"...)
			want := look(unit)
			if !whole || !want.filled {
				continue
			}
			all++
			got, ok := s.read(unit)
			if ok {
				known++
				if !sameEvent(got, want) {
					t.Errorf("%s: got %+v, want %+v of %q", path, got, want, unit)
				}
			}
			s.learn(unit, want)
		}
		name := filepath.Base(filepath.Dir(path))
		if most[name] && (known < all*6/10 || all < 15) {
			t.Errorf("%s: %d of %d events are known", name, known, all)
		}
		delete(most, name)
	}
	if len(most) > 0 {
		t.Errorf("no captures: %v", most)
	}
}

// An event is known where only its text and its counts differ from the one before.
func TestShape(t *testing.T) {
	f := func(was, now string, want bool) {
		t.Helper()
		var s shape
		unit := []byte("data: " + was + "\n\n")
		s.learn(unit, look(unit))
		unit = []byte("data: " + now + "\n\n")
		got, ok := s.read(unit)
		if ok != want {
			t.Errorf("%s\nafter %s: known %v, want %v", now, was, ok, want)
		}
		if ok && !sameEvent(got, look(unit)) {
			t.Errorf("%s\nafter %s: got %+v, want %+v", now, was, got, look(unit))
		}
	}
	const a = `{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}`
	f(a, a, true)
	f(a, `{"choices":[{"delta":{"content":" {four}, é"},"finish_reason":null}]}`, true)
	f(a, `{"choices":[{"delta":{"content":""},"finish_reason":null}]}`, true)
	f(`{"choices":[{"delta":{"content":"a\"b"},"finish_reason":null}]}`, a, true)
	f(a, `{"choices":[{"delta":{"content":"a\"b"},"finish_reason":null}]}`, false)
	f(a, `{"choices":[{"delta":{"content":"a\\"},"finish_reason":null}]}`, false)
	f(a, `{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, false)
	f(a, `{"choices":[{"delta":{"content":"a"},"finish_reason":null}],"usage":{"n":1}}`, false)
	f(a, `{"choices":[{"delta":{"content":"a","content":"b"},"finish_reason":null}]}`, false)
	f(a, `{"choices":[],"usage":{"n":1}}`, false)
	f(`{"choices":[],"usage":{"n":1},"content":"a"}`, `{"choices":[],"usage":{"n":1},"content":"a"}`, false)
	f(`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, `{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}`, false)

	const u = `{"choices":[{"text":"a"}],"usage":{"p":47,"c":9,"d":null},"x":1}`
	f(u, u, true)
	f(u, `{"choices":[{"text":"four five"}],"usage":{"p":47,"c":10,"d":null},"x":1}`, true)
	f(u, `{"choices":[{"text":""}],"usage":{"p":7,"c":1,"d":null},"x":1}`, true)
	f(u, `{"choices":[{"text":"a"}],"usage":{"p":47,"c":010,"d":null},"x":1}`, false) // no number
	f(u, `{"choices":[{"text":"a"}],"usage":{"p":47,"c":9,"d":{}},"x":1}`, false)
	f(u, `{"choices":[{"text":"a"}],"usage":{"p":47,"c":,"d":null},"x":1}`, false)
	f(u, `{"choices":[{"text":"a"}],"usage":{"p":47,"c":9,"d":null},"x":22}`, false) // behind usage
	const ids = `{"choices":[{"text":"a","token_ids":[314]}],"usage":{"c":9}}`
	f(ids, `{"choices":[{"text":" by","token_ids":[41100]}],"usage":{"c":10}}`, true)
	f(ids, `{"choices":[{"text":" by","token_ids":[0]}],"usage":{"c":10}}`, true)
	f(ids, `{"choices":[{"text":" by","token_ids":[4,1]}],"usage":{"c":11}}`, false)
	f(ids, `{"choices":[{"text":" by","token_ids":[04]}],"usage":{"c":11}}`, false)
	f(`{"choices":[{"text":"a","token_ids":[314]}]}`, `{"choices":[{"text":"","token_ids":[2]}]}`, true)
	f(u, `{"choices":[{"text":"a"}],"usage":null}`, false)
	f(`{"usage":{"c":1},"choices":[{"text":"a"}]}`, `{"usage":{"c":1},"choices":[{"text":"a"}]}`, false) // usage first
	f(`{"choices":[{"text":"a"}],"usage":{"c":"\u0041"}}`, `{"choices":[{"text":"a"}],"usage":{"c":"\u004"}}`, false)
}

// A stream whose events never fit is hardly looked at any more, and one that
// changes to events that do is known again.
func TestShapeGivesUp(t *testing.T) {
	var s shape
	learnt, known := 0, 0
	for i := range 320 {
		unit := []byte(`data: {"choices":[{"text":"a","token_ids":[1]}]}` + "\n\n")
		if i%2 == 0 && i < 160 {
			unit = []byte(`data: {"choices":[{"text":"a","token_ids":[1,2]}]}` + "\n\n")
		}
		if _, ok := s.read(unit); ok {
			known++
			continue
		}
		s.learn(unit, look(unit))
		if len(s.rest) > 0 && i < 160 {
			learnt++
		}
	}
	if learnt > 10 || known < 120 {
		t.Errorf("%d of 160 different events were learnt, want 10 or fewer; %d of 160 equal ones known, want 120 or more", learnt, known)
	}
}

// Whatever came before, a shape never contradicts look.
func FuzzShape(f *testing.F) {
	f.Add([]byte(`{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}`), []byte(`{"choices":[{"delta":{"content":"bc"},"finish_reason":null}]}`))
	f.Add([]byte(`{"choices":[{"text":"a"}],"usage":{"p":47,"c":9,"d":null},"x":1}`), []byte(`{"choices":[{"text":"bb"}],"usage":{"p":47,"c":10,"d":null},"x":1}`))
	f.Add([]byte(`{"choices":[{"text":"a"}],"usage":{"c":0.5e1}}`), []byte(`{"choices":[{"text":""}],"usage":{"c":0.05e01}}`))
	f.Fuzz(func(t *testing.T, was, now []byte) {
		var s shape
		unit := append(append([]byte("data: "), was...), "\n\n"...)
		s.learn(unit, look(unit))
		for _, data := range [][]byte{now, was} {
			unit = append(append([]byte("data: "), data...), "\n\n"...)
			if got, ok := s.read(unit); ok && !sameEvent(got, look(unit)) {
				t.Errorf("got %+v, want %+v of %q after %q", got, look(unit), unit, was)
			}
		}
	})
}
