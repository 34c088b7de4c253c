package proxy

import (
	"net/http"
	"os"
	"testing"

	"spectap/collector"
)

// A sink whose disk is full costs Records, which are counted, and no answer.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	sink, err := collector.OpenJSONL("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	up := answering(t, func(*http.Request) string {
		return streamHead + chunk(tokenEvent("a")) + chunk(finishEvent+doneEvent) + lastChunk
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), func(s *Server) { s.sink = collector.Tee{sink} })
	c := connect(t, p.addr)
	const requests = 50
	for range requests {
		c.send(post(chatPath, chatStream))
		if got := body(t, c.answer("POST")); got != tokenEvent("a")+finishEvent+doneEvent {
			t.Errorf("got %q", got)
		}
	}
	eventually(t, "all losses counted", func() bool { return p.Status().SinkDrops == requests })
	_ = c.Close()
	p.atBase(t, 1)
	if err := sink.Close(); err == nil {
		t.Error("Close does not tell that the disk is full")
	}
	if st := p.Status(); up.requests.Load() != requests || st.Panics != 0 || st.Outcomes["ok"] != requests {
		t.Errorf("got %d requests at the engine, %d panics, outcomes %v", up.requests.Load(), st.Panics, st.Outcomes)
	}
}
