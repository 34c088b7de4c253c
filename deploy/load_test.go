package deploy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// load is a number of clients that each ask for several streams, one after the
// other on one connection.
type load struct {
	streams int     // at a time
	each    int     // requests of a client
	tokens  int     // of a reply
	bound   float64 // of the processor time of a proxy, against one without telemetry
}

// timings are what the clients saw.
type timings struct {
	ttft   []time.Duration // sent to first event, sorted
	took   []time.Duration // sent to the end, sorted
	failed int
}

// rampUp is the time in which the clients of a load start.
const rampUp = time.Second

// requestTimeout ends a client that hangs.
const requestTimeout = time.Minute

// run plays the load against a URL. The clients speak HTTP by hand: what they
// cost would be taken from the processor that the proxy is measured on.
func (l load) run(t testing.TB, url string) timings {
	t.Helper()
	address := strings.TrimPrefix(url, "http://")
	body := fmt.Sprintf(`{"model":"fake-model","messages":[{"role":"user","content":"Tell me about rivers."}],"max_tokens":%d,"ignore_eos":true,"temperature":0,"stream":true}`, l.tokens)
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", address, len(body), body)
	var mu sync.Mutex
	var all timings
	var clients sync.WaitGroup
	for i := range l.streams {
		clients.Go(func() {
			time.Sleep(time.Duration(i) * rampUp / time.Duration(l.streams)) // streams begin one after the other, as they do in life
			own, err := l.client(address, request)
			mu.Lock()
			defer mu.Unlock()
			all.ttft, all.took = append(all.ttft, own.ttft...), append(all.took, own.took...)
			if err != nil {
				all.failed++
				t.Logf("a client failed: %v", err)
			}
		})
	}
	clients.Wait()
	slices.Sort(all.ttft)
	slices.Sort(all.took)
	return all
}

// client asks for its streams on one connection.
func (l load) client(address string, request []byte) (timings, error) {
	var own timings
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return own, err
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 8<<10)
	for range l.each {
		_ = conn.SetDeadline(time.Now().Add(requestTimeout)) // fails only on a closed connection
		sent := time.Now()
		if _, err := conn.Write(request); err != nil {
			return own, err
		}
		first, err := readStream(in)
		if err != nil {
			return own, err
		}
		own.ttft, own.took = append(own.ttft, first.Sub(sent)), append(own.took, time.Since(sent))
	}
	return own, nil
}

// readStream reads a chunked answer to its end and says when its first event came.
func readStream(in *bufio.Reader) (first time.Time, err error) {
	status, err := in.ReadSlice('\n')
	if err != nil {
		return first, err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200 ")) {
		return first, fmt.Errorf("got %q, want 200", status)
	}
	done := false
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return first, err
		case bytes.HasPrefix(line, []byte("data: [DONE]")):
			done = true
		case first.IsZero() && bytes.HasPrefix(line, []byte("data: ")):
			first = time.Now()
		case done && bytes.Equal(line, []byte("0\r\n")):
			_, err := in.Discard(2)
			return first, err
		}
	}
}

// quantile of sorted times, by the nearest rank.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
