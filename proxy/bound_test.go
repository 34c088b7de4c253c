package proxy

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// What a client can make as long as it likes is kept up to a length, and passed
// on whole.
func TestRecordsAreBounded(t *testing.T) {
	got := make(chan *http.Request, 8)
	long := strings.Repeat("é", 10_000)
	up := answering(t, func(req *http.Request) string {
		got <- req
		if req.URL.RawQuery == "model" {
			return withLength("200 OK", "application/json", `{"id":"x","object":"chat.completion","model":"m`+long+`","choices":[]}`)
		}
		return withLength("500 Internal Server Error", "application/json", `{}`)
	})
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	f := func(path, model string) {
		t.Helper()
		c := connect(t, p.addr)
		c.send(post(path, strings.Replace(chatStream, `"m"`, `"`+model+`"`, 1), "X-Request-ID: r"+long, "X-Correlation-Id: c"+long))
		_ = body(t, c.answer("POST"))
		req, rec := <-got, p.recs.next(t)
		if req.Header.Get("X-Request-Id") != "r"+long || !strings.HasSuffix(path, req.URL.RequestURI()) {
			t.Error("the request was cut on its way")
		}
		if want := bounded("r"+long, longestName); rec.RequestID != want || len(want) != longestName-1 {
			t.Errorf("got a request id of %d bytes, want %d", len(rec.RequestID), len(want))
		}
		if want := bounded("c"+long, longestName); rec.Labels.Conversation != want {
			t.Errorf("got a conversation of %d bytes, want %d", len(rec.Labels.Conversation), len(want))
		}
		if want := bounded("m"+long, longestName); rec.Model != want {
			t.Errorf("got a model of %d bytes, want %d", len(rec.Model), len(want))
		}
		if len(rec.Path) > longestPath || rec.Route != "chat" {
			t.Errorf("got a path of %d bytes of route %q", len(rec.Path), rec.Route)
		}
		if line, err := json.Marshal(rec); err != nil || strings.Contains(string(line), "\ufffd") {
			t.Errorf("a character was cut: %s, %v", line, err)
		}
	}
	f(chatPath, "m"+long)
	f(chatPath+"?model", "m")
	f("/"+strings.Repeat("p", 10_000)+chatPath, "m"+long)
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc", "abé": "ab", "a日本": "a", "\xff\xff\xff\xff\xff": "\xff\xff\xff"} {
		if got := bounded(text, 3); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
