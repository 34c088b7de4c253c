package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// What a scrape costs while a proxy holds open streams and has served 8 models at
// 8 points: time and bytes of one GET /metrics over loopback.
func BenchmarkScrapeInFlight(b *testing.B) {
	for _, open := range []int{0, 2000} {
		b.Run(fmt.Sprint(open), func(b *testing.B) { benchmarkScrape(b, open) })
	}
}

func benchmarkScrape(b *testing.B, open int) {
	release := make(chan struct{})
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost {
			return
		}
		_, name, _ := strings.Cut(string(body), `"model": "`)
		name, _, _ = strings.Cut(name, `"`)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":%q,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n", name)
		_ = http.NewResponseController(w).Flush()
		if name == "hold" {
			<-release
		}
		fmt.Fprint(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n")
	}))
	b.Cleanup(engine.Close)
	data, admin := serveProxy(b, engine.URL, "--measure", "observe", "--drain_timeout", "100ms")
	b.Cleanup(func() { close(release) })
	address := strings.TrimPrefix(data, "http://")
	for i := range 64 {
		c := ask(b, address, fmt.Sprintf("model-%d", i%8), fmt.Sprintf("t0_c%d", i/8))
		c.Close()
	}
	var starting sync.WaitGroup
	conns := make([]net.Conn, open)
	for w := range 16 {
		starting.Go(func() {
			for i := w; i < open; i += 16 {
				conns[i] = ask(b, address, "hold", "")
			}
		})
	}
	starting.Wait()
	b.Cleanup(func() {
		for _, c := range conns {
			c.Close()
		}
	})
	_, _, text := get(b, http.MethodGet, admin+"/metrics")
	if n := readMetrics(b, text).sum("spectap_requests_in_flight"); n != open {
		b.Fatalf("got %d requests in flight, want %d", n, open)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		get(b, http.MethodGet, admin+"/metrics")
	}
}

// ask sends a streamed chat request and returns its connection once the first
// event is there; for a model that is not "hold", once the answer is over.
func ask(b *testing.B, address, model, point string) net.Conn {
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Error(err)
		panic(err)
	}
	body := fmt.Sprintf(`{"model": %q, "stream": true, "messages": [{"role": "user", "content": "x"}]}`, model)
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nBaggage: spectap.point=%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", point, len(body), body)
	until := "0\r\n" // the chunk that ends a body
	if model == "hold" {
		until = "data: {"
	}
	r := bufio.NewReader(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			b.Error(err)
			panic(err)
		}
		if strings.HasPrefix(line, until) {
			return c
		}
	}
}
