package proxy

import (
	"io"
	"slices"
	"testing"
	"time"
)

// BenchmarkClientGone measures for how long the engine works on for a client
// that left: from the client's call of close to the return of the engine's read.
// Unless it runs once, as in CI, each case has 500 clients or more, one after another.
//
//	go test -run '^$' -bench ClientGone ./proxy
func BenchmarkClientGone(b *testing.B) {
	f := func(stage, sent, request string) {
		for _, how := range []string{"fin", "rst"} {
			b.Run(stage+"/"+how, func(b *testing.B) { benchGone(b, how, sent, post(chatPath, request)) })
			b.Run(stage+"/"+how+"/pipelined", func(b *testing.B) { benchGone(b, how, sent, post(chatPath, request)+post(chatPath, request)) })
		}
	}
	f("prefill", "", chatStream)
	f("mid-stream", streamHead+chunk(tokenEvent("a")), chatStream)
	f("non-streaming", "", whole)
}

func benchGone(b *testing.B, how, sent, request string) {
	arrived, gone := make(chan struct{}), make(chan time.Time)
	up := startEngine(b, func(_ *scripted, c *engineConn, _ int) {
		if c.request() == nil {
			return
		}
		c.send(sent)
		arrived <- struct{}{}
		c.gone()
		gone <- time.Now()
	})
	p := startProxy(b, testConfig(b, upstreamOf(up)), nil)
	n := b.N
	if n > 1 {
		n = min(max(n, 500), 2000)
	}
	took := make([]time.Duration, 0, n)
	for range n {
		c := connect(b, p.addr)
		c.send(request)
		<-arrived
		if sent != "" { // all of it: close sends a reset where bytes are unread
			if _, err := io.ReadFull(c.answer("POST").Body, make([]byte, len(tokenEvent("a")))); err != nil {
				b.Fatal(err)
			}
		}
		start := time.Now()
		leave(c, how)
		took = append(took, (<-gone).Sub(start))
		p.recs.next(b)
	}
	if got := int(up.conns.Load()); got != n {
		b.Errorf("the engine got %d connections of %d clients: what stood behind a request went on, too", got, n)
	}
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[min(int(q*float64(n)), n-1)].Nanoseconds()) / 1e3 }
	b.ReportMetric(at(0.5), "p50_us")
	b.ReportMetric(at(0.99), "p99_us")
	b.ReportMetric(float64(n), "clients")
	b.ReportMetric(0, "ns/op")
}
