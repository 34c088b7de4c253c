package proxy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"mime/multipart"
	"strings"
)

// small answers with a fixed text.
func small(*message) reply {
	return reply{head: "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 03:16:52 GMT\r\nserver: uvicorn\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n", parts: []string{"{}"}}
}

// bodiless answers a HEAD request.
func bodiless(*message) reply { return reply{head: "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"} }

// requestScenes are requests of all forms.
func requestScenes() (all []scene) {
	add := func(name, request string) {
		all = append(all, scene{name: name, request: []string{request}, answer: small})
	}
	for _, m := range []string{"GET", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "QUERY", "TRACE", "PROPFIND"} {
		add("method "+m, m+" /any HTTP/1.1\r\nHost: h:1\r\n\r\n")
		add("method "+m+" with Content-Length: 0", m+" /any HTTP/1.1\r\nHost: h:1\r\nContent-Length: 0\r\n\r\n")
		add("method "+m+" with a body", m+" /v1/any HTTP/1.1\r\nHost: h:1\r\nContent-Type: application/json\r\ncontent-length: 9\r\n\r\n"+`{"a":1.0}`)
	}
	all = append(all, scene{name: "method HEAD", request: []string{"HEAD /any HTTP/1.1\r\nHost: h\r\n\r\n"}, answer: bodiless})
	for _, target := range []string{
		"/a//b%2Fc/../d?q=%20+&&x", "/./x", "/../x", "/a?b?c=/../", "/?", "/a#b", "/a?b#c", "/ä", "/\xff\xfe", "/a%00b", "/%zz", "/a;b=c",
		"//host/x", "/a b"[:2], "/" + strings.Repeat("x", 8000), "/{x}|\\^`\"<>", "http://h:1/x?y=%2F", "http://h:1", "http://h:1?q", "http://other/x",
	} {
		add(fmt.Sprintf("target %.40q", target), "GET "+target+" HTTP/1.1\r\nHost: h:1\r\n\r\n")
	}
	add("target *", "OPTIONS * HTTP/1.1\r\nHost: h:1\r\n\r\n")
	field := func(name string, fields ...string) {
		add(name, "POST "+chatPath+" HTTP/1.1\r\nHost: h:1\r\n"+strings.Join(fields, "\r\n")+"\r\nContent-Length: 2\r\n\r\n{}")
	}
	field("field spelling", "x-REQUEST-id: r1", "AUTHORIZATION: Bearer x", "content-TYPE: application/json", "user-agent: u", "X_Under: 1", "accept: */*")
	field("field spaces", "X-A:1", "X-B:  2  ", "X-C:\t3", "X-D: a  b")
	field("field repeated", "X-A: 1", "X-B: 2", "x-a: 1", "X-A: 3", "Accept: a", "Accept: b")
	field("field empty", "X-A:", "X-B: ", "Authorization:", "Content-Type:", "User-Agent:")
	field("field of raw bytes", "X-A: \xe4\xff", "X-B: ä")
	field("field Cookie", "Cookie: a=b;  c=d; ", "Cookie: e", "X-A: 1")
	field("field of 16 KB", "X-A: "+strings.Repeat("a", 16<<10), "X-B: 1")
	field("field of 70 KB", "X-A: "+strings.Repeat("a", 70<<10), "X-B: 1")
	field("fields, 200 of them", strings.Split(strings.Repeat("X-A: 1\r\n", 199)+"X-B: 1", "\r\n")...)
	field("field without Content-Type", "X-A: 1")
	field("field Connection naming others", "Connection: keep-alive, x-hop", "X-Hop: 1", "X-End: 1")
	field("field Connection, two of them", "Connection: X-Hop", "connection: keep-alive,x-hip", "x-hop: 1", "X-Hip: 2")
	field("field of one hop", "Keep-Alive: timeout=5", "TE: trailers", "Proxy-Connection: keep-alive", "Proxy-Authorization: Basic eDp5", "Connection: TE")
	field("field Upgrade to HTTP/2", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
	field("field Connection: close", "Connection: close")
	field("field Accept-Encoding on a route that is read", "Accept-Encoding: gzip, br")
	field("field of a proxy before us", "Forwarded: for=1.2.3.4", "X-Forwarded-For: 1.2.3.4", "X-Real-IP: 1.2.3.4", "Via: 1.1 x", "Max-Forwards: 3")
	field("field of traces", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate: a=1", "baggage: spectap.run=x,k=v", "X-Correlation-ID: c")
	add("field Accept-Encoding elsewhere", "GET /health HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\nRange: bytes=0-1\r\nIf-None-Match: \"x\"\r\n\r\n")
	add("Host last", "GET /health HTTP/1.1\r\nX-A: 1\r\nuser-agent: x\r\nhost: h\r\n\r\n")
	add("HTTP/1.0", "POST /any HTTP/1.0\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}")
	add("HTTP/1.0 without Host", "GET /any HTTP/1.0\r\n\r\n")
	add("HTTP/1.0 with keep-alive", "GET /any HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n")
	all = append(all, scene{name: "WebSocket", fresh: true, request: []string{handshake, "\x81\x85abcd"},
		answer: fixed(reply{head: switched + "\r\n", parts: []string{"\x81\x02hi", "\x88\x00"}, end: "FIN"})})
	all = append(all, scene{name: "pipelined", answers: 3, answer: func(m *message) reply {
		return reply{head: fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Target: %s\r\nContent-Length: %d\r\n\r\n", m.target(), len(m.body)), parts: []string{m.body}}
	}, request: []string{"POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcPOST /2 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\nGET /3 HTTP/1.1\r\nHost: h\r\n\r\n"}})
	return append(all, refusedScenes()...)
}

// refusedScenes are requests that the proxy answers itself.
func refusedScenes() (all []scene) {
	for name, request := range map[string]string{
		"no Host":             "GET / HTTP/1.1\r\n\r\n",
		"two Hosts":           "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"two lengths":         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
		"both framings":       "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"a folded field":      "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n",
		"a space at a colon":  "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
		"another version":     "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
		"CONNECT":             "CONNECT h:1 HTTP/1.1\r\nHost: a\r\n\r\n",
		"a target of no form": "GET x HTTP/1.1\r\nHost: a\r\n\r\n",
		"* with GET":          "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		all = append(all, scene{name: "refused: " + name, request: []string{request}, answer: small, fresh: true})
	}
	return all
}

// uploadScenes are requests with bodies that are long, in pieces, or not wanted.
func uploadScenes() (all []scene) {
	const head = "POST /v1/any HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
	big := `{"pad":"` + strings.Repeat("0123456789abcdef", 10<<16) + `"}`
	sized := fmt.Sprintf("%sContent-Length: %d\r\n\r\n", head, len(big))
	chunks := head + "Transfer-Encoding: chunked\r\n\r\n"
	for i := 0; i < len(big); i += 100_000 {
		chunks += chunk(big[i:min(len(big), i+100_000)])
	}
	refuse := func(status, extra, end string) func(*message) reply {
		return func(*message) reply {
			text := `{"error":"Unauthorized"}`
			return reply{head: fmt.Sprintf("HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%s\r\n", status, len(text), extra), parts: []string{text}, end: end}
		}
	}
	for _, status := range []string{"401 Unauthorized", "413 Request Entity Too Large"} {
		all = append(all,
			scene{name: "early " + status + ", then keep-alive", request: []string{sized, big[:1000], awaitAnswer, big[1000:]}, early: true, answer: refuse(status, "", "")},
			scene{name: "early " + status + ", then close", request: []string{sized, big[:1000], awaitAnswer, big[1000:]}, early: true, answer: refuse(status, "connection: close\r\n", "FIN")},
		)
	}
	expect := head + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
	all = append(all,
		scene{name: "upload of 10 MB", request: []string{sized, big}, answer: small},
		scene{name: "upload of 10 MB in chunks", request: []string{chunks, lastChunk}, answer: small},
		scene{name: "upload in chunks", request: []string{head + "transfer-encoding: chunked\r\n\r\n1;x=\"y\"\r\n{\r\n", "1\r\n}\r\n", "0\r\n\r\n"}, answer: small},
		scene{name: "upload in chunks with trailers", request: []string{head + "Trailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-sum: 1\r\n\r\n"}, answer: small},
		scene{name: "upload of no chunk", request: []string{head + "Transfer-Encoding: chunked\r\n\r\n", "0\r\n\r\n"}, answer: small},
		scene{name: "upload byte by byte", request: append(strings.Split(strings.Replace(sized, fmt.Sprint(len(big)), "2", 1), ""), "{", "}"), answer: small},
		scene{name: "upload after 100 Continue", request: []string{expect, awaitInterim, "{}"}, answer: small},
		scene{name: "upload that does not wait for 100 Continue", request: []string{expect + "{}"}, answer: small},
		scene{name: "upload that is not let continue", request: []string{expect, awaitInterim, "{}"}, early: true, answer: refuse("401 Unauthorized", "connection: close\r\n", "FIN")},
	)
	return append(all, scene{name: "upload of a form", request: []string{form()}, answer: small}, scene{name: "upload of gzip", request: []string{zipped()}, answer: small})
}

// form is a request as the OpenAI clients send it to a transcription.
func form() string {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.SetBoundary("spectap-boundary")
	file, err := w.CreateFormFile("file", "a.wav")
	if err != nil {
		panic("BUG: cannot write a form: " + err.Error())
	}
	for i := range 70_000 {
		_, _ = file.Write([]byte{byte(i), byte(i >> 8), '\r', '\n'})
	}
	_ = w.WriteField("model", "whisper")
	_ = w.WriteField("stream", "true")
	_ = w.Close()
	return fmt.Sprintf("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: h\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", w.FormDataContentType(), b.Len(), b.String())
}

func zipped() string {
	text := deflated(`{"model":"m","messages":[],"stream":true}`)
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(text), text)
}

func deflated(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}
