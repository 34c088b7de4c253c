package proxy

import (
	"testing"
	"time"
)

// A connection that goes back to the pool takes no limit of its last answer
// with it: neither that of a held finish event nor the stall limit.
func TestPooledConnectionHasNoDeadline(t *testing.T) {
	const hold, stall = 20 * time.Millisecond, 300 * time.Millisecond
	f := func(name string, change func(*Config)) {
		t.Run(name, func(t *testing.T) {
			waited := make(chan struct{})
			up := startEngine(t, func(e *scripted, c *engineConn, _ int) {
				for n := 0; c.request() != nil; n++ {
					if n > 0 { // prefill
						<-waited
						time.Sleep(stall)
					}
					e.requests.Add(1)
					c.send(streamHead, chunk(tokenEvent("a")), chunk(finishEvent))
					time.Sleep(hold / 10) // the rest comes in a read of its own
					c.send(chunk(doneEvent) + lastChunk)
				}
			})
			cfg := testConfig(t, upstreamOf(up))
			change(&cfg)
			p := startProxy(t, cfg, nil)
			c := connect(t, p.addr)
			c.send(post(chatPath, chatStream))
			body(t, c.answer("POST"))
			c.send(post(chatPath, chatStream))
			close(waited)
			resp := c.answer("POST")
			if text := body(t, resp); resp.StatusCode != 200 || text != tokenEvent("a")+finishEvent+doneEvent {
				t.Errorf("got %d %q on the reused connection", resp.StatusCode, text)
			}
			if n := up.conns.Load(); n != 1 {
				t.Errorf("got %d connections, want 1 that is reused", n)
			}
		})
	}
	f("hold", func(c *Config) { c.Measure, c.Hold = "usage", hold })
	f("stall", func(c *Config) { c.StallTimeout = stall })
}
