package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var dates = regexp.MustCompile(`date: .* GMT`)

// asked is what Go's own client makes of an answer.
type asked struct {
	Status, Proto    string
	Header, Trailer  http.Header
	ContentLength    int64
	TransferEncoding []string
	Uncompressed     bool
	Events           []string // the body, up to each empty line
	Err              string
	URL              string // after redirects, without the host
}

// ask sends a request with Go's client and reads the answer; it leaves after
// leave events, at 0 with the last.
func ask(t *testing.T, addr, method, path, body string, leave int) (a asked) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		a.Err = strings.ReplaceAll(err.Error(), addr, "(addr)")
		return a
	}
	defer func() { _ = resp.Body.Close() }()
	a = asked{Status: resp.Status, Proto: resp.Proto, Header: resp.Header, ContentLength: resp.ContentLength,
		TransferEncoding: resp.TransferEncoding, Uncompressed: resp.Uncompressed, URL: resp.Request.URL.RequestURI()}
	br := bufio.NewReader(resp.Body)
	for event := ""; leave == 0 || len(a.Events) < leave; {
		line, err := br.ReadString('\n')
		if event += line; line == "\n" || err != nil {
			a.Events, event = append(a.Events, idAndCreated.ReplaceAllString(event, "-")), ""
		}
		if err != nil {
			if err != io.EOF {
				a.Err = err.Error()
			}
			break
		}
	}
	a.Trailer = resp.Trailer
	return a
}

// Go's client gets the same through the proxy as directly, in each mode: streams,
// whole answers, errors, redirects, compressed and broken ones.
func TestGoClient(t *testing.T) {
	th := openTheatre(t)
	for _, mode := range []string{"observe", "usage", "tokens"} {
		cfg := testConfig(t, upstreamOf(th.scripted))
		cfg.Measure, cfg.Hold = mode, patience
		p := startProxy(t, cfg, func(s *Server) { s.pool.limit = 0 })
		f := func(method, path, body string, answer func(*message) reply) {
			t.Helper()
			get := func(addr string) asked {
				th.set(&scene{answer: answer}, &view{})
				return ask(t, addr, method, path, body, 0)
			}
			want, got := get(th.ln.Addr().String()), get(p.addr)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s %s in %s (-direct +through):\n%s", method, path, mode, d)
			}
			if want.Status == "" && want.Err == "" {
				t.Errorf("%s %s: got nothing", method, path)
			}
		}
		// inject answers with one capture where usage is asked for, with the other where not.
		inject := func(asked, tokens, plain string) func(*message) reply {
			return func(m *message) reply {
				name := plain
				switch {
				case strings.Contains(m.body, "continuous_usage_stats"):
					name = tokens
				case strings.Contains(m.body, "include_usage"):
					name = asked
				}
				r := free(captured(t, captureDir(t, name)).answer(m))
				r.head = dates.ReplaceAllString(r.head, "date: Mon, 30 Nov 2026 03:00:00 GMT")
				return r
			}
		}
		same := func(name string) func(*message) reply { return inject(name, name, name) }
		f("POST", chatPath, chatStream, inject("nd-chat-stream-usage", "nd-chat-stream-cont", "nd-chat-stream-nousage"))
		f("POST", "/v1/completions", `{"prompt":"x","stream":true}`, inject("nd-comp-stream-usage", "nd-comp-stream-cont", "nd-comp-stream-nousage"))
		f("POST", chatPath, `{"messages":[],"stream":true,"n":2}`, same("nd-chat-stream-n2"))
		f("POST", chatPath, chatStream, same("nd-chat-minp-t1-stream")) // an error in the stream
		f("POST", chatPath, chatStream, same("nd-chat-err-ctx-stream")) // an error instead of one
		f("POST", chatPath, `{"messages":[]}`, same("nd-chat-nonstream"))
		f("POST", chatPath, `{`, same("nd-chat-err-badjson"))
		f("POST", chatPath, `{"model":"x"}`, same("nd-chat-err-model"))
		f("GET", "/v1/models", "", same("nd-get-v1_models"))
		f("GET", "/metrics", "", same("nd-get-metrics"))
		f("HEAD", "/health", "", same("nd-head-health"))
		f("GET", "/nope", "", same("nd-get-nope"))
		f("GET", "/v1/x", "", fixed(reply{end: "FIN", head: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"}))
		f("POST", chatPath, chatStream, fixed(reply{end: "FIN", head: streamHead + chunk(tokenEvent("a"))}))
		f("POST", "/v1/messages", `{"stream":true}`, same("nd-messages-stream"))
		f("POST", "/v1/responses", `{"stream":true}`, same("nd-responses-stream"))
		f("GET", "/redirects", "", func(m *message) reply { // vLLM makes Location of the Host that it was sent
			if m.target() == "/redirects" {
				return reply{head: "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://" + m.values("Host")[0] + "/there?a=b\r\ncontent-length: 0\r\n\r\n"}
			}
			return reply{head: "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nthere"}
		})
		f("GET", "/zipped", "", func(m *message) reply {
			text, coding := "data: 1\n\n", ""
			if slices.Contains(m.values("Accept-Encoding"), "gzip") {
				text, coding = deflated(text), "content-encoding: gzip\r\n"
			}
			return reply{head: fmt.Sprintf("HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n\r\n%s", coding, len(text), text)}
		})
		f("PUT", "/echo", strings.Repeat("0123456789", 1<<17), func(m *message) reply {
			return reply{head: fmt.Sprintf("HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s", len(m.body), m.body)}
		})
	}
}

// A client that leaves a stream early: it has had the same events, and the
// engine's connection ends.
func TestGoClientBreaks(t *testing.T) {
	gone := make(chan struct{}, 2)
	up := startEngine(t, func(_ *scripted, c *engineConn, _ int) {
		if c.request() != nil {
			c.send(streamHead, chunk(tokenEvent("a")), chunk(tokenEvent("b")))
			c.gone()
			gone <- struct{}{}
		}
	})
	for _, mode := range []string{"observe", "usage"} {
		cfg := testConfig(t, upstreamOf(up))
		cfg.Measure = mode
		p := startProxy(t, cfg, nil)
		want := ask(t, up.ln.Addr().String(), "POST", chatPath, chatStream, 2)
		<-gone
		got := ask(t, p.addr, "POST", chatPath, chatStream, 2)
		if d := cmp.Diff(want, got); d != "" || len(got.Events) != 2 {
			t.Errorf("%s (-direct +through):\n%s", mode, d)
		}
		wait(t, "the engine's connection ends", gone)
	}
}

// free is a reply that waits for nobody: its client counts no bytes.
func free(r reply) reply {
	var wire bytes.Buffer
	wire.WriteString(r.head)
	for _, part := range r.parts {
		if r.chunked {
			part = chunk(part)
		}
		wire.WriteString(part)
	}
	wire.WriteString(r.tail)
	return reply{head: wire.String(), end: r.end}
}
