package deploy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	idleClients = 100
	idleRounds  = 10
)

// uvicorn closes idle connections after a second here, spectap keeps them for
// three: requests that come around that second are each answered once. None is a
// 502, none runs twice.
func TestTransparencyIdle(t *testing.T) {
	server := startUvicorn(t, "httptools", nil, "--timeout-keep-alive", "1")
	records := filepath.Join(t.TempDir(), "records.jsonl")
	proxy := startProxy(t, nil, server.URL, "--records", records)
	var clients sync.WaitGroup
	for i := range idleClients {
		clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: requestTimeout}
			defer client.CloseIdleConnections()
			for round := range idleRounds {
				if err := askOnce(client, proxy.URL, i%2 == 0); err != nil {
					t.Errorf("client %d, request %d: %v", i, round, err)
				}
				time.Sleep(time.Second + time.Duration(i-idleClients/2)*time.Millisecond/2) // within 25 ms of the limit
			}
		})
	}
	clients.Wait()
	if t.Failed() {
		return
	}
	counts := map[string]int{}
	for _, word := range caseOf(t, server.URL, "idle", "whole") {
		counts[word]++
	}
	if want := idleClients * idleRounds; counts["began"] != want || counts["whole"] != want || len(counts) != 2 {
		t.Errorf("the application saw %v, want %d requests, all answered", counts, want)
	}
	proxy.stop(t)
	found, retries := 0, 0
	for line := range strings.Lines(readFile(t, records)) {
		var r struct {
			RequestID string `json:"x_request_id"`
			Kind      string `json:"error_kind"`
			Retries   int    `json:"retries"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.RequestID == "idle" {
			found++
			retries += r.Retries
			if r.Kind != "" {
				t.Errorf("got a record of kind %q, want none", r.Kind)
			}
		}
	}
	if found != idleClients*idleRounds {
		t.Errorf("got %d records, want %d", found, idleClients*idleRounds)
	}
	t.Logf("%d of %d requests were sent again, on another connection", retries, found)
}

// askOnce asks for an answer and reads it.
func askOnce(client *http.Client, url string, stream bool) error {
	request, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(`{"messages":[],"stream":%v}`, stream)))
	if err != nil {
		return err
	}
	request.Header.Set("X-Case", "idle")
	request.Header.Set("X-Request-Id", "idle")
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	got, err := objects(answer.Body, answer.Header.Get("Content-Type"))
	if err == nil && (answer.StatusCode != http.StatusOK || len(got) == 0) {
		err = fmt.Errorf("got %s with %d objects", answer.Status, len(got))
	}
	return err
}
