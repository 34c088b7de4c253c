package proxy

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"spectap/collector"
)

// engineBytes is a connection to an engine that answers with bytes and then ends.
type engineBytes struct {
	scriptConn
	size int // most bytes a read
}

// Read implements net.Conn.
func (c *engineBytes) Read(p []byte) (int, error) {
	return c.scriptConn.Read(p[:min(len(p), c.size)])
}

// readByClient is an answer as net/http reads it: interim ones skipped, cut says that its
// end did not come.
type readByClient struct {
	status int
	body   string
	cut    bool
}

func readAnswer(in string) (a readByClient, err error) {
	br := bufio.NewReaderSize(strings.NewReader(in), 1<<10)
	for {
		resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodPost})
		if err != nil {
			return a, err
		}
		if a.status = resp.StatusCode; a.status == 0 {
			return a, errors.New("status 000, which fasthttp takes for 200")
		}
		if a.status < 200 {
			continue
		}
		text, err := io.ReadAll(resp.Body)
		return readByClient{a.status, string(text), err != nil}, nil
	}
}

// Whatever an engine answers, in reads of any size: no panic and no hang; the
// client gets an answer that can be read, the engine's with its bytes or our
// 502; it ends cleanly only where the engine's did, and the Record says so.
func FuzzResponseHead(f *testing.F) {
	cfg := testConfig(f, "http://127.0.0.1:1")
	cfg.MaxHeadBytes, cfg.HeadTimeout, cfg.ConnectTimeout = minHeadBytes, patience, patience
	p := startProxy(f, cfg, quiet)
	const ok = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
	for _, seed := range []string{
		streamHead + chunk(tokenEvent("a")) + chunk(doneEvent) + lastChunk, streamHead + chunk(tokenEvent("a")),
		withLength("200 OK", "application/json", "{}"), withLength("200 OK", "application/json", "{}")[:70],
		"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + withLength("404 No", "text/plain", "no"),
		"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nhello",
		ok + "content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", ok + "content-length: 2\r\ncontent-length: 3\r\n\r\nok",
		ok + "transfer-encoding: gzip, chunked\r\n\r\n", ok + "x: 1\r\n folded\r\ncontent-length: 0\r\n\r\n", ok + "connection: close, x\r\nx: 1\r\n\r\nrest",
		ok + "transfer-encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\nt: 1\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", ok + "transfer-encoding: chunked\r\n\r\n5 5\r\nhello",
		"HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "hello", "\x00\x00\x12\x04", "",
	} {
		f.Add([]byte(seed), uint16(3))
		f.Add([]byte(seed), uint16(4096))
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint16) {
		engine := &engineBytes{scriptConn: scriptConn{in: string(in)}, size: max(1, int(size))}
		p.pool.put(&upConn{Conn: engine, socket: engine})
		c := serveBytes(t, p, post(chatPath, chatStream))
		rec := p.recs.next(t)
		if n := p.Status().Panics; n > 0 {
			t.Fatalf("got %d panics", n)
		}
		got, err := readAnswer(c.out.String())
		if err != nil {
			t.Fatalf("the client got %q, which is no answer: %v", c.out.String(), err)
		}
		if strings.Contains(got.body, `"spectap_`) {
			refusedWell(t, got, rec)
			return
		}
		passedWell(t, string(in), got, rec)
	})
}

// refusedWell checks an answer of our own.
func refusedWell(t *testing.T, got readByClient, rec *collector.Record) {
	t.Helper()
	switch rec.ErrorKind {
	case collector.ErrUpstreamProtocol, collector.ErrUpstreamReset, collector.ErrUpstreamRefused:
	default:
		t.Fatalf("got kind %q for %d of our own", rec.ErrorKind, got.status)
	}
	if got.status != http.StatusBadGateway || got.cut || rec.Status != got.status {
		t.Fatalf("got %+v and a Record of status %d, want a whole 502", got, rec.Status)
	}
}

// passedWell checks an answer of the engine.
func passedWell(t *testing.T, in string, got readByClient, rec *collector.Record) {
	t.Helper()
	if got.cut != (rec.ErrorKind == collector.ErrTruncated) {
		t.Fatalf("the client's answer was cut: %v; the Record's kind is %q", got.cut, rec.ErrorKind)
	}
	want, err := readAnswer(strings.TrimLeft(in, "\r\n"))
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			t.Fatalf("got %+v of a head that did not end", got)
		}
		return // net/http is stricter with heads
	}
	if got.status != want.status {
		t.Fatalf("got status %d, want %d", got.status, want.status)
	}
	if want.cut && !got.cut {
		t.Fatalf("got a clean end of %q, net/http reads a cut %q", got.body, want.body)
	}
	if !got.cut && got.body != want.body {
		t.Fatalf("got body %q, want %q", got.body, want.body)
	}
	if got.cut && !strings.HasPrefix(want.body, got.body) && !strings.HasPrefix(got.body, want.body) {
		t.Fatalf("got %q of the body %q", got.body, want.body)
	}
}
