package deploy

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// freedWithin bounds the time from a client's leaving to the server's running
// requests being none. Where the machine is so busy that the server takes longer
// without spectap, it is twice that.
const freedWithin = time.Second

// conformAbort: a client that leaves frees the server at once, through spectap as
// without it, and the record says so.
func conformAbort(t *testing.T, server realServer) {
	f := func(stream bool) {
		t.Helper()
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			direct := server.freed(t, server.url, stream)
			path := filepath.Join(t.TempDir(), "records.jsonl")
			proxy := startProxy(t, nil, server.url, "--records", path)
			through := server.freed(t, proxy.URL, stream)
			t.Logf("the server ran nothing %v after the client had left, %v without spectap", through.Round(time.Millisecond), direct.Round(time.Millisecond))
			if bound := max(freedWithin, 2*direct); through > bound {
				t.Errorf("the server ran the request for %v, want %v at most", through, bound)
			}
			proxy.stop(t)
			compareAborted(t, path, stream)
		})
	}
	f(true)
	f(false)
	t.Run("prefill", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "records.jsonl")
		proxy := startProxy(t, nil, server.url, "--records", path)
		for _, url := range []string{server.url, proxy.URL} {
			server.abandonedInPrefill(t, url)
		}
		proxy.stop(t)
		compareAborted(t, path, true)
	})
}

// abandonedInPrefill asks with a long prompt, leaves when the head of the answer
// has come, which is before the first token, and wants no reply to be made. The
// server tells of a request only after its prefill: a second one that is done
// shows that the first one's is over.
func (s realServer) abandonedInPrefill(t *testing.T, url string) {
	t.Helper()
	before := s.counters(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"max_tokens":200,"ignore_eos":true,"temperature":0,"stream":true}`, servedModel, strings.Repeat("one two three ", 200))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = answer.Body.Close() // cut off
	short := asked("POST", "/v1/completions", jsonOf(completionBody(members{"max_tokens": 1})))
	if _, err := short.exchange(strings.TrimPrefix(s.url, "http://")); err != nil {
		t.Fatal(err)
	}
	poll(t, "the requests to end", func() bool {
		now := s.counters(t).less(before)
		return now.running == 0 && now.finished > 0
	})
	if now := s.counters(t).less(before); now.finished != 1 || now.generated > 20 {
		t.Errorf("the server finished %v requests with %v tokens, want only the short one", now.finished, now.generated)
	}
}

// freed asks for a long reply, leaves, and returns how long the server still ran
// the request.
func (s realServer) freed(t *testing.T, url string, stream bool) time.Duration {
	t.Helper()
	leave := askForLong(t, url, stream)
	poll(t, "the request to run", func() bool { return s.counters(t).running == 1 })
	before := s.counters(t)
	leave()
	left := time.Now()
	poll(t, "the request to end", func() bool { return s.counters(t).running == 0 })
	took := time.Since(left)
	if now := s.counters(t).less(before); now.finished != 0 {
		t.Errorf("the server finished %v requests, want none", now.finished)
	}
	return took
}

// askForLong asks for a reply that takes long; the function returned leaves. A
// stream has begun then.
func askForLong(t *testing.T, url string, stream bool) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Tell a long story."}],"max_tokens":1900,"ignore_eos":true,"temperature":0,"stream":%v}`, servedModel, stream)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	begun, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			begun <- err
			return
		}
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		for events := 0; lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "data: ") {
				if events++; events == 3 {
					begun <- nil
				}
			}
		}
	}()
	if stream {
		if err := <-begun; err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		cancel()
		<-ended
	}
}

// compareAborted: there is one record, of a client that left.
func compareAborted(t *testing.T, path string, stream bool) {
	t.Helper()
	var found []realRecord
	for _, r := range readRealRecords(t, path) {
		if r.Path == "/v1/chat/completions" {
			found = append(found, r)
		}
	}
	if len(found) != 1 || found[0].ErrorKind != "client_gone" || found[0].SpecMissing != "client_gone" || found[0].Stream != stream {
		t.Errorf("got %+v, want one record of a client that left", found)
	}
}
