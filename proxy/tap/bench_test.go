package tap

import (
	"encoding/json"
	"testing"
	"time"
)

// The event of go-proxy.md 3.3: 340 bytes, content with escapes, finish_reason null, usage.
const benchData = `{"id":"chatcmpl-8a5d7a3645ad63d0","object":"chat.completion.chunk","created":1796008425,"model":"smollm2",` +
	`"choices":[{"index":0,"delta":{"content":" \"four\"\nfive six \u00e9 seven"},"logprobs":null,"finish_reason":null,"token_ids":null}],` +
	`"usage":{"prompt_tokens":47,"total_tokens":54,"completion_tokens":%,"completion_tokens_details":null}}`

// benchEvents are events whose completion_tokens rise by one.
func benchEvents(n int) (events [][]byte) {
	for i := range n {
		var b []byte
		for _, c := range []byte("data: " + benchData + "\n\n") {
			if c == '%' {
				b = append(b, itoa(1000+i)...)
				continue
			}
			b = append(b, c)
		}
		events = append(events, b)
	}
	return events
}

// BenchmarkEvent compares what the tap does with one event in one read, with decoding it into a
// struct by encoding/json.
func BenchmarkEvent(b *testing.B) {
	events := benchEvents(1000)
	b.Run("tap", func(b *testing.B) { benchTap(b, events, false) })
	b.Run("tap-keep-text", func(b *testing.B) { benchTap(b, events, true) })
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(events[0])))
		for i := 0; b.Loop(); i++ {
			event := events[i%len(events)]
			var e struct {
				ID      string `json:"id"`
				Model   string `json:"model"`
				Choices []struct {
					Index int `json:"index"`
					Delta struct {
						Role    *string `json:"role"`
						Content *string `json:"content"`
					} `json:"delta"`
					FinishReason *string `json:"finish_reason"`
					StopReason   any     `json:"stop_reason"`
					TokenIDs     []int   `json:"token_ids"`
				} `json:"choices"`
				Usage *struct {
					PromptTokens     int `json:"prompt_tokens"`
					CompletionTokens int `json:"completion_tokens"`
				} `json:"usage"`
			}
			if err := json.Unmarshal(event[len("data: "):len(event)-2], &e); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchTap(b *testing.B, events [][]byte, keep bool) {
	b.ReportAllocs()
	b.SetBytes(int64(len(events[0])))
	t := New(Options{Route: RouteChat, KeepText: keep})
	t.Head(200, "text/event-stream", "")
	for i := 0; b.Loop(); i++ {
		if i%len(events) == 0 {
			t.Reset(t.options)
			t.Head(200, "text/event-stream", "")
		}
		t.Observe(time.Duration(i), events[i%len(events)])
	}
	if want := (b.N-1)%len(events) + 1; len(t.chunks) != want {
		b.Fatalf("got %d chunks, want %d", len(t.chunks), want)
	}
}

// TestEventAllocations: an event costs at most one allocation, whatever it is counted by.
func TestEventAllocations(t *testing.T) {
	f := func(name string, event []byte) {
		t.Helper()
		tap := New(Options{Route: RouteChat, KeepText: true})
		tap.Head(200, "text/event-stream", "")
		tap.Observe(0, []byte(roleEvent))
		i := 0
		got := testing.AllocsPerRun(2000, func() {
			i++
			tap.Observe(time.Duration(i), event[:len(event)/2])
			tap.Observe(time.Duration(i), event[len(event)/2:])
		})
		if got > 1 || len(tap.chunks) != 2001 {
			t.Errorf("%s: got %v allocations an event, %d chunks", name, got, len(tap.chunks))
		}
	}
	f("text", []byte(hiEvent))
	f("token ids", []byte(`data: {"id":"c","choices":[{"index":0,"delta":{"content":"a\u00e9"},"finish_reason":null,"token_ids":[1,2,3]}]}`+"\r\n\r\n"))
	f("logprobs", []byte(`data: {"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","bytes":[97],"top_logprobs":[]}]}}]}`+"\n\n"))
	f("timings", []byte(`data: {"choices":[{"index":0,"delta":{"content":"a"}}],"system_fingerprint":"b1-c","timings":{"predicted_n":4}}`+"\n\n"))
}

// BenchmarkAnswer is a whole answer of 200 events, from New to Fill.
func BenchmarkAnswer(b *testing.B) {
	c, ok := readCapture(b, "testdata/vllm-0.32/nd-chat-stream-ignoreeos")
	if !ok {
		b.Fatal("no capture")
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(c.body)))
	for b.Loop() {
		if r := c.replay(New(c.options())); r.Usage == nil {
			b.Fatal("no usage")
		}
	}
}
