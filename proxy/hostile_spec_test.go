package proxy

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// echoStrict answers with the body of the request.
func echoStrict(r strictRequest) string { return withLength("200 OK", "text/plain", r.body) }

// firstAnswer returns the status of the answer at the front of what a client got; 0 for none.
func firstAnswer(out string) (status int, text string) {
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(out)), nil)
	if err != nil {
		return 0, ""
	}
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// The 33 cases of h1spec: what is not whole yet is waited for, what is valid
// passes, the rest is refused before the engine hears of it.
func TestH1Spec(t *testing.T) {
	up := startStrict(t, echoStrict)
	p := startProxy(t, testConfig(t, upstreamOf(up.scripted)), nil)
	const host = "Host: example.com\r\n"
	whole := "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r"
	cuts := 0
	for _, n := range []int{1, 4, 10, 11, 15, 19, 20, 21, 24, 26, 27, 36, 37, 38, 39} { // inside and behind every part of the head
		cuts++
		c := serveBytes(t, p, whole[:n])
		if !c.waited || c.instant != 0 {
			t.Errorf("%q: got %q, want patience", whole[:n], c.out.String())
		}
		if seen := up.take(t, whole[:n]); len(seen) != 0 {
			t.Errorf("%q: got %d requests upstream, want none", whole[:n], len(seen))
		}
	}
	cases := 0
	f := func(what string, status int, request, want string) {
		t.Helper()
		cases++
		c := serveBytes(t, p, request)
		got, text := firstAnswer(c.out.String())
		if got != status || status == 200 && text != want {
			t.Errorf("%s: got %d %q, want %d %q", what, got, text, status, want)
		}
		seen := up.take(t, request)
		if status == 200 && len(seen) != 1 || status >= 400 && len(seen) != 0 {
			t.Errorf("%s: got %d requests upstream", what, len(seen))
		}
	}
	f("no version", 400, "GET / \r\n\r\n", "")
	f("expects 100", 100, "GET / HTTP/1.1\r\n"+host+"Expect: 100-continue\r\n\r\n", "")
	f("valid", 200, "GET / HTTP/1.1\r\n"+host+"\r\n", "")
	f("tab before a value, empty value", 200, "GET / HTTP/1.1\r\nhoSt:\texample.com\r\nempty:\r\n\r\n", "")
	f("brackets in a name", 400, "GET / HTTP/1.1\r\n"+host+"X-Invalid[]: test\r\n\r\n", "")
	f("no host", 400, "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", "")
	f("two hosts", 400, "GET / HTTP/1.1\r\n"+host+"Host: example.org\r\n\r\n", "")
	f("length below all numbers", 400, "GET / HTTP/1.1\r\n"+host+"Content-Length: -123456789123456789123456789\r\n\r\n", "")
	f("length below 0", 400, "GET / HTTP/1.1\r\n"+host+"Content-Length: -1234\r\n\r\n", "")
	f("length of letters", 400, "GET / HTTP/1.1\r\n"+host+"Content-Length: abc\r\n\r\n", "")
	f("value of a space", 200, "GET / HTTP/1.1\r\n"+host+"X-Empty-Header: \r\n\r\n", "")
	f("control character in a value", 400, "GET / HTTP/1.1\r\n"+host+"X-Bad-Control-Char: test\x07\r\n\r\n", "")
	f("version of the future", 505, "GET / HTTP/9.9\r\n"+host+"\r\n", "")
	f("two words before the target", 400, "Extra lineGET / HTTP/1.1\r\n"+host+"\r\n", "")
	f("bare CR behind the head", 400, "GET / HTTP/1.1\r\n"+host+"\rSome-Header: Test\r\n\r\n", "")
	f("body with a length", 200, "POST / HTTP/1.1\r\n"+host+"Content-Length: 5\r\n\r\nhello", "hello")
	f("chunked body", 200, "POST / HTTP/1.1\r\n"+host+"Transfer-Encoding: chunked\r\n\r\nc\r\nHellO world1\r\n0\r\n\r\n", "HellO world1")
	f("both framings, odd case", 400, "POST / HTTP/1.1\r\n"+host+"content-LengtH: 5\r\nTransFer-Encoding: chunked\r\n\r\nc\r\nHellO world1\r\n0\r\n\r\n", "")
	if cuts+cases != 33 {
		t.Errorf("got %d cases, want 33", cuts+cases)
	}
}
