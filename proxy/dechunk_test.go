package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
)

// dechunk feeds the pieces of b, cut every n bytes.
func dechunk(b []byte, n int) (out []byte, rest int, done bool, err error) {
	var d dechunker
	for len(b) > 0 && !d.done() {
		piece := bytes.Clone(b[:min(n, len(b))])
		data, used, err := d.feed(piece)
		out = append(out, data...)
		b = b[used:]
		if err != nil {
			return out, len(b), false, err
		}
	}
	return out, len(b), d.done(), nil
}

func TestDechunk(t *testing.T) {
	f := func(in, want string, rest int) {
		t.Helper()
		for n := 1; n <= min(len(in), 64); n++ {
			got, left, done, err := dechunk([]byte(in), n)
			if string(got) != want || left != rest || !done || err != nil {
				t.Errorf("%q cut every %d: got %q, %d left, done %v, %v; want %q, %d left", in, n, got, left, done, err, want, rest)
			}
		}
	}
	f("3\r\nabc\r\n0\r\n\r\n", "abc", 0)
	f("a\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n", "0123456789x", 0)
	f("00A\r\n0123456789\r\n000\r\n\r\n", "0123456789", 0)
	f("3;name=\"v\"\r\nabc\r\n0 ;x\r\n\r\n", "abc", 0)  // extensions
	f("3\r\n\r\n\r\r\n0\r\n\r\n", "\r\n\r", 0)          // framing bytes as data
	f("0\r\nA: 1\r\nB: 2\r\n\r\n", "", 0)               // trailers
	f("0\r\n\r\nHTTP/1.1 200", "", len("HTTP/1.1 200")) // what follows is not ours
	bad := func(in string) {
		t.Helper()
		for n := 1; n <= min(len(in), 64); n++ {
			if got, _, done, err := dechunk([]byte(in), n); err == nil || done {
				t.Errorf("%q cut every %d: got %q, done %v, no error", in, n, got, done)
			}
		}
	}
	bad("\r\n")
	bad("x\r\n")
	bad("-1\r\n")
	bad("3\nabc\r\n")
	bad("3\r\nabcd\r\n")
	bad("3\r\nabc\n0\r\n\r\n")
	bad("3;a\nb\r\nabc\r\n")
	bad("0\r\nA: 1\n\r\n")
	for _, line := range []string{"0", "A", ": 1", " A: 1", "A : 1", "A\t: 1", "GET / HTTP/1.1"} { // no field
		bad("0\r\n" + line + "\r\n\r\n")
	}
	bad("1000000000000000\r\n")
	bad("3;" + strings.Repeat("x", maxChunkLine+1))
	bad("0\r\nA: " + strings.Repeat("x", maxChunkLine+1))
}

// FuzzDechunk: what net/http's reader takes whole is read the same, wherever it
// is cut; and no cut changes the outcome of anything.
func FuzzDechunk(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n0\r\n\r\n"), 2)
	f.Add([]byte("3;x=1\r\nabc\r\n0\r\nT: 1\r\n\r\n"), 1)
	f.Add([]byte("fffffff\r\n"), 3)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		n = max(1, n&0xff)
		whole, _, done, err := dechunk(b, len(b)+1)
		cut, _, cutDone, cutErr := dechunk(b, n)
		if !bytes.Equal(whole, cut) && err == nil || done != cutDone || (err == nil) != (cutErr == nil) {
			t.Fatalf("cut every %d: got %q %v %v, whole %q %v %v", n, cut, cutDone, cutErr, whole, done, err)
		}
		if !done {
			return
		}
		want, wantErr := io.ReadAll(httputil.NewChunkedReader(bufio.NewReader(bytes.NewReader(b))))
		if wantErr == nil && !bytes.Equal(want, whole) {
			t.Fatalf("got %q, net/http %q", whole, want)
		}
	})
}

func TestCommentScanner(t *testing.T) {
	f := func(want bool, pieces ...string) {
		t.Helper()
		var c commentScanner
		got := false
		for _, p := range pieces {
			got = c.data([]byte(p))
		}
		if got != want {
			t.Errorf("%q: got %v for the last piece, want %v", pieces, got, want)
		}
	}
	f(false, ": ping\n\n")
	f(false, ": pi", "ng: data\r\n\r\n")
	f(true, "data: x\n")
	f(true, "da", "ta")
	f(true, ": ping\n\ndata: x\n\n")
	f(false, "data: x\n", "\n")
	f(false, "data: x\n\n", ":\n")
}
