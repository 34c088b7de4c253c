package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spectap/collector"
)

// canary stands in a request or an answer where nobody may find it again. Each
// exchange has one of its own, of the same length: c4n4ry07.
const canary = "CANARYNN"

func canaryOf(i int) string { return fmt.Sprintf("c4n4ry%02d", i) }

// exchange is a request that holds the canary, or whose answer does, and what
// has to come of it.
type exchange struct {
	name    string
	request string // as the client writes it
	answer  string // as the engine writes it
	then    string // what the engine does after it: close, hang, or serve the next request
	leave   string // when the client leaves: once the engine has the request, or once it has a part of the answer

	route    string // Record.Route; "" where no Record is made
	kind     string // Record.ErrorKind
	refused  bool   // the proxy reads no request in it, so that only counters and the log know
	shown    string // sinks that show it by design; those with a question mark need not
	captured string // what SPECTAP_CAPTURE has to name for it to be in the records
	stays    bool   // the proxy passes it on to nobody
}

// What the engine does after an answer, and when a client leaves.
const (
	thenClose = "close"
	thenHang  = "hang"

	leaveEarly  = "the engine has it"
	leaveLate   = "a part came"
	leaveInside = "in the middle of the request"
)

// postOf is a request; its length is that of the text with a canary.
func postOf(path, body string, headers ...string) string {
	return postAs("application/json", path, body, headers...)
}

func postAs(kind, path, body string, headers ...string) string {
	lines := ""
	for _, h := range headers {
		lines += h + "\r\n"
	}
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: test\r\nContent-Type: %s\r\n%sContent-Length: %d\r\n\r\n%s", path, kind, lines, len(body), body)
}

func getOf(target string, headers ...string) string {
	return "GET " + target + " HTTP/1.1\r\nHost: test\r\n" + strings.Join(append(headers, "\r\n"), "\r\n")
}

// says is an answer with a length, streams one of events.
func says(status, kind, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, kind, len(body), body)
}

func streams(events ...string) string { return begins(events...) + "0\r\n\r\n" }

func begins(events ...string) string {
	text := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, e := range events {
		e = "data: " + e + "\n\n"
		text += fmt.Sprintf("%x\r\n%s\r\n", len(e), e)
	}
	return text
}

const (
	chatPath = "/v1/chat/completions"
	textPath = "/v1/completions"
	jsonKind = "application/json"

	asking   = `{"model":"m","messages":[{"role":"user","content":"CANARYNN"}],"stream":true}`
	plainly  = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`
	oneToken = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"CANARYNN"},"finish_reason":null}]}`
	anyToken = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`
	oneEnd   = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":""},"finish_reason":"length"}]}`
	chatBody = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	textBody = `{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"a","finish_reason":"stop"}]}`
)

// whole is the answer that most requests get.
var whole = streams(anyToken, oneEnd, "[DONE]")

// delta is a stream whose only event of output has other members than content.
func delta(members string) string {
	return streams(strings.Replace(anyToken, `"content":"a"}`, members+`}`, 1), oneEnd, "[DONE]")
}

func headerOf(line string) string { return postOf(chatPath, plainly, line) }

// exchanges are all ways in which content can reach the proxy.
func exchanges() []exchange {
	const chat, other = collector.RouteChat, collector.RouteOther
	list := []exchange{
		{name: "prompt of chat", request: postOf(chatPath, asking), answer: whole, route: chat, captured: "prompt"},
		{name: "system prompt", request: postOf(chatPath, `{"model":"m","messages":[{"role":"system","content":"CANARYNN"}],"stream":true}`), answer: whole, route: chat},
		{name: "prompt in parts", request: postOf(chatPath, `{"messages":[{"role":"user","content":[{"type":"text","text":"CANARYNN"}]}]}`), answer: says("200 OK", jsonKind, chatBody), route: chat, captured: "prompt"},
		{name: "prompt of completions", request: postOf(textPath, `{"model":"m","prompt":"CANARYNN"}`), answer: says("200 OK", jsonKind, textBody), route: collector.RouteCompletions, captured: "prompt"},
		{name: "input of responses", request: postOf("/v1/responses", `{"model":"m","input":"CANARYNN","instructions":"CANARYNN"}`), answer: says("200 OK", jsonKind, `{"id":"resp_1","status":"completed"}`), route: collector.RouteResponses},
		{name: "prompt of messages", request: postOf("/v1/messages", `{"model":"m","messages":[{"role":"user","content":"CANARYNN"}]}`), answer: says("200 OK", jsonKind, `{"id":"msg_1","stop_reason":"end_turn"}`), route: collector.RouteMessages, captured: "prompt"},
		{name: "members that are text", request: postOf(chatPath, `{"messages":[],"stop":["CANARYNN"],"user":"CANARYNN","metadata":{"a":"CANARYNN"},"seed":"CANARYNN","temperature":"CANARYNN","stream_options":{"CANARYNN":"CANARYNN"},"CANARYNN":1}`), answer: says("200 OK", jsonKind, chatBody), route: chat},
		{name: "broken JSON", request: postOf(chatPath, `{"messages":[{"role":"user","content":"CANARYNN"}],"temperature":0CANARYNN`), answer: says("400 Bad Request", jsonKind, `{"error":{"message":"bad: CANARYNN","type":"BadRequestError","param":null,"code":400}}`), route: chat, kind: collector.ErrHTTPStatus, captured: "prompt"},
		{name: "multipart", request: postAs("multipart/form-data; boundary=CANARYNN", "/v1/audio/transcriptions", "--CANARYNN\r\nContent-Disposition: form-data; name=\"file\"; filename=\"CANARYNN\"\r\n\r\nCANARYNN\r\n--CANARYNN--\r\n"), answer: says("200 OK", jsonKind, `{"text":"CANARYNN"}`), route: other},
		{name: "embeddings", request: postOf("/v1/embeddings", `{"model":"m","input":"CANARYNN"}`), answer: says("200 OK", jsonKind, `{"data":[]}`), route: other},

		{name: "reply in a stream", request: postOf(chatPath, plainly), answer: streams(oneToken, oneEnd, "[DONE]"), route: chat, captured: "reply"},
		{name: "reply in a body", request: postOf(chatPath, `{"messages":[]}`), answer: says("200 OK", jsonKind, strings.Replace(chatBody, `"a"`, `"CANARYNN"`, 1)), route: chat, captured: "reply"},
		{name: "reply of completions", request: postOf(textPath, `{"prompt":"a"}`), answer: says("200 OK", jsonKind, strings.Replace(textBody, `"a"`, `"CANARYNN"`, 1)), route: collector.RouteCompletions, captured: "reply"},
		{name: "reasoning", request: postOf(chatPath, plainly), answer: delta(`"reasoning":"CANARYNN"`), route: chat, captured: "reasoning"},
		{name: "tool call", request: postOf(chatPath, plainly), answer: delta(`"tool_calls":[{"index":0,"id":"CANARYNN","function":{"name":"CANARYNN","arguments":"CANARYNN"}}]`), route: chat},
		{name: "refusal and log probabilities", request: postOf(chatPath, plainly), answer: delta(`"refusal":"CANARYNN"},"logprobs":{"content":["CANARYNN"]`), route: chat},
		{name: "reply of responses", request: postOf("/v1/responses", `{"stream":true}`), answer: streams(`{"type":"response.output_text.delta","delta":"CANARYNN"}`, `{"type":"response.completed","response":{"id":"r","status":"completed"}}`), route: collector.RouteResponses, captured: "reply"},
		{name: "reply of messages", request: postOf("/v1/messages", `{"stream":true}`), answer: streams(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"CANARYNN"}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`), route: collector.RouteMessages, captured: "reply"},
		{name: "finish reason of prose", request: postOf(chatPath, plainly), answer: streams(anyToken, strings.Replace(oneEnd, `"length"`, `"because of CANARYNN, as you said"`, 1), "[DONE]"), route: chat},
		{name: "events that are no JSON", request: postOf(chatPath, plainly), answer: streams("CANARYNN", anyToken, oneEnd, "[DONE]"), route: chat},

		{name: "Authorization", request: headerOf("Authorization: Bearer CANARYNN"), answer: whole, route: chat},
		{name: "Cookie", request: headerOf("Cookie: session=CANARYNN"), answer: whole, route: chat},
		{name: "any header", request: headerOf("X-Anything: CANARYNN"), answer: whole, route: chat, captured: "header"},
		{name: "name of a header", request: headerOf("X-CANARYNN: 1"), answer: whole, route: chat},
		{name: "hop-by-hop header", request: headerOf("Connection: CANARYNN\r\nCANARYNN: CANARYNN"), answer: whole, route: chat, stays: true},
		{name: "Host", request: strings.Replace(postOf(chatPath, plainly), "Host: test", "Host: CANARYNN", 1), answer: whole, route: chat},
		{name: "User-Agent, Referer, Forwarded", request: headerOf("User-Agent: CANARYNN\r\nReferer: http://h/CANARYNN\r\nForwarded: for=CANARYNN\r\nX-Forwarded-For: CANARYNN"), answer: whole, route: chat},
		{name: "baggage of others", request: headerOf("baggage: tenant=CANARYNN,CANARYNN=1,spectap.run=r;CANARYNN=CANARYNN"), answer: whole, route: chat},
		{name: "tracestate", request: headerOf("tracestate: vendor=CANARYNN"), answer: whole, route: chat},
		{name: "broken tracestate", request: headerOf("tracestate: CANARYNN"), answer: whole, route: chat},
		{name: "traceparent that is none", request: headerOf("traceparent: 00-CANARYNN"), answer: whole, route: chat, stays: true},
		{name: "header of the answer", request: postOf(chatPath, plainly), answer: strings.Replace(whole, "\r\n", "\r\nX-Echo: CANARYNN\r\nServer: CANARYNN\r\nSet-Cookie: CANARYNN\r\n", 1), route: chat},
		{name: "reason phrase", request: postOf(chatPath, plainly), answer: strings.Replace(whole, "200 OK", "200 CANARYNN", 1), route: chat},
		{name: "query", request: postOf(chatPath+"?key=CANARYNN&CANARYNN", plainly), answer: whole, route: chat},
		{name: "query of another path", request: getOf("/v1/models?key=CANARYNN"), answer: says("500 Internal Server Error", "text/html", "<p>CANARYNN</p>"), kind: "none"},
		{name: "absolute target", request: postOf("http://CANARYNN:1"+chatPath+"?CANARYNN", plainly), answer: whole, route: chat},

		{name: "error that echoes the prompt", request: postOf(chatPath, asking), answer: says("400 Bad Request", jsonKind, `{"error":{"message":"cannot take 'CANARYNN'","type":"you said CANARYNN","param":"CANARYNN","code":"CANARYNN!"}}`), route: chat, kind: collector.ErrHTTPStatus, captured: "prompt"},
		{name: "error that is a string", request: postOf(chatPath, plainly), answer: says("401 Unauthorized", jsonKind, `{"error":"key CANARYNN is unknown"}`), route: chat, kind: collector.ErrHTTPStatus},
		{name: "error in FastAPI's form", request: postOf(chatPath, plainly), answer: says("422 Unprocessable Entity", jsonKind, `{"detail":[{"loc":["body"],"msg":"CANARYNN","input":"CANARYNN"}]}`), route: chat, kind: collector.ErrHTTPStatus},
		{name: "error of HTML", request: postOf(chatPath, plainly), answer: says("502 Bad Gateway", "text/html", "<h1>CANARYNN</h1>"), route: chat, kind: collector.ErrHTTPStatus},
		{name: "error event", request: postOf(chatPath, plainly), answer: streams(anyToken, `{"error":{"message":"CANARYNN","type":"said CANARYNN","code":500}}`, "[DONE]"), route: chat, kind: collector.ErrInBand},
		{name: "success that is HTML", request: postOf(chatPath, plainly), answer: says("200 OK", "text/html", "<h1>CANARYNN</h1>"), route: chat},
		{name: "garbage", request: postOf(chatPath, asking), answer: "CANARYNN CANARYNN\r\n\r\nCANARYNN", then: thenClose, route: chat, kind: collector.ErrUpstreamProtocol, captured: "prompt"},
		{name: "upgrade by the engine", request: postOf(chatPath, plainly), answer: "HTTP/1.1 101 CANARYNN\r\nUpgrade: CANARYNN\r\nConnection: Upgrade\r\n\r\n", then: thenClose, route: chat, kind: collector.ErrUpstreamProtocol},
		{name: "cut head", request: postOf(chatPath, asking), answer: "HTTP/1.1 200 OK\r\nX-Echo: CANARYNN", then: thenClose, route: chat, kind: collector.ErrUpstreamReset, captured: "prompt"},
		{name: "no answer", request: postOf(chatPath, asking), then: thenHang, route: chat, kind: collector.ErrUpstreamTimeout, captured: "prompt"},
		{name: "cut stream", request: postOf(chatPath, asking), answer: begins(oneToken), then: thenClose, route: chat, kind: collector.ErrTruncated, captured: "prompt reply"},
		{name: "cut event", request: postOf(chatPath, plainly), answer: begins(anyToken) + "30\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"CANARYNN", then: thenClose, route: chat, kind: collector.ErrTruncated},
		{name: "bad chunk of the engine", request: postOf(chatPath, plainly), answer: begins(anyToken) + "CANARYNN\r\n", then: thenClose, route: chat, kind: collector.ErrTruncated, stays: true},
		{name: "stalled stream", request: postOf(chatPath, plainly), answer: begins(oneToken), then: thenHang, route: chat, kind: collector.ErrStalled, captured: "prompt reply"},

		{name: "client leaves before the answer", request: postOf(chatPath, asking), then: thenHang, leave: leaveEarly, route: chat, kind: collector.ErrClientGone, captured: "prompt"},
		{name: "client leaves during the answer", request: postOf(chatPath, plainly), answer: begins(oneToken), then: thenHang, leave: leaveLate, route: chat, kind: collector.ErrClientGone, captured: "reply"},
		{name: "client leaves during the request", request: strings.TrimSuffix(postOf(chatPath, asking), `"stream":true}`), leave: leaveInside, kind: "nothing"},

		{name: "CONNECT", request: "CONNECT CANARYNN:443 HTTP/1.1\r\nHost: CANARYNN\r\n\r\n", kind: "none"},
		{name: "upgrade", request: getOf("/CANARYNN", "Connection: Upgrade", "Upgrade: CANARYNN"), kind: "none"},
		{name: "folded header", request: headerOf("X-Anything: a\r\n CANARYNN"), route: chat, kind: collector.ErrRequestRejected, captured: "header"},
		{name: "both framings", request: headerOf("Transfer-Encoding: chunked\r\nX-Anything: CANARYNN"), route: chat, kind: collector.ErrRequestRejected, captured: "header"},
		{name: "version of HTTP", request: strings.Replace(headerOf("X-Anything: CANARYNN"), "HTTP/1.1", "HTTP/9.9", 1), route: chat, kind: collector.ErrRequestRejected, captured: "header"},
		{name: "bad request line", request: "CANARYNN\r\nAuthorization: CANARYNN\r\n\r\n", refused: true},
		{name: "bad header line", request: "POST " + chatPath + " HTTP/1.1\r\nHost: a\r\nCANARYNN\r\n\r\n", refused: true},
		{name: "large head", request: headerOf("X-Anything: " + strings.Repeat(canary, 30000)), refused: true},
		{name: "large body", request: postOf(chatPath, strings.Repeat(canary, 10000)), refused: true},
		{name: "bad chunk of the client", request: "POST " + chatPath + " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nCANARYNN\r\nCANARYNN", refused: true},
		{name: "another method", request: "CANARYNN " + chatPath + " HTTP/1.1\r\nHost: a\r\n\r\n", answer: says("405 Method Not Allowed", jsonKind, `{"detail":"CANARYNN"}`), kind: "none"},

		// By design. A path can be a secret, so records alone have it.
		{name: "path", request: postOf("/v1/sessions/CANARYNN", `{}`), answer: says("500 Internal Server Error", jsonKind, `{}`), route: other, kind: collector.ErrHTTPStatus, shown: "records"},
		{name: "path before a known one", request: postOf("/CANARYNN"+chatPath, plainly), answer: whole, route: chat, shown: "records"},
		{name: "path of no model call", request: getOf("/sessions/CANARYNN"), answer: says("500 Internal Server Error", jsonKind, `{}`), kind: "none"},
		{name: "label", request: headerOf("baggage: spectap.conversation=CANARYNN"), answer: whole, route: chat, shown: "records spans"},
		{name: "model", request: postOf(chatPath, strings.Replace(plainly, `"m"`, `"CANARYNN"`, 1)), answer: whole, route: chat, shown: "spans"},
		{name: "model that the engine serves", request: postOf(chatPath, strings.Replace(plainly, `"m"`, `"CANARYNN"`, 1)), answer: streams(strings.Replace(anyToken, `"m"`, `"CANARYNN"`, 1), oneEnd, "[DONE]"), route: chat, shown: "records spans metrics pushed page?"},
	}
	for i := range list {
		if list[i].kind == "none" { // it is no model call, so there is no Record to have a kind
			list[i].kind = ""
		}
	}
	return list
}

// answering is an engine that answers an exchange's request as it says.
type answering struct {
	list []exchange
	mu   sync.Mutex
	got  map[int]chan struct{} // closed when the engine has the request
}

func (a *answering) has(i int) chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.got[i] == nil {
		a.got[i] = make(chan struct{})
	}
	return a.got[i]
}

// serve answers the requests of one connection. The exchange's number is its X-Request-Id.
func (a *answering) serve(c net.Conn) {
	defer c.Close()
	br := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		i, err := strconv.Atoi(req.Header.Get("X-Request-Id"))
		if err != nil { // a probe of the proxy itself
			_, _ = io.WriteString(c, says("200 OK", jsonKind, `{"version":"0.32.0"}`))
			continue
		}
		e := a.list[i]
		if has := a.has(i); e.leave == leaveEarly {
			close(has)
		}
		_, _ = io.WriteString(c, strings.ReplaceAll(e.answer, canary, canaryOf(i)))
		switch e.then {
		case thenClose:
			return
		case thenHang:
			_, _ = io.Copy(io.Discard, br) // until the proxy closes
			return
		}
	}
}

// play is the client of an exchange. It returns what it got.
func (a *answering) play(t *testing.T, i int, socket string) []byte {
	e := a.list[i]
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	line, rest, _ := strings.Cut(strings.ReplaceAll(e.request, canary, canaryOf(i)), "\r\n")
	ours := fmt.Sprintf("\r\nX-Request-Id: %d\r\n", i)
	if !strings.Contains(e.request, "traceparent: ") {
		ours += "traceparent: 00-" + traceOf(i) + "-00000000000000aa-01\r\n"
	}
	if !strings.Contains(e.request, "Connection: ") {
		ours += "Connection: close\r\n"
	}
	if _, err := io.WriteString(c, line+ours+rest); err != nil && !e.refused {
		t.Errorf("%s: %v", e.name, err)
	}
	switch e.leave {
	case leaveEarly:
		select {
		case <-a.has(i):
		case <-time.After(patience):
			t.Errorf("%s: the engine has no request", e.name)
		}
		return nil
	case leaveInside:
		return nil
	case leaveLate:
		br := bufio.NewReader(c)
		var got bytes.Buffer
		for !strings.Contains(got.String(), canaryOf(i)) {
			part, err := br.ReadBytes('\n')
			if got.Write(part); err != nil {
				t.Errorf("%s: %v after %q", e.name, err, got.String())
				break
			}
		}
		return got.Bytes()
	}
	got, _ := readAnswer(c)
	return got
}

// readAnswer reads one answer to its end: a connection with other words than
// close in its Connection field stays open.
func readAnswer(c net.Conn) ([]byte, error) {
	var raw bytes.Buffer
	resp, err := http.ReadResponse(bufio.NewReader(io.TeeReader(c, &raw)), nil)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	return raw.Bytes(), err
}

// traceOf is the trace id of an exchange.
func traceOf(i int) string { return fmt.Sprintf("5bec7a90%024x", i+1) }

// Nothing of what passes is found in what spectap shows or keeps, whatever fails.
func TestPrivacy(t *testing.T) {
	f := func(name string, o *observed) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.list = exchanges()
			o.run(t, filepath.Join(t.TempDir(), "records.jsonl"))
		})
	}
	f("JSON log", &observed{format: "json"})
	f("console log, hashes", &observed{format: "console", env: []string{"SPECTAP_HASH_USER=true", "SPECTAP_MEASURE=tokens", "SPECTAP_ENGINE=vllm"}})
	f("texts captured", &observed{format: "json", capture: "prompt reply reasoning"})
	f("headers captured, hashes", &observed{format: "json", capture: "header:X-Anything", env: []string{"SPECTAP_HASH_USER=true"}})
	f("nobody watches", &observed{format: "json", alone: true})
	f("no engine", &observed{format: "json", dead: true})
}

// A sweep's questions are in the files that are for them, and nowhere else.
func TestPrivacyOfSweep(t *testing.T) {
	const secret = "c4n4rySweep"
	for _, fault := range []string{"", "error@3/5"} {
		cfg := fastEngine()
		cfg.Fault = fault
		engine, _ := serveEngine(t, cfg)
		dir := t.TempDir()
		questions := filepath.Join(dir, "question.jsonl")
		text := strings.Repeat(`{"question_id": 81, "category": "c", "turns": ["`+secret+` one", "`+secret+` two"]}`+"\n", 4)
		if err := os.WriteFile(questions, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var o observed
		cmd := exec.Command(os.Args[0], "sweep", "--url", engine, "--mtbench", questions, "--output_length", "32", "--log_level", "debug", "--save_dir", filepath.Join(dir, "out"))
		cmd.Env = append(o.telemetry(o.collect(t)), runMain+"=1")
		cmd.Stdout, cmd.Stderr = &o.stdout, &o.stderr
		if err := cmd.Run(); (err != nil) != (fault != "") {
			t.Fatalf("fault %q: %v\n%s", fault, err, o.stderr.String())
		}
		for name, sink := range map[string]*shared{"stdout": &o.stdout, "stderr": &o.stderr, "spans": &o.spans, "metrics": &o.pushed} {
			if got := sink.String(); strings.Contains(got, secret) || got == "" {
				t.Errorf("fault %q: %s has the secret, or nothing: %q", fault, name, got)
			}
		}
		files, _ := filepath.Glob(filepath.Join(dir, "out", "t0_c*", "*"))
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if itsFile := strings.HasSuffix(path, "_responses.jsonl"); strings.Contains(string(text), secret) != itsFile {
				t.Errorf("fault %q: %s has the questions: %v, want %v", fault, path, !itsFile, itsFile)
			}
		}
		if len(files) < 2 {
			t.Errorf("fault %q: got files %q", fault, files)
		}
	}
}
