package proxy

import (
	"fmt"
	"strings"
	"testing"
)

// smuggled lists header lines that hide a Transfer-Encoding from some readers:
// the 134 mutations that defparam/smuggler tries by default, by its rules.
func smuggled() (lines []string) {
	lines = append(lines, " Transfer-Encoding: chunked", "Transfer-Encoding:\tchunked", "Transfer-Encoding\t:\tchunked", "Transfer-Encoding : chunked")
	for _, odd := range []byte{0x01, 0x04, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x1f, 0x20, 0x7f, 0xa0, 0xff} {
		for _, rule := range []string{
			"Transfer-Encoding:?chunked", "Transfer-Encoding?: chunked", "?Transfer-Encoding: chunked", "Transfer-Encoding: chunked?",
			"X: X?Transfer-Encoding: chunked", "Transfer-Encoding: chunked?X: X",
			"X: X\r?Transfer-Encoding: chunked", "X: X?\nTransfer-Encoding: chunked",
			"Transfer-Encoding: chunked\r?X: X", "Transfer-Encoding: chunked?\nX: X",
		} {
			lines = append(lines, strings.ReplaceAll(rule, "?", string([]byte{odd})))
		}
	}
	return lines
}

// otherSmuggled lists more lines of this kind: those of smuggler's other
// configurations that are no pattern, and of Http11Probe.
func otherSmuggled() []string {
	return []string{
		"Transfer Encoding: chunked", "Transfer_Encoding: chunked", "Transfer Encoding:chunked", "Transfer-Encoding:  chunked",
		"Transfer-Encoding: chunked, cow", "Transfer-Encoding: cow, chunked", "Content-Encoding: chunked", "Transfer-Encoding:\n chunked",
		"Transfer-Encoding: \"chunked\"", "Transfer-Encoding: 'chunked'", "Transfer-Encoding: chunk", "TrAnSFer-EnCODinG: cHuNkeD",
		"TRANSFER-ENCODING: CHUNKED", "Transfer-Encoding: chunked\r", "Transfer-Encoding: cow\r\nTransfer-Encoding: chunked",
		"Transfer\r-Encoding: chunked", "Transfer-Encoding: cow chunked bar", "Transfer-Encoding: ch\x96nked", "Transf\x82r-Encoding: chunked",
		"X:X\rTransfer-Encoding: chunked", "X:X\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
		"Transfer-Encoding:", "Transfer-Encoding: identity", "Transfer-Encoding: , chunked", "Transfer-Encoding: chunked,", "Transfer-Encoding: chunked, chunked",
		"Transfer-Encoding: xchunked", "Transfer-Encoding: chunked;q=1", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding:\r\n chunked",
		"Transfer-Encoding: chunked\x00", "\x00Transfer-Encoding: chunked", ": chunked", "Transfer-Encoding",
	}
}

// doubled lists the lines with one odd character at two places.
func doubled() (lines []string) {
	for odd := 0x01; odd < 0x100; odd++ {
		if odd > 0x20 && odd < 0x7f {
			continue
		}
		for _, rule := range []string{
			"?Transfer-Encoding?: chunked", "?Transfer-Encoding:?chunked", "?Transfer-Encoding: chunked?",
			"Transfer-Encoding?:?chunked", "Transfer-Encoding?: chunked?", "Transfer-Encoding:?chunked?",
		} {
			lines = append(lines, strings.ReplaceAll(rule, "?", string([]byte{byte(odd)})))
		}
	}
	return lines
}

// Whatever hides a Transfer-Encoding beside a Content-Length: either the engine
// hears nothing, or the head is one that every reader takes the same way, and
// then the engine gets just the bytes that the length names. What stands behind
// is never a request that was not one for the client's first reader.
func TestSmuggling(t *testing.T) {
	up := startStrict(t, echoStrict)
	p := startProxy(t, testConfig(t, upstreamOf(up.scripted)), nil)
	if n := len(smuggled()); n != 134 {
		t.Errorf("got %d mutations, want 134", n)
	}
	passed := map[string]bool{}
	try := func(line string, length int, body string) {
		t.Helper()
		input := fmt.Sprintf("POST /v1/x HTTP/1.1\r\n%s\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", line, length, body)
		want, _, err := readStrict(input)
		c := serveBytes(t, p, input+"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
		seen := up.take(t, input)
		status, _ := firstAnswer(c.out.String())
		if err != nil {
			if len(seen) != 0 || status != 400 {
				t.Errorf("%q: got %d and %d requests upstream (%v), want 400 and none", line, status, len(seen), seen)
			}
			return
		}
		passed[line] = true
		if len(seen) == 0 || status != 200 {
			t.Errorf("%q: got %d and no request upstream, want it passed on", line, status)
			return
		}
		if seen[0].body != want.body || seen[0].target != "/v1/x" {
			t.Errorf("%q: got %q with body %q upstream, want the body %q", line, seen[0].target, seen[0].body, want.body)
		}
		name, value, _ := strings.Cut(line, ":")
		if !strings.Contains(strings.ToLower(seen[0].head), strings.ToLower(name+":"+value)) {
			t.Errorf("%q: got head %q upstream, want the line in it", line, seen[0].head)
		}
	}
	for _, line := range append(append(smuggled(), otherSmuggled()...), doubled()...) {
		try(line, 6, "0\r\n\r\nX")                   // TE.CL
		try(line, 5, "0\r\n\r\nX")                   // and its good length
		try(line, 4, "1\r\nZ\r\n0\r\n\r\n")          // CL.TE
		try(line, 11, "1\r\nZ\r\n0\r\n\r\n")         // and its good length
		try(line, 0, "0\r\n\r\nGET /x HTTP/1.1\r\n") // a body that is none
	}
	// What passes has no coding in it, not for the most lenient HTTP reader.
	for _, line := range []string{
		"Content-Encoding: chunked", "Transfer_Encoding: chunked", "X: X\tTransfer-Encoding: chunked", "X: X Transfer-Encoding: chunked",
		"X: X\xa0Transfer-Encoding: chunked", "X: X\xffTransfer-Encoding: chunked",
	} {
		if !passed[line] {
			t.Errorf("%q did not pass", line)
		}
		delete(passed, line)
	}
	for line := range passed {
		t.Errorf("%q passed", line)
	}
}
