package proxy

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// heapInUse is the heap after a collection.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What a head declares takes no memory, nor what a chunk's size does: a body's room grows
// with the bytes that came, and is given back when the client leaves.
func TestDeclaredBodiesTakeNoMemory(t *testing.T) {
	up := answering(t, func(*http.Request) string { return withLength("200 OK", "text/plain", "reached") })
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	const declared, clients = 90 << 20, 20
	const head = "POST " + chatPath + " HTTP/1.1\r\nHost: h\r\n"
	f := func(begin string, came int) {
		t.Helper()
		base := heapInUse()
		var all []*client
		for range clients {
			c := connect(t, p.addr)
			c.send(begin + strings.Repeat("x", came))
			all = append(all, c)
		}
		least := int64(clients * max(came, 1))
		eventually(t, "what was sent is held", func() bool { return came == 0 || p.uploads.taken.Load() >= least })
		if taken := p.uploads.taken.Load(); taken > clients*int64(max(uploadFast*2*came, uploadFirst)) {
			t.Errorf("%d bytes of each body came: %d bytes are taken for all", came, taken)
		}
		if grown, most := heapInUse()-base, int64(clients*(uploadFast*4*came+512<<10)); grown > most {
			t.Errorf("%d bytes of each body came: the heap has grown by %d bytes, want %d at most", came, grown, most)
		}
		for _, c := range all {
			_ = c.Close()
		}
		eventually(t, "the room of clients that left is free", func() bool { return p.uploads.taken.Load() == 0 })
	}
	for _, came := range []int{0, 1, 100_000} {
		f(fmt.Sprintf("%sContent-Length: %d\r\n\r\n", head, declared), came)
		f(fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n", head, declared), came)
	}
	if n := up.requests.Load(); n != 0 {
		t.Errorf("got %d requests upstream, want none", n)
	}
}

// All bodies together have one budget. One that does not fit is refused as soon as
// that is known, and those that are on their way go on; an answer makes room.
func TestBudgetOfBodies(t *testing.T) {
	finish := make(chan struct{})
	up := answering(t, func(req *http.Request) string {
		text, _ := io.ReadAll(req.Body)
		if req.URL.RawQuery == "wait" {
			<-finish
		}
		return withLength("200 OK", "text/plain", fmt.Sprint(len(text)))
	})
	t.Cleanup(func() { close(finish) })
	cfg := testConfig(t, upstreamOf(up))
	cfg.MaxBodyBytes, cfg.MaxBodiesBytes = 1<<20, 1_100_000
	p := startProxy(t, cfg, nil)
	text := strings.Repeat("x", 700_000)
	chunks := "POST " + chatPath + " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(text) + lastChunk
	f := func(request string) {
		t.Helper()
		busy := connect(t, p.addr)
		busy.send(post(chatPath+"?wait", text))
		before := up.requests.Load()
		eventually(t, "a body is at the engine", func() bool { return up.requests.Load() == before+1 || p.uploads.taken.Load() == 700_000 })
		c := connect(t, p.addr)
		c.send(request)
		resp := c.answer("POST")
		got := body(t, resp)
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !resp.Close {
			t.Errorf("got %d, Retry-After %q, close %v; want 503 to try again on another connection", resp.StatusCode, resp.Header.Get("Retry-After"), resp.Close)
		}
		contains(t, got, `"spectap_overloaded"`)
		contains(t, got, "the 1100000 bytes that SPECTAP_MAX_BODIES_BYTES allows")
		c.ended()
		small := connect(t, p.addr) // what fits beside it passes
		small.send(post(chatPath, "{}"))
		if got := body(t, small.answer("POST")); got != "2" {
			t.Errorf("got %q, want 2", got)
		}
		finish <- struct{}{}
		if got := body(t, busy.answer("POST")); got != "700000" {
			t.Errorf("got %q, want 700000", got)
		}
		c = connect(t, p.addr)
		c.send(request)
		if got := body(t, c.answer("POST")); got != "700000" {
			t.Errorf("got %q with room, want 700000", got)
		}
		eventually(t, "nothing is taken any more", func() bool { return p.uploads.taken.Load() == 0 })
	}
	f(post(chatPath, text))
	f(chunks)
	if n := p.Status().Refused; n != 2 {
		t.Errorf("got %d refused, want 2", n)
	}
}

// A body is as long as it may be, to the byte, in a budget of its own size.
func TestBudgetOfOneBody(t *testing.T) {
	up := startStrict(t, func(r strictRequest) string { return withLength("200 OK", "text/plain", fmt.Sprint(len(r.body))) })
	cfg := testConfig(t, upstreamOf(up.scripted))
	f := func(size int) {
		t.Helper()
		cfg.MaxBodyBytes, cfg.MaxBodiesBytes = size, size
		testOneBody(t, startProxy(t, cfg, nil))
		up.take(t, "large bodies")
	}
	f(10)
	f(leastBuffer + 1)
	f(700_000)
	f(mostBuffer)
	f(3<<20 + 7)
}

func testOneBody(t *testing.T, p *stack) {
	t.Helper()
	text := strings.Repeat("x", p.cfg.MaxBodyBytes)
	c := connect(t, p.addr)
	for range 3 {
		for _, request := range []string{
			post("/upload", text),
			"POST /upload HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(text[:len(text)/3]) + chunk(text[len(text)/3:]) + lastChunk,
		} {
			c.send(request)
			if got := body(t, c.answer("POST")); got != fmt.Sprint(len(text)) {
				t.Errorf("got %q, want %d", got, len(text))
			}
		}
	}
	if n := p.uploads.taken.Load(); n != 0 {
		t.Errorf("%d bytes are still taken", n)
	}
}

// Requests that follow one another on a connection stay apart, wherever reads
// end: with a length, in chunks, with neither.
func TestPipelinedBodies(t *testing.T) {
	up := startStrict(t, func(r strictRequest) string { return withLength("200 OK", "text/plain", r.target+" "+r.body) })
	p := startProxy(t, testConfig(t, upstreamOf(up.scripted)), nil)
	const coded = " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
	long := strings.Repeat("0123456789\r\n\r\n", 3000)
	all := []string{
		post("/a", "GET /x HTTP/1.1\r\n\r\n"), "GET /b HTTP/1.1\r\nHost: h\r\n\r\n", post("/c", ""),
		"POST /d" + coded + chunk("one\r\n\r\n") + "3;a=b\r\ntwo\r\n" + "0\r\nTrailer-Field: x\r\n\r\n",
		"POST /e" + coded + lastChunk, "\r\n\r\nPOST /f" + coded + chunk(long) + "4 \t\r\nfour\r\n" + lastChunk, post("/g", long), post("/h", "{}"),
	}
	want := []string{"/a GET /x HTTP/1.1\r\n\r\n", "/b ", "/c ", "/d one\r\n\r\ntwo", "/e ", "/f " + long + "four", "/g " + long, "/h {}"}
	for _, size := range []int{1, 2, 3, 64, 1000, 5000, 1 << 20} {
		c := connect(t, p.addr)
		sent := make(chan error, 1)
		go func() {
			var err error
			for rest := strings.Join(all, ""); rest != "" && err == nil; {
				n := min(size, len(rest))
				_, err = io.WriteString(c.Conn, rest[:n])
				rest = rest[n:]
			}
			sent <- err
		}()
		var got []string
		for range want {
			got = append(got, body(t, c.answer("POST")))
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("pieces of %d bytes: %s", size, d)
		}
		up.take(t, fmt.Sprint("pieces of ", size))
	}
	if n := p.uploads.taken.Load(); n != 0 {
		t.Errorf("%d bytes are still taken", n)
	}
}

// A body that was changed takes room once, the client's own no more, until the
// engine answers.
func TestBudgetOfChangedBody(t *testing.T) {
	finish := make(chan struct{})
	up := answering(t, func(req *http.Request) string {
		_, _ = io.Copy(io.Discard, req.Body)
		<-finish
		return withLength("200 OK", "application/json", "{}")
	})
	cfg := testConfig(t, upstreamOf(up))
	cfg.Measure = "usage"
	p := startProxy(t, cfg, nil)
	for _, size := range []int{100, 700_000, 16 << 20} {
		c := connect(t, p.addr)
		text := strings.Replace(chatStream, "hi", strings.Repeat("x", size), 1)
		request := post(chatPath, text)
		before, base := up.requests.Load(), heapInUse()
		c.send(request)
		eventually(t, "the body is at the engine", func() bool { return up.requests.Load() == before+1 })
		if grown := heapInUse() - base; grown > int64(size+size/2+4<<20) {
			t.Errorf("the heap has grown by %d bytes for a body of %d", grown, len(text))
		}
		runtime.KeepAlive(request)
		if taken := p.uploads.taken.Load(); taken < int64(size) || taken > int64(size+size/4+4096) {
			t.Errorf("%d bytes are taken of a body of %d", taken, len(text))
		}
		finish <- struct{}{}
		_ = body(t, c.answer("POST"))
		if rec := p.recs.next(t); len(rec.Injected) == 0 || rec.RequestBytes != len(text) {
			t.Errorf("got %d bytes, injected %v; want %d and a change", rec.RequestBytes, rec.Injected, len(text))
		}
		eventually(t, "nothing is taken any more", func() bool { return p.uploads.taken.Load() == 0 })
	}
}
