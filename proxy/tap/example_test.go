package tap_test

import (
	"fmt"
	"time"

	"spectap/collector"
	"spectap/proxy/tap"
)

// A stream in three reads: the role event alone, two tokens with the start of the end, the rest.
func ExampleTap() {
	t := tap.New(tap.Options{Route: tap.RouteOf("/v1/chat/completions"), Choices: 1})
	t.Head(200, "text/event-stream", "")
	t.Observe(40*time.Millisecond, []byte(`data: {"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`+"\n\n"))
	t.Observe(52*time.Millisecond, []byte(`data: {"choices":[{"index":0,"delta":{"content":"Hi!"},"finish_reason":"length","token_ids":[7,8]}]}`+"\n\nda"))
	t.Observe(53*time.Millisecond, []byte("ta: [DONE]\n\n"))
	t.End(53*time.Millisecond, true)

	var r collector.Record
	t.Fill(&r)
	fmt.Println(r.FirstOutput.Offset, r.Chunks[0].Tokens, r.Finish, r.SawDone, r.SpecMissing)
	// Output: 52ms 2 length true no_usage_event
}
