package live

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"
)

// full is a page whose windows all have figures.
func full(b *testing.B) (*Page, *clock) {
	b.Helper()
	c := &clock{}
	p := New(Config{Now: c.now})
	for range 4 * chartSteps {
		c.forward(stepWidth / 4)
		for i := range 8 {
			p.Emit(streamed(time.Duration(10+i)*time.Millisecond, time.Duration(2000+i*300)*time.Microsecond, 64, 3, 4, 5, 6))
		}
	}
	return p, c
}

// BenchmarkEmit is what a request pays, also while the clock moves.
func BenchmarkEmit(b *testing.B) {
	p, c := full(b)
	rec := streamed(20*time.Millisecond, 4*time.Millisecond, 256, 20, 20, 20, 20, 20)
	b.ReportAllocs()
	for b.Loop() {
		c.forward(time.Millisecond)
		p.Emit(rec)
	}
}

// BenchmarkEncode is what a snapshot costs, whatever the number of pages.
func BenchmarkEncode(b *testing.B) {
	p, _ := full(b)
	b.ReportAllocs()
	var text []byte
	for b.Loop() {
		var err error
		if text, err = p.encode(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(text)), "bytes/snapshot")
}

// BenchmarkPages is one second with so many open pages: a snapshot that all of
// them have received. Server and clients are one process here.
func BenchmarkPages(b *testing.B) {
	for _, pages := range []int{1, 20} {
		b.Run(strconv.Itoa(pages), func(b *testing.B) { benchmarkPages(b, pages) })
	}
}

func benchmarkPages(b *testing.B, pages int) {
	p, c := full(b)
	ticks := make(chan time.Time)
	p.hub.tick = func(time.Duration) (<-chan time.Time, func()) { return ticks, func() {} }
	server := httptest.NewServer(p.Handler())
	b.Cleanup(server.Close)
	got := make(chan struct{}, pages)
	for range pages {
		e := dialBench(b, server.URL)
		go func() {
			for {
				if _, _, err := e.next(); err != nil {
					return
				}
				got <- struct{}{}
			}
		}()
		<-got
	}
	rec := streamed(20*time.Millisecond, 4*time.Millisecond, 256, 20, 20, 20, 20, 20)
	b.ReportAllocs()
	for b.Loop() {
		c.forward(time.Second)
		p.Emit(rec)
		ticks <- time.Time{}
		for range pages {
			<-got
		}
	}
	b.StopTimer()
	_ = p.Close()
}

func dialBench(b *testing.B, url string) *events {
	resp, err := http.Get(url + "/live")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = resp.Body.Close() })
	return &events{resp.Body, bufio.NewReader(resp.Body)}
}
