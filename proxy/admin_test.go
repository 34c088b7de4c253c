package proxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func askAdmin(p *stack, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.Admin().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w
}

func TestAdminAndEngine(t *testing.T) {
	healthy := make(chan int, 8)
	up := answering(t, func(req *http.Request) string {
		if req.Header.Get("Authorization") == "" && req.URL.Path == "/v1/models" {
			return withLength("401 Unauthorized", "application/json", `{"error":"Unauthorized"}`)
		}
		switch req.URL.Path {
		case "/v1/models":
			return withLength("200 OK", "application/json", `{"object":"list","data":[{"id":"m","owned_by":"vllm"}]}`)
		case "/health":
			return withLength(fmt.Sprintf("%d X", <-healthy), "text/plain", "")
		}
		return withLength("404 Not Found", "application/json", `{"detail":"Not Found"}`)
	})
	cfg := testConfig(t, upstreamOf(up))
	cfg.Engine = "auto"
	p := startProxy(t, cfg, nil)
	if w := askAdmin(p, "/livez"); w.Code != 200 {
		t.Errorf("livez: got %d", w.Code)
	}
	for status, want := range map[int]int{200: 200, 503: 503, 404: 200} {
		healthy <- status
		if w := askAdmin(p, "/readyz"); w.Code != want {
			t.Errorf("readyz with health %d: got %d, want %d", status, w.Code, want)
		}
	}
	if e := p.Engine(); e != EngineUnknown {
		t.Errorf("got engine %q before anybody with a key asked", e)
	}
	c := connect(t, p.addr) // a client's own look at the models settles it
	c.send("GET /v1/models HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer canary\r\n\r\n")
	body(t, c.answer("GET"))
	eventually(t, "engine known", func() bool { return p.Engine() == EngineVLLM })
	if st := p.Status(); st.Engine != "vllm" || st.Requests != 1 || st.Upstream != cfg.Upstream {
		t.Errorf("got status %+v", st)
	}
	if strings.Contains(p.log.String(), "canary") {
		t.Error("the client's key is in the log")
	}
}

func TestEngineProbed(t *testing.T) {
	up := answering(t, func(req *http.Request) string {
		return withLength("200 OK", "application/json", `{"object":"list","data":[{"id":"m","owned_by":"sglang"}]}`)
	})
	cfg := testConfig(t, upstreamOf(up)+"/base/")
	cfg.Engine = "auto"
	p := startProxy(t, cfg, nil)
	eventually(t, "engine known", func() bool { return p.Engine() == EngineSGLang })
}

// Only requests that are POSTed to a model's API make Records.
func TestRecordsOfModelCalls(t *testing.T) {
	up := answering(t, func(*http.Request) string { return withLength("200 OK", "application/json", "{}") })
	p := startProxy(t, testConfig(t, upstreamOf(up)), nil)
	c := connect(t, p.addr)
	for _, request := range []string{"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n", "DELETE /v1/x HTTP/1.1\r\nHost: h\r\n\r\n",
		post("/tokenize", "{}"), post("/v1/embeddings", "{}"), post(chatPath, "{}")} {
		c.send(request)
		body(t, c.answer("POST"))
	}
	if n := len(p.recs.ch); n != 2 {
		t.Errorf("got %d Records, want 2", n)
	}
}
