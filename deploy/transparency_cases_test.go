package deploy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime/multipart"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A byte-level client sees the same of uvicorn with spectap as without, save what
// the cases list.
func TestTransparencyWire(t *testing.T) {
	for _, parser := range parsers {
		t.Run(parser, func(t *testing.T) {
			server := startUvicorn(t, parser, nil)
			proxy := startProxy(t, nil, server.URL, "--measure", "observe")
			for _, c := range wireCases {
				if c.only != "" && c.only != parser {
					continue
				}
				t.Run(c.name, func(t *testing.T) { c.compare(t, server.URL, proxy.URL) })
			}
		})
	}
}

// The same with the middleware that compresses.
func TestTransparencyGzip(t *testing.T) {
	server := startUvicorn(t, "httptools", []string{"SPECTAP_GZIP=1"})
	proxy := startProxy(t, nil, server.URL, "--measure", "observe")
	for _, c := range gzipCases {
		t.Run(c.name, func(t *testing.T) { c.compare(t, server.URL, proxy.URL) })
	}
}

// wireCase is what a client does on one connection.
type wireCase struct {
	name    string
	request string // starts with the method
	talk    func(w *wire) []seenAnswer
	want    string // how the first status line goes on behind HTTP/1.1, without spectap
	allow   []allowance
	kept    bool   // the connection may be open with spectap, and closed without
	only    string // the parser, where the other one does not take the request
}

// allowance is a difference that has a reason: it changes the answers without
// spectap to those that are expected with it.
type allowance func(direct []seenAnswer)

func (c wireCase) compare(t *testing.T, server, proxy string) {
	t.Helper()
	direct, directEnd := c.run(t, server)
	through, throughEnd := c.run(t, proxy)
	if len(direct) == 0 || !strings.HasPrefix(direct[0].Status, "HTTP/1.1 "+c.want) {
		t.Errorf("got %+v without spectap, want %s", direct, c.want)
	}
	for _, allowed := range c.allow {
		allowed(direct)
	}
	if directEnd != throughEnd && !c.kept {
		t.Errorf("the connection is %s without spectap, %s with", directEnd, throughEnd)
	}
	if len(direct) != len(through) {
		t.Fatalf("got %d answers without spectap, %d with", len(direct), len(through))
	}
	for i := range direct {
		direct[i].Chunks, through[i].Chunks = 0, 0 // several may share a read; TestTransparencyEvents looks at each
		if got, want := fmt.Sprintf("%+v", through[i]), fmt.Sprintf("%+v", direct[i]); got != want {
			at := max(0, common(got, want)-80)
			t.Errorf("answer %d differs\nwithout spectap …%.400q\n   with spectap …%.400q", i, want[at:], got[at:])
		}
	}
}

func (c wireCase) run(t *testing.T, url string) (all []seenAnswer, end string) {
	t.Helper()
	w := dialWire(t, url)
	if c.talk != nil {
		all = c.talk(w)
	} else {
		w.write(c.request)
		method, _, _ := strings.Cut(c.request, " ")
		all = []seenAnswer{w.read(method)}
	}
	return all, w.end()
}

const jsonHead = "Host: engine.example:8000\r\nContent-Type: application/json\r\n"

// post is a request with a body of a length.
func post(path, body string, fields ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n%s", path, jsonHead, strings.Join(append(fields, ""), "\r\n"), len(body), body)
}

// inChunks is a request with a chunked body.
func inChunks(path string, parts ...string) string {
	text := "POST " + path + " HTTP/1.1\r\n" + jsonHead + "Transfer-Encoding: chunked\r\n\r\n"
	for _, part := range parts {
		text += fmt.Sprintf("%x\r\n%s\r\n", len(part), part)
	}
	return text + "0\r\n\r\n"
}

// upload is a transcription's form.
func upload() string {
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	_ = parts.SetBoundary("0123456789abcdef") // no write to a buffer fails
	file, _ := parts.CreateFormFile("file", "a.wav")
	_, _ = file.Write(bytes.Repeat([]byte{0, 1, 0xff, '\r', '\n'}, 40_000))
	_ = parts.WriteField("model", "whisper")
	_ = parts.WriteField("language", "de")
	_ = parts.Close()
	return fmt.Sprintf("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", parts.FormDataContentType(), form.Len(), form.Bytes())
}

// expects sends the head, waits for the interim answer, and sends the body.
func expects(path string) func(w *wire) []seenAnswer {
	return func(w *wire) []seenAnswer {
		w.write("POST " + path + " HTTP/1.1\r\n" + jsonHead + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
		line, _ := w.in.ReadString('\n')
		w.fields()
		w.write("{}")
		a := w.read("POST")
		a.Interim = append([]string{strings.TrimSpace(line)}, a.Interim...)
		return []seenAnswer{a}
	}
}

func pipelined(w *wire) []seenAnswer {
	w.write(post("/v1/completions", `{"prompt":"a"}`) + "GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n" + post("/v1/chat/completions", `{"stream":true}`))
	return []seenAnswer{w.read("POST"), w.read("GET"), w.read("POST")}
}

// A change of what is expected with spectap has a reason, which each case names.

// unseen takes fields out of what /echo saw of the request.
func unseen(names ...string) allowance {
	return func(direct []seenAnswer) {
		for _, name := range names {
			field := regexp.MustCompile(`\["` + name + `","[^"]*"\],?`)
			direct[0].replace(strings.ReplaceAll(field.ReplaceAllString(direct[0].Body, ""), ",]", "]"))
		}
	}
}

// seen puts a field into what /echo saw of the request, as the first by name.
func seen(name, value string) allowance {
	return func(direct []seenAnswer) {
		direct[0].replace(strings.Replace(direct[0].Body, `"headers":[`, fmt.Sprintf(`"headers":[[%q,%q],`, name, value), 1))
	}
}

// replace gives the answer another body.
func (a *seenAnswer) replace(body string) {
	length := func(text string) string { return fmt.Sprintf("content-length: %d", len(text)) }
	for i, field := range a.Fields {
		if field == length(a.Body) {
			a.Fields[i] = length(body)
		}
	}
	a.Body = body
}

// kept: the connection to uvicorn ends, ours to the client need not.
func kept(direct []seenAnswer) {
	direct[0].Fields = slices.DeleteFunc(direct[0].Fields, func(field string) bool { return field == "connection: close" })
}

// plain: a body comes as it is, not compressed.
func plain(direct []seenAnswer) {
	text := strings.NewReader(direct[0].Body)
	inflated, err := gzip.NewReader(text)
	if err != nil {
		return // it is not compressed, and the comparison fails
	}
	body, _ := io.ReadAll(inflated) // a short one differs
	direct[0].replace(string(body))
	direct[0].Fields = slices.DeleteFunc(direct[0].Fields, func(field string) bool { return field == "content-encoding: gzip" })
}

// ownWords: what is no HTTP does not come to uvicorn. Ours has OpenAI's shape.
func ownWords(direct []seenAnswer) {
	direct[0].Fields = []string{"connection: close", "content-length: 106", "content-type: application/json", "date: some"}
	direct[0].Framing = "length"
	direct[0].Body = `{"error":{"code":400,"message":"request is not valid HTTP/1.1","param":null,"type":"spectap_bad_request"}}`
}
