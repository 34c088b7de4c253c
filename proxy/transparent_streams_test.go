package proxy

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// routeScenes play every captured answer of a real vLLM, event by event.
func routeScenes(t testing.TB) (all []scene) {
	t.Helper()
	for _, pattern := range []string{filepath.Join("testdata", "routes", "*"), filepath.Join("tap", "testdata", "vllm-0.32", "*")} {
		dirs, err := filepath.Glob(filepath.Join(pattern, "response.raw"))
		if err != nil || len(dirs) == 0 {
			t.Fatalf("no captures in %q: %v", pattern, err)
		}
		for _, file := range dirs {
			all = append(all, captured(t, filepath.Dir(file)))
		}
	}
	return append(all, otherRoutes()...)
}

// captured makes a scene of one captured exchange.
func captured(t testing.TB, dir string) scene {
	t.Helper()
	request, err := os.ReadFile(filepath.Join(dir, "request.http"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "response.raw"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimPrefix(string(raw), "HTTP/1.1 100 Continue\r\n\r\n") // the theatre sends one itself
	method, _, _ := strings.Cut(string(request), " ")
	m, err := readRawAnswer(bufio.NewReader(strings.NewReader(text)), method, func(int) {}, func() {})
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	head, _, _ := strings.Cut(text, "\r\n\r\n")
	r := reply{head: head + "\r\n\r\n"}
	switch {
	case m.framing == "chunked":
		r.chunked = true
		rest := m.body
		for _, n := range m.chunks {
			if n <= len(rest) { // one that was cut is left out
				r.parts, rest = append(r.parts, rest[:n]), rest[n:]
			}
		}
		if m.cut == "" {
			r.tail = lastChunk
		}
	case m.body != "":
		r.parts = []string{m.body}
	}
	if m.cut != "" || len(m.values("Connection")) > 0 {
		r.end = "FIN"
	}
	return scene{name: "route " + filepath.Base(dir), request: []string{string(request)}, answer: fixed(r), fresh: m.cut != ""}
}

// otherRoutes are routes that no capture shows.
func otherRoutes() (all []scene) {
	json := func(method, target, body string) {
		all = append(all, scene{name: "route " + method + " " + target, request: []string{strings.Replace(post(target, body), "POST", method, 1)}, answer: small})
	}
	for _, target := range []string{
		"/v1/embeddings", "/v1/score", "/score", "/v1/rerank", "/v2/rerank", "/rerank", "/pooling", "/classify", "/invocations", "/v1/chat/completions/batch",
		"/v1/chat/completions/render", "/v1/completions/render", "/v1/messages/count_tokens", "/v1/audio/translations", "/v1/load_lora_adapter", "/v1/unload_lora_adapter",
		"/v1/responses/resp_1/cancel", "/sleep?level=1", "/wake_up", "/reset_prefix_cache", "/collective_rpc", "/start_profile", "/scale_elastic_ep", "/cohere/v2/rerank", "/tokenizer_info",
	} {
		json("POST", target, `{"model":"m","input":["a"],"stream":false}`)
	}
	for _, target := range []string{"/v1/responses/resp_1", "/is_sleeping", "/openapi.json", "/redoc", "/metrics/", "/prometheus/metrics", "/server_info?config_format=json", "/v1/models/a%2Fb"} {
		all = append(all, scene{name: "route GET " + target, request: []string{"GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n"}, answer: small})
	}
	json("DELETE", "/v1/responses/resp_1", "")
	json("DELETE", "/v1/files/f", "")
	return all
}

// streamScenes are event streams that real servers do not send every day. The
// engine sends the next part when the client has got the last.
func streamScenes() (all []scene) {
	usual := []string{tokenEvent("a"), tokenEvent("b"), finishEvent, doneEvent}
	add := func(name, head string, parts []string, end string) {
		r := reply{head: "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n" + head + "\r\n", parts: parts, end: end}
		if r.chunked = strings.Contains(head, "chunked"); r.chunked && end == "" {
			r.tail = lastChunk
		}
		all = append(all, scene{name: "stream " + name, request: []string{post(chatPath, chatStream)}, answer: fixed(r), fresh: end != ""})
	}
	const chunked = "transfer-encoding: chunked\r\n"
	add("as usual", chunked, usual, "")
	add("until the end", "", usual, "FIN")
	add("of a length", "content-length: 6\r\n", []string{": a\n\n", "\n"}, "")
	add("before a close", chunked+"connection: close\r\n", usual, "")
	add("of comments", chunked, append([]string{": keep-alive\n\n", ": keep-alive\n\n"}, usual...), "")
	add("of CRLF", chunked, []string{"data: {\"choices\":[]}\r\n\r\n", "data: [DONE]\r\n\r\n"}, "")
	add("of bare CR", chunked, []string{"data: x\r\r", "data: [DONE]\r\r"}, "")
	add("without a space", chunked, []string{"data:{\"a\":1}\n\n", "data:[DONE]\n\n"}, "")
	add("of named events", chunked, []string{"event: message_start\ndata: {}\n\n", "id: 1\nretry: 5\ndata: a\ndata: b\n\n", "event: message_stop\ndata: {}\n\n"}, "")
	add("of events in one chunk", chunked, []string{tokenEvent("a") + tokenEvent("b"), doneEvent}, "")
	add("with a mark of byte order", chunked, append([]string{"\ufeff" + tokenEvent("a")}, usual...), "")
	add("of invalid bytes", chunked, []string{"data: \xff\xfe\n\n", "data: {\"a\":\"\xe4\"}\n\n", "\x00\x01\n\n", doneEvent}, "")
	add("of no events", chunked, []string{"hello", "world"}, "")
	add("with an error in it", chunked, []string{tokenEvent("a"), `data: {"error":{"message":"x","code":500}}` + "\n\n", doneEvent}, "")
	add("behind [DONE]", chunked, append(usual, ": more\n\n", "data: {}\n\n"), "")
	add("without [DONE]", chunked, usual[:3], "")
	add("without a last line end", chunked, []string{tokenEvent("a"), "data: [DONE]"}, "")
	add("of an event of 5 MB", chunked, []string{tokenEvent(strings.Repeat("x", 5<<20)), doneEvent}, "")
	zip := deflated(tokenEvent("a") + doneEvent)
	add("in gzip", chunked+"content-encoding: gzip\r\n", []string{zip[:20], zip[20:]}, "")
	split := []string{}
	for _, e := range usual {
		split = append(split, e[:len(e)/2], e[len(e)/2:])
	}
	add("of halves of events", chunked, split, "")
	add("cut between events", chunked, usual[:2], "FIN")
	add("cut inside an event", chunked, []string{tokenEvent("a"), "data: {\"choices\":[{\"index\":0}]"}, "FIN")
	return all
}

// endScenes are answers that do not come, or not whole.
func endScenes() (all []scene) {
	add := func(name string, r reply) {
		all = append(all, scene{name: "end " + name, request: []string{post("/v1/any", "{}")}, answer: fixed(r), fresh: true})
	}
	const chunkedHead, sizedHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
	for _, end := range []string{"FIN", "RST"} {
		add("before the head by "+end, reply{end: end})
		add("inside the head by "+end, reply{head: "HTTP/1.1 200 OK\r\nConte", end: end})
		add("behind the head by "+end, reply{head: chunkedHead, end: end})
		add("inside a length by "+end, reply{head: sizedHead, parts: []string{"abc"}, end: end})
		add("between chunks by "+end, reply{head: chunkedHead, parts: []string{"abc"}, chunked: true, end: end})
		add("inside a chunk by "+end, reply{head: chunkedHead + "5\r\n", parts: []string{"abc"}, end: end})
		add("inside the last chunk by "+end, reply{head: chunkedHead, parts: []string{"abc"}, chunked: true, tail: "0\r\n", end: end})
	}
	add("until close by RST", reply{head: "HTTP/1.1 200 OK\r\n\r\n", parts: []string{"abc"}, end: "RST"})
	all = append(all, scene{name: "end inside a chunk to HTTP/1.0", request: []string{"GET /any HTTP/1.0\r\nHost: h\r\n\r\n"},
		answer: fixed(reply{head: chunkedHead + "5\r\n", parts: []string{"abc"}, end: "FIN"}), fresh: true})
	all = append(all, scene{name: "end until close to HTTP/1.0", request: []string{"GET /any HTTP/1.0\r\nHost: h\r\n\r\n"},
		answer: fixed(reply{head: "HTTP/1.1 200 OK\r\n\r\n", parts: []string{"abc"}, end: "RST"}), fresh: true})
	add("as a broken chunk", reply{head: chunkedHead, parts: []string{"abc"}, chunked: true, tail: "xyz\r\n", end: "FIN"})
	add("as no HTTP", reply{head: "SSH-2.0-OpenSSH_9.9\r\n\r\n", end: "FIN"})
	return all
}
