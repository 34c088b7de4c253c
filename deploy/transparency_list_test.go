package deploy

import "strings"

// wireCases are the requests of TestTransparencyWire. Allowed everywhere: the case
// and the order of field names, which mean nothing (RFC 9110 5.1, 5.3), and the
// cut of a body into chunks, of which several may share a read.
var wireCases = []wireCase{
	{name: "GET", request: "GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n", want: "200"},
	{name: "GET without an answer's body", request: "GET /health HTTP/1.1\r\nHost: a\r\n\r\n", want: "200"},
	{name: "HEAD", request: "HEAD /v1/models HTTP/1.1\r\nHost: a\r\n\r\n", want: "405"},
	{name: "OPTIONS", request: "OPTIONS /v1/models HTTP/1.1\r\nHost: a\r\n\r\n", want: "405"},
	{name: "DELETE", request: "DELETE /echo/a HTTP/1.1\r\nHost: a\r\n\r\n", want: "200"},
	{name: "PUT", request: "PUT /echo/a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", want: "200"},
	{name: "PATCH", request: "PATCH /echo/a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", want: "200"},
	{name: "unknown path", request: "GET /v1/none HTTP/1.1\r\nHost: a\r\n\r\n", want: "404"},
	{name: "wrong method", request: "GET /v1/chat/completions HTTP/1.1\r\nHost: a\r\n\r\n", want: "405"},
	{name: "wrong method with a body", request: post("/v1/models", `{}`), want: "405"},
	{name: "204", request: "GET /status/204 HTTP/1.1\r\nHost: a\r\n\r\n", want: "204"},
	{name: "304", request: "GET /status/304 HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"one\"\r\n\r\n", want: "304"},
	{name: "trailing slash", request: post("/v1/chat/completions/?a=%20b", `{}`), want: "307"}, // Location is made of Host
	{name: "chat", request: post("/v1/chat/completions", `{"messages":[]}`), want: "200"},
	{name: "chat stream", request: post("/v1/chat/completions", `{"messages":[],"stream":true}`), want: "200"},
	{name: "error stream", request: post("/v1/chat/completions", `{"stream":true}`, "X-Capture: nd-chat-minp-t1-stream"), want: "200"},
	{name: "no JSON", request: post("/v1/chat/completions", `{"mess`), want: "400"},
	{name: "422", request: post("/v1/embeddings", `{"input":1}`), want: "422"},
	{name: "429", request: post("/v1/chat/completions", `{}`, "X-Status: 429"), want: "429"},
	{name: "empty body", request: post("/v1/chat/completions", ``), want: "400"},
	{name: "no body", request: "POST /echo/a HTTP/1.1\r\nHost: a\r\n\r\n", want: "200"},
	{name: "no Content-Type", request: "POST /echo/a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", want: "200"},
	{name: "chunked upload", request: inChunks("/v1/chat/completions", `{"mess`, `ages":[]`, `,"stream":true}`), want: "200"},
	{name: "chunked upload seen", request: inChunks("/echo/a", "abc", "d", strings.Repeat("x", 70_000)), want: "200",
		allow: []allowance{unseen("transfer-encoding"), seen("content-length", "70004")}}, // read whole, so its length is known
	{name: "10 MB", request: post("/echo/a", strings.Repeat("0123456789", 1<<20)), want: "200"},
	{name: "multipart", request: upload(), want: "200"},
	{name: "Expect", talk: expects("/echo/a"), want: "200", allow: []allowance{unseen("expect")}}, // spectap has answered it
	{name: "early 413", request: post("/early/413", strings.Repeat("x", 10<<20)), want: "413"},
	{name: "early 401", request: post("/early/401", `{}`), want: "401"},
	{name: "early 413 and close", request: post("/early/413?close=1", strings.Repeat("x", 10<<20)), want: "413", allow: []allowance{kept}, kept: true},
	{name: "odd path", request: "GET /echo//a%2Fb/./../%C3%A9/?q=%20+&q=;=#f HTTP/1.1\r\nHost: a\r\n\r\n", want: "200"},
	{name: "absolute form", request: "GET http://other.example/echo/a?b HTTP/1.1\r\nHost: a\r\n\r\n", want: "200", only: "httptools"}, // h11's finds no such path
	{name: "fields", request: "GET /echo/a HTTP/1.1\r\nHost: a\r\nX-Twice: 1\r\nx-twice:2\r\nCookie: a=1; b=2\r\nX-Empty:\r\nX-Latin: caf\xe9\r\nAuthorization: Bearer k\r\nUser-Agent: one/1\r\nAccept: */*\r\nX_Under: u\r\nAccept-Encoding: gzip\r\n\r\n", want: "200"},
	{name: "fields of the connection", request: "GET /echo/a HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nProxy-Authorization: x\r\n\r\n", want: "200",
		allow: []allowance{unseen("connection", "x-hop", "keep-alive", "te", "proxy-authorization")}}, // of one connection (RFC 9110 7.6.1)
	{name: "Connection: close", request: "GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", want: "200"},
	{name: "large head", request: "GET /echo/a HTTP/1.1\r\nHost: a\r\nX-Large: " + strings.Repeat("x", 70<<10) + "\r\n\r\n", want: "200"},
	{name: "pipelined", talk: pipelined, want: "200"},
	{name: "HTTP/1.0", request: "GET /v1/models HTTP/1.0\r\nHost: a\r\n\r\n", want: "200"},
	{name: "HTTP/1.0 stream", request: "POST /v1/chat/completions HTTP/1.0\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"stream\":true}", want: "200", only: "httptools"}, // which sends chunks to any client; h11 sends none, and spectap asks it as HTTP/1.1
	{name: "h2c", request: "GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n", want: "200"},
	{name: "no HTTP", request: "hello\r\n\r\n", want: "400", allow: []allowance{ownWords}},
	{name: "bad length", request: "POST /echo/a HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", want: "400", allow: []allowance{ownWords}},
}

var gzipCases = []wireCase{
	{name: "asked for", request: "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, deflate\r\n\r\n", want: "200"},
	{name: "not asked for", request: "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", want: "200"},
	{name: "stream", request: post("/v1/chat/completions", `{"stream":true}`, "Accept-Encoding: gzip"), want: "200"},
	{name: "measured", request: post("/v1/chat/completions", `{}`), want: "200"},
	{name: "measured, asked for", request: post("/v1/chat/completions", `{}`, "Accept-Encoding: gzip"), want: "200",
		allow: []allowance{plain}}, // what is measured is not asked for compressed
}
