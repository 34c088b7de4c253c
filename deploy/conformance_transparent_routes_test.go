package deploy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
)

// routes are the cases of the other routes and of HTTP itself.
func routes() (out []transparentCase) {
	f := func(name string, q rawRequest) *transparentCase {
		out = append(out, transparentCase{name: name, request: q})
		return &out[len(out)-1]
	}
	for _, path := range []string{
		"/health", "/ping", "/version", "/load", "/v1/models", "/v1/models?limit=1&a=%2F", "/v1/models/smollm2", "/openapi.json", "/docs",
		"/server_info", "/nope", "/", "/v1", "//v1/models", "/v1//models", "/v1/../v1/models", "/v1%2Fmodels", "/v1/models/", "/v1/chat/completions/",
		"/v1/chat/completions", "/v1/realtime", "/v1/responses/resp_0", "/is_sleeping",
	} {
		f("GET "+path, asked("GET", path, ""))
	}
	f("GET /metrics", asked("GET", "/metrics", "")).shape = metricNames
	for _, method := range []string{"HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"} {
		for _, path := range []string{"/health", "/v1/models", "/v1/chat/completions", "/nope"} {
			f(method+" "+path, asked(method, path, ""))
		}
	}
	f("POST /ping", asked("POST", "/ping", ""))
	f("POST /v1/chat/completions/", asked("POST", "/v1/chat/completions/", jsonOf(chatBody(nil))))
	f("CORS, asked first", asked("OPTIONS", "/v1/chat/completions", "", "Origin: http://page.test", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type, authorization"))
	f("CORS", asked("GET", "/v1/models", "", "Origin: http://page.test"))
	f("CORS, credentials", asked("POST", "/v1/chat/completions", jsonOf(chatBody(members{"stream": true})), "Origin: http://page.test", "Cookie: a=b"))
	for _, path := range []string{"/v1/realtime", "/v1/realtime?model=smollm2", "/nope"} { // 403 before the handshake: no model here speaks it
		f("WebSocket "+path, asked("GET", path, "", webSocket...)).closes = true
		f("WebSocket, no key "+path, asked("GET", path, "", append([]string{"Authorization: -"}, webSocket...)...)).closes = true
	}
	f("WebSocket, half asked for", asked("GET", "/v1/models", "", "Upgrade: websocket"))
	f("HTTP/2 asked for", asked("GET", "/v1/models", "", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"))
	for _, r := range otherGenerations {
		c := f("POST "+r.name, asked("POST", strings.Fields(r.name)[0], jsonOf(r.more)))
		c.anew = r.anew
	}
	return append(out, plainHTTP()...)
}

// webSocket asks for a WebSocket (RFC 6455 section 4.1).
var webSocket = []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}

// otherGenerations are requests of routes that spectap does not inject into, most
// of which this model does not have.
var otherGenerations = []transparentVariant{
	{name: "/tokenize", more: members{"model": servedModel, "prompt": "é 🌅", "return_token_strs": true}},
	{name: "/tokenize of messages", more: members{"model": servedModel, "messages": says("Hi")}},
	{name: "/tokenize of nothing", more: members{}},
	{name: "/detokenize", more: members{"model": servedModel, "tokens": []int{88, 2756}}},
	{name: "/detokenize of nothing", more: members{}},
	{name: "/v1/responses", more: responsesBody(nil), anew: []string{"created_at"}},
	{name: "/v1/responses streamed", more: responsesBody(members{"stream": true}), anew: []string{"created_at", "item_id"}},
	{name: "/v1/responses of nothing", more: members{}},
	{name: "/v1/messages", more: messagesBody(nil)},
	{name: "/v1/messages streamed", more: messagesBody(members{"stream": true})},
	{name: "/v1/messages of nothing", more: members{}},
	{name: "/v1/messages/count_tokens", more: members{"model": servedModel, "messages": says("Hi")}},
	{name: "/v1/chat/completions/batch", more: members{"model": servedModel, "temperature": 0, "max_tokens": 4, "messages": [][]members{says("Hi"), says("one two")}}},
	{name: "/v1/chat/completions/render", more: chatBody(nil)},
	{name: "/invocations", more: chatBody(nil)},
	{name: "/invocations streamed", more: chatBody(members{"stream": true})},
	{name: "/inference/v1/generate", more: members{"token_ids": []int{88}, "sampling_params": members{"max_tokens": 4}}},
	{name: "/v1/embeddings", more: members{"model": servedModel, "input": "one"}},
	{name: "/pooling", more: members{"model": servedModel, "input": "one"}},
	{name: "/classify", more: members{"model": servedModel, "input": "one"}},
	{name: "/score", more: members{"model": servedModel, "text_1": "one", "text_2": "two"}},
	{name: "/v1/score", more: members{"model": servedModel, "text_1": "one", "text_2": "two"}},
	{name: "/rerank", more: members{"model": servedModel, "query": "one", "documents": []string{"two"}}},
	{name: "/v1/rerank", more: members{"model": servedModel, "query": "one", "documents": []string{"two"}}},
	{name: "/v2/rerank", more: members{"model": servedModel, "query": "one", "documents": []string{"two"}}},
	{name: "/v1/load_lora_adapter", more: members{"lora_name": "a", "lora_path": "b"}},
	{name: "/reset_prefix_cache", more: members{}},
	{name: "/nope", more: members{}},
}

func responsesBody(more members) members {
	return with(members{"model": servedModel, "input": "one two three, one two three", "temperature": 0, "max_output_tokens": 8}, more)
}

func messagesBody(more members) members {
	return with(members{"model": servedModel, "messages": says("one two three, one two three"), "temperature": 0, "max_tokens": 8}, more)
}

// plainHTTP are cases of HTTP on the chat route.
func plainHTTP() (out []transparentCase) {
	const path = "/v1/chat/completions"
	body, streamed := jsonOf(chatBody(nil)), jsonOf(chatBody(members{"stream": true}))
	f := func(name string, q rawRequest, exact bool) {
		out = append(out, transparentCase{name: name, request: q, exact: exact})
	}
	f("no key", asked("POST", path, body, "Authorization: -"), true)
	f("wrong key", asked("POST", path, streamed, "Authorization: Bearer nobody"), true)
	f("no key, models", asked("GET", "/v1/models", "", "Authorization: -"), true)
	f("X-Request-Id", asked("POST", path, body, "X-Request-Id: mine-1"), false)
	f("X-Request-Id, streamed", asked("POST", path, streamed, "X-Request-Id: mine-2", "baggage: spectap.run=1", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), false)
	f("Connection: close", asked("POST", path, body, "Connection: close"), false)
	f("Connection: close, streamed", asked("POST", path, streamed, "Connection: close"), false)
	f("Connection: keep-alive", asked("POST", path, streamed, "Connection: keep-alive"), false)
	f("Accept-Encoding", asked("POST", path, streamed, "Accept-Encoding: gzip, br", "Accept: text/event-stream"), false)
	f("text/plain", asked("POST", path, body, "Content-Type: text/plain"), false)
	f("form", asked("POST", path, "a=b", "Content-Type: application/x-www-form-urlencoded"), true)
	f("no Content-Type", asked("POST", path, body, "Content-Type: -"), false)
	f("charset", asked("POST", path, body, "Content-Type: application/json; charset=utf-8"), false)
	f("multipart", asked("POST", "/v1/audio/transcriptions", "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nabc\r\n--x--\r\n", "Content-Type: multipart/form-data; boundary=x"), true)
	f("no body", asked("POST", path, "", "Content-Length: 0", "Content-Type: application/json"), true)
	f("no length", asked("POST", path, "", "Content-Type: application/json"), true)
	f("not JSON", asked("POST", path, `{"model":`), true)
	f("a list", asked("POST", path, `[1]`), true)
	f("NaN", asked("POST", path, strings.TrimSuffix(body, "}")+`,"temperature":NaN}`), true) // of several members the last counts
	f("twice a member", asked("POST", path, strings.TrimSuffix(streamed, "}")+`,"max_tokens":3,"stream":false,"stream":true}`), false)
	f("byte order mark", asked("POST", path, "\uFEFF"+streamed), false)
	f("invalid UTF-8", asked("POST", path, strings.Replace(streamed, "Repeat", "Re\xffpeat", 1)), true)
	f("white space", asked("POST", path, "\r\n\t "+strings.ReplaceAll(streamed, ",\"", " ,\n\"")+" \n"), false)
	f("gzip", asked("POST", path, gzipped(body), "Content-Encoding: gzip"), true)
	f("absolute target", asked("GET", "http://vllm.test:8000/v1/models", ""), false)
	f("fields twice", asked("GET", "/v1/models", "", "X-A: 1", "X-A: 2", "x-b:"), false)
	waiting := asked("POST", path, body, "Expect: 100-continue")
	waiting.waits = true
	f("Expect: 100-continue", waiting, false)
	f("chunked", chunked(path, streamed), false)
	old := asked("POST", path, body)
	old.head = strings.Replace(old.head, "HTTP/1.1", "HTTP/1.0", 1)
	f("HTTP/1.0", old, false)
	old = asked("POST", path, streamed)
	old.head = strings.Replace(old.head, "HTTP/1.1", "HTTP/1.0", 1)
	f("HTTP/1.0, streamed", old, false)
	f("70 KB of header", asked("GET", "/v1/models", "", "X-Long: "+strings.Repeat("a", 70<<10)), false)
	f("8 MiB of body", asked("POST", path, jsonOf(chatBody(members{"stream": true, "metadata": members{"a": strings.Repeat("a", 8<<20)}}))), false)
	return out
}

func gzipped(body string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(body))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // memory takes all
	}
	return b.String()
}

// chunked sends a body in chunks of 100 bytes, with an extension and a trailer.
func chunked(path, body string) rawRequest {
	q := asked("POST", path, "", "Content-Type: application/json", "Transfer-Encoding: chunked")
	for len(body) > 0 {
		n := min(100, len(body))
		q.body += fmt.Sprintf("%x;a=b\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	q.body += "0\r\n\r\n"
	return q
}
