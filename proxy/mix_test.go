package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"spectap/collector"
)

// emitting is a Sink that calls a function.
type emitting func(*collector.Record)

func (e emitting) Emit(r *collector.Record) { e(r) }
func (e emitting) Close() error             { return nil }

// The Record of a body of a known length is emitted before the body's last
// write. The buffer that the body stands in must not serve another request
// until then.
func TestEmittedBodyIsNotOverwritten(t *testing.T) {
	engine := answering(t, func(req *http.Request) string {
		body := strings.Repeat(req.Header.Get("X-Word"), 1500)
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})
	var ask func(word string) string
	var emitted atomic.Int64
	sink := emitting(func(*collector.Record) {
		if emitted.Add(1) > 1 {
			return
		}
		for n := range 8 { // a pooled buffer comes back sooner or later
			ask(fmt.Sprint("other", n))
		}
	})
	s, err := New(testConfig(t, upstreamOf(engine)), sink, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	addr := startBuilt(t, s)
	ask = func(word string) string {
		req, _ := http.NewRequest(http.MethodPost, "http://"+addr+"/v1/chat/completions", strings.NewReader(`{"messages":[]}`))
		req.Header.Set("X-Word", word)
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return ""
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return string(body)
	}
	if got, want := ask("first."), strings.Repeat("first.", 1500); got != want {
		t.Errorf("got a body of %d bytes that begins with %.20q, want %d bytes of %q", len(got), got, len(want), "first.")
	}
}
