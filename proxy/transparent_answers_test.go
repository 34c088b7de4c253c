package proxy

import (
	"fmt"
	"strings"
)

func fixed(r reply) func(*message) reply { return func(*message) reply { return r } }

// answerScenes are answers of all forms to small requests.
func answerScenes() (all []scene) {
	add := func(name, head, body string) {
		all = append(all, scene{name: "answer " + name, request: []string{"GET /any HTTP/1.1\r\nHost: h\r\n\r\n"},
			answer: fixed(reply{head: strings.ReplaceAll(head, "|", "\r\n") + "\r\n\r\n", parts: []string{body}})})
	}
	for _, status := range []string{
		"200 OK", "200 ok then", "201 Created", "202 Accepted", "299 Odd", "301 Moved", "400 Bad Request", "404 Nope", "418 Short and stout",
		"422 Unprocessable Content", "429 Too Many Requests", "499 x", "500 Internal Server Error", "503 Service Unavailable", "599 Last", "600 More", "999 Most", "200 \xe4",
	} {
		add("of status "+fmt.Sprintf("%q", status), "HTTP/1.1 "+status+"|server: uvicorn|content-length: 2|content-type: application/json", "{}")
	}
	add("of no reason", "HTTP/1.1 200 |content-length: 2", "{}")
	add("of no reason and an odd status", "HTTP/1.1 299 |content-length: 2", "{}")
	add("204", "HTTP/1.1 204 No Content|server: uvicorn|vary: Origin", "")
	add("304", "HTTP/1.1 304 Not Modified|etag: \"x\"|date: Mon, 30 Nov 2026 03:16:52 GMT", "")
	add("304 with a length", "HTTP/1.1 304 Not Modified|etag: \"x\"|content-length: 5", "")
	add("307", "HTTP/1.1 307 Temporary Redirect|location: http://h/any|content-length: 0", "")
	add("205", "HTTP/1.1 205 Reset Content|content-length: 0", "")
	add("with Date", "HTTP/1.1 200 OK|date: Mon, 30 Nov 2026 03:16:52 GMT|content-length: 2", "{}")
	add("with an odd Date", "HTTP/1.1 200 OK|Date: yesterday|content-length: 2", "{}")
	add("with Server", "HTTP/1.1 200 OK|Server: x/1 (y)|content-length: 2", "{}")
	add("without Date, Server, Content-Type", "HTTP/1.1 200 OK|Content-Length: 2", "{}")
	add("of spelled names", "HTTP/1.1 200 OK|X-REQUEST-id: 1|etag: 2|CONTENT-length: 2|x_under: 1", "{}")
	add("of ordered names", "HTTP/1.1 200 OK|x-1: 1|vary: Origin|x-0: 2|X-1: 3|date: Mon, 30 Nov 2026 03:16:52 GMT|x-2: 4|content-length: 2", "{}")
	add("of uvicorn's names", "HTTP/1.1 200 OK|date: Mon, 30 Nov 2026 03:16:52 GMT|server: uvicorn|content-length: 2|content-type: application/json|vary: Origin", "{}")
	add("of repeated names", "HTTP/1.1 200 OK|Content-Length: 2|x-a: 1|x-a: 1|x-a: 2|www-authenticate: a|www-authenticate: b", "{}")
	add("of empty fields", "HTTP/1.1 200 OK|Content-Length: 2|x-a:|x-b: |x-c: 1", "{}")
	add("of empty fields with places", "HTTP/1.1 200 OK|Content-Length: 2|Content-Type:|Server:", "{}")
	add("of repeated fields with places", "HTTP/1.1 200 OK|Content-Length: 2|Server: a|Server: b", "{}")
	add("of spaces", "HTTP/1.1 200 OK|Content-Length: 2|x-a:1|x-b:  2", "{}")
	add("of raw bytes", "HTTP/1.1 200 OK|Content-Length: 2|x-a: \xe4\xff", "{}")
	add("with two cookies", "HTTP/1.1 200 OK|Content-Length: 2|set-cookie: a=1; Path=/|x-a: 1|set-cookie: b=2; HttpOnly", "{}")
	add("of one hop", "HTTP/1.1 200 OK|Content-Length: 2|Connection: keep-alive, x-hop|X-Hop: 1|Keep-Alive: timeout=5|Proxy-Authenticate: Basic|X-End: 1", "{}")
	add("with a field of 16 KB", "HTTP/1.1 200 OK|Content-Length: 2|x-a: "+strings.Repeat("a", 16<<10), "{}")
	add("with a field of 70 KB", "HTTP/1.1 200 OK|Content-Length: 2|x-a: "+strings.Repeat("a", 70<<10), "{}")
	add("with 200 fields", "HTTP/1.1 200 OK|Content-Length: 2"+strings.Repeat("|x-a: 1", 200), "{}")
	add("with Content-Encoding", "HTTP/1.1 200 OK|Content-Length: 4|Content-Encoding: br", "\x0b\x00\x80\x03")
	add("of type text/html", "HTTP/1.1 200 OK|Content-Length: 2|Content-Type: text/html; charset=utf-8|Content-Language: de|Cache-Control: no-store|X-Accel-Buffering: no", "{}")
	hints := "HTTP/1.1 102 Processing|x-a: 1||HTTP/1.1 103 Early Hints|link: </a>; rel=x|link: </b>||"
	add("behind interim ones", hints+"HTTP/1.1 200 OK|content-length: 2", "{}")
	add("behind a 100 that nobody asked for", "HTTP/1.1 100 Continue||HTTP/1.1 200 OK|content-length: 2", "{}")
	return append(append(all, framingScenes()...), bodyScenes()...)
}

// framingScenes are the four framings of an answer, for HEAD, GET and POST.
func framingScenes() (all []scene) {
	for _, method := range []string{"HEAD", "GET", "POST"} {
		for framing, fields := range map[string]string{
			"a length": "content-length: 5\r\n", "chunks": "transfer-encoding: chunked\r\n",
			"both": "content-length: 3\r\ntransfer-encoding: chunked\r\n", "neither": "",
		} {
			r := reply{head: "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n" + fields + "\r\n"}
			if method != "HEAD" {
				r.parts = []string{"hel", "lo"}
				if r.chunked = strings.Contains(fields, "chunked"); r.chunked {
					r.tail = lastChunk
				}
				if fields == "" {
					r.end = "FIN"
				}
			}
			all = append(all, scene{name: "framing by " + framing + " to " + method,
				request: []string{method + " /v1/any HTTP/1.1\r\nHost: h\r\n\r\n"}, answer: fixed(r)})
		}
	}
	return all
}

// bodyScenes are answers whose body or connection is special.
func bodyScenes() (all []scene) {
	big := strings.Repeat("0123456789abcdef", 10<<16)
	get := func(name, version string, r reply) {
		all = append(all, scene{name: "body " + name, request: []string{"GET /any " + version + "\r\nHost: h\r\n\r\n"}, answer: fixed(r)})
	}
	const chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
	get("of length 0", "HTTP/1.1", reply{head: "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n"})
	get("of no chunk", "HTTP/1.1", reply{head: chunkedHead, tail: lastChunk})
	get("in dripping bytes", "HTTP/1.1", reply{head: chunkedHead, tail: "3;a=b\r\nabc\r\n0A\r\n0123456789\r\n000\r\n\r\n", drip: true})
	get("of chunks in one write", "HTTP/1.1", reply{head: chunkedHead, tail: chunk("a") + chunk("bc") + lastChunk})
	get("of chunks in the head's write", "HTTP/1.1", reply{head: chunkedHead + chunk("a") + lastChunk})
	get("with trailers", "HTTP/1.1", reply{head: "HTTP/1.1 200 OK\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n", parts: []string{"a"}, chunked: true, tail: "0\r\nx-sum: 1\r\n\r\n"})
	get("of 10 MB", "HTTP/1.1", reply{head: fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(big)), parts: []string{big}})
	get("of 10 MB in a chunk", "HTTP/1.1", reply{head: chunkedHead, parts: []string{big}, chunked: true, tail: lastChunk})
	get("of 10 MB until the end", "HTTP/1.1", reply{head: "HTTP/1.1 200 OK\r\n\r\n", parts: []string{big}, end: "FIN"})
	get("before a close", "HTTP/1.1", reply{head: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n", parts: []string{"{}"}, end: "FIN"})
	get("in chunks before a close", "HTTP/1.1", reply{head: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n", parts: []string{"{}"}, chunked: true, tail: lastChunk, end: "FIN"})
	get("before a close unsaid", "HTTP/1.1", reply{head: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", parts: []string{"{}"}, end: "FIN"})
	get("in HTTP/1.0 with a length", "HTTP/1.1", reply{head: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n", parts: []string{"{}"}, end: "FIN"})
	get("in HTTP/1.0 until the end", "HTTP/1.1", reply{head: "HTTP/1.0 200 OK\r\n\r\n", parts: []string{"{", "}"}, end: "FIN"})
	get("with a length to HTTP/1.0", "HTTP/1.0", reply{head: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n", parts: []string{"{}"}, end: "FIN"})
	get("until the end to HTTP/1.0", "HTTP/1.0", reply{head: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", parts: []string{"{", "}"}, end: "FIN"})
	get("in chunks to HTTP/1.0", "HTTP/1.0", reply{head: "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n", parts: []string{"{", "}"}, chunked: true, tail: lastChunk, end: "FIN"})
	zip := deflated(`{"id":"x","choices":[]}`)
	all = append(all, scene{name: "body in gzip that was asked for", request: []string{post(chatPath, `{"messages":[]}`, "Accept-Encoding: gzip")},
		answer: fixed(reply{head: fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\nContent-Length: %d\r\n\r\n", len(zip)), parts: []string{zip}})})
	return all
}
