package deploy

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// conformReasons asks in the ways for which vLLM has no statistics: the record
// names the reason, and has statistics otherwise.
func conformReasons(t *testing.T, server realServer) {
	path := filepath.Join(t.TempDir(), "records.jsonl")
	proxy := startProxy(t, nil, server.url, "--records", path)
	want := map[string]string{} // reason by X-Request-ID
	f := func(reason, route, members string) {
		t.Helper()
		id := fmt.Sprintf("case-%02d", len(want))
		want[id] = reason
		prompt := `"messages":[{"role":"user","content":"Count from 1 to 20, separated by commas."}]`
		switch route {
		case "completions":
			prompt = `"prompt":"1, 2, 3, 4, 5, 6, 7,"`
		case "responses":
			prompt = `"input":"Count from 1 to 20, separated by commas."`
		}
		if route == "chat" {
			route = "chat/completions"
		}
		askAs(t, proxy.URL+"/v1/"+route, id, fmt.Sprintf(`{"model":%q,%s,%s}`, servedModel, prompt, members))
	}
	// Whole replies have statistics, even of one token.
	f("", "chat", `"stream":true,"temperature":0,"max_tokens":24`)
	f("", "chat", `"temperature":0,"max_tokens":24`)
	f("", "completions", `"stream":true,"temperature":0,"max_tokens":24`)
	f("", "completions", `"temperature":0,"max_tokens":24`)
	f("", "chat", `"stream":true,"temperature":0,"max_tokens":1`)
	f("", "chat", `"stream":true,"temperature":0,"max_tokens":8,"stop":["never said"]`)
	// A stop string that ends the reply takes them away.
	f("stop_string", "chat", `"stream":true,"temperature":0,"max_tokens":24,"stop":["a","e","1"," "]`)
	f("stop_string", "chat", `"temperature":0,"max_tokens":24,"stop":["a","e","1"," "]`)
	// So do several replies.
	f("several_choices", "chat", `"stream":true,"temperature":0.5,"max_tokens":8,"n":2`)
	f("several_choices", "chat", `"temperature":0.5,"max_tokens":8,"n":2`)
	// The client said that it wants no usage event.
	f("no_usage_event", "chat", `"stream":true,"temperature":0,"max_tokens":8,"stream_options":{"include_usage":false}`)
	// Refused, with a status and in the stream.
	f("error", "chat", `"stream":true,"temperature":0,"max_tokens":100000`)
	f("error", "chat", `"stream":true,"temperature":1,"min_p":0.5,"max_tokens":8`)
	// vLLM puts no statistics into responses.
	f("not_reported", "responses", `"stream":true,"temperature":0,"max_output_tokens":8`)
	f("not_reported", "responses", `"temperature":0,"max_output_tokens":8`)
	proxy.stop(t)
	got := map[string]string{}
	for _, r := range readRealRecords(t, path) {
		if r.RequestID == "" {
			continue
		}
		got[r.RequestID] = r.SpecMissing
		if (r.Spec == nil) != (r.SpecMissing != "") {
			t.Errorf("%s: got statistics %+v and the reason %q, want one of them", r.RequestID, r.Spec, r.SpecMissing)
		}
	}
	for id, reason := range want {
		if found, ok := got[id]; !ok || found != reason {
			t.Errorf("%s: got the reason %q (a record: %v), want %q", id, found, ok, reason)
		}
	}
	t.Logf("%d requests, each with statistics or its reason", len(want))
}

// askAs posts a body under a request id and reads the answer to its end.
func askAs(t *testing.T, url, id, body string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Request-ID", id)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
}
